//! Exact steps of DCTCP.

use super::Dctcp;
use crate::loss::tests::{queued, whole};
use crate::{AckEvent, DctcpConfig, LossEvent, LossResponse, ONE, RoundTrip};

const MTU: u32 = 1024;
const MAX: u32 = 64 * MTU;

fn dctcp() -> Dctcp {
    Dctcp::new(DctcpConfig::new(MAX, MTU))
}

fn ack(packets: u32, ce_delta: u32) -> AckEvent {
    AckEvent { acked_bytes: packets * MTU, acked_packets: packets, ce_delta, ..AckEvent::default() }
}

/// Acknowledges windows without marks until alpha is 0.
fn calm() -> Dctcp {
    let mut dctcp = dctcp();
    while dctcp.alpha() != 0 {
        dctcp.on_ack(&ack(64, 0));
    }
    dctcp
}

#[test]
fn starts_at_the_largest_window_with_alpha_1() {
    assert_eq!((dctcp().cwnd_bytes(), dctcp().alpha()), (MAX, ONE));
}

#[test]
fn alpha_moves_once_a_window() {
    let mut dctcp = dctcp();
    dctcp.on_ack(&ack(63, 0));
    assert_eq!(dctcp.alpha(), ONE);
    dctcp.on_ack(&ack(1, 0));
    assert_eq!(dctcp.alpha(), ONE / 16 * 15);
}

#[test]
fn cuts_once_a_window_by_half_of_alpha() {
    let mut dctcp = dctcp();
    dctcp.on_ack(&ack(1, 1));
    assert_eq!(dctcp.cwnd_bytes(), MAX / 2, "alpha is 1");
    for _ in 0..31 {
        dctcp.on_ack(&ack(1, 1));
        assert_eq!(dctcp.cwnd_bytes(), MAX / 2, "no second cut before 32 packets");
    }
    dctcp.on_ack(&ack(1, 1));
    assert_eq!(dctcp.cwnd_bytes(), MAX / 4);
}

#[test]
fn never_falls_below_one_pmtu() {
    let mut dctcp = dctcp();
    for _ in 0..1000 {
        dctcp.on_ack(&ack(1, 1));
    }
    assert_eq!(dctcp.cwnd_bytes(), MTU);
}

#[test]
fn grows_one_pmtu_a_window_in_parts_of_any_size() {
    for part in [1_u32, 3, 7, 1000, 1024] {
        let mut dctcp = dctcp();
        dctcp.on_rto(&queued(0));
        let start = dctcp.cwnd_bytes();
        let acknowledge = |dctcp: &mut Dctcp, mut bytes: u32| {
            while bytes != 0 {
                let acked_bytes = part.min(bytes);
                dctcp.on_ack(&AckEvent { acked_bytes, acked_packets: 1, ..AckEvent::default() });
                bytes -= acked_bytes;
            }
        };
        acknowledge(&mut dctcp, start);
        assert_eq!(dctcp.cwnd_bytes(), start, "the window after a cut does not grow");
        for window in 0..8 {
            let cwnd = start + window * MTU;
            acknowledge(&mut dctcp, cwnd - 1);
            assert_eq!(dctcp.cwnd_bytes(), cwnd);
            acknowledge(&mut dctcp, 1);
            assert_eq!(dctcp.cwnd_bytes(), cwnd + MTU);
        }
    }
}

#[test]
fn what_is_over_counts_towards_the_next_window() {
    let mut dctcp = Dctcp::new(DctcpConfig::new(8 * MTU, MTU));
    dctcp.on_rto(&queued(0));
    dctcp.on_ack(&ack(4, 0));
    dctcp.on_ack(&ack(4 + 5 + 5, 0));
    assert_eq!(dctcp.cwnd_bytes(), 6 * MTU);
    dctcp.on_ack(&ack(1, 0));
    assert_eq!(dctcp.cwnd_bytes(), 7 * MTU);
}

#[test]
fn an_application_that_has_no_data_does_not_grow_the_window() {
    let mut dctcp = dctcp();
    dctcp.on_rto(&queued(0));
    for _ in 0..100 {
        dctcp.on_ack(&AckEvent { app_limited: true, ..ack(32, 0) });
    }
    assert_eq!(dctcp.cwnd_bytes(), MAX / 2);
    assert!(dctcp.alpha() < ONE, "but alpha follows");
}

#[test]
fn losses_halve_once_an_episode_or_not_at_all() {
    let mut dctcp = calm();
    dctcp.on_loss_episode(&queued(0));
    dctcp.on_loss_episode(&queued(1));
    assert_eq!(dctcp.cwnd_bytes(), MAX / 2);
    dctcp.on_rto(&queued(2));
    assert_eq!(dctcp.cwnd_bytes(), MAX / 4, "a timeout is an episode of its own");

    let config = DctcpConfig { loss_response: LossResponse::None, ..DctcpConfig::new(MAX, MTU) };
    let mut paper = Dctcp::new(config);
    paper.on_loss_episode(&queued(0));
    paper.on_rto(&queued(1));
    assert_eq!(paper, Dctcp::new(config), "nothing begins anew, either");
}

#[test]
fn a_cnp_counts_as_a_marked_window() {
    let mut dctcp = calm();
    dctcp.on_cnp(0);
    assert_eq!(dctcp.cwnd_bytes(), MAX, "alpha was 0");
    dctcp.on_ack(&ack(64, 0));
    assert_eq!(dctcp.alpha(), ONE / 16);
    dctcp.on_cnp(1);
    assert_eq!(dctcp.cwnd_bytes(), MAX - MAX / 32);
}

