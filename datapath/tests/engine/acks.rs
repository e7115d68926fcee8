//! When acknowledgements go out, and what a push does.

use crate::common::rig::{Options, Rig, write};
use datapath::engine::{AckTiming, EngineConfig, QpHandles, Turn};
use datapath::qp::state::QpState;
use datapath::queue::WcStatus;
use datapath::tuning::{ACK_SPACING, ASK_FLIGHT, HOLD_BURST, TX_BATCH, WQES_PER_TURN};
use wire::{Datagram, Kind, Packet};

fn rig(acks: AckTiming) -> (Rig, [QpHandles; 2]) {
    let mut rig = Rig::with_config(64, EngineConfig { max_qps: 1, acks, ..EngineConfig::default() });
    let handles = rig.connect(&Options::default());
    (rig, handles)
}

/// Stages so many WRITEs of 8 bytes on a side's queue pair.
fn stage(rig: &Rig, handles: &mut [QpHandles; 2], side: usize, count: u64) {
    let (own, peer) = (&rig.sides[side], &rig.sides[1 - side]);
    for wr_id in 0..count {
        handles[side].send.stage(&write(wr_id, &[own.sge(0, 8)], 0, peer.key)).unwrap();
    }
}

/// What waits in the cable of a side, in order.
fn sent(rig: &Rig, side: usize) -> Vec<Kind> {
    let frames = rig.sides[side].engine.port().sent();
    let kind = |frame: &[u8]| {
        let datagram = Datagram::parse(frame, 4791).unwrap();
        Packet::parse(&frame[datagram.transport.clone()]).unwrap().opcode().kind()
    };
    frames.map(kind).collect()
}

/// Side 0 sends so many WRITEs, which side 1 takes in one turn.
fn take(rig: &mut Rig, handles: &mut [QpHandles; 2], count: u64) -> Turn {
    stage(rig, handles, 0, count);
    handles[0].send.submit();
    rig.sides[0].engine.turn(rig.now);
    rig.carry();
    rig.sides[1].engine.turn(rig.now)
}

#[test]
fn a_held_acknowledgement_goes_behind_what_is_posted() {
    let (mut rig, mut handles) = rig(AckTiming::BehindPosts);
    assert_eq!(take(&mut rig, &mut handles, 1), Turn { received: 1, sent: 0 });
    assert!(rig.sides[1].engine.core().owes_acks() && rig.sides[1].engine.has_work());
    stage(&rig, &mut handles, 1, 1);
    let handed = handles[1].send.hand_over();
    assert_eq!(rig.sides[1].engine.push(handed, rig.now), Turn { received: 0, sent: 2 });
    assert_eq!(sent(&rig, 1), [Kind::Write, Kind::Ack]);
    assert!(!rig.sides[1].engine.core().owes_acks());
    rig.carry();
    rig.sides[0].engine.turn(rig.now);
    assert_eq!(rig.sides[0].drain(), 1);
}

#[test]
fn a_packet_that_found_the_port_full_has_asked_for_nothing() {
    const BEFORE: usize = ASK_FLIGHT as usize + 1;
    let (mut rig, mut handles) = rig(AckTiming::Spaced);
    rig.sides[0].engine.port_mut().ring = BEFORE;
    rig.step();
    // The last of them finds it full.
    stage(&rig, &mut handles, 0, BEFORE as u64 + 1);
    handles[0].send.submit();
    rig.sides[0].engine.turn(rig.now);
    assert_eq!(rig.sides[0].engine.port().sent().count(), BEFORE);
    stage(&rig, &mut handles, 0, 2);
    handles[0].send.submit();
    rig.sides[0].engine.turn(rig.now);
    let asks = |frame: &[u8]| {
        let datagram = Datagram::parse(frame, 4791).unwrap();
        Packet::parse(&frame[datagram.transport.clone()]).unwrap().bth().ack_req
    };
    let asking: Vec<bool> = rig.sides[0].engine.port().sent().map(asks).collect();
    assert_eq!(asking.len(), BEFORE + 3);
    assert!(asking.contains(&true), "{asking:?}");
}

