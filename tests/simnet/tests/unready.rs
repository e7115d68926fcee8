//! What a receiver that is not ready costs its sender: one that has no receive, awake or asleep
//! most of the time.

use datapath::qp::attr::RecoveryPolicy::{self, GoBackN, SelectiveRepeat};
use datapath::qp::state::QpState;
use datapath::queue::WcStatus;
use datapath::stream::RtoConfig;
use simnet::{Qp, QpOptions, Rig, RigOptions};
use wire::WireMode::{self, Plain, Srnic};

const MS_NS: u64 = 1_000_000;
const SECOND_NS: u64 = 1000 * MS_NS;
/// Code 12, the default, asks for 0.64 ms.
const ASKED_NS: u64 = 640_000;
const KINDS: [(WireMode, RecoveryPolicy); 3] = [(Srnic, SelectiveRepeat), (Srnic, GoBackN), (Plain, GoBackN)];

/// With timers as a device has them.
fn pair(kind: (WireMode, RecoveryPolicy), rnr_retry: u8) -> (Rig, Qp, Qp) {
    let (wire_mode, recovery) = kind;
    let options = QpOptions { min_rnr_timer: 12, wire_mode, recovery, rnr_retry, ..QpOptions::default() };
    Rig::pair(RigOptions { rto: RtoConfig::default(), ..RigOptions::default() }, options)
}

/// `b` looks at its port for 20 us, and then not for `asleep_ns`, over and over.
fn doze(rig: &mut Rig, b: Qp, ns: u64, asleep_ns: u64) {
    let end = rig.now().after(ns);
    while rig.now() < end {
        rig.freeze(b.node(), asleep_ns > 0);
        rig.run_for(asleep_ns);
        rig.freeze(b.node(), false);
        rig.run_for(20_000);
    }
}

#[test]
fn resends_to_a_receiver_without_receive_back_off() {
    for kind in KINDS {
        for asleep_ns in [0, MS_NS / 4, MS_NS, 10 * MS_NS] {
            for messages in [1, 100] {
                let (mut rig, a, b) = pair(kind, 7);
                let source = rig.region(a.node(), 1000);
                for _ in 0..messages {
                    rig.send(a, source.all());
                }
                doze(&mut rig, b, SECOND_NS / 2, asleep_ns);
                let before = *rig.counters(a);
                doze(&mut rig, b, SECOND_NS, asleep_ns);
                let after = *rig.counters(a);
                let resent = after.tx_retransmits - before.tx_retransmits;
                // One a wait of 16 ms, and hardly a tail probe. These were 1,545 to 154,500.
                assert!(
                    (20..80).contains(&resent),
                    "{kind:?}, asleep for {asleep_ns} ns, {messages} messages: {resent} resends a second, {} before, \
                     {} tail probes, {} RNR NAKs",
                    before.tx_retransmits,
                    after.tail_probes - before.tail_probes,
                    after.rx_rnr_naks - before.rx_rnr_naks,
                );
                let first = before.tx_retransmits;
                assert!(first < 150, "{kind:?}, asleep for {asleep_ns} ns: {first} in the first half second");
                assert_eq!(rig.state(a), QpState::Rts);
            }
        }
    }
}

/// The price: a receive that comes late is used a little later, by an eighth of how late it came.
#[test]
fn a_receive_is_used_soon_after_it_was_posted() {
    for kind in KINDS {
        for missing_ns in [MS_NS / 2, 2 * MS_NS, 10 * MS_NS, 100 * MS_NS, SECOND_NS] {
            let (mut rig, a, b) = pair(kind, 7);
            let (source, target) = (rig.region(a.node(), 1000), rig.region(b.node(), 1000));
            rig.send(a, source.all());
            rig.run_for(missing_ns);
            rig.post_recv(b, target.all());
            let took = rig.run_until(|rig| rig.sends(a).len() == 1, SECOND_NS).unwrap();
            let limit = ASKED_NS.max(missing_ns / 8).min(16 * MS_NS) + MS_NS / 10;
            assert!(took <= limit, "{kind:?}: {took} ns after {missing_ns} ns");
        }
    }
}

/// Waits that are counted are as long as the receiver asks for: the end of patience comes no later.
#[test]
fn counted_waits_do_not_grow() {
    for kind in KINDS {
        for rnr_retry in [0, 1, 6] {
            let (mut rig, a, _) = pair(kind, rnr_retry);
            let source = rig.region(a.node(), 1000);
            rig.send(a, source.all());
            let took = rig.run_until(|rig| rig.sends(a).len() == 1, SECOND_NS).unwrap();
            assert_eq!(rig.sends(a)[0].status, WcStatus::RnrRetryExcErr);
            let waits = u64::from(rnr_retry) * ASKED_NS;
            assert!((waits..waits + MS_NS / 4).contains(&took), "{kind:?}: {took} ns for {rnr_retry} waits");
        }
    }
}

/// Patience starts anew with each message.
#[test]
fn the_next_message_waits_as_briefly_as_the_first() {
    for kind in KINDS {
        let (mut rig, a, b) = pair(kind, 7);
        let (source, target) = (rig.region(a.node(), 1000), rig.region(b.node(), 1000));
        for (round, missing_ns) in [SECOND_NS, MS_NS].into_iter().enumerate() {
            rig.send(a, source.all());
            rig.run_for(missing_ns);
            rig.post_recv(b, target.all());
            let took = rig.run_until(|rig| rig.sends(a).len() == round + 1, SECOND_NS).unwrap();
            assert!(round == 0 || took <= ASKED_NS + MS_NS / 10, "{kind:?}: {took} ns");
        }
    }
}
