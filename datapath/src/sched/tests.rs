mod policies;
mod shares;
mod tenants;

use super::*;
use crate::time::Time;
use proptest::prelude::*;

const US: u64 = 1_000;
/// Width of a bucket of the wheel.
const BUCKET_NS: u64 = 8192;

/// A wheel for so many slots, with buckets as wide as those of the streams' timers.
fn wheel_of(slots: usize) -> TimerWheel {
    TimerWheel::new(slots)
}

fn fired(wheel: &mut TimerWheel, now: u64) -> Vec<u32> {
    let mut slots: Vec<u32> = core::iter::from_fn(|| wheel.pop(Time(now))).collect();
    slots.sort_unstable();
    slots
}

#[test]
fn a_timer_never_fires_early_and_fires_within_a_bucket() {
    let mut wheel = wheel_of(4);
    for start in [0, 5 * US, 123_456_789] {
        assert_eq!(fired(&mut wheel, start), []);
        wheel.arm(1, Time(start + 100 * US));
        assert_eq!(fired(&mut wheel, start + 100 * US - 1), []);
        let due = wheel.next_deadline().unwrap();
        assert!(due.0 >= start + 100 * US && due.0 <= start + 120 * US, "{due:?}");
        assert_eq!(fired(&mut wheel, due.0), [1]);
        assert_eq!(fired(&mut wheel, due.0), [], "once");
        assert_eq!(wheel.next_deadline(), None);
    }
}

#[test]
fn the_earlier_deadline_wins_and_disarming_holds() {
    let mut wheel = wheel_of(3);
    wheel.arm(0, Time(500 * US));
    wheel.arm(0, Time(900 * US));
    wheel.arm(1, Time(900 * US));
    wheel.arm(1, Time(500 * US));
    wheel.arm(2, Time(500 * US));
    wheel.disarm(2);
    assert_eq!(fired(&mut wheel, 600 * US), [0, 1]);
    assert_eq!(fired(&mut wheel, 2_000 * US), []);
}

#[test]
fn deadlines_behind_the_horizon_and_long_gaps_lose_nothing() {
    let mut wheel = wheel_of(64);
    for slot in 0..64 {
        wheel.arm(slot, Time(u64::from(slot) * 7_000_000));
    }
    let mut seen = fired(&mut wheel, 10_000_000);
    assert_eq!(seen, [0, 1]);
    // A gap of many turns of the wheel.
    seen.extend(fired(&mut wheel, 3_000_000_000));
    seen.sort_unstable();
    assert_eq!(seen, (0..64).collect::<Vec<_>>());
}

/// Nobody polls for an hour, or the process is stopped: what is armed again meanwhile is due later
/// than now.
#[test]
fn a_timer_that_is_armed_again_after_a_long_gap_waits() {
    let mut wheel = wheel_of(1);
    wheel.arm(0, Time(1_000_000));
    let now = Time(3_600_000_000_000);
    let mut fired = 0;
    while wheel.pop(now).is_some() {
        fired += 1;
        assert!(fired <= 2, "due again and again at one moment");
        wheel.arm(0, now.after(10_000_000));
    }
}

/// What is done to a wheel.
#[derive(Clone, Copy, Debug)]
enum Step {
    Arm(u32, u64),
    Disarm(u32),
    Pass(u64),
    /// As an engine that has no more turns for timers.
    PopOne,
}

const SLOTS: u32 = 8;
/// So far ahead a timer stands where it is due.
const HORIZON: u64 = 4095 * BUCKET_NS;

fn step() -> impl Strategy<Value = Step> {
    let after = prop_oneof![4 => 0..100 * US, 1 => 0..HORIZON - 2 * BUCKET_NS];
    prop_oneof![
        4 => (0..SLOTS, after).prop_map(|(slot, after)| Step::Arm(slot, after)),
        2 => (0..SLOTS).prop_map(Step::Disarm),
        4 => (0..15 * US).prop_map(Step::Pass),
        1 => (0..3 * HORIZON).prop_map(Step::Pass),
        2 => Just(Step::PopOne),
    ]
}

proptest! {
    /// Against a list of deadlines, each of which is due when its bucket has passed.
    #[test]
    fn timers_fire_as_a_list_of_deadlines_says(steps in proptest::collection::vec(step(), 1..200)) {
        let mut wheel = wheel_of(SLOTS as usize);
        let mut deadlines = [u64::MAX; SLOTS as usize];
        let mut now = 0;
        let is_due = |deadline: u64, now: u64| deadline / BUCKET_NS < now / BUCKET_NS;
        for step in steps {
            match step {
                Step::Arm(slot, after) => {
                    wheel.arm(slot, Time(now + after));
                    let deadline = &mut deadlines[slot as usize];
                    *deadline = (now + after).min(*deadline);
                }
                Step::Disarm(slot) => {
                    wheel.disarm(slot);
                    deadlines[slot as usize] = u64::MAX;
                }
                Step::PopOne => {
                    let one = wheel.pop(Time(now));
                    prop_assert_eq!(one.is_some(), deadlines.iter().any(|deadline| is_due(*deadline, now)));
                    if let Some(slot) = one {
                        prop_assert!(is_due(deadlines[slot as usize], now), "{} is early", slot);
                        deadlines[slot as usize] = u64::MAX;
                    }
                }
                Step::Pass(time) => {
                    now += time;
                    let due: Vec<u32> =
                        (0..SLOTS).filter(|slot| is_due(deadlines[*slot as usize], now)).collect();
                    due.iter().for_each(|slot| deadlines[*slot as usize] = u64::MAX);
                    prop_assert_eq!(fired(&mut wheel, now), due);
                }
            }
        }
    }
}

#[test]
fn the_schedule_queue_is_fair_and_holds_each_once() {
    let mut mux = EventMux::new(&SchedulerConfig::RoundRobin, 3);
    let mut flags = [SchedFlags::default(); 3];
    for _ in 0..2 {
        for slot in 0..3u32 {
            mux.wake(slot, &mut flags[slot as usize], true);
        }
    }
    assert_eq!(mux.waiting(), 3);
    let mut order = Vec::new();
    let next = |mux: &mut EventMux, flags: &mut [SchedFlags; 3]| {
        let slot = mux.next_ready(Time::ZERO).unwrap().slot;
        flags[slot as usize].remove(SchedFlags::QUEUED);
        slot
    };
    for _ in 0..6 {
        let slot = next(&mut mux, &mut flags);
        order.push(slot);
        mux.settle(slot, &mut flags[slot as usize], Usage::default(), true);
    }
    assert_eq!(order, [0, 1, 2, 0, 1, 2]);
    let slot = next(&mut mux, &mut flags);
    mux.resume(slot, &mut flags[slot as usize], Usage::default());
    assert_eq!(next(&mut mux, &mut flags), slot, "a turn cut short by the port goes first");
}
