//! Connections between two hosts, over a network that does what it likes.

mod support;

use rdma_cm::{CmError, Config, Dialect, Disagreement, Event, Failure, Manager, Terms};
use std::time::Duration;
use support::{Faults, MS, Net, PORT, Policy, Seen, config, ip, terms};
use wire::cm::{Mad, Message, RejReason};
use wire::{Pmtu, WireMode};

const SECOND: Duration = Duration::from_secs(1);

fn seen(net: &Net, host: usize) -> Vec<Seen> {
    net.hosts[host].seen.values().cloned().collect()
}

fn rejected(net: &Net, host: usize) -> Vec<RejReason> {
    let reason = |seen: Seen| match seen {
        Seen::Failed(Failure::Rejected { reason, .. }) => Some(reason),
        _ => None,
    };
    seen(net, host).into_iter().filter_map(reason).collect()
}

#[test]
fn a_connection_takes_three_messages_and_its_end_three() {
    let mut net = Net::listening(1);
    let id = net.connect(0);
    net.run(10 * MS);
    assert_eq!([seen(&net, 0), seen(&net, 1)], [vec![Seen::Up], vec![Seen::Up]]);
    assert_eq!(net.hosts[0].private, b"granted\0");
    net.close(0, id);
    net.run(10 * MS);
    assert_eq!([seen(&net, 0), seen(&net, 1)], [vec![Seen::Down], vec![Seen::Down]]);
    assert_eq!(net.sent(), [(0, "REQ"), (1, "REP"), (0, "RTU"), (0, "DREQ"), (1, "DREP"), (0, "DREP")]);
    assert_eq!([net.hosts[0].cm.connections(), net.hosts[1].cm.connections()], [1, 1], "time wait");
    net.assert_empty();
}

#[test]
fn both_ends_agree() {
    let mut net = Net::listening(2);
    let ours =
        Terms { window: 300, initiator_depth: 9, responder_resources: 3, path_mtu: Pmtu::B1024, ..terms(5) };
    let id = net.connect_by(0, &ours, b"0123").expect("begun");
    net.run(10 * MS);
    let [active, passive] =
        [0, 1].map(|host: usize| *net.hosts[host].agreed.values().next().expect("agreed"));
    assert_eq!((passive.remote_qpn, passive.sq_psn), (5, 15));
    assert_eq!((active.remote_qpn, active.sq_psn), (0x202, 0x606));
    for agreed in [active, passive] {
        assert_eq!(
            (agreed.wire_mode, agreed.path_mtu, agreed.window),
            (WireMode::Srnic, Pmtu::B1024, Some(256))
        );
    }
    assert_eq!((active.initiator_depth, active.responder_resources), (9, 3));
    assert_eq!((passive.initiator_depth, passive.responder_resources), (3, 9));
    net.close(0, id);
    net.assert_empty();
}

/// Require, Prefer and Off at either end.
#[test]
fn dialects_are_agreed_on_or_refused() {
    use Dialect::{Off, Prefer, Require};
    for (active, passive, expected) in [
        (Require, Require, Ok(WireMode::Srnic)),
        (Require, Prefer, Ok(WireMode::Srnic)),
        (Require, Off, Err(0)),
        (Prefer, Require, Ok(WireMode::Srnic)),
        (Prefer, Prefer, Ok(WireMode::Srnic)),
        (Prefer, Off, Ok(WireMode::Plain)),
        (Off, Require, Err(1)),
        (Off, Prefer, Ok(WireMode::Plain)),
        (Off, Off, Ok(WireMode::Plain)),
    ] {
        let mut net = Net::listening(3);
        net.hosts[1].policy = Policy::Leave;
        let id = net.connect_by(0, &Terms { dialect: active, ..terms(5) }, b"").expect("begun");
        net.run(MS);
        let request = net.hosts[1].requests[0];
        let theirs = Terms { dialect: passive, ..terms(6) };
        let now = net.now;
        let granted = net.hosts[1].cm.accept(now, request, &theirs, b"");
        match expected {
            Ok(mode) => {
                assert_eq!(granted.expect("granted").wire_mode, mode);
                net.run(10 * MS);
                assert_eq!(net.hosts[0].agreed[&id].wire_mode, mode, "{active:?} {passive:?}");
                net.close(1, request);
            }
            Err(1) => {
                assert_eq!(granted, Err(CmError::Disagreement(Disagreement::Dialect)));
                let reason = Disagreement::Dialect.reason();
                net.hosts[1].cm.reject(now, request, reason, b"").expect("rejected");
                net.run(10 * MS);
                assert_eq!(rejected(&net, 0), [RejReason::VENDOR_OPTION_NOT_SUPPORTED]);
            }
            Err(_) => {
                net.run(10 * MS);
                assert_eq!(seen(&net, 0), [Seen::Failed(Failure::Disagreed(Disagreement::Dialect))]);
                assert_eq!(rejected(&net, 1), [RejReason::VENDOR_OPTION_NOT_SUPPORTED]);
            }
        }
        net.assert_empty();
    }
}