#[test]
fn it_waits_for_one_turn_at_most() {
    let (mut rig, mut handles) = rig(AckTiming::BehindPosts);
    take(&mut rig, &mut handles, 1);
    // Another asks in the second turn, too.
    assert_eq!(take(&mut rig, &mut handles, 1), Turn { received: 1, sent: 1 });
    assert_eq!(sent(&rig, 1), [Kind::Ack]);
    rig.carry();
    rig.sides[0].engine.turn(rig.now);
    assert_eq!(rig.sides[0].drain(), 2);
    // After that the next may wait again.
    assert_eq!(take(&mut rig, &mut handles, 1).sent, 0);
    assert_eq!(rig.sides[1].engine.turn(rig.now), Turn { received: 0, sent: 1 });
}

#[test]
fn a_long_burst_is_acknowledged_at_once() {
    let (mut rig, mut handles) = rig(AckTiming::BehindPosts);
    let count = HOLD_BURST + 1;
    assert_eq!(take(&mut rig, &mut handles, count as u64), Turn { received: count, sent: 1 });
}

#[test]
fn so_is_every_packet_that_asks_unless_told_otherwise() {
    let (mut rig, mut handles) = rig(AckTiming::default());
    assert_eq!(take(&mut rig, &mut handles, 1), Turn { received: 1, sent: 1 });
    assert!(!rig.sides[1].engine.core().owes_acks());
}

#[test]
fn a_push_takes_nothing_in() {
    let (mut rig, mut handles) = rig(AckTiming::AtOnce);
    stage(&rig, &mut handles, 0, 1);
    let handed = handles[0].send.hand_over();
    assert_eq!(rig.sides[0].engine.push(handed, rig.now), Turn { received: 0, sent: 1 });
    assert!(handles[0].send.hand_over().is_none());
    rig.carry();
    assert_eq!(rig.sides[1].engine.push(None, rig.now), Turn::default());
    assert_eq!(rig.sides[1].engine.turn(rig.now), Turn { received: 1, sent: 1 });
}

/// With a batch of queue pairs before it, one that posts has no part in what a push would send:
/// only acknowledgements go.
#[test]
fn a_push_leaves_others_their_turn() {
    const CROWD: usize = TX_BATCH + 8;
    let config = EngineConfig { max_qps: 64, acks: AckTiming::BehindPosts, ..EngineConfig::default() };
    let mut rig = Rig::with_config(1024, config);
    let mut crowd: Vec<_> = (0..CROWD).map(|_| rig.connect(&Options::default())).collect();
    let mut handles = rig.connect(&Options::default());
    // A whole turn of each, and more.
    for others in &mut crowd {
        stage(&rig, others, 0, 2 * u64::from(WQES_PER_TURN));
        others[0].send.submit();
    }
    stage(&rig, &mut handles, 1, 1);
    handles[1].send.submit();
    rig.sides[1].engine.turn(rig.now);
    rig.carry();
    assert_eq!(rig.sides[0].engine.turn(rig.now), Turn { received: 1, sent: TX_BATCH });
    assert!(rig.sides[0].engine.core().owes_acks());
    stage(&rig, &mut handles, 0, 1);
    let handed = handles[0].send.hand_over();
    assert_eq!(rig.sides[0].engine.push(handed, rig.now), Turn { received: 0, sent: 1 });
    assert_eq!(sent(&rig, 0).last(), Some(&Kind::Ack));
    assert!(!rig.sides[0].engine.core().owes_acks());
    // It comes behind the others, and without a doorbell.
    assert!(rig.sides[0].engine.core().doorbells().is_empty());
    let all = CROWD as u64 * 2 * u64::from(WQES_PER_TURN) + 1;
    assert!(rig.run(1000, |rig| rig.sides[0].engine.core().counters().tx_requests == all));
    assert!(rig.run(1000, |rig| rig.sides[0].cq.len() == u32::try_from(all).unwrap()));
}

/// Requests of one queue pair, by doorbell and handed over in turn, with a window that stops some
/// of them: each is sent and completed.
#[test]
fn requests_handed_over_and_doorbells_mix() {
    let mut rig = Rig::with_config(64, EngineConfig { max_qps: 1, ..EngineConfig::default() });
    let mut handles = rig.connect(&Options { window: 3, ..Options::default() });
    let mut completed = 0;
    for round in 0..200_u64 {
        let count = round % 7;
        stage(&rig, &mut handles, 0, count);
        if round % 3 == 0 {
            handles[0].send.submit();
        } else {
            let handed = handles[0].send.hand_over();
            rig.sides[0].engine.push(handed, rig.now);
        }
        if round % 2 == 0 {
            rig.step();
        }
        if round % 5 == 4 {
            assert!(rig.run(1000, |_| handles[0].send.outstanding() == 0), "{round}");
        }
        completed += rig.sides[0].drain();
    }
    assert_eq!(completed as u64, (0..200).map(|round| round % 7).sum::<u64>());
    // At rest the next post rings.
    let rung = rig.sides[0].engine.core().counters().doorbells;
    stage(&rig, &mut handles, 0, 1);
    handles[0].send.submit();
    assert!(!rig.sides[0].engine.core().doorbells().is_empty());
    rig.step();
    assert_eq!(rig.sides[0].engine.core().counters().doorbells, rung + 1);
}

