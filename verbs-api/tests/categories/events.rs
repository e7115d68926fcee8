//! Asynchronous events (protocol.md 1.9, 1.10). Those of completion queues, of shared receive
//! queues and of drained queue pairs are with what they are of.

use crate::lan::{Lan, Wire};
use crate::net::{ALL, Net, connect, nothing, whole};
use verbs_api::{AsyncEvent, Driver, RemoteAddr, SendData, SendRequest, WcStatus, WireMode};

on_every_lan! {

/// 1.6: who is asked for what it may not give hears what was asked for, in both dialects: READs,
/// WRITEs and atomics of what is not the peer's, and requests that are none.
fn a_responder_is_told_what_was_wrong(lan: Lan) {
    for mode in [WireMode::Srnic, WireMode::Plain] {
        let mut net = Net::with(lan, |_, builder| builder.wire_mode(mode));
        let (word, local) = (net.hosts[1].pd.register(16, ALL).expect("memory"), net.hosts[0].region(8));
        let (into, short) = (whole(&local), net.hosts[1].region(4));
        let good = word.remote().at(0);
        let bad = RemoteAddr { rkey: good.rkey ^ 1, ..good };
        let odd = word.remote().at(1);
        let cases = [
            (SendRequest::read(&into, bad), true),
            (SendRequest::write(SendData::Inline(&[1; 8]), bad), true),
            (SendRequest::write(SendData::Inline(&[1; 8]), bad).with_imm(1), true),
            (SendRequest::fetch_and_add(into[0], bad, 1), true),
            (SendRequest::compare_and_swap(into[0], bad, 0, 1), true),
            (SendRequest::fetch_and_add(into[0], odd, 1), false),
            (SendRequest::send(SendData::Inline(&[1; 8])), false),
        ];
        for (request, access) in cases {
            net.pairs = connect(&net.hosts, |_, builder| builder.wire_mode(mode));
            net.receive(1, 1, &whole(&short));
            net.post(0, &request);
            let (_, status) = net.ended(0);
            let [requester, qpn] = net.pairs.each_ref().map(|pair| pair.qpn());
            let (expected, event) = if access {
                (WcStatus::RemAccessErr, AsyncEvent::QpAccessError { qpn })
            } else {
                (WcStatus::RemInvReqErr, AsyncEvent::QpRequestError { qpn })
            };
            assert_eq!((status, net.event(1)), (expected, event), "{mode:?}: {request:?}");
            assert_eq!(net.event(0), AsyncEvent::QpFatal { qpn: requester });
            assert!(net.hosts.iter().all(|host| host.device.poll_event().is_none()), "{request:?}");
            // The receive that the SEND held, or the one that nobody took.
            net.ended(1);
        }
    }
}

/// A queue pair that fails is an event at both ends, once; one that the program ends is none.
fn a_failure_is_told_of_once_at_both_ends(lan: Lan) {
    let mut net = Net::new(lan);
    let nowhere = RemoteAddr { addr: 0, rkey: 0xFFFF_FFFF };
    for wr_id in 0..3 {
        net.post(0, &SendRequest::write(SendData::Inline(&[1]), nowhere).id(wr_id));
    }
    let [requester, responder] = net.pairs.each_ref().map(|pair| pair.qpn());
    assert_eq!(net.event(0), AsyncEvent::QpFatal { qpn: requester });
    assert_eq!(net.event(1), AsyncEvent::QpAccessError { qpn: responder });
    assert_eq!(net.ended(0), (0, WcStatus::RemAccessErr));
    assert!(net.hosts.iter().all(|host| host.device.poll_event().is_none()));
    net.reconnect();
    net.pairs[0].abort().expect("any state goes to ERR");
    assert!(net.hosts.iter().all(|host| host.device.poll_event().is_none()));
}

}

/// Events that nobody polls are bounded: the log says how many it lost, and in the end works as
/// before. Over one link only, as it takes a thousand connections.
#[test]
fn events_that_are_lost_are_counted() {
    let mut net = Net::new(Lan { wire: Wire::Sim, driver: Driver::Inline });
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
                AsyncEvent::QpFatal { .. } | AsyncEvent::QpAccessError { .. } => told += 1,
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