/// The SRNIC dialect carries 1,408 bytes over an MTU of 1500 where both ends take them, and plain
/// RoCEv2 1,024: a request's own field says that, for a peer without the dialect.
#[test]
fn the_path_mtu_of_the_dialect_is_for_both_ends_of_it() {
    use Dialect::{Off, Prefer};
    for (ours, theirs, dialect, expected) in [
        ((Pmtu::B1408, true), (Pmtu::B1408, true), Prefer, Pmtu::B1408),
        ((Pmtu::B1408, true), (Pmtu::B4096, true), Prefer, Pmtu::B1408),
        ((Pmtu::B4096, true), (Pmtu::B1408, true), Prefer, Pmtu::B1408),
        ((Pmtu::B1408, true), (Pmtu::B1024, true), Prefer, Pmtu::B1024),
        ((Pmtu::B1408, true), (Pmtu::B4096, false), Prefer, Pmtu::B1024),
        ((Pmtu::B4096, false), (Pmtu::B1408, true), Prefer, Pmtu::B1024),
        ((Pmtu::B4096, false), (Pmtu::B4096, true), Prefer, Pmtu::B4096),
        ((Pmtu::B1408, true), (Pmtu::B1408, true), Off, Pmtu::B1024),
        ((Pmtu::B1408, true), (Pmtu::B1024, true), Off, Pmtu::B1024),
        ((Pmtu::B1024, true), (Pmtu::B1408, true), Off, Pmtu::B1024),
    ] {
        let with = |(path_mtu, takes_1408), terms| Terms { path_mtu, takes_1408, ..terms };
        let mut net = Net::listening(3);
        net.hosts[1].policy = Policy::Leave;
        let id = net.connect_by(0, &with(ours, terms(5)), b"").expect("begun");
        net.run(MS);
        let request = net.hosts[1].requests[0];
        let terms = Terms { dialect, ..with(theirs, terms(6)) };
        let now = net.now;
        let granted = net.hosts[1].cm.accept(now, request, &terms, b"").expect("granted");
        net.run(10 * MS);
        let agreed = [granted.path_mtu, net.hosts[0].agreed[&id].path_mtu];
        assert_eq!(agreed, [expected; 2], "{ours:?} {theirs:?} {dialect:?}");
        net.close(1, request);
        net.assert_empty();
    }
}

#[test]
fn a_path_mtu_that_plain_roce_cannot_lower_is_refused() {
    let mut net = Net::listening(4);
    net.hosts[1].policy = Policy::Leave;
    net.connect_by(0, &Terms { dialect: Dialect::Off, ..terms(5) }, b"").expect("begun");
    net.run(MS);
    let small = Terms { path_mtu: Pmtu::B1024, ..terms(6) };
    let request = net.hosts[1].requests[0];
    let refused = net.hosts[1].cm.agree(request, &small);
    assert_eq!(refused, Err(CmError::Disagreement(Disagreement::PathMtu { ours: 1024, theirs: 4096 })));
    let now = net.now;
    net.hosts[1].cm.close(now, request);
    net.assert_empty();
}

