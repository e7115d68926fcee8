use super::*;

const START: Time = Time(1_000_000);

fn after(us: u64) -> Time {
    Time(START.0 + us * 1000)
}

#[test]
fn it_spins_then_yields_then_sleeps_longer_and_longer() {
    let mut idle = Idle::new(START);
    assert_eq!(idle.backoff(after(0), None), Backoff::Spin);
    assert_eq!(idle.backoff(after(49), None), Backoff::Spin);
    assert_eq!(idle.backoff(after(50), None), Backoff::Yield);
    assert_eq!(idle.backoff(after(199), None), Backoff::Yield);
    for us in [50, 100, 200, 400, 800, 1000, 1000] {
        assert_eq!(idle.backoff(after(200), None), Backoff::Sleep(Duration::from_micros(us)));
    }
    idle.busy(after(300));
    assert_eq!(idle.backoff(after(310), None), Backoff::Spin);
    assert_eq!(idle.backoff(after(900), None), Backoff::Sleep(SLEEP_MIN), "the first sleep is short again");
}

#[test]
fn it_sleeps_no_longer_than_the_engine_can_wait() {
    let mut idle = Idle::new(START);
    assert_eq!(idle.backoff(after(500), Some(after(510))), Backoff::Sleep(Duration::from_micros(10)));
    assert_eq!(idle.backoff(after(500), Some(after(500))), Backoff::Yield, "work is waiting");
    assert_eq!(idle.backoff(after(500), Some(after(400))), Backoff::Yield);
}
