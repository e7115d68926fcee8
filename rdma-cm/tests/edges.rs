//! Rules at their edges, one message at a time.

mod support;

use rdma_cm::{CommId, Config, Event, Failure, Manager};
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;
use support::{MS, PORT, config, ip, terms};
use wire::cm::{Mad, Message, RejReason};

/// One that has begun to connect with host 2.
fn connecting() -> (Manager, CommId) {
    let mut cm = Manager::new(config(1));
    let id = cm.connect(MS, ip(2), PORT, &terms(1), b"").expect("begun");
    (cm, id)
}

/// Moves all that waits from a host to another.
fn pass(from: &mut Manager, host: IpAddr, to: &mut Manager) {
    while let Some(transmit) = from.poll_transmit() {
        to.handle_mad(MS, host, &transmit.mad[..]);
    }
}

#[test]
fn a_connection_is_named_by_its_number() {
    assert_eq!(CommId(0x1F).to_string(), "0x0000001f");
}

#[test]
fn a_request_comes_from_an_ephemeral_port() {
    let (mut active, mut passive) = (Manager::new(config(1)), Manager::new(config(2)));
    passive.listen(PORT, 64).expect("a listener");
    for qpn in 1..=64 {
        active.connect(MS, ip(2), PORT, &terms(qpn), b"").expect("begun");
        pass(&mut active, ip(1), &mut passive);
        let Some(Event::Requested { id, .. }) = passive.poll_event() else { panic!("no request") };
        let port = passive.request(id).expect("it waits").peer.port();
        assert!(port >= 0xC000, "{port}");
    }
}

#[test]
fn a_request_names_both_addresses_as_gids() {
    for (from, to, gids) in [
        ("10.0.0.1", "10.0.0.2", ["::ffff:10.0.0.1", "::ffff:10.0.0.2"]),
        ("fd00::1", "fd00::2", ["fd00::1", "fd00::2"]),
    ] {
        let [from, to]: [IpAddr; 2] = [from, to].map(|ip| ip.parse().expect("an address"));
        let mut cm = Manager::new(Config { ip: from, ..config(1) });
        cm.connect(MS, to, PORT, &terms(1), b"").expect("begun");
        let transmit = cm.poll_transmit().expect("a REQ");
        let Ok(Mad { message: Message::Req(req), .. }) = Mad::parse(&transmit.mad[..]) else {
            panic!("no REQ")
        };
        let gids = gids.map(|ip| ip.parse::<Ipv6Addr>().expect("an address").octets());
        assert_eq!([req.local_gid, req.remote_gid], gids);
    }
}

#[test]
fn both_ends_count_a_connection() {
    let (mut active, id) = connecting();
    let mut passive = Manager::new(config(2));
    passive.listen(PORT, 1).expect("a listener");
    pass(&mut active, ip(1), &mut passive);
    let Some(Event::Requested { id: theirs, .. }) = passive.poll_event() else { panic!("no request") };
    passive.accept(MS, theirs, &terms(2), b"").expect("it waits");
    pass(&mut passive, ip(2), &mut active);
    active.established(id).expect("it was granted");
    pass(&mut active, ip(1), &mut passive);
    assert_eq!([active.stats().established, passive.stats().established], [1, 1]);
}

#[test]
fn who_persists_until_a_time_does_not_persist_at_it() {
    let until = 500 * MS;
    let (mut cm, id) = connecting();
    cm.persist(id, until);
    cm.handle_unreachable(until - Duration::from_nanos(1), ip(2));
    assert_eq!(cm.poll_event(), None);
    cm.handle_unreachable(until, ip(2));
    assert_eq!(cm.poll_event(), Some(Event::Failed { id, failure: Failure::Unreachable }));
}

/// One that waits for its program since `MS`, and its number there.
fn requested() -> (Manager, CommId) {
    let mut cm = Manager::new(config(2));
    cm.listen(PORT, 1).expect("a listener");
    pass(&mut connecting().0, ip(1), &mut cm);
    let Some(Event::Requested { id, .. }) = cm.poll_event() else { panic!("no request") };
    (cm, id)
}

#[test]
fn an_answer_is_owed_for_the_time_to_linger_and_no_longer() {
    let (mut cm, id) = requested();
    cm.reject(MS, id, RejReason::CONSUMER, b"").expect("it waits");
    let until = MS + config(2).linger;
    assert_eq!([cm.owes(until - Duration::from_nanos(1)), cm.owes(until)], [1, 0]);
}

/// Connects host 1 with host 2 by queue pair 77, if that accepts; returns its number there.
fn join(active: &mut Manager, passive: &mut Manager) -> Option<CommId> {
    let ours = active.connect(MS, ip(2), PORT, &terms(77), b"").expect("begun");
    pass(active, ip(1), passive);
    let Some(Event::Requested { id, .. }) = passive.poll_event() else { return None };
    passive.accept(MS, id, &terms(2), b"").expect("it waits");
    pass(passive, ip(2), active);
    active.established(ours).expect("it was granted");
    pass(active, ip(1), passive);
    assert_eq!(passive.poll_event(), Some(Event::Established { id }));
    Some(id)
}

#[test]
fn who_is_forgotten_does_not_take_its_queue_pairs_next_connection_along() {
    let (mut active, mut passive) = (Manager::new(config(1)), Manager::new(config(2)));
    passive.listen(PORT, 1).expect("a listener");
    let first = join(&mut active, &mut passive).expect("accepted");
    passive.close(MS, first);
    pass(&mut passive, ip(2), &mut active);
    pass(&mut active, ip(1), &mut passive);
    assert_eq!(passive.poll_event(), Some(Event::Disconnected { id: first }));
    let second = join(&mut active, &mut passive).expect("accepted");
    passive.handle_timeouts(MS + config(2).time_wait);
    assert_eq!(passive.connections(), 1, "the first is forgotten");
    // The peer begins anew, and has forgotten the second.
    let mut active = Manager::new(Config { seed: [99; 32], ..config(1) });
    active.connect(MS, ip(2), PORT, &terms(77), b"").expect("begun");
    pass(&mut active, ip(1), &mut passive);
    assert_eq!(passive.poll_event(), Some(Event::Disconnected { id: second }));
    assert_eq!(passive.stats().stale, 1);
}
