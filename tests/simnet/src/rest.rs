//! When a thread that takes frames looks for them.

use crate::rng::splitmix64;
use datapath::time::Time;

/// What keeps the threads of nodes, or of the switch, from looking for frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Rest {
    /// Nothing: a frame is taken when it is there.
    #[default]
    Never,
    /// Other threads have the processor two times of three, for 250 us and more.
    Starved,
}

/// Nanoseconds for which a thread has the processor, or has not.
const SLICE_NS: u64 = 250_000;

impl Rest {
    /// The first look at `at` or later, and the last one before that, of thread `number`.
    pub(crate) fn looks(self, number: usize, at: Time) -> (Time, Time) {
        match self {
            Self::Never => (at, at),
            Self::Starved => starved(number as u64, at),
        }
    }
}

fn starved(number: u64, at: Time) -> (Time, Time) {
    let runs = |slice: &u64| splitmix64(slice ^ (number << 40)).is_multiple_of(3);
    let slice = at.0 / SLICE_NS;
    let ran_before =
        || (0..slice).rev().find(runs).map_or(Time::ZERO, |slice| Time((slice + 1) * SLICE_NS - 1));
    match (slice..).find(runs) {
        Some(next) if next > slice => (Time(next * SLICE_NS), ran_before()),
        _ if at.0.is_multiple_of(SLICE_NS) => (at, ran_before()),
        _ => (at, at),
    }
}
