//! Round-trip times and the watchdog, in virtual time.

use crate::stream::{RtoConfig, RttEstimator, Verdict, Watchdog, WatchdogConfig};
use crate::time::Time;

const RTO: RtoConfig = RtoConfig::SIMULATION;
const MS: u64 = 1_000_000;
/// 4.096 us x 2^8.
const PERIOD: u64 = 4_096 << 8;

fn watchdog(timeout: u8, retry_cnt: u8) -> Watchdog {
    Watchdog::new(WatchdogConfig { timeout, retry_cnt, rto: RTO })
}

/// What a watchdog of a stream without progress since `from` says, and when, until `until`. `heard`
/// says when the peer was heard last, as of a time.
fn verdicts(
    dog: &mut Watchdog,
    from: u64,
    until: u64,
    outstanding: u32,
    heard: impl Fn(u64) -> u64,
) -> Vec<(u64, Verdict)> {
    dog.progress(Time(from));
    let (mut now, mut said) = (from, Vec::new());
    while now < until {
        match dog.check(Time(now), Time(heard(now)), outstanding) {
            Verdict::Wait(next) => {
                assert!(next > Time(now), "a wait that is over");
                now = next.0;
            }
            verdict => {
                said.push((now - from, verdict));
                if verdict == Verdict::Exhausted {
                    break;
                }
            }
        }
    }
    said
}

fn times(said: &[(u64, Verdict)], of: Verdict) -> Vec<u64> {
    said.iter().filter(|(_, verdict)| *verdict == of).map(|(at, _)| *at).collect()
}

#[test]
fn the_first_sample_counts_whole_and_later_ones_an_eighth() {
    let mut rtt = RttEstimator::default();
    assert_eq!(rtt.srtt_ns(), 0);
    rtt.sample(80_000);
    assert_eq!(rtt.srtt_ns(), 80_000);
    // SRTT + 4 x 40 us, against three times the low RTO of 6 x SRTT.
    assert_eq!(
        rtt.rto_high_ns(&RtoConfig { low_floor_ns: 1, high_floor_ns: 1, tail_floor_ns: 1 }),
        1_440_000
    );
    rtt.sample(160_000);
    assert_eq!(rtt.srtt_ns(), 90_000);
    rtt.sample(0);
    assert!(rtt.srtt_ns() > 0, "a sample of nothing is not no sample");
}

#[test]
fn a_varying_round_trip_raises_the_high_rto_and_a_steady_one_lowers_it() {
    let mut rtt = RttEstimator::default();
    let config = RtoConfig { low_floor_ns: 1, high_floor_ns: 1, tail_floor_ns: 1 };
    for step in 0..100 {
        rtt.sample(if step % 2 == 0 { 10_000 } else { 500_000 });
    }
    let srtt = rtt.srtt_ns();
    assert!((200_000..320_000).contains(&srtt), "{srtt}");
    let varying = rtt.rto_high_ns(&config);
    assert!(varying >= 18 * srtt && varying > 900_000, "{varying}");
    for _ in 0..100 {
        rtt.sample(50_000);
    }
    let srtt = rtt.srtt_ns();
    assert!((49_900..=50_100).contains(&srtt), "{srtt}");
    assert_eq!(rtt.rto_high_ns(&config), 18 * srtt, "three times the low RTO");
}

#[test]
fn the_floors_hold_before_the_first_sample_and_for_short_paths() {
    let mut rtt = RttEstimator::default();
    for _ in 0..2 {
        assert_eq!(rtt.rto_low_ns(&RTO), 100_000);
        assert_eq!(rtt.rto_high_ns(&RTO), 320_000);
        assert_eq!(rtt.tail_ns(&RTO), 30_000);
        rtt.sample(2_000);
    }
    for _ in 0..100 {
        rtt.sample(50_000);
    }
    assert_eq!(rtt.tail_ns(&RTO), 4 * rtt.srtt_ns());
    assert_eq!(rtt.rto_low_ns(&RTO), 6 * rtt.srtt_ns());
}

