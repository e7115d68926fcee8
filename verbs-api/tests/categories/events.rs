//! Asynchronous events (protocol.md 1.9, 1.10). Those of completion queues, of shared receive queues and of drained queue
//! pairs are with what they are of.

use crate::lan::Lan;
use crate::net::{Net, nothing};
use verbs_api::{AsyncEvent, Driver, RemoteAddr, SendData, SendRequest, WcStatus};

on_every_lan! {

/// A queue pair that fails is an event at both ends, once; one that the program ends is none.
fn a_failure_is_told_of_once_at_both_ends(lan: Lan) {
    let mut net = Net::new(lan);
    let nowhere = RemoteAddr { addr: 0, rkey: 0xFFFF_FFFF };
    for wr_id in 0..3 {
        net.post(0, &SendRequest::write(SendData::Inline(&[1]), nowhere).id(wr_id));
    }
    for side in [0, 1] {
        assert_eq!(net.event(side), AsyncEvent::QpFatal { qpn: net.pairs[side].qpn() });
    }
    assert_eq!(net.ended(0), (0, WcStatus::RemAccessErr));
    assert!(net.hosts.iter().all(|host| host.device.poll_event().is_none()));
    net.reconnect();
    net.pairs[0].abort().expect("any state goes to ERR");
    assert!(net.hosts.iter().all(|host| host.device.poll_event().is_none()));
}

}

/// Events that nobody polls are bounded: the log says how many it lost, and in the end works as before. Over one link
/// only, as it takes a thousand connections.
#[test]
fn events_that_are_lost_are_counted() {
    let mut net = Net::new(Lan { memif: false, driver: Driver::Inline });
    let nowhere = RemoteAddr { addr: 0, rkey: 0xFFFF_FFFF };
    // Both ends of more connections than the log has room for, and each fails.
    const FAILURES: u64 = 1030;
    for _ in 0..FAILURES {
        net.post(0, &SendRequest::write(SendData::Inline(&[1]), nowhere));
        assert_eq!(net.ended(0).1, WcStatus::RemAccessErr);
        net.reconnect();
    }
    for side in [0, 1] {
        let mut told = 0;
        loop {
            match net.event(side) {
                AsyncEvent::QpFatal { .. } => told += 1,
                AsyncEvent::Lost { count } => {
                    assert_eq!(told + count, FAILURES);
                    break;
                }
                other => panic!("{other:?}"),
            }
        }
        assert!(net.hosts[side].device.poll_event().is_none());
    }
    net.receive(1, 1, &[]);
    net.post(0, &nothing());
    assert_eq!(net.ended(1), (1, WcStatus::Success));
}
