//! Exact steps of Swift.

use super::Swift;
use crate::loss::tests::{queued, whole};
use crate::{AckEvent, LossResponse, SwiftConfig};

const MTU: u32 = 1024;
const MAX: u32 = 128 * MTU;
/// Target of the fabric for large windows.
const TARGET: u32 = 20_000;

fn swift() -> Swift {
    Swift::new(SwiftConfig { fabric_target_ns: TARGET, host_target_ns: 50_000, ..SwiftConfig::new(MAX, MTU) })
}

fn ack(packets: u32, rtt_ns: Option<u32>, host_delay_ns: u32) -> AckEvent {
    let acked_bytes = packets * MTU;
    let trip = rtt_ns.map(whole);
    AckEvent { acked_bytes, acked_packets: packets, trip, host_delay_ns, ..AckEvent::default() }
}

#[test]
fn at_the_target_nothing_is_cut_and_above_it_by_the_excess() {
    let mut at = swift();
    at.on_ack(&ack(1, Some(TARGET), 0));
    assert_eq!(at.cwnd_bytes(), MAX);
    // An excess of a quarter of the delay: 0.8 of that goes.
    let mut above = swift();
    above.on_ack(&ack(1, Some(TARGET / 3 * 4), 0));
    let expected = MAX - MAX / 5;
    assert!(above.cwnd_bytes().abs_diff(expected) <= 8, "{} of {expected}", above.cwnd_bytes());
}

#[test]
fn one_cut_takes_half_at_most_and_comes_once_a_window() {
    let mut swift = swift();
    for _ in 0..64 {
        swift.on_ack(&ack(1, Some(u32::MAX), 0));
        assert_eq!(swift.cwnd_bytes(), MAX / 2);
    }
    swift.on_ack(&ack(1, Some(u32::MAX), 0));
    assert_eq!(swift.cwnd_bytes(), MAX / 4);
}

#[test]
fn a_slow_host_cuts_its_own_window_only() {
    let mut swift = swift();
    swift.on_ack(&ack(1, Some(TARGET / 2), 100_000));
    let (fabric, host) = swift.windows();
    assert_eq!(fabric, MAX);
    assert!(host < MAX && host > MAX / 2, "{host}");
    assert_eq!(swift.cwnd_bytes(), host);
    // The fabric's delay is not the host's.
    let mut other = self::swift();
    other.on_ack(&ack(1, Some(10 * TARGET), 49_000));
    assert_eq!(other.windows(), (MAX / 2, MAX));
}

/// A host that sleeps while it has little to do is not congested.
#[test]
fn a_host_that_is_not_kept_busy_cuts_nothing() {
    let mut idle = swift();
    idle.on_ack(&AckEvent { app_limited: true, ..ack(1, Some(TARGET / 2), 1_000_000) });
    assert_eq!(idle.windows(), (MAX, MAX));
    let mut busy = swift();
    busy.on_ack(&ack(1, Some(TARGET / 2), 1_000_000));
    assert!(busy.windows().1 < MAX, "the delay of a busy one counts");
}

#[test]
fn grows_one_pmtu_a_window_while_the_last_sample_was_below_the_target() {
    let mut swift = swift();
    swift.on_ack(&ack(1, Some(u32::MAX), 0));
    for _ in 0..20 {
        swift.on_ack(&ack(10, None, 0));
    }
    assert_eq!(swift.cwnd_bytes(), MAX / 2, "the last sample was late");
    swift.on_ack(&ack(1, Some(1_000), 0));
    let start = swift.cwnd_bytes();
    swift.on_ack(&ack(start / MTU, None, 0));
    assert_eq!(swift.cwnd_bytes(), start + MTU);
    swift.on_ack(&AckEvent { app_limited: true, ..ack(1000, Some(1_000), 0) });
    assert_eq!(swift.cwnd_bytes(), start + MTU, "without data nothing grows");
}

#[test]
fn small_windows_have_a_larger_target() {
    let targets: Vec<u32> = [128 * MTU, 64 * MTU, 16 * MTU, 4 * MTU, MTU]
        .map(|max| Swift::new(SwiftConfig { fabric_target_ns: TARGET, ..SwiftConfig::new(max, MTU) }))
        .iter()
        .map(Swift::fabric_target_now)
        .collect();
    assert_eq!(targets[0], TARGET);
    assert_eq!(targets[4], 3 * TARGET);
    assert!(targets.is_sorted_by(|larger, smaller| larger < smaller), "{targets:?}");
}

#[test]
fn losses_halve_both_windows_or_none() {
    let mut swift = swift();
    swift.on_loss_episode(&queued(0));
    swift.on_loss_episode(&queued(1));
    assert_eq!(swift.windows(), (MAX / 2, MAX / 2));
    swift.on_rto(&queued(2));
    assert_eq!(swift.windows(), (MAX / 4, MAX / 4));
    let config = SwiftConfig { loss_response: LossResponse::None, ..SwiftConfig::new(MAX, MTU) };
    let mut deaf = Swift::new(config);
    deaf.on_loss_episode(&queued(0));
    deaf.on_rto(&queued(1));
    assert_eq!(deaf, Swift::new(config), "nothing begins anew, either");
}

#[test]
fn nothing_changes_while_uncongested_at_the_largest_window() {
    let mut swift = swift();
    let before = swift;
    swift.on_ack(&ack(3, Some(TARGET / 2), 0));
    assert_eq!(swift, before);
}

#[test]
fn a_cut_of_nothing_does_not_hide_a_loss_a_window_later() {
    let mut swift = Swift::new(SwiftConfig { fabric_target_ns: TARGET, ..SwiftConfig::new(16 * MTU, MTU) });
    let target = swift.fabric_target_now();
    // So little above the target that the cut takes no byte.
    swift.on_ack(&ack(1, Some(target + 1), 0));
    assert_eq!(swift.cwnd_bytes(), 16 * MTU);
    for _ in 0..16 {
        swift.on_ack(&ack(1, Some(TARGET / 2), 0));
    }
    swift.on_loss_episode(&queued(0));
    assert_eq!(swift.cwnd_bytes(), 8 * MTU);
}

#[test]
fn a_slow_host_does_not_keep_the_fabrics_window_from_growing() {
    let mut swift = swift();
    swift.on_ack(&ack(1, Some(u32::MAX), 0));
    assert_eq!(swift.windows(), (MAX / 2, MAX));
    for _ in 0..10 * 64 {
        swift.on_ack(&ack(1, Some(TARGET / 2), 100_000));
    }
    let (fabric, host) = swift.windows();
    assert!(host < MAX / 8, "{host}");
    assert!(fabric >= MAX / 2 + 8 * MTU, "one PMTU for each of its windows, of 10: {fabric}");
}

#[test]
fn at_its_target_a_window_grows() {
    let mut fabric = swift();
    fabric.on_ack(&ack(1, Some(u32::MAX), 0));
    let target = fabric.fabric_target_now();
    fabric.on_ack(&ack(64, Some(target), 0));
    assert_eq!(fabric.windows(), (MAX / 2 + MTU, MAX));
    let mut host = swift();
    host.on_ack(&ack(1, Some(TARGET / 2), u32::MAX));
    assert_eq!(host.windows(), (MAX, MAX / 2));
    host.on_ack(&ack(64, Some(TARGET / 2), 50_000));
    assert_eq!(host.windows(), (MAX, MAX / 2 + MTU));
}