#[test]
fn nothing_changes_while_uncongested_at_the_largest_window() {
    let mut dctcp = calm();
    let before = dctcp;
    dctcp.on_ack(&ack(3, 0));
    assert_eq!(dctcp, before);
}

/// Windows that a controller needs to grow from 32 to 48 packets.
fn round_trips_to_grow(rtt_reference_ns: u32, rtt_ns: u32) -> u32 {
    let config = DctcpConfig { rtt_reference_ns, ..DctcpConfig::new(MAX, MTU) };
    let mut dctcp = Dctcp::new(config);
    dctcp.on_rto(&queued(0));
    let with_rtt = |event| AckEvent { trip: Some(whole(rtt_ns)), ..event };
    dctcp.on_ack(&with_rtt(ack(32, 0)));
    assert_eq!(dctcp.cwnd_bytes(), 32 * MTU);
    let mut trips = 0;
    while dctcp.cwnd_bytes() < 48 * MTU {
        dctcp.on_ack(&with_rtt(ack(dctcp.cwnd_bytes() / MTU, 0)));
        trips += 1;
    }
    trips
}

#[test]
fn fair_growth_goes_by_the_square_of_the_round_trip() {
    assert_eq!(round_trips_to_grow(0, 1_000_000), 16, "without the option one PMTU a round trip");
    assert_eq!(round_trips_to_grow(64_000, 64_000), 16, "at the reference as well");
    // A part of a round trip more or less: the steps between two PMTUs of growth grow with the
    // window.
    let faster = round_trips_to_grow(64_000, 128_000);
    assert!((4..=5).contains(&faster), "twice as long, four times as fast: {faster}");
    let slower = round_trips_to_grow(64_000, 32_000);
    assert!((63..=64).contains(&slower), "half as long, four times as slow: {slower}");
    assert_eq!(round_trips_to_grow(64_000, 4_000_000), 1, "a long path doubles its window at most");
}

#[test]
fn the_round_trip_reaches_its_samples_from_above_as_from_below() {
    let config = DctcpConfig { rtt_reference_ns: 64_000, ..DctcpConfig::new(MAX, MTU) };
    for (before, after) in [(64 * 64, 32 * 64), (32 * 64, 64 * 64), (8 * 64, 64)] {
        let mut dctcp = Dctcp::new(config);
        for rtt_ns in [before, after] {
            for _ in 0..100 {
                dctcp.on_ack(&AckEvent { trip: Some(whole(rtt_ns)), ..ack(1, 1) });
            }
        }
        assert_eq!(u32::from(dctcp.rtt) * 64, after);
    }
}

/// A flow whose hosts sleep takes its turns as seldom as they look: that is its round trip.
#[test]
fn fairness_takes_whole_round_trips() {
    let mut dctcp = Dctcp::new(DctcpConfig { rtt_reference_ns: 64_000, ..DctcpConfig::new(MAX, MTU) });
    let trip = Some(RoundTrip::new(640_000, 300_000, 330_000));
    (0..64).for_each(|_| dctcp.on_ack(&AckEvent { trip, ..ack(1, 1) }));
    assert_eq!(u32::from(dctcp.rtt) * 64, 640_000);
}

/// One with the smallest window, of which 1 % was lost just now.
fn careful() -> Dctcp {
    let mut dctcp = dctcp();
    for _ in 0..1000 {
        dctcp.on_ack(&ack(1, 1));
    }
    dctcp.on_loss_episode(&LossEvent { loss_rate: ONE / 100, ..LossEvent::default() });
    assert_eq!(dctcp.cwnd_bytes(), MTU, "random losses take nothing");
    dctcp
}

#[test]
fn after_losses_a_small_window_grows_by_one_pmtu_in_eight() {
    let mut dctcp = careful();
    for packets in 2..=9 {
        (0..7).for_each(|_| dctcp.on_ack(&ack(1, 0)));
        assert_eq!(dctcp.cwnd_bytes(), (packets - 1) * MTU);
        dctcp.on_ack(&ack(1, 0));
        assert_eq!(dctcp.cwnd_bytes(), packets * MTU);
    }
}

#[test]
fn care_lasts_for_thirty_two_windows() {
    for (windows, grown) in [(31, false), (32, true)] {
        let mut dctcp = careful();
        (0..windows).for_each(|_| dctcp.on_ack(&AckEvent { app_limited: true, ..ack(1, 0) }));
        dctcp.on_ack(&ack(1, 0));
        assert_eq!(dctcp.cwnd_bytes() > MTU, grown, "after {windows} windows");
    }
}

#[test]
fn a_path_that_nothing_is_known_of_grows_as_without_fairness() {
    let mut dctcp = Dctcp::new(DctcpConfig { rtt_reference_ns: 64_000, ..DctcpConfig::new(MAX, MTU) });
    dctcp.on_rto(&queued(0));
    dctcp.on_ack(&ack(32, 0));
    dctcp.on_ack(&ack(32, 0));
    assert_eq!(dctcp.cwnd_bytes(), 33 * MTU);
}

#[test]
fn the_round_trip_moves_by_an_eighth() {
    let mut dctcp = Dctcp::new(DctcpConfig { rtt_reference_ns: 64_000, ..DctcpConfig::new(MAX, MTU) });
    let rtts = [64, 128, 8, 8].map(|ticks| {
        dctcp.on_ack(&AckEvent { trip: Some(whole(ticks * 64)), ..ack(1, 1) });
        dctcp.rtt
    });
    assert_eq!(rtts, [64, 64 + 8, 72 - 8, 64 - 7]);
}
