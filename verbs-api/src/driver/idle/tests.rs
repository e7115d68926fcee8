use super::*;

const START: Time = Time(1_000_000);

fn after(us: u64) -> Time {
    Time(START.0 + us * 1000)
}

/// One that has a processor of its own, and knows it.
fn alone() -> Idle {
    let mut idle = Idle::new(START);
    assert_eq!(idle.backoff(after(2), None), Backoff::Yield, "a probe");
    assert_eq!(idle.backoff(after(3), None), Backoff::Spin);
    idle
}

#[test]
fn it_spins_then_yields_then_sleeps_longer_and_longer() {
    let mut idle = alone();
    assert_eq!(idle.backoff(after(49), None), Backoff::Spin);
    for us in 50..200 {
        assert_eq!(idle.backoff(after(us), None), Backoff::Yield);
    }
    for us in [50, 100, 200, 400, 800, 1000, 1000] {
        assert_eq!(idle.backoff(after(200), None), Backoff::Sleep(Duration::from_micros(us)));
    }
    idle.busy(after(300));
    assert_eq!(idle.backoff(after(301), None), Backoff::Spin);
    assert_eq!(idle.backoff(after(900), None), Backoff::Sleep(SLEEP_MIN), "the first sleep is short again");
}

/// What a loop hears that found something at the time 0 and then nothing, and whose yields take
/// `yield_us`; for as long as it does not sleep.
fn heard(idle: &mut Idle, mut us: u64, yield_us: u64) -> [u64; 2] {
    idle.busy(after(us));
    let (mut spins, mut yields) = (0, 0);
    loop {
        match idle.backoff(after(us), None) {
            Backoff::Spin => (spins, us) = (spins + 1, us + 1),
            Backoff::Yield => {
                idle.crowd.yielded(yield_us * 1000);
                (yields, us) = (yields + 1, us + yield_us);
            }
            Backoff::Sleep(_) => return [spins, yields],
        }
    }
}

#[test]
fn where_others_want_the_processor_it_sleeps_soon() {
    let mut idle = alone();
    assert_eq!(heard(&mut idle, 1_000, 1), [49, 151], "one probe, and those behind 50 us");
    assert_eq!(heard(&mut idle, 2_000, 21), [29, 2], "two late yields show it");
    assert_eq!(heard(&mut idle, 3_000, 21), [2, 0]);
    assert_eq!(heard(&mut idle, 11_000, 21), [2, 0]);
    assert_eq!(heard(&mut idle, 13_000, 21), [29, 2], "after 10 ms it looks again");
    assert_eq!(heard(&mut idle, 32_000, 21), [2, 0], "and then after twice as long");
    assert_eq!(heard(&mut idle, 34_000, 1), [49, 151], "the others are gone");
    assert_eq!(heard(&mut idle, 35_000, 1), [49, 151]);
}

#[test]
fn a_late_yield_now_and_then_is_no_crowd() {
    let mut idle = alone();
    for us in (1_000..500_000).step_by(100) {
        idle.busy(after(us));
        assert_eq!(idle.backoff(after(us + 2), None), Backoff::Yield);
        idle.crowd.yielded(if us % 10_000 == 0 { 100_000 } else { 300 });
        assert_eq!(idle.backoff(after(us + 3), None), Backoff::Spin);
    }
}

/// As when the port has no room for what is due.
#[test]
fn late_yields_of_a_crowd_that_is_known_say_nothing_new() {
    let mut idle = alone();
    assert_eq!(heard(&mut idle, 1_000, 21), [29, 2]);
    for us in 2_000..2_010 {
        assert_eq!(idle.backoff(after(us), Some(after(us))), Backoff::Yield);
        idle.crowd.yielded(21_000);
    }
    assert_eq!(heard(&mut idle, 12_000, 1), [49, 151], "it ends after 10 ms");
}

#[test]
fn it_looks_for_others_seldom() {
    let mut idle = alone();
    let mut yields = 0;
    for ns in (100_000..10_100_000).step_by(100) {
        let now = Time(START.0 + ns);
        if ns % 10_000 == 0 {
            idle.busy(now);
        }
        yields += u32::from(idle.backoff(now, None) == Backoff::Yield);
    }
    assert_eq!(yields, 200, "one each 50 us");
}

#[test]
fn it_sleeps_no_longer_than_the_engine_can_wait() {
    let mut idle = Idle::new(START);
    assert_eq!(idle.backoff(after(500), Some(after(510))), Backoff::Sleep(Duration::from_micros(10)));
    assert_eq!(idle.backoff(after(500), Some(after(500))), Backoff::Yield, "work is waiting");
    assert_eq!(idle.backoff(after(500), Some(after(400))), Backoff::Yield);
}
