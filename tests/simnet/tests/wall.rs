//! The wall between the dialects: in every state, a queue pair takes nothing of the other one, and
//! counts it. Of reliable connections both programs are told.

use datapath::counters::Counters;
use datapath::engine::AsyncEvent;
use datapath::qp::attr::RecoveryPolicy;
use datapath::qp::state::{QpState, QpType};
use simnet::{Forger, Qp, QpOptions, Region, Rig, RigOptions, Work};
use wire::{Aeth, AtomicEth, Meta, Opcode, Psn, Reth, Syndrome, Transport, WireMode};

const PSN: u32 = 0x00_1000;

fn options(mode: WireMode) -> QpOptions {
    let recovery = match mode {
        WireMode::Plain => RecoveryPolicy::GoBackN,
        WireMode::Srnic => RecoveryPolicy::SelectiveRepeat,
    };
    QpOptions { sq_psn: PSN, wire_mode: mode, recovery, ..QpOptions::default() }
}

/// Two queue pairs, the second, in `state`, the victim of frames that claim to be of the first.
fn victim(mode: WireMode, qp_type: QpType, state: QpState) -> (Rig, Qp, Qp, Region) {
    let mut rig = Rig::new(RigOptions::default());
    let (left, right) = (rig.add_node(), rig.add_node());
    let options = QpOptions { qp_type, ..options(mode) };
    let (a, b) = (rig.create_qp(left, options), rig.create_qp(right, options));
    let open = rig.region(right, 4096);
    rig.fill(open.all(), 7);
    if state != QpState::Reset {
        rig.to_init(b);
    }
    if !matches!(state, QpState::Reset | QpState::Init) {
        rig.to_rtr(b, a);
    }
    if matches!(state, QpState::Rts | QpState::Sqd | QpState::Sqe | QpState::Err) {
        rig.to_rts(b);
    }
    if matches!(state, QpState::Sqd | QpState::Err) {
        rig.to_state(b, state);
    }
    if state == QpState::Sqe {
        // A request that cannot be sent.
        rig.post(b, &Work::send(open.at(0, 8)).lkey(open.key ^ 1));
        rig.run_for(10_000);
        assert_eq!(rig.state(b), state);
    }
    if state != QpState::Reset {
        rig.post_recv(b, open.at(0, 256));
        // In ERR it is flushed.
        rig.run_for(10_000);
        rig.poll();
        rig.take_completions(b);
    }
    (rig, a, b, open)
}

/// One frame of every packet type of `mode`, each as valid as can be, and half with a receive or
/// region to hit.
fn frames(forger: &Forger, mode: WireMode, open: &Region) -> Vec<Vec<u8>> {
    // Unreliable services and notifications are known in the standard dialect only.
    let types = Opcode::ALL.iter().filter(|opcode| match opcode.transport() {
        Transport::Rc => true,
        Transport::Uc | Transport::Ud | Transport::Cnp => mode == WireMode::Plain,
    });
    types
        .map(|&opcode| {
            let mut repr = forger.repr(mode, opcode, Psn::new(PSN));
            let (va, rkey) = (open.iova, open.key);
            repr.reth = repr.reth.map(|_| Reth { va, rkey, dma_len: 64 });
            repr.atomic_eth = repr.atomic_eth.map(|_| AtomicEth { va, rkey, swap_add: 1, compare: 0 });
            repr.aeth = repr.aeth.map(|_| Aeth { syndrome: Syndrome::ACK, msn: 0 });
            repr.meta = repr.meta.map(|_| Meta::default());
            let silent = repr.reth.is_none() && repr.aeth.is_some() || repr.atomic_eth.is_some();
            let payload: &[u8] = if silent || opcode == Opcode::RcReadRequest { &[] } else { &[0xEE; 64] };
            forger.frame(&repr, payload)
        })
        .collect()
}

