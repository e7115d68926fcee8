//! Exact steps of what round trips and losses say about a path.

use super::*;

#[test]
fn limits_are_the_parts_of_packets_that_they_name() {
    let per_cent = |limit: u32| f64::from(limit) * 100.0 / f64::from(ONE);
    for (limit, expected) in
        [(LOSS_MAX, 8.0), (LOSS_NOISY, 3.0), (LOSS_TOLERATED, 2.0), (LOSS_CAREFUL, 0.25), (MORE_MAX, 25.0)]
    {
        assert!((per_cent(limit) - expected).abs() < 0.002, "{limit} is no {expected} %");
    }
}

/// Noise, smoothed, deviation and mean, in nanoseconds.
fn averages(path: &PathDelay) -> [u32; 4] {
    [path.noise_ns, path.smoothed_ns, path.deviation_ns, path.mean_ns]
}

#[test]
fn averages_move_by_their_part_of_the_way() {
    let mut path = PathDelay::default();
    for (rtt_ns, lossy, expected, why) in [
        (16_000, false, [0, 16_000, 4_000, 16_000], "the first"),
        (32_000, false, [2_000, 20_000, 4_750, 17_000], "an eighth, a quarter, and sixteenths"),
        (31_000, false, [1_875, 22_750, 5_328, 17_875], "a step below the noise: an eighth of that"),
        (30_500, true, [1_833, 24_687, 5_784, 18_664], "a thirty-second where samples are rare"),
        (60_000, true, [1_833, 33_515, 8_006, 21_247], "and no more noise"),
        (1_000, false, [8_978, 25_387, 8_771, 19_982], "down as up"),
    ] {
        path.sample(0, whole(rtt_ns), lossy);
        assert_eq!(averages(&path), expected, "{why}");
    }
}

#[test]
fn the_shortest_is_that_of_this_period_and_the_one_before() {
    let mut path = PathDelay::default();
    for (period, rtt_ns, shortest_ns) in [
        (0, 10_000, 10_000),
        (0, 30_000, 10_000),
        (1, 50_000, 10_000),
        (1, 40_000, 10_000),
        (2, 60_000, 40_000),
        (2, 20_000, 20_000),
    ] {
        path.sample(period << PERIOD_NS_LOG2, whole(rtt_ns), false);
        assert_eq!(path.shortest_ns(), shortest_ns, "period {period}, {rtt_ns} ns");
    }
}

#[test]
fn the_first_period_is_that_of_the_first_round_trip() {
    let mut path = PathDelay::default();
    for (period, rtt_ns) in [(5, 10_000), (5, 50_000), (6, 60_000)] {
        path.sample(period << PERIOD_NS_LOG2, whole(rtt_ns), false);
        assert_eq!(path.shortest_ns(), 10_000, "period {period}");
    }
}

#[test]
fn round_trips_at_losses_are_averaged_over_eight_losses() {
    let mut path = PathDelay { last_ns: 30_000, mean_ns: 10_000, ..PathDelay::default() };
    let mut at_loss = |last_ns| {
        path.last_ns = last_ns;
        path.note_loss();
        path.at_loss_ns
    };
    assert_eq!([30_000, 30_000, 2_000].map(&mut at_loss), [2_500, 4_687, 3_101]);
}

#[test]
fn losses_follow_delay_from_five_quarters_of_the_deviation_on() {
    let follows = |at_loss_ns| {
        PathDelay { at_loss_ns, deviation_ns: 4_000, ..PathDelay::default() }.losses_follow_delay()
    };
    assert_eq!([-6_000, 0, 5_000, 5_001].map(follows), [false, false, false, true]);
}

/// A path of 100 us, with noise of 1 us, of which 110.125 us are explained.
fn known() -> PathDelay {
    PathDelay { shortest_ns: [100_000, 120_000], noise_ns: 1_000, ..PathDelay::default() }
}

#[test]
fn a_queue_is_what_path_and_noise_do_not_explain() {
    let share =
        |path: PathDelay, smoothed_ns, loss_rate| PathDelay { smoothed_ns, ..path }.queue_share(loss_rate);
    let part = |part_ns: u64, of_ns: u64| u32::try_from((part_ns << 16) / of_ns).expect("a part");
    assert_eq!(share(known(), 110_125, LOSS_TOLERATED), 0);
    assert_eq!(share(known(), 220_250, LOSS_TOLERATED), ONE / 2);
    assert_eq!(share(known(), 150_000, LOSS_TOLERATED), part(39_875, 150_000));
    assert_eq!(share(known(), 150_000, LOSS_TOLERATED - 1), 0, "so few losses come with as much");
    assert_eq!(share(known(), 160_124, 0), 0, "up to half of the path");
    assert_eq!(share(known(), 160_125, 0), part(50_000, 160_125));
    let following = PathDelay { at_loss_ns: 1, ..known() };
    assert_eq!(share(following, 150_000, 0), part(39_875, 150_000), "losses follow delay");
    let scheduled = PathDelay { deviation_ns: SCHEDULING_NS + 5_000, ..known() };
    assert_eq!(share(scheduled, 244_250, LOSS_TOLERATED), ONE / 2, "threads explain 12 us more");
}

