//! A peer whose host is there before its listener is: it is asked again (protocol.md 1.12).

mod support;

use rdma_cm::{CommId, Event, Failure, Manager};
use std::time::Duration;
use support::{MS, Net, PORT, Policy, Seen, config, ip, terms};
use wire::cm::RejReason;

const SECOND: Duration = Duration::from_secs(1);

fn is_refused(net: &Net, id: CommId) -> bool {
    let seen = &net.hosts[0].seen[&id];
    matches!(seen, Seen::Failed(Failure::Rejected { reason: RejReason::INVALID_SERVICE_ID, .. }))
}

fn requests(net: &Net) -> usize {
    net.sent().iter().filter(|(host, name)| (*host, *name) == (0, "REQ")).count()
}

#[test]
fn a_listener_that_comes_later_is_connected_to() {
    for late in [30 * MS, 5 * SECOND, 100 * SECOND] {
        let mut net = Net::new(40);
        let (persistent, until) = (net.connect(0), net.connect(0));
        let end = net.now + 200 * SECOND;
        net.hosts[0].cm.persist(persistent, end);
        net.hosts[0].cm.ask_until(until, end);
        net.run(late);
        net.hosts[1].cm.listen(PORT, 2).expect("a listener");
        net.run(SECOND + 10 * MS);
        for id in [persistent, until] {
            assert_eq!(net.hosts[0].seen[&id], Seen::Up, "{late:?}");
            net.close(0, id);
        }
        net.assert_empty();
    }
}

#[test]
fn who_is_refused_to_the_end_is_told_so_then() {
    let limits = [5 * MS, 300 * MS, 20 * SECOND];
    for ask in [Manager::persist, Manager::ask_until] {
        let mut net = Net::new(41);
        let start = net.now;
        let ids = limits.map(|limit| {
            let id = net.connect(0);
            ask(&mut net.hosts[0].cm, id, start + limit);
            id
        });
        for (id, limit) in ids.into_iter().zip(limits) {
            net.run_until(start + limit - MS);
            assert_eq!(net.hosts[0].seen[&id], Seen::Connecting, "{limit:?}");
            assert!(net.hosts[0].cm.refusal(id).is_some(), "{limit:?}");
            net.run(2 * MS);
            assert!(is_refused(&net, id), "{limit:?}: {:?}", net.hosts[0].seen[&id]);
        }
        net.assert_empty();
    }
}

/// As a request that is not answered at all: after 20 ms, doubling to a second.
#[test]
fn requests_that_are_refused_back_off() {
    let mut net = Net::new(42);
    let id = net.connect(0);
    net.hosts[0].cm.ask_until(id, net.now + 100 * SECOND);
    net.run(19 * MS);
    assert_eq!(requests(&net), 1);
    net.run(81 * SECOND);
    assert_eq!(requests(&net), 1 + 6 + 79);
}

#[test]
fn a_refusal_may_be_final() {
    let mut net = Net::new(43);
    let (asks_once, never_told) = (net.connect(0), net.connect(0));
    net.hosts[0].cm.persist(asks_once, net.now + 40 * SECOND);
    net.hosts[0].cm.end_if_refused(asks_once);
    net.run(MS);
    assert!(is_refused(&net, asks_once) && is_refused(&net, never_told));
    net.assert_empty();
}

/// Another time that the program gives later holds of a request that was refused before.
#[test]
fn who_was_refused_may_be_given_more_time() {
    let mut net = Net::new(44);
    let id = net.connect(0);
    net.hosts[0].cm.persist(id, net.now + SECOND);
    net.run(500 * MS);
    net.hosts[0].cm.persist(id, net.now + 3 * SECOND);
    net.run(2 * SECOND);
    assert_eq!(net.hosts[0].seen[&id], Seen::Connecting);
    net.run(SECOND + MS);
    assert!(is_refused(&net, id));
}

/// A listener that came, and whose program takes its time, has not refused.
#[test]
fn who_is_asked_to_wait_was_not_refused() {
    let mut net = Net::new(45);
    let id = net.connect(0);
    net.hosts[0].cm.ask_until(id, net.now + 10 * SECOND);
    net.run(100 * MS);
    net.hosts[1].policy = Policy::Leave;
    net.hosts[1].cm.listen(PORT, 1).expect("a listener");
    net.run(11 * SECOND);
    assert_eq!(net.hosts[0].seen[&id], Seen::Failed(Failure::TimedOut));
}

/// Any other rejection is the peer's program's, or will not change.
#[test]
fn another_rejection_is_final() {
    let mut net = Net::listening(46);
    net.hosts[1].policy = Policy::Reject;
    let id = net.connect(0);
    net.hosts[0].cm.persist(id, net.now + 40 * SECOND);
    net.run(MS);
    let Seen::Failed(Failure::Rejected { reason, .. }) = &net.hosts[0].seen[&id] else {
        panic!("not rejected")
    };
    assert_eq!(*reason, RejReason::CONSUMER);
}

/// The refusal of the first copy of a request comes after the grant of the second.
#[test]
fn a_refusal_that_a_grant_overtook_changes_nothing() {
    let (mut active, mut passive) = (Manager::new(config(1)), Manager::new(config(2)));
    let id = active.connect(MS, ip(2), PORT, &terms(5), b"").expect("begun");
    active.ask_until(id, 10 * SECOND);
    let request = active.poll_transmit().expect("a REQ");
    passive.handle_mad(MS, ip(1), &request.mad[..]);
    let refusal = passive.poll_transmit().expect("a REJ");
    passive.listen(PORT, 1).expect("a listener");
    active.handle_timeouts(MS * 21);
    let again = active.poll_transmit().expect("the REQ again");
    assert_eq!(again, request);
    passive.handle_mad(MS * 21, ip(1), &again.mad[..]);
    let Some(Event::Requested { id: its, .. }) = passive.poll_event() else { panic!("no request") };
    passive.accept(MS * 21, its, &terms(6), b"").expect("accepted");
    let grant = passive.poll_transmit().expect("a REP");
    active.handle_mad(MS * 22, ip(2), &grant.mad[..]);
    active.handle_mad(MS * 22, ip(2), &refusal.mad[..]);
    assert!(matches!(active.poll_event(), Some(Event::Replied { .. })));
    assert_eq!((active.poll_event(), active.established(id)), (None, Ok(())));
}
