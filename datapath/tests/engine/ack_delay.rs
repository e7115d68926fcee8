//! ACK_DELAY: the longest time that a packet can have spent at the host (protocol.md 2.2).

use crate::common::rig::{Options, Rig, write};
use datapath::engine::{AckTiming, EngineConfig, QpHandles};
use datapath::port::Port as _;
use datapath::time::Time;
use wire::srnic::ACK_DELAY_UNIT_NS;
use wire::{Datagram, Packet};

const US: u64 = 1_000;

fn rig() -> (Rig, [QpHandles; 2]) {
    let mut rig = Rig::with_config(
        256,
        EngineConfig { max_qps: 1, acks: AckTiming::AtOnce, ..EngineConfig::default() },
    );
    let handles = rig.connect(&Options::default());
    // Each has looked at its port once.
    rig.step();
    (rig, handles)
}

/// Side 0 sends so many WRITEs, which arrive at side 1.
fn send(rig: &mut Rig, handles: &mut [QpHandles; 2], count: u64) {
    let (own, key) = (rig.sides[0].sge(0, 8), rig.sides[1].key);
    for wr_id in 0..count {
        handles[0].send.stage(&write(wr_id, &[own], 0, key)).unwrap();
    }
    handles[0].send.submit();
    while rig.sides[0].engine.turn(rig.now).sent > 0 {}
    rig.carry();
}

/// ACK_DELAY of the last acknowledgement that side 1 sent, in nanoseconds.
fn said(rig: &Rig) -> u64 {
    let frame = rig.sides[1].engine.port().sent().last().expect("an acknowledgement");
    let datagram = Datagram::parse(frame, 4791).unwrap();
    let packet = Packet::parse(&frame[datagram.transport.clone()]).unwrap();
    packet.ackx().expect("it acknowledges").ack_delay_ns().into()
}

fn turn_after(rig: &mut Rig, ns: u64) {
    rig.now = rig.now.after(ns);
    rig.sides[1].engine.turn(rig.now);
}

/// It is `ns`, rounded down to the unit of the field.
fn assert_said(rig: &Rig, ns: u64) {
    assert_eq!(said(rig), ns - ns % u64::from(ACK_DELAY_UNIT_NS));
}

#[test]
fn it_counts_from_the_last_look_at_an_empty_port() {
    let (mut rig, mut handles) = rig();
    turn_after(&mut rig, 0);
    send(&mut rig, &mut handles, 1);
    turn_after(&mut rig, 500 * US);
    assert_said(&rig, 500 * US);
}

#[test]
fn a_push_is_no_look() {
    let (mut rig, mut handles) = rig();
    turn_after(&mut rig, 0);
    send(&mut rig, &mut handles, 1);
    rig.now = rig.now.after(400 * US);
    rig.sides[1].engine.push(None, rig.now);
    rig.sides[1].engine.settle(rig.now);
    turn_after(&mut rig, 100 * US);
    assert_said(&rig, 500 * US);
}

#[test]
fn a_turn_that_left_frames_behind_is_no_look() {
    let (mut rig, mut handles) = rig();
    turn_after(&mut rig, 0);
    let burst = rig.sides[1].engine.port().rx_limit() as u64;
    send(&mut rig, &mut handles, burst + 1);
    turn_after(&mut rig, 300 * US);
    turn_after(&mut rig, 200 * US);
    assert_said(&rig, 500 * US);
}

#[test]
fn a_driver_may_know_better() {
    let (mut rig, mut handles) = rig();
    turn_after(&mut rig, 0);
    send(&mut rig, &mut handles, 1);
    let woken = rig.now.after(480 * US);
    rig.sides[1].engine.note_drained(woken);
    turn_after(&mut rig, 500 * US);
    assert_said(&rig, 20 * US);
}

#[test]
fn before_the_first_look_nothing_is_known() {
    let mut rig = Rig::with_config(256, EngineConfig { max_qps: 1, ..EngineConfig::default() });
    let mut handles = rig.connect(&Options::default());
    send(&mut rig, &mut handles, 1);
    rig.now = Time(rig.now.0 + 500 * US);
    rig.sides[1].engine.turn(rig.now);
    assert_said(&rig, 0);
}

/// It is the packet's coming that counts when its queue pair is gone, not the look before it.
#[test]
fn a_program_that_looks_seldom_leaves_no_sooner() {
    let (mut rig, mut handles) = rig();
    turn_after(&mut rig, 0);
    send(&mut rig, &mut handles, 1);
    turn_after(&mut rig, 30_000 * US);
    assert!(rig.sides[1].engine.core_mut().destroy_qp(handles[1].qpn));
    turn_after(&mut rig, 10_000 * US);
    assert!(rig.sides[1].engine.owes(), "20 ms since the packet are not over");
    turn_after(&mut rig, 11_000 * US);
    assert!(!rig.sides[1].engine.owes());
}