#[test]
fn nothing_of_the_other_dialect_is_taken_in_any_state() {
    let states = [QpState::Reset, QpState::Init, QpState::Rtr, QpState::Rts, QpState::Sqd, QpState::Err];
    // SQE is a state of unreliable services, which are standard RoCEv2 always.
    let unreliable = [QpType::Uc, QpType::Ud]
        .into_iter()
        .flat_map(|qp_type| states.into_iter().chain([QpState::Sqe]).map(move |state| (qp_type, state)));
    let reliable = states.map(|state| (QpType::Rc, state));
    for (mine, theirs) in [(WireMode::Plain, WireMode::Srnic), (WireMode::Srnic, WireMode::Plain)] {
        let others = unreliable.clone().filter(|_| mine == WireMode::Plain);
        for (qp_type, state) in reliable.into_iter().chain(others) {
            // Before RTR a queue pair has no dialect yet: it is the default one, and takes nothing
            // anyway.
            let undecided = matches!(state, QpState::Reset | QpState::Init);
            let (mut rig, a, b, open) = victim(mine, qp_type, state);
            let forger = Forger::new(&rig, a, b);
            let frames = frames(&forger, theirs, &open);
            let count = frames.len() as u64;
            assert!(count >= 20, "all packet types");
            let before = *rig.counters(b);
            for frame in frames {
                let now = rig.now();
                rig.net.deliver(now, b.node(), frame);
                rig.run_for(2000);
            }
            rig.run_for(1_000_000);
            let what = format!("{qp_type:?} {mine:?} in {state:?}");
            let counters = *rig.counters(b);
            let dropped = |read: fn(&Counters) -> u64| read(&counters) - read(&before);
            let at_the_wall = dropped(|counters| counters.drop_wire_mode);
            let anywhere = at_the_wall + dropped(|counters| counters.drop_address + counters.drop_qp_state);
            assert_eq!(anywhere, count, "{what}: each is counted: {counters:?}");
            assert!(undecided || at_the_wall == count, "{what}: at the wall: {counters:?}");
            let answers = dropped(|counters| counters.tx_acks + counters.tx_responses);
            let is_told = qp_type == QpType::Rc && state.receives();
            assert!(if is_told { (1..=8).contains(&answers) } else { answers == 0 }, "{what}: {answers}");
            let told =
                AsyncEvent::OtherDialect { qpn: rig.qpn(b), peer: rig.ip(a.node()), theirs, heard: false };
            let others = |event: &AsyncEvent| matches!(event, AsyncEvent::OtherDialect { .. });
            let events: Vec<_> = rig.events(b.node()).iter().copied().filter(others).collect();
            assert_eq!(events, if is_told { vec![told] } else { vec![] }, "{what}");
            assert_eq!(rig.state(b), state, "{what}");
            assert!(rig.recvs(b).is_empty() && rig.sends(b).is_empty(), "{what}: nothing completes");
            rig.verify(open.all(), 7);
            rig.verify_guards();
        }
    }
}

/// A peer that was heard before may have been forged.
#[test]
fn a_peer_that_was_understood_before_is_told_of_so() {
    let (mut rig, a, b, _) = victim(WireMode::Srnic, QpType::Rc, QpState::Rts);
    rig.to_init(a);
    rig.to_rtr(a, b);
    rig.to_rts(a);
    rig.post(a, &Work::send_inline(b"hello"));
    rig.run_for(1_000_000);
    assert_eq!(rig.recvs(b).len(), 1);
    let forger = Forger::new(&rig, a, b);
    let mut repr = forger.repr(WireMode::Plain, Opcode::RcSendOnly, Psn::new(PSN));
    repr.aeth = None;
    let (now, frame) = (rig.now(), forger.frame(&repr, &[0xEE; 64]));
    rig.net.deliver(now, b.node(), frame);
    rig.run_for(1_000_000);
    let heard = |event: &AsyncEvent| matches!(event, AsyncEvent::OtherDialect { heard: true, .. });
    assert!(rig.events(b.node()).iter().any(heard), "{:?}", rig.events(b.node()));
    assert_eq!(rig.state(b), QpState::Rts);
}