/// Each message lost in turn, its copies up to the n-th as well: the connection comes about and
/// ends on both sides.
#[test]
fn any_message_may_be_lost() {
    for name in ["REQ", "REP", "RTU", "DREQ", "DREP"] {
        for lost in [1, 2, 5] {
            let mut net = Net::listening(5);
            net.drop = Box::new(move |_, sent, count| sent == name && count < lost);
            let id = net.connect(0);
            net.run(5 * SECOND);
            assert_eq!([seen(&net, 0), seen(&net, 1)], [vec![Seen::Up], vec![Seen::Up]], "{name}");
            net.close(0, id);
            net.run(5 * SECOND);
            assert_eq!([seen(&net, 0), seen(&net, 1)], [vec![Seen::Down], vec![Seen::Down]], "{name}");
            let copies = net.sent().iter().filter(|(_, sent)| *sent == name).count();
            let most = match name {
                // A REP goes again by itself, and once for each copy of the REQ.
                "REP" => 2 * lost + 1,
                // The last is the answer to another.
                "DREP" => lost + 2,
                _ => lost + 1,
            };
            assert!((lost + 1..=most).contains(&copies), "{name}: {:?}", net.sent());
            // The end is remembered, so that a DREQ which comes again is answered at once.
            let asked = net.sent().iter().filter(|(_, sent)| *sent == "DREQ").count();
            let again = if matches!(name, "DREQ" | "DREP") { lost } else { 0 };
            assert_eq!(asked, 1 + again, "{name}: {:?}", net.sent());
            net.assert_empty();
        }
    }
}

#[test]
fn an_end_is_heard_of_though_the_rtu_never_came() {
    let mut net = Net::listening(6);
    net.drop = Box::new(|_, name, _| name == "RTU");
    let id = net.connect(0);
    net.run(MS);
    assert_eq!([seen(&net, 0), seen(&net, 1)], [vec![Seen::Up], vec![Seen::Connecting]]);
    net.close(0, id);
    net.run(10 * MS);
    assert_eq!([seen(&net, 0), seen(&net, 1)], [vec![Seen::Down], vec![Seen::Down]]);
    assert_eq!(net.stats(1).established, 1, "it was established before it ended");
    net.assert_empty();
}

#[test]
fn who_does_not_exist_is_given_up() {
    let mut net = Net::new(7);
    net.kill(1);
    net.connect(0);
    net.run(11 * SECOND);
    assert_eq!(seen(&net, 0), [Seen::Connecting]);
    net.run(3 * SECOND);
    assert_eq!(seen(&net, 0), [Seen::Failed(Failure::TimedOut)]);
    let sent: Vec<Duration> = net.trace.iter().map(|(at, ..)| *at).collect();
    assert_eq!(sent.len(), 17, "a REQ, its fifteen copies, and a REJ");
    assert_eq!(sent[1] - sent[0], 20 * MS);
    assert_eq!(sent[2] - sent[1], 40 * MS);
    assert_eq!(sent[15] - sent[14], SECOND);
    net.assert_empty();
}

/// The peer dies in each state of the other.
#[test]
fn a_peer_that_dies_leaves_nothing_behind() {
    for dies_after in ["REQ", "REP", "RTU", "DREQ"] {
        for dead in [0, 1] {
            let mut net = Net::listening(8);
            // It says nothing more from the first of these on.
            net.drop = Box::new(move |from, name, _| {
                let order = ["REQ", "REP", "RTU", "DREQ", "DREP", "REJ", "MRA"];
                let place = |name: &str| order.iter().position(|other| *other == name);
                from == dead && place(name) > place(dies_after)
            });
            let id = net.connect(0);
            net.run(SECOND);
            if matches!(dies_after, "RTU" | "DREQ") {
                assert_eq!(seen(&net, 0), [Seen::Up], "{dies_after}");
                net.close(0, id);
            }
            net.run(30 * SECOND);
            net.kill(dead);
            for id in net.hosts[1 - dead].seen.keys().copied().collect::<Vec<_>>() {
                net.close(1 - dead, id);
            }
            net.run(300 * SECOND);
            let alive = &net.hosts[1 - dead];
            assert_eq!(alive.cm.connections(), 0, "after {dies_after} of {dead}: {:?}", alive.seen);
            assert_eq!(alive.count(&Seen::Up) + alive.count(&Seen::Connecting), 0, "{:?}", alive.seen);
        }
    }
}

