//! A path longer than the timers believe at first: they learn it, and fall silent (protocol.md 2.4
//! and 2.5, RTO).

use datapath::stream::RtoConfig;
use simnet::{Message, Op, Qp, QpOptions, Rig, RigOptions, Transfer};

const LIMIT_NS: u64 = 1_000_000_000;

/// Firings of the timers of `a` while `count` one-packet messages cross a path of 1 ms there and
/// back.
fn firings(window: u16, count: usize) -> u64 {
    let mut options = RigOptions { rto: RtoConfig::SIMULATION, ..RigOptions::default() };
    options.port.up.propagation_ns = 250_000;
    options.port.down.propagation_ns = 250_000;
    let (mut rig, a, b) = Rig::pair(options, QpOptions { window, ..QpOptions::default() });
    let messages = vec![Message::new(Op::Write, 64); count];
    Transfer::new(&mut rig, a, b, messages, 1).run(&mut rig, LIMIT_NS).unwrap();
    fired(&rig, a)
}

fn fired(rig: &Rig, qp: Qp) -> u64 {
    let counters = rig.counters(qp);
    counters.tail_probes + counters.rto_fired
}

#[test]
fn one_packet_at_a_time() {
    let (few, many) = (firings(1, 4), firings(1, 40));
    assert!(few > 3, "the timers are faster than the path at first: {few}");
    assert!(many <= few, "{few} firings for 4 packets, {many} for 40");
}

#[test]
fn a_window_at_a_time() {
    let (few, many) = (firings(32, 4 * 32), firings(32, 40 * 32));
    assert!(many <= 2 * few, "{few} firings for 4 windows, {many} for 40");
}