#[test]
fn the_answer_to_a_tail_probe_comes_before_the_rto() {
    for rtt in [2_000, 8_000, 20_000, 26_000, 50_000, 1_000_000] {
        let mut dog = watchdog(14, 7);
        (0..100).for_each(|_| dog.rtt.sample(rtt));
        let said = verdicts(&mut dog, 0, 100 * MS, 1, |now| now);
        let (tail, rto) = (times(&said, Verdict::TailProbe)[0], times(&said, Verdict::Rto)[0]);
        assert!(tail + rtt + rtt / 2 < rto, "round trip {rtt} ns: probe at {tail}, timeout at {rto}");
    }
}

#[test]
fn tail_probes_double_until_the_rto_and_the_rto_doubles_up_to_the_period() {
    let mut dog = watchdog(8, 7);
    let said = verdicts(&mut dog, 5 * MS, 5 * MS + 2 * PERIOD, 1, |now| now);
    let rtos = times(&said, Verdict::Rto);
    // 100, 200, 400, 800 us after each other, then a period each.
    assert_eq!(rtos[..4], [100_000, 300_000, 700_000, 1_500_000]);
    assert_eq!(rtos.get(4), None, "the next one comes a period later");
    let tails = times(&said, Verdict::TailProbe);
    assert_eq!(tails[..2], [30_000, 90_000], "30 us, then 60 us later");
    assert!(tails.windows(3).all(|t| t[2] - t[1] >= t[1] - t[0]), "{tails:?}");
    let said = verdicts(&mut dog, 5 * MS, 5 * MS + 10 * PERIOD, 1, |now| now);
    let rtos = times(&said, Verdict::Rto);
    assert!(rtos.windows(2).skip(4).all(|pair| pair[1] - pair[0] == PERIOD), "{rtos:?}");
    assert_eq!(rtos[..4], [100_000, 300_000, 700_000, 1_500_000], "progress starts it all again");
}

/// How often the timers of a stream that is answered after 4 ms fire before the answer.
fn early(dog: &mut Watchdog, round: u64) -> usize {
    let from = 10 * round * MS;
    let said = verdicts(dog, from, from + 4 * MS, 100, |now| now);
    times(&said, Verdict::Rto).len() + times(&said, Verdict::TailProbe).len()
}

#[test]
fn timers_that_were_too_fast_stay_slow_until_a_round_trip_is_measured() {
    let mut dog = watchdog(14, 7);
    assert!(early(&mut dog, 1) > 5, "nothing is known of the path yet");
    // The answer to the first copies ends the wait; that to the probes says that they were not
    // needed.
    dog.progress(Time(14 * MS));
    dog.received_twice();
    assert!(early(&mut dog, 2) <= 2, "each timer is at most one doubling short");
    dog.received_twice();
    assert_eq!(early(&mut dog, 3), 0, "the first packet that is sent but once can be measured");
    dog.rtt.sample(4 * MS);
    assert_eq!(early(&mut dog, 4), 0, "the estimate itself is right now");
}

#[test]
fn timers_that_repaired_a_loss_start_fast_again() {
    let mut dog = watchdog(14, 7);
    let first = early(&mut dog, 1);
    assert_eq!(early(&mut dog, 2), first, "nothing came twice: what they sent again was missing");
    dog.received_twice();
    dog.something_is_missing();
    assert_eq!(early(&mut dog, 3), first, "where something is missing, packets come twice for other reasons");
    dog.received_twice();
    dog.rtt.sample(2_000);
    assert_eq!(early(&mut dog, 4), first, "the path is as short as it was");
}

#[test]
fn streams_with_few_packets_outstanding_use_the_low_rto() {
    for (outstanding, expected) in [(1, 100_000), (3, 100_000), (4, 320_000), (500, 320_000)] {
        let said = verdicts(&mut watchdog(14, 7), 0, MS, outstanding, |now| now);
        assert_eq!(times(&said, Verdict::Rto).first(), Some(&expected), "{outstanding} outstanding");
    }
}

