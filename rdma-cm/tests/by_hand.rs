//! Two managers whose messages are passed on one by one, or lost.

mod support;

use rdma_cm::{CommId, Event, Host, Manager};
use support::{MS, PORT, config, ip, terms};
use wire::cm::{Mad, Message, RejReason};

/// Moves all that waits from one manager to another, of host 1 or 2; returns what that was.
fn pass(from: &mut Manager, host: u8, to: &mut Manager) -> Vec<Message> {
    let mut messages = Vec::new();
    while let Some(transmit) = from.poll_transmit() {
        messages.push(Mad::parse(&transmit.mad[..]).expect("a MAD").message);
        to.handle_mad(MS, ip(host), &transmit.mad[..]);
    }
    messages
}

/// Requests that have come.
fn requested(cm: &mut Manager) -> Vec<CommId> {
    std::iter::from_fn(|| cm.poll_event())
        .filter_map(|event| if let Event::Requested { id, .. } = event { Some(id) } else { None })
        .collect()
}

/// Host 1 asks host 2 for a connection, whose program has not answered: each manager with its
/// number of it.
fn asked() -> ((Manager, CommId), (Manager, CommId)) {
    let (mut active, mut passive) = (Manager::new(config(1)), Manager::new(config(2)));
    passive.listen(PORT, 1).expect("a listener");
    let ours = active.connect(MS, ip(2), PORT, &terms(1), b"").expect("begun");
    pass(&mut active, 1, &mut passive);
    let theirs = requested(&mut passive)[0];
    ((active, ours), (passive, theirs))
}

/// Host 2 grants it, and the REP comes.
fn grant(passive: &mut Manager, theirs: CommId, active: &mut Manager) {
    passive.accept(MS, theirs, &terms(2), b"").expect("it waits");
    pass(passive, 2, active);
}

/// The backlog is that of the listener that is there: what waits since an earlier one of the same
/// port does not count.
#[test]
fn a_listener_has_the_backlog_that_it_asked_for() {
    let (mut active, mut passive) = (Manager::new(config(1)), Manager::new(config(2)));
    let mut ask = |passive: &mut Manager, qpn| {
        active.connect(MS, ip(2), PORT, &terms(qpn), b"").expect("begun");
        pass(&mut active, 1, passive);
        requested(passive)
    };
    passive.listen(PORT, 1).expect("a listener");
    let old = ask(&mut passive, 1);
    assert_eq!(old.len(), 1);
    passive.unlisten(PORT);
    passive.listen(PORT, 1).expect("a listener");
    let new = ask(&mut passive, 2);
    assert_eq!(new.len(), 1);
    assert_eq!(ask(&mut passive, 3), [], "one waits");
    passive.reject(MS, old[0], RejReason::CONSUMER, b"").expect("it waits");
    assert_eq!(ask(&mut passive, 4), [], "one still waits for this listener");
    passive.reject(MS, new[0], RejReason::CONSUMER, b"").expect("it waits");
    assert_eq!(ask(&mut passive, 5).len(), 1, "there is room again");
}

/// A stranger is answered where it sent from, however often; one that is connected is looked for.
#[test]
fn a_stranger_is_answered_where_it_sent_from() {
    let from = Host { ip: ip(1), mac: Some([2, 0, 0, 0, 0, 9]) };
    let (mut active, mut passive) = (Manager::new(config(1)), Manager::new(config(2)));
    passive.listen(PORT, 1).expect("a listener");
    let ours = active.connect(MS, ip(2), PORT, &terms(1), b"").expect("begun");
    let sent = |cm: &mut Manager| cm.poll_transmit().expect("a message");
    passive.handle_mad(MS, from, &sent(&mut active).mad[..]);
    let theirs = requested(&mut passive)[0];
    assert_eq!(passive.request(theirs).and_then(|request| request.mac), from.mac);
    passive.accept(MS, theirs, &terms(2), b"").expect("it waits");
    let rep = sent(&mut passive);
    passive.handle_timeouts(MS * 1000);
    assert_eq!([rep.to, sent(&mut passive).to], [from; 2]);

    active.handle_mad(MS, ip(2), &rep.mad[..]);
    active.established(ours).expect("it was granted");
    passive.handle_mad(MS, from, &sent(&mut active).mad[..]);
    passive.close(MS, theirs);
    assert_eq!(sent(&mut passive).to, ip(1).into());
}

/// A DREQ is answered by a DREP always (protocol.md 1.12): also when our REJ of the connection was
/// lost.
#[test]
fn a_dreq_of_a_rejected_connection_is_answered() {
    let ((mut active, ours), (mut passive, theirs)) = asked();
    grant(&mut passive, theirs, &mut active);
    active.established(ours).expect("it was granted");
    // The passive program ends it before the RTU is here; its REJ is lost.
    passive.close(MS, theirs);
    while passive.poll_transmit().is_some() {}
    pass(&mut active, 1, &mut passive);
    active.close(MS, ours);
    assert!(matches!(pass(&mut active, 1, &mut passive)[..], [Message::Dreq(_)]));
    let answers = pass(&mut passive, 2, &mut active);
    assert!(matches!(answers[..], [Message::Drep(_)]), "{answers:?}");
}

/// A program that is late has the peer told to wait. If its RTU is lost then, the peer asks again
/// soon, and not after the longest time that a program may take.
#[test]
fn a_lost_rtu_of_a_program_that_was_late_is_missed_soon() {
    let ((mut active, ours), (mut passive, theirs)) = asked();
    grant(&mut passive, theirs, &mut active);
    let repeated = passive.next_deadline().expect("the REP is sent again");
    passive.handle_timeouts(repeated);
    pass(&mut passive, 2, &mut active);
    assert!(matches!(pass(&mut active, 1, &mut passive)[..], [Message::Mra(_)]));
    active.established(ours).expect("it was granted");
    while active.poll_transmit().is_some() {}
    let missed = passive.next_deadline().expect("it waits for the RTU");
    assert!(missed < 120 * MS, "{missed:?}");
    passive.handle_timeouts(missed);
    pass(&mut passive, 2, &mut active);
    assert!(matches!(pass(&mut active, 1, &mut passive)[..], [Message::Rtu(_)]));
    let is_up = |event| matches!(event, Event::Established { id } if id == theirs);
    assert!(std::iter::from_fn(|| passive.poll_event()).any(is_up));
}

/// The service timeouts of the MRAs by which `asked` answers what `asks` sends again.
fn service_timeouts((asks, from): (&mut Manager, u8), (asked, to): (&mut Manager, u8)) -> Vec<u8> {
    let mut ask = || {
        let again = asks.next_deadline()?;
        asks.handle_timeouts(again);
        pass(asks, from, asked);
        match &pass(asked, to, asks)[..] {
            [Message::Mra(mra)] => Some(mra.service_timeout),
            _ => None,
        }
    };
    (0..6).map_while(|_| ask()).collect()
}

/// A peer that has granted a connection is told to wait four times as long each time. One that asks
/// for a connection hears the longest time at once: Linux takes the first one only.
#[test]
fn the_time_of_a_program_that_is_not_ready_grows() {
    let ((mut active, _), (mut passive, theirs)) = asked();
    assert_eq!(service_timeouts((&mut active, 1), (&mut passive, 2)), [20; 6]);
    grant(&mut passive, theirs, &mut active);
    assert_eq!(service_timeouts((&mut passive, 2), (&mut active, 1)), [14, 16, 18, 20, 20, 20]);
}