#[test]
fn a_trial_needs_sixteen_samples_and_a_round_trip_shorter_by_an_eighth() {
    let mut path = PathDelay::default();
    path.sample(0, whole(BASE_NS), false);
    for taken in 0..TRIAL_AFTER {
        assert!(!path.may_try(), "{taken}");
        path.sample(0, whole(BASE_NS), false);
    }
    assert!(path.may_try());
    for (rtt_ns, shows_a_queue) in [(BASE_NS / 8 * 7, false), (BASE_NS / 8 * 7 - 1, true)] {
        let mut path = path;
        path.begin_trial(77);
        path.sample(0, whole(rtt_ns), false);
        assert_eq!(path.judge_trial(), None);
        assert_eq!(path.trial.is_none(), shows_a_queue, "{rtt_ns} ns");
    }
}

#[test]
fn a_trial_that_something_else_decided_is_over() {
    let mut path = path(&[BASE_NS]);
    path.begin_trial(77);
    path.end_trial();
    for _ in 0..TRIAL_SAMPLES {
        assert_eq!(path.judge_trial(), None);
    }
}

#[test]
fn a_round_trip_takes_a_nanosecond_at_least() {
    let none = RoundTrip::new(0, 0, 0);
    assert_eq!((none.total_ns(), none.network_ns()), (1, 1));
}

/// The average after these: lost, PSN, window.
fn average(counts: &[(u32, u32, u32)]) -> u32 {
    let mut rate = LossRate::default();
    for (lost, next_psn, window) in counts {
        rate.count(*lost, *next_psn, *window);
    }
    rate.average()
}

#[test]
fn losses_are_averaged_over_windows_of_packets() {
    assert_eq!(average(&[(5, 99, 100)]), 0, "the window is not over");
    assert_eq!(average(&[(5, 99, 100), (0, 100, 100)]), (5 << 16) / 100 / 16);
    assert_eq!(average(&[(1, 31, 8)]), 0, "of so few packets a fraction says nothing");
    assert_eq!(average(&[(1, 32, 8)]), (1 << 16) / 32 / 16);
    assert_eq!(average(&[(5, 250, 100)]), (5 << 16) / 250 * 2 / 16, "two windows at once");
    assert_eq!(average(&[(50, 100_000, 100)]), (50 << 16) / 100_000, "as many as are averaged");
    assert_eq!(average(&[(1_000, 100, 100)]), ONE / 16, "all of them");
    assert_eq!(average(&[(5, 100, 100), (0, 200, 100)]), 204 - 13, "and what is over counts no more");
}

#[test]
fn samples_are_rare_above_three_percent_of_losses() {
    let is_noisy = |average| LossRate { average, ..LossRate::default() }.is_noisy();
    assert_eq!([LOSS_NOISY, LOSS_NOISY + 1].map(is_noisy), [false, true]);
}

#[test]
fn a_cut_is_the_largest_that_something_asks_for() {
    let cut = |queue_share, loss_rate, trial| {
        LossEvent { queue_share, loss_rate, trial, ..LossEvent::default() }.confirmed_cut()
    };
    assert_eq!(cut(1_000, 0, false), 5_000, "five times the queue's share");
    assert_eq!(cut(ONE / 8, 0, false), ONE / 8 + ONE / 4, "at most that share and a quarter");
    assert_eq!(cut(ONE / 2, 0, false), ONE / 2, "at most half");
    assert_eq!(cut(0, LOSS_MAX, false), 0);
    assert_eq!(cut(0, LOSS_MAX + 100, false), 1_200, "twelve times the excess");
    assert_eq!(cut(0, ONE, false), ONE / 2);
    assert_eq!(cut(1_000, LOSS_MAX + 100, false), 5_000);
    assert_eq!(cut(0, 0, true), ONE / 2, "a trial");
}

#[test]
fn growth_is_careful_above_a_quarter_of_a_percent_of_losses() {
    let is_careful = |loss_rate| LossEvent { loss_rate, ..LossEvent::default() }.is_careful();
    assert_eq!([LOSS_CAREFUL, LOSS_CAREFUL + 1].map(is_careful), [false, true]);
}