#[test]
fn only_silent_periods_count_as_retries() {
    for retry_cnt in 0..=7 {
        let said = verdicts(&mut watchdog(8, retry_cnt), 7 * MS, u64::MAX, 1, |_| 0);
        let exhausted = times(&said, Verdict::Exhausted);
        assert_eq!(exhausted, [(u64::from(retry_cnt) + 1) * PERIOD], "retry_cnt {retry_cnt}");
    }
    // Heard in each second period: half of the periods count.
    let heard = |now: u64| now.saturating_sub(1) / (2 * PERIOD) * 2 * PERIOD;
    let said = verdicts(&mut watchdog(8, 3), 0, u64::MAX, 1, heard);
    assert_eq!(times(&said, Verdict::Exhausted), [8 * PERIOD]);
}

#[test]
fn sixteen_periods_without_progress_end_it_although_the_peer_is_heard() {
    let said = verdicts(&mut watchdog(8, 7), 3 * MS, u64::MAX, 1, |now| now);
    assert_eq!(times(&said, Verdict::Exhausted), [16 * PERIOD]);
}

#[test]
fn progress_forgives_everything() {
    let mut dog = watchdog(8, 1);
    for round in 0..10 {
        let from = round * 10 * PERIOD;
        let said = verdicts(&mut dog, from, from + 2 * PERIOD, 1, |_| 0);
        assert_eq!(times(&said, Verdict::Exhausted), []);
    }
}

#[test]
fn progress_of_before_the_last_one_changes_nothing() {
    let mut dog = watchdog(8, 1);
    dog.progress(Time(10 * PERIOD));
    dog.sync(Time(9 * PERIOD));
    let first = Time(10 * PERIOD + 30_000);
    assert_eq!(dog.check(Time(10 * PERIOD), Time::ZERO, 1), Verdict::Wait(first));
}

#[test]
fn progress_that_the_fast_path_noted_counts_from_when_it_was() {
    let mut dog = watchdog(8, 0);
    dog.progress(Time(0));
    dog.sync(Time(PERIOD / 2));
    assert_ne!(dog.check(Time(PERIOD), Time::ZERO, 1), Verdict::Exhausted);
    let mut verdict = dog.check(Time(PERIOD + PERIOD / 2), Time::ZERO, 1);
    while !matches!(verdict, Verdict::Wait(_) | Verdict::Exhausted) {
        verdict = dog.check(Time(PERIOD + PERIOD / 2), Time::ZERO, 1);
    }
    assert_eq!(verdict, Verdict::Exhausted);
}

#[test]
fn timeout_zero_switches_off_the_failure_detector_but_never_the_rto() {
    let said = verdicts(&mut watchdog(0, 0), 0, 100_000 * MS, 1, |_| 0);
    assert_eq!(times(&said, Verdict::Exhausted), []);
    let rtos = times(&said, Verdict::Rto);
    assert!(rtos.len() > 95, "{}", rtos.len());
    assert!(rtos.windows(2).all(|pair| pair[1] - pair[0] <= 1_000 * MS), "{rtos:?}");
}

#[test]
fn the_first_look_is_when_the_first_verdict_can_come() {
    let mut dog = watchdog(14, 7);
    for rtt in [0, 2_000, 50_000, 5_000_000] {
        if rtt > 0 {
            (0..100).for_each(|_| dog.rtt.sample(rtt));
        }
        let look = dog.first_look_ns();
        dog.progress(Time(0));
        assert!(matches!(dog.check(Time(look - 1), Time::ZERO, 1), Verdict::Wait(at) if at == Time(look)));
        assert!(!matches!(dog.check(Time(look), Time::ZERO, 1), Verdict::Wait(_)));
    }
}
