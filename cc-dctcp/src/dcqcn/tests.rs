//! Exact steps of DCQCN.

use super::{Dcqcn, DcqcnConfig};
use crate::loss::tests::queued;
use crate::{AckEvent, LossResponse, ONE};

const MTU: u32 = 1024;
const MAX: u32 = 1024 * MTU;
const PERIOD_NS: u64 = 54 << 10;

fn dcqcn() -> Dcqcn {
    Dcqcn::new(DcqcnConfig::new(MAX, MTU))
}

fn ack(now_ns: u64) -> AckEvent {
    AckEvent { now_ns, acked_bytes: MTU, acked_packets: 1, ..AckEvent::default() }
}

#[test]
fn a_notification_cuts_by_half_of_alpha_at_most_once_in_fifty_microseconds() {
    let mut dcqcn = dcqcn();
    dcqcn.on_cnp(0);
    assert_eq!((dcqcn.cwnd_bytes(), dcqcn.alpha()), (MAX / 2, ONE), "alpha is 1");
    dcqcn.on_cnp(40_000);
    assert_eq!(dcqcn.cwnd_bytes(), MAX / 2);
    dcqcn.on_cnp(52_000);
    assert_eq!(dcqcn.cwnd_bytes(), MAX / 4);
}

#[test]
fn a_mark_in_an_acknowledgement_is_a_notification() {
    let (mut marked, mut notified) = (dcqcn(), dcqcn());
    marked.on_ack(&AckEvent { ce_delta: 3, ..ack(7_000) });
    notified.on_cnp(7_000);
    assert_eq!(marked, notified);
}

#[test]
fn recovers_half_of_the_way_five_times_and_then_by_steps() {
    let mut dcqcn = dcqcn();
    dcqcn.on_cnp(0);
    let mut expected = MAX / 2;
    for period in 1..=5 {
        dcqcn.on_ack(&ack(period * PERIOD_NS));
        expected += (MAX - expected).div_ceil(2);
        assert_eq!(dcqcn.cwnd_bytes(), expected, "period {period}");
    }
    // The target is the largest window already: the way there goes on.
    dcqcn.on_ack(&ack(6 * PERIOD_NS));
    assert_eq!(dcqcn.cwnd_bytes(), expected + (MAX - expected).div_ceil(2));
    let mut low = self::dcqcn();
    low.on_cnp(0);
    low.on_cnp(PERIOD_NS);
    for period in 2..=6 {
        low.on_ack(&ack(period * PERIOD_NS));
    }
    let target = low.target;
    assert_eq!(target, MAX / 2, "the target is where the last cut was");
    low.on_ack(&ack(7 * PERIOD_NS));
    assert_eq!(low.target, target + MAX / 1024, "additive increase");
}

#[test]
fn steps_are_ten_times_as_long_when_both_counters_have_left_fast_recovery() {
    let mut dcqcn = dcqcn();
    dcqcn.on_cnp(0);
    dcqcn.on_cnp(PERIOD_NS);
    let mut targets = Vec::new();
    for _ in 1..=6 {
        dcqcn.on_ack(&AckEvent { acked_bytes: 10_000_000, ..ack(PERIOD_NS) });
        targets.push((dcqcn.target - MAX / 2) / (MAX / 1024));
    }
    for period in 2..=7 {
        dcqcn.on_ack(&ack(period * PERIOD_NS));
        targets.push((dcqcn.target - MAX / 2) / (MAX / 1024));
    }
    assert_eq!(targets, [0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 16]);
}

#[test]
fn bytes_count_as_periods_do() {
    let mut dcqcn = dcqcn();
    dcqcn.on_cnp(0);
    dcqcn.on_ack(&AckEvent { acked_bytes: 9_999_999, ..ack(1) });
    assert_eq!(dcqcn.cwnd_bytes(), MAX / 2);
    dcqcn.on_ack(&ack(1));
    assert_eq!(dcqcn.cwnd_bytes(), MAX / 4 * 3);
}

#[test]
fn alpha_decays_to_nothing_and_a_long_silence_forgets_all() {
    let mut slow = dcqcn();
    slow.on_cnp(0);
    let mut period = 0;
    while slow.alpha() > 0 {
        period += 1;
        slow.on_ack(&ack(period * PERIOD_NS));
        assert!(period < 5_000, "alpha stays at {}", slow.alpha());
    }
    let mut silent = dcqcn();
    silent.on_cnp(0);
    silent.on_ack(&ack(10_000_000_000));
    assert_eq!((silent.alpha(), silent.cwnd_bytes()), (0, MAX));
}

#[test]
fn without_data_nothing_rises() {
    let mut dcqcn = dcqcn();
    dcqcn.on_cnp(0);
    for period in 1..100 {
        dcqcn.on_ack(&AckEvent { app_limited: true, ..ack(period * PERIOD_NS) });
    }
    assert_eq!(dcqcn.cwnd_bytes(), MAX / 2);
}

#[test]
fn losses_are_not_heard_unless_asked_for() {
    let mut published = dcqcn();
    published.on_loss_episode(&queued(0));
    published.on_rto(&queued(1));
    assert_eq!(published, dcqcn(), "nothing begins anew, either");
    let config = DcqcnConfig { loss_response: LossResponse::HalvePerEpisode, ..DcqcnConfig::new(MAX, MTU) };
    let mut halves = Dcqcn::new(config);
    halves.on_loss_episode(&queued(0));
    halves.on_loss_episode(&queued(1_000));
    assert_eq!(halves.cwnd_bytes(), MAX / 2);
    halves.on_rto(&queued(2_000));
    assert_eq!(halves.cwnd_bytes(), MAX / 4);
}

#[test]
fn alpha_decays_in_the_silence_before_a_loss_as_well() {
    let config = DcqcnConfig { loss_response: LossResponse::HalvePerEpisode, ..DcqcnConfig::new(MAX, MTU) };
    for lose in [Dcqcn::on_rto, Dcqcn::on_loss_episode] {
        let mut dcqcn = Dcqcn::new(config);
        dcqcn.on_cnp(0);
        lose(&mut dcqcn, &queued(1_000_000_000));
        assert_eq!((dcqcn.cwnd_bytes(), dcqcn.alpha()), (MAX / 4, 0));
    }
}