#[test]
fn a_rejection_brings_its_reason_and_its_words() {
    let mut net = Net::listening(9);
    net.hosts[1].policy = Policy::Reject;
    // Until the request is repeated once a second.
    net.drop = Box::new(|_, name, count| name == "REJ" && count < 9);
    net.connect(0);
    net.run(20 * SECOND);
    let [Seen::Failed(Failure::Rejected { reason, private_data })] = &seen(&net, 0)[..] else {
        panic!("{:?}", seen(&net, 0));
    };
    assert_eq!((*reason, &private_data[..4]), (RejReason::CONSUMER, &b"no\0\0"[..]));
    assert_eq!(net.hosts[1].requests.len(), 1, "the program rejects once, whatever is lost");
    net.assert_empty();
}

#[test]
fn nobody_listens() {
    let mut net = Net::new(10);
    net.connect(0);
    net.run(MS);
    assert_eq!(rejected(&net, 0), [RejReason::INVALID_SERVICE_ID]);
    net.hosts[1].cm.listen(PORT, 1).expect("a listener");
    assert_eq!(net.hosts[1].cm.listen(PORT, 1), Err(CmError::PortInUse(PORT)));
    net.hosts[1].cm.unlisten(PORT);
    net.connect(0);
    net.run(MS);
    assert_eq!(rejected(&net, 0).len(), 2);
    net.assert_empty();
}

#[test]
fn both_may_disconnect_at_once() {
    for lost in [None, Some("DREQ"), Some("DREP")] {
        let mut net = Net::listening(11);
        let id = net.connect(0);
        net.run(MS);
        net.drop = Box::new(move |_, name, count| Some(name) == lost && count == 0);
        let theirs = net.hosts[1].requests[0];
        net.close(0, id);
        net.close(1, theirs);
        net.run(SECOND);
        assert_eq!([seen(&net, 0), seen(&net, 1)], [vec![Seen::Down], vec![Seen::Down]]);
        net.assert_empty();
    }
}

#[test]
fn who_takes_long_to_accept_is_waited_for() {
    let mut net = Net::listening(12);
    net.hosts[1].policy = Policy::Leave;
    net.connect(0);
    net.run(40 * SECOND);
    assert_eq!(net.hosts[1].requests.len(), 1);
    let copies = net.sent().iter().filter(|(_, name)| *name == "REQ").count();
    assert!((5..=12).contains(&copies), "a MRA keeps the peer from asking: {copies}");
    let (now, request) = (net.now, net.hosts[1].requests[0]);
    net.hosts[1].cm.accept(now, request, &terms(9), b"at last").expect("it still waits");
    net.run(SECOND);
    assert_eq!([seen(&net, 0), seen(&net, 1)], [vec![Seen::Up], vec![Seen::Up]]);
    net.close(1, request);
    net.assert_empty();
}

#[test]
fn a_reply_waits_for_who_takes_long_to_be_ready() {
    let mut net = Net::listening(13);
    net.hosts[0].policy = Policy::Stall;
    let id = net.connect(0);
    net.run(20 * SECOND);
    assert_eq!(seen(&net, 1), [Seen::Connecting], "a MRA keeps it from giving up");
    net.hosts[0].cm.established(id).expect("it waits");
    assert_eq!(net.hosts[0].cm.established(id), Err(CmError::State), "once");
    net.run(SECOND);
    assert_eq!(seen(&net, 1), [Seen::Up]);
    net.close(0, id);
    net.assert_empty();
}

#[test]
fn requests_that_nobody_wants_any_more_leave_the_backlog() {
    let mut net = Net::new(14);
    net.hosts[1].cm.listen(PORT, 2).expect("a listener");
    net.hosts[1].policy = Policy::Leave;
    let ids = [net.connect(0), net.connect(0), net.connect(0)];
    net.run(SECOND);
    assert_eq!(net.hosts[1].requests.len(), 2);
    assert!(net.stats(1).backlog_full > 0, "the third waits outside");
    net.close(0, ids[0]);
    net.run(2 * SECOND);
    assert_eq!(net.hosts[1].requests.len(), 3, "a place is free again");
    net.kill(0);
    net.run(31 * SECOND);
    assert_eq!(net.stats(1).expired, 2);
    assert_eq!(net.hosts[1].count(&Seen::Connecting), 0);
    net.run(SECOND);
    assert_eq!(net.hosts[1].cm.connections(), 0);
}