/// What is damaged, or another host's, tells nobody anything.
#[test]
fn only_whole_packets_of_the_peer_are_told_of() {
    for (mine, theirs) in [(WireMode::Plain, WireMode::Srnic), (WireMode::Srnic, WireMode::Plain)] {
        let (mut rig, a, b, open) = victim(mine, QpType::Rc, QpState::Rtr);
        let stranger = rig.add_node();
        let c = rig.create_qp(stranger, options(theirs));
        let forgers = [Forger::new(&rig, a, b), Forger::new(&rig, c, b)];
        let mut damaged = frames(&forgers[0], theirs, &open);
        for frame in &mut damaged {
            let last = frame.len() - 1;
            frame[last] ^= 1;
        }
        for frame in damaged.into_iter().chain(frames(&forgers[1], theirs, &open)) {
            let now = rig.now();
            rig.net.deliver(now, b.node(), frame);
            rig.run_for(2000);
        }
        assert!(rig.counters(b).drop_wire_mode >= 40);
        assert_eq!((rig.events(b.node()), rig.counters(b).tx_acks), ([].as_slice(), 0), "{mine:?}");
    }
}

/// Two ends that were set up differently: both are told before the one that asks gives up.
#[test]
fn both_ends_are_told_that_they_differ() {
    for (mine, theirs) in [(WireMode::Plain, WireMode::Srnic), (WireMode::Srnic, WireMode::Plain)] {
        let mut rig = Rig::new(RigOptions::default());
        let (left, right) = (rig.add_node(), rig.add_node());
        let (a, b) = (rig.create_qp(left, options(mine)), rig.create_qp(right, options(theirs)));
        for (own, peer) in [(a, b), (b, a)] {
            rig.to_init(own);
            rig.to_rtr(own, peer);
            rig.to_rts(own);
        }
        let (from, to) = (rig.region(left, 4096), rig.region(right, 4096));
        rig.fill(from.all(), 7);
        rig.post(a, &Work::write(from.at(0, 64), to.at(0, 64)));
        rig.run_for(1_000_000);
        let told = |own: Qp, peer: Qp, theirs: WireMode| AsyncEvent::OtherDialect {
            qpn: rig.qpn(own),
            peer: rig.ip(peer.node()),
            theirs,
            heard: false,
        };
        let expected = [told(a, b, theirs), told(b, a, mine)];
        assert_eq!([rig.events(left), rig.events(right)].concat(), expected, "{mine:?}");
        assert!(rig.sends(a).is_empty(), "it still tries");
    }
}

/// Frames that are refused for their dialect are taken in the queue pair's own dialect: the test
/// above would fail if it could.
#[test]
fn what_is_refused_for_its_dialect_alone_would_have_been_taken() {
    for mode in WireMode::ALL {
        let (mut rig, a, b, open) = victim(mode, QpType::Rc, QpState::Rtr);
        let forger = Forger::new(&rig, a, b);
        let mut repr = forger.repr(mode, Opcode::RcWriteOnly, Psn::new(PSN));
        repr.reth = Some(Reth { va: open.iova, rkey: open.key, dma_len: 64 });
        repr.meta = repr.meta.map(|_| Meta::default());
        let (now, frame) = (rig.now(), forger.frame(&repr, &[0xEE; 64]));
        rig.net.deliver(now, b.node(), frame);
        rig.run_for(1_000_000);
        assert_eq!(rig.bytes(open.at(0, 64)), [0xEE; 64], "{mode:?}");
        assert_eq!(rig.counters(b).rx_in_order, 1, "{mode:?}");
    }
    for (qp_type, opcode) in [(QpType::Uc, Opcode::UcSendOnly), (QpType::Ud, Opcode::UdSendOnly)] {
        let (mut rig, a, b, _) = victim(WireMode::Plain, qp_type, QpState::Rtr);
        let forger = Forger::new(&rig, a, b);
        let repr = forger.repr(WireMode::Plain, opcode, Psn::new(PSN));
        let (now, frame) = (rig.now(), forger.frame(&repr, &[0xEE; 64]));
        rig.net.deliver(now, b.node(), frame);
        rig.run_for(1_000_000);
        rig.poll();
        assert_eq!((rig.counters(b).rx_unreliable, rig.recvs(b).len()), (1, 1), "{qp_type:?}");
    }
}
