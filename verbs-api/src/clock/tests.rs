use super::*;
use core::cell::Cell;

/// A machine whose time moves on by 20 ns with each reading of the system's clock, and whenever it
/// is told to.
struct Told {
    ns: Cell<u64>,
    ticks: Cell<u64>,
    ticks_per_ns: Cell<u64>,
    has_counter: bool,
}

impl Told {
    const fn new(ticks_per_ns: u64) -> Self {
        Self {
            ns: Cell::new(0),
            ticks: Cell::new(u64::MAX - 1_000_000),
            ticks_per_ns: Cell::new(ticks_per_ns),
            has_counter: true,
        }
    }

    fn pass(&self, ns: u64) {
        self.ns.set(self.ns.get() + ns);
        self.ticks.set(self.ticks.get().wrapping_add(ns * self.ticks_per_ns.get()));
    }
}

impl Source for Told {
    fn ns(&self) -> u64 {
        self.pass(20);
        self.ns.get()
    }

    fn has_counter(&self) -> bool {
        self.has_counter
    }

    fn ticks(&self) -> u64 {
        self.ticks.get()
    }
}

/// Reads the clock so many times, with so much time in between; it must be right each time.
fn is_right(clock: &mut Clock<Told>, times: u32, step: u64) {
    for _ in 0..times {
        clock.source.pass(step);
        let said = clock.now().0;
        let is = clock.source.ns.get();
        assert!(said.abs_diff(is) <= 200, "{said} at {is}");
    }
}

#[test]
fn any_rate_is_learned() {
    for rate in [1, 3, 5] {
        for step in [100, 7_777, 1_000_000, 3_000_000_000] {
            let mut clock = Clock::over(Told::new(rate));
            is_right(&mut clock, 3000, step);
            assert!(clock.span.length > 0, "{rate} {step}");
        }
    }
}

#[test]
fn the_system_is_asked_once_a_span() {
    let mut clock = Clock::over(Told::new(3));
    is_right(&mut clock, 10_000, 1_000);
    let before = clock.source.ns.get();
    is_right(&mut clock, 1_000_000, 100);
    let asked = (clock.source.ns.get() - before - 100_000_000) / 20;
    assert!(asked <= 3 * 5, "{asked}: three readings a span, from 10 ms on, in 100 ms");
}

#[test]
fn without_a_counter_it_is_the_system_clock() {
    let mut clock = Clock::over(Told { has_counter: false, ..Told::new(0) });
    for _ in 0..1000 {
        clock.source.pass(1000);
        assert_eq!(clock.now().0, clock.source.ns.get());
    }
}

#[test]
fn a_counter_that_stands_is_not_believed() {
    let mut clock = Clock::over(Told::new(0));
    is_right(&mut clock, 1000, 1000);
    assert_eq!(clock.span.length, 0);
}

#[test]
fn a_counter_that_goes_back_does_not_take_the_time_back() {
    let mut clock = Clock::over(Told::new(3));
    is_right(&mut clock, 1000, 10_000);
    let last = clock.now();
    clock.source.ticks.set(clock.span.ticks - 1);
    assert!(clock.now() >= last);
    is_right(&mut clock, 1000, 10_000);
}

#[test]
fn time_stands_until_a_slower_rate_is_known() {
    let mut clock = Clock::over(Told::new(2));
    is_right(&mut clock, 1000, 10_000);
    // The virtual machine has moved to a faster processor.
    clock.source.ticks_per_ns.set(3);
    let mut last = clock.now();
    for _ in 0..40_000 {
        clock.source.pass(10_000);
        let now = clock.now();
        assert!(now >= last);
        last = now;
    }
    is_right(&mut clock, 1000, 10_000);
}

/// Of this machine nothing can be told but this; a thread that is stopped in the worst moment costs
/// a fraction of a millisecond.
#[test]
fn on_this_machine_it_keeps_to_the_system_clock() {
    let mut clock = Clock::new();
    let mut last = Time::ZERO;
    for _ in 0..1_000_000 {
        let now = clock.now();
        assert!(now >= last);
        last = now;
    }
    let (before, now, after) = (clock.source.ns(), clock.now().0, clock.source.ns());
    assert!(before <= now + 1_000_000 && now <= after + 1_000_000, "{before} {now} {after}");
}
