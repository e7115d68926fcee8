//! Which losses count, and how much they take.

use super::*;

mod steps;

const BASE_NS: u32 = 10_000;

/// A loss with a queue that fills half of the round trip: half the window goes.
pub(crate) fn queued(now_ns: u64) -> LossEvent {
    LossEvent { now_ns, queue_share: ONE / 2, ..LossEvent::default() }
}

/// A round trip that hosts spent nothing of.
pub(crate) fn whole(rtt_ns: u32) -> RoundTrip {
    RoundTrip::new(rtt_ns.into(), 0, 0)
}

/// A path that brought these round trips, in nanoseconds, a hundred times over.
fn path(rtts_ns: &[u32]) -> PathDelay {
    let mut path = PathDelay::default();
    for (now_ns, rtt_ns) in (0..).step_by(20_000).zip(rtts_ns.iter().cycle().take(100 * rtts_ns.len())) {
        path.sample(now_ns, whole(*rtt_ns), false);
    }
    path
}

fn cut(path: &PathDelay, loss_rate: u32) -> u32 {
    LossEvent { queue_share: path.queue_share(loss_rate), loss_rate, ..LossEvent::default() }.confirmed_cut()
}

#[test]
fn a_loss_on_an_empty_path_takes_nothing() {
    assert_eq!(cut(&path(&[BASE_NS]), ONE / 100), 0);
    assert_eq!(cut(&PathDelay::default(), ONE / 100), 0, "nor on one that nothing is known of");
}

#[test]
fn a_loss_with_a_full_queue_takes_half() {
    let mut full = path(&[BASE_NS]);
    (0..50).for_each(|_| full.sample(0, whole(6 * BASE_NS), false));
    assert_eq!(cut(&full, ONE / 100), ONE / 2);
}

#[test]
fn a_queue_that_is_little_of_the_round_trip_takes_little() {
    let base_ns = 1_000_000;
    let mut long = path(&[base_ns]);
    (0..200).for_each(|_| long.sample(0, whole(base_ns + 56_000), false));
    let cut = cut(&long, ONE * 3 / 100);
    assert!(cut > 0 && cut < ONE / 8, "{cut}");
}

#[test]
fn noise_is_no_queue() {
    assert_eq!(cut(&path(&[10_000, 14_000, 11_000, 15_000]), ONE / 100), 0);
}

/// A path of 10 us whose peer takes up to `longest_ns` more to look at its port, and says how long
/// by `said`; now and then it looks at once.
fn with_a_slow_peer(longest_ns: u32, said: impl Fn(u32) -> u32) -> PathDelay {
    let mut path = PathDelay::default();
    for (now_ns, index) in (0..).step_by(50_000).zip(0..1_000_u32) {
        let drawn = u64::from(index.wrapping_mul(2_654_435_761));
        let slept = if index % 50 == 0 { 0 } else { (drawn * u64::from(longest_ns)) >> 32 };
        let slept = u32::try_from(slept).expect("it is at most the longest");
        path.sample(now_ns, RoundTrip::new((BASE_NS + slept).into(), said(slept), 0), true);
    }
    path
}

/// Its delay varies too little to be that of a thread that waits for a processor.
#[test]
fn what_a_peer_says_it_spent_is_no_queue() {
    assert_eq!(cut(&with_a_slow_peer(60_000, |slept| slept), ONE * 5 / 100), 0);
    assert!(cut(&with_a_slow_peer(60_000, |_| 0), ONE * 5 / 100) > 0, "it says nothing");
}

#[test]
fn threads_that_wait_for_a_processor_are_no_queue() {
    // A switch in software sleeps and has no way to say so.
    assert_eq!(cut(&with_a_slow_peer(1_000_000, |_| 0), ONE * 5 / 100), 0);
}

#[test]
fn a_long_queue_is_one_behind_hosts_that_sleep() {
    let mut full = with_a_slow_peer(1_000_000, |slept| slept);
    (0..100).for_each(|_| full.sample(60_000_000, RoundTrip::new(700_000, 100_000, 100_000), false));
    assert_eq!(cut(&full, ONE / 100), ONE / 2);
}

#[test]
fn what_hosts_may_have_taken_is_not_the_networks() {
    assert_eq!(RoundTrip::new(50_000, 10_000, 30_000).network_ns(), 10_000);
    assert_eq!(RoundTrip::new(50_000, 40_000, u64::MAX).network_ns(), 1, "hosts know only what is longest");
    assert_eq!(RoundTrip::new(u64::MAX, 0, 0).network_ns(), u32::MAX);
}

#[test]
fn losses_that_no_link_has_by_chance_count_without_a_queue() {
    let empty = path(&[BASE_NS]);
    assert_eq!(cut(&empty, ONE * 7 / 100), 0);
    assert!(cut(&empty, ONE * 12 / 100) > ONE / 8);
    assert_eq!(cut(&empty, ONE / 2), ONE / 2);
}

#[test]
fn the_shortest_round_trip_is_forgotten_when_the_path_changes() {
    let mut path = path(&[BASE_NS]);
    for period in 1..=2_u64 {
        path.sample(period << PERIOD_NS_LOG2, whole(5 * BASE_NS), false);
    }
    assert_eq!(path.shortest_ns(), 5 * BASE_NS);
}

#[test]
fn a_trial_that_shortens_nothing_is_taken_back_and_not_repeated() {
    let mut path = path(&[BASE_NS]);
    assert!(path.may_try());
    path.begin_trial(77);
    assert!(!path.may_try());
    let verdicts: Vec<_> = (0..TRIAL_SAMPLES)
        .map(|_| {
            path.sample(0, whole(BASE_NS), false);
            path.judge_trial()
        })
        .collect();
    assert_eq!(verdicts, [None, None, None, Some(77)]);
    path.sample(1 << PERIOD_NS_LOG2, whole(BASE_NS), false);
    assert!(path.may_try(), "a period later");
}

#[test]
fn a_trial_that_shows_a_queue_stands() {
    let mut path = path(&[BASE_NS]);
    path.begin_trial(77);
    for _ in 0..2 * TRIAL_SAMPLES {
        path.sample(0, whole(BASE_NS / 2), false);
        assert_eq!(path.judge_trial(), None);
    }
}

#[test]
fn the_average_of_losses_follows_them_across_the_wrap_of_psns() {
    let mut rate = LossRate { from: 0xFF_FF00, ..LossRate::default() };
    for window in 1..=100_u32 {
        rate.count(5, 0xFF_FF00_u32.wrapping_add(100 * window) & 0xFF_FFFF, 100);
    }
    assert!(rate.average().abs_diff(ONE / 20) < ONE / 200, "{}", rate.average());
    rate.count(1, 0xFF_FF00_u32.wrapping_add(100 * 1_000) & 0xFF_FFFF, 100);
    assert!(rate.average() < ONE / 1_000, "windows without losses count, too: {}", rate.average());
}
