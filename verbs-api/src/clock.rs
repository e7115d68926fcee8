//! The engine's clock: the processor's time-stamp counter where it can be one, the system's
//! monotonic clock elsewhere.
//!
//! The time is read once a turn, and the system's clock takes a tenth of an idle turn; the counter
//! takes a quarter of that. It is trusted for a span, then compared with the system's clock, which
//! also says how fast it runs during the next span. A span is at most twice as long as the one
//! before, so at its end the error is about twice that of a reading of the system's clock: a
//! hundred nanoseconds.

mod source;
#[cfg(test)]
mod tests;

use datapath::time::Time;
pub(crate) use source::{Machine, Source};

/// The first span, in which the system's clock is read each time, in nanoseconds.
const SPAN_MIN: u64 = 100_000;
/// The longest: so long is the time wrong, at most, after a virtual machine has moved to another
/// host.
const SPAN_MAX: u64 = 1 << 27;
/// Fraction bits of [`Span::rate`].
const RATE_SHIFT: u32 = 32;
/// A counter that takes longer for a tick, in nanoseconds, stands still.
const TICK_MAX: u64 = 4;

/// Nanoseconds since it was made, never fewer than it said before.
#[derive(Debug)]
pub(crate) struct Clock<S = Machine> {
    source: S,
    span: Span,
    last: u64,
}

/// A time for which the counter is trusted.
#[derive(Clone, Copy, Default, Debug)]
struct Span {
    /// Ticks and nanoseconds at its start.
    ticks: u64,
    ns: u64,
    /// Nanoseconds a tick, with [`RATE_SHIFT`] fraction bits.
    rate: u64,
    /// Ticks that it lasts; 0 while the rate is not known.
    length: u64,
}

impl Clock {
    pub fn new() -> Self {
        Self::over(Machine::new())
    }

    /// The system's clock that it is compared with, for who cannot have the clock: they differ by
    /// a hundred nanoseconds at most.
    pub const fn machine(&self) -> Machine {
        self.source
    }
}

impl<S: Source> Clock<S> {
    fn over(source: S) -> Self {
        let (ticks, ns) = read_both(&source);
        Self { source, span: Span { ticks, ns, ..Span::default() }, last: 0 }
    }

    #[inline]
    pub fn now(&mut self) -> Time {
        let passed = self.source.ticks().wrapping_sub(self.span.ticks);
        let ns = if passed < self.span.length { self.span.after(passed) } else { self.compare() };
        self.last = self.last.max(ns);
        Time(self.last)
    }

    /// The time by the system's clock. The next span begins, if enough time has passed to tell the
    /// counter's rate.
    #[cold]
    fn compare(&mut self) -> u64 {
        if !self.source.has_counter() {
            return self.source.ns();
        }
        let (ticks, ns) = read_both(&self.source);
        if ns.saturating_sub(self.span.ns) >= SPAN_MIN {
            // One that stood still or went back may run by the time of the next look.
            self.span = self.span.next(ticks, ns).unwrap_or(Span { ticks, ns, ..Span::default() });
        }
        ns
    }
}

impl Span {
    /// The time so many ticks after its start, fewer than its length.
    #[inline]
    const fn after(&self, ticks: u64) -> u64 {
        self.ns + ((ticks * self.rate) >> RATE_SHIFT)
    }

    /// The span that begins now, with the rate of this one; `None` if the counter did not run.
    fn next(&self, ticks: u64, ns: u64) -> Option<Self> {
        let passed_ns = ns - self.ns;
        let passed = ticks.wrapping_sub(self.ticks);
        if passed < passed_ns / TICK_MAX || passed > u64::MAX / 2 {
            return None;
        }
        let rate = u64::try_from((u128::from(passed_ns) << RATE_SHIFT) / u128::from(passed)).ok()?;
        // Ticks of the span times rate is below 2^60.
        let length_ns = (2 * passed_ns).min(SPAN_MAX);
        let length = u64::try_from((u128::from(length_ns) << RATE_SHIFT) / u128::from(rate.max(1))).ok()?;
        Some(Self { ticks, ns, rate, length })
    }
}

/// Both clocks at the same time. The thread may be stopped between two readings, so that the best
/// of three counts.
fn read_both(source: &impl Source) -> (u64, u64) {
    let read = |_| {
        let before = source.ticks();
        let ns = source.ns();
        let took = source.ticks().wrapping_sub(before);
        (took, before.wrapping_add(took / 2), ns)
    };
    let best = (0..3).map(read).min_by_key(|(took, ..)| *took);
    best.map_or((0, 0), |(_, ticks, ns)| (ticks, ns))
}