#[test]
fn a_peer_that_began_anew_ends_its_old_connection() {
    let mut net = Net::listening(15);
    net.connect_by(0, &terms(77), b"").expect("begun");
    net.run(MS);
    assert_eq!(seen(&net, 1), [Seen::Up]);
    // The host is started again, and by chance its queue pair has the same number.
    net.hosts[0].cm = Manager::new(Config { seed: [99; 32], ..config(1) });
    net.hosts[0].seen.clear();
    net.connect_by(0, &terms(77), b"").expect("begun");
    net.run(MS);
    assert_eq!((seen(&net, 1), net.stats(1).stale), (vec![Seen::Down], 1));
    assert_eq!(rejected(&net, 0), [RejReason::STALE_CONNECTION]);
    net.connect_by(0, &terms(77), b"").expect("begun");
    net.run(MS);
    assert_eq!(net.hosts[1].count(&Seen::Up), 1, "the next time it is welcome");
}

/// Both ends have begun with a connection that only the passive one still believes in.
#[test]
fn a_peer_that_began_anew_asks_again_for_as_long_as_it_has_patience() {
    for ends_if_refused in [false, true] {
        let mut net = Net::listening(15);
        net.connect_by(0, &terms(77), b"").expect("begun");
        net.run(MS);
        net.hosts[0].cm = Manager::new(Config { seed: [99; 32], ..config(1) });
        net.hosts[0].seen.clear();
        let id = net.connect_by(0, &terms(77), b"").expect("begun");
        net.hosts[0].cm.persist(id, net.now + 3 * SECOND);
        if ends_if_refused {
            net.hosts[0].cm.end_if_refused(id);
        }
        net.run(3 * SECOND);
        assert_eq!((seen(&net, 0), net.stats(1).stale), (vec![Seen::Up], 1));
        assert_eq!(seen(&net, 1), [Seen::Up, Seen::Down]);
        net.close(0, id);
        net.assert_empty();
    }
}

#[test]
fn a_peer_that_stays_stale_is_the_reason_that_is_said() {
    for needs_listener in [false, true] {
        let mut net = Net::listening(15);
        net.hosts[1].policy = Policy::Leave;
        let id = net.connect_by(0, &terms(77), b"").expect("begun");
        net.hosts[0].cm.ask_until(id, net.now + SECOND);
        if needs_listener {
            net.hosts[0].cm.end_if_refused(id);
        }
        net.run(MS);
        let (now, request) = (net.now, net.hosts[1].requests[0]);
        net.hosts[1].cm.reject(now, request, RejReason::STALE_CONNECTION, b"").expect("it waits");
        net.run(SECOND / 2);
        assert_eq!(rejected(&net, 0), [], "it is asked again");
        net.run(SECOND);
        assert_eq!(rejected(&net, 0), [RejReason::STALE_CONNECTION]);
    }
}

#[test]
fn a_reply_to_who_is_gone_is_refused() {
    let mut net = Net::listening(16);
    net.drop = Box::new(|_, name, count| name == "REP" && count == 0);
    net.connect(0);
    net.run(MS);
    net.hosts[0].cm = Manager::new(Config { seed: [99; 32], ..config(1) });
    net.run(SECOND);
    assert_eq!(rejected(&net, 1), [RejReason::INVALID_COMM_ID]);
}

