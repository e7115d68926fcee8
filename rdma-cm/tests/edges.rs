//! Rules at their edges, one message at a time.

mod support;

use rdma_cm::{CommId, Event, Failure, Manager};
use std::net::IpAddr;
use std::time::Duration;
use support::{MS, PORT, config, ip, terms};

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