/// What is handed over while the doorbell of an earlier post waits goes with it; in ERR it is
/// flushed.
#[test]
fn a_handed_queue_pair_is_served_whatever_its_state() {
    let (mut rig, mut handles) = rig(AckTiming::AtOnce);
    stage(&rig, &mut handles, 0, 1);
    handles[0].send.submit();
    stage(&rig, &mut handles, 0, 1);
    let handed = handles[0].send.hand_over();
    assert_eq!(rig.sides[0].engine.push(handed, rig.now).sent, 2);
    rig.sides[0].force(handles[0].qpn, QpState::Err);
    stage(&rig, &mut handles, 0, 1);
    let handed = handles[0].send.hand_over();
    assert_eq!(rig.sides[0].engine.push(handed, rig.now).sent, 0);
    let status = core::iter::from_fn(|| rig.sides[0].cq.poll()).map(|completion| completion.status);
    assert_eq!(status.collect::<Vec<_>>(), [WcStatus::WrFlushErr; 3]);
}

/// Side 0 sends a WRITE, and takes nothing in.
fn push_one(rig: &mut Rig, handles: &mut [QpHandles; 2]) {
    stage(rig, handles, 0, 1);
    handles[0].send.submit();
    rig.sides[0].engine.push(None, rig.now);
}

/// Messages posted one by one while others are in flight: the first few ask, and what follows is
/// acknowledged together.
#[test]
fn acknowledgements_that_nobody_asked_for_are_spaced() {
    let (mut rig, mut handles) = rig(AckTiming::Spaced);
    // Long after the beginning, or the first acknowledgement would seem to have followed another.
    rig.now = rig.now.after(100_000);
    let asked = u64::from(ASK_FLIGHT);
    for _ in 0..asked {
        push_one(&mut rig, &mut handles);
    }
    rig.carry();
    assert_eq!(rig.sides[1].engine.turn(rig.now), Turn { received: ASK_FLIGHT as usize, sent: 1 });
    // The sender pushes and takes nothing in, so as many are in flight, and the next do not ask.
    let step = ACK_SPACING / 4;
    for round in 1..=3 {
        rig.now = rig.now.after(step);
        push_one(&mut rig, &mut handles);
        rig.carry();
        assert_eq!(rig.sides[1].engine.turn(rig.now), Turn { received: 1, sent: 0 }, "{round}");
        assert_eq!(
            rig.sides[1].engine.turn(rig.now),
            Turn::default(),
            "silence alone is not enough, {round}"
        );
        assert!(!rig.sides[1].engine.core().owes_acks() && !rig.sides[1].engine.has_work());
    }
    let due = rig.sides[1].engine.next_deadline().unwrap();
    assert!(due <= rig.now.after(ACK_SPACING));
    rig.now = due;
    assert_eq!(rig.sides[1].engine.turn(rig.now), Turn { received: 0, sent: 1 });
    rig.carry();
    rig.sides[0].engine.turn(rig.now);
    assert_eq!(rig.sides[0].drain() as u64, asked + 3);
}

/// Who goes away leaves no peer waiting.
#[test]
fn settling_sends_what_is_spaced() {
    let (mut rig, mut handles) = rig(AckTiming::Spaced);
    let asked = u64::from(ASK_FLIGHT);
    for _ in 0..asked {
        push_one(&mut rig, &mut handles);
    }
    rig.carry();
    rig.sides[1].engine.turn(rig.now);
    push_one(&mut rig, &mut handles);
    rig.carry();
    assert_eq!(rig.sides[1].engine.turn(rig.now), Turn { received: 1, sent: 0 });
    assert_eq!(rig.sides[1].engine.settle(rig.now), Turn { received: 0, sent: 1 });
    assert_eq!(rig.sides[1].engine.settle(rig.now), Turn::default());
    rig.carry();
    rig.sides[0].engine.turn(rig.now);
    assert_eq!(rig.sides[0].drain() as u64, asked + 1);
}