#[test]
fn calls_that_cannot_be_say_why() {
    let mut net = Net::listening(17);
    let too_long = CmError::PrivateData { given: 57, max: 56 };
    assert_eq!(net.connect_by(0, &terms(1), &[0; 57]), Err(too_long));
    let to = "fd00::1".parse().expect("an address");
    let family = net.hosts[0].cm.connect(net.now, to, PORT, &terms(1), b"");
    assert_eq!(family, Err(CmError::Family { from: ip(1), to }));
    net.hosts[1].policy = Policy::Leave;
    let id = net.connect_by(0, &terms(1), &[1; 56]).expect("begun");
    net.run(MS);
    let (now, request) = (net.now, net.hosts[1].requests[0]);
    let cm = &mut net.hosts[1].cm;
    assert_eq!(cm.request(request).expect("it waits").private_data, [1; 56]);
    let too_long = CmError::PrivateData { given: 197, max: 196 };
    assert_eq!(cm.accept(now, request, &terms(2), &[0; 197]), Err(too_long));
    let too_long = CmError::PrivateData { given: 149, max: 148 };
    assert_eq!(cm.reject(now, request, RejReason::CONSUMER, &[0; 149]), Err(too_long));
    assert_eq!(net.hosts[0].cm.established(id), Err(CmError::State), "no reply yet");
    net.close(0, id);
    net.run(MS);
    let now = net.now;
    let gone = net.hosts[1].cm.accept(now, request, &terms(2), b"");
    assert_eq!(gone, Err(CmError::State), "the peer took it back");
    net.assert_empty();
}

#[test]
fn a_table_that_is_full_says_so() {
    let mut cm = Manager::new(Config { connections_max: 2, ..config(1) });
    for _ in 0..2 {
        cm.connect(MS, ip(2), PORT, &terms(1), b"").expect("there is room");
    }
    assert_eq!(cm.connect(MS, ip(2), PORT, &terms(1), b""), Err(CmError::TooMany(2)));
}

/// Hundreds at once, on a network that loses, doubles and reorders: each comes about once and ends
/// on both sides.
#[test]
fn hundreds_at_once_through_loss() {
    for seed in 0..20 {
        let mut net = Net::listening(seed);
        net.faults = Faults { loss: 100, duplicates: 100, reordering: 100 };
        let ids: Vec<_> = (0..200).map(|_| net.connect(0)).collect();
        net.run(20 * SECOND);
        for host in [0, 1] {
            assert_eq!(net.hosts[host].count(&Seen::Up), 200, "seed {seed}, host {host}");
            assert_eq!(net.hosts[host].seen.len(), 200, "seed {seed}: a copy is no connection");
        }
        for (index, ours) in ids.iter().enumerate() {
            let theirs = net.hosts[1].qpns[&net.hosts[0].agreed[ours].remote_qpn];
            // Some by one end, some by the other, some by both.
            if index % 3 != 0 {
                net.close(0, *ours);
            }
            if index % 3 != 1 {
                net.close(1, theirs);
            }
        }
        net.run(30 * SECOND);
        for host in [0, 1] {
            assert_eq!(net.hosts[host].count(&Seen::Up), 0, "seed {seed}, host {host}");
        }
        net.assert_empty();
        // Late copies of a REP may find its connection forgotten, and of a REQ begin another that
        // fails; no more.
        assert_eq!(net.hosts[0].count(&Seen::Down), 200, "seed {seed}");
    }
}

#[test]
fn a_thousand_in_a_row() {
    let mut net = Net::listening(30);
    net.faults = Faults { loss: 20, duplicates: 20, reordering: 20 };
    for _ in 0..1000 {
        let id = net.connect(0);
        while net.hosts[0].seen[&id] == Seen::Connecting {
            net.run(20 * MS);
        }
        assert_eq!(net.hosts[0].seen[&id], Seen::Up);
        net.close(0, id);
    }
    net.run(30 * SECOND);
    assert_eq!(net.hosts[0].count(&Seen::Down), 1000);
    net.assert_empty();
}

#[test]
fn the_same_seed_is_the_same_history() {
    let history = |seed| {
        let mut net = Net::listening(seed);
        net.faults = Faults { loss: 200, duplicates: 100, reordering: 100 };
        for _ in 0..20 {
            net.connect(0);
        }
        net.run(10 * SECOND);
        net.trace
    };
    assert_eq!(history(1), history(1));
    assert_ne!(history(1), history(2));
}

#[test]
fn what_ended_is_forgotten_when_there_is_too_much_of_it() {
    let mut cm = Manager::new(Config { ended_max: 10, ..config(2) });
    cm.listen(PORT, 1000).expect("a listener");
    let mut peer = Manager::new(config(1));
    for index in 0..50 {
        peer.connect(MS, ip(2), PORT, &terms(index + 1), b"").expect("begun");
        let req = peer.poll_transmit().expect("a REQ");
        cm.handle_mad(MS, ip(1), &req.mad[..]);
        let Some(Event::Requested { id, .. }) = cm.poll_event() else { panic!("no request") };
        cm.reject(MS, id, RejReason::CONSUMER, b"").expect("it waits");
        assert!(cm.connections() <= 10, "{}", cm.connections());
        let rej = cm.poll_transmit().expect("a REJ");
        assert!(matches!(Mad::parse(&rej.mad[..]), Ok(Mad { message: Message::Rej(_), .. })));
    }
    assert_eq!(cm.connections(), 10, "as many as may be");
}

/// Its peer comes when a request without that would have been given up for long, and is not there
/// at last.
#[test]
fn who_persists_asks_until_its_time_is_over() {
    let mut net = Net::listening(32);
    let start = net.now;
    net.drop = Box::new(|_, _, _| true);
    let ids = [net.connect(0), net.connect(0), net.connect(0)];
    net.hosts[0].cm.persist(ids[1], start + 40 * SECOND);
    net.hosts[0].cm.persist(ids[2], start + 20 * SECOND);
    let now = net.now;
    net.hosts[0].cm.handle_unreachable(now, ip(2));
    net.run(30 * SECOND);
    let seen = |net: &Net, index: usize| net.hosts[0].seen[&ids[index]].clone();
    assert_eq!(seen(&net, 0), Seen::Failed(Failure::Unreachable));
    assert_eq!(seen(&net, 1), Seen::Connecting);
    assert_eq!(seen(&net, 2), Seen::Failed(Failure::TimedOut));
    net.drop = Box::new(|_, _, _| false);
    net.run(2 * SECOND);
    assert_eq!(seen(&net, 1), Seen::Up);
}

/// A peer that is silent, whose address nobody has, or that says that it takes longer: the time is
/// the caller's.
#[test]
fn who_asks_until_a_time_ends_then() {
    let mut net = Net::listening(33);
    net.drop = Box::new(|_, _, _| true);
    let start = net.now;
    let limits = [300 * MS, 5 * SECOND, 20 * SECOND];
    let ids = limits.map(|limit| {
        let id = net.connect(0);
        net.hosts[0].cm.ask_until(id, start + limit);
        id
    });
    for (id, limit) in ids.into_iter().zip(limits) {
        net.run(start + limit - MS - net.now);
        net.hosts[0].cm.handle_unreachable(net.now, ip(2));
        net.run(Duration::ZERO);
        assert_eq!(net.hosts[0].seen[&id], Seen::Connecting, "{limit:?}");
        net.run(2 * MS);
        assert_eq!(net.hosts[0].seen[&id], Seen::Failed(Failure::TimedOut), "{limit:?}");
    }
    // A later time than that one may be given as well.
    let (longer, start) = (net.connect(0), net.now);
    net.hosts[0].cm.ask_until(longer, start + SECOND);
    net.hosts[0].cm.persist(longer, start + 3 * SECOND);
    net.run(2 * SECOND);
    assert_eq!(net.hosts[0].seen[&longer], Seen::Connecting);
    net.run(SECOND + MS);
    assert_eq!(net.hosts[0].seen[&longer], Seen::Failed(Failure::TimedOut));
}

#[test]
fn who_has_no_address_is_not_waited_for() {
    let mut net = Net::listening(31);
    let up = net.connect(0);
    net.run(MS);
    net.drop = Box::new(|_, _, _| true);
    let waits = net.connect(0);
    net.hosts[0].cm.handle_unreachable(net.now, ip(3));
    net.run(MS);
    assert_eq!(net.hosts[0].seen[&waits], Seen::Connecting, "it was another host");
    net.hosts[0].cm.handle_unreachable(net.now, ip(2));
    net.run(MS);
    assert_eq!(net.hosts[0].seen[&waits], Seen::Failed(Failure::Unreachable));
    assert_eq!(net.hosts[0].seen[&up], Seen::Up, "an answer may come yet");
}
