//! How far away the peer's processor is: what a cache line takes that comes from there
//! (docs/adr/0089).

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// A line that takes as long is from another die or socket. On an AMD EPYC (Zen 4) one takes at
/// most 40 ns within a die, and most take 110 to 130 ns between two.
const FAR: Duration = Duration::from_nanos(90);
/// A line that took less was here already: it has been looked at since the peer wrote it.
const HERE: Duration = Duration::from_nanos(15);
/// Far lines, less near ones, that change the mind.
const VOTES: u8 = 8;
/// One look of so many at the peer's count is measured: measuring takes longer.
const LOOKS: u8 = 4;
/// A clock of longer steps cannot tell a near line from a far one.
const STEP_MAX: Duration = Duration::from_nanos(40);

/// What was measured. A peer begins near.
#[derive(Debug)]
pub(crate) struct Distance {
    /// The clock can tell, and there is something to be done.
    is_measured: bool,
    looks: u8,
    /// Far lines, less near ones; 0 to [`VOTES`].
    votes: u8,
    is_far: bool,
}

impl Distance {
    /// By a clock whose steps take this long.
    pub(crate) const fn new(step: Duration) -> Self {
        // Elsewhere `Stage` has no way past the caches.
        let is_measured = cfg!(target_arch = "x86_64") && step.as_nanos() <= STEP_MAX.as_nanos();
        Self { is_measured, looks: 0, votes: 0, is_far: false }
    }

    /// Counts a look; true if it is to be measured.
    #[inline]
    pub(crate) fn is_due(&mut self) -> bool {
        self.looks = (self.looks + 1) % LOOKS;
        self.looks == 0 && self.is_measured
    }

    /// A line took this time to come. Returns whether the peer is far away, if that is news.
    pub(crate) fn note(&mut self, took: Duration) -> Option<bool> {
        if took >= FAR {
            self.votes = (self.votes + 1).min(VOTES);
        } else if took >= HERE {
            self.votes = self.votes.saturating_sub(1);
        }
        let is_far = match self.votes {
            0 => false,
            VOTES => true,
            _ => self.is_far,
        };
        let is_news = std::mem::replace(&mut self.is_far, is_far) != is_far;
        is_news.then_some(is_far)
    }
}

/// The shortest step of the system's clock, or what reading it takes if that is longer.
pub(crate) fn clock_step() -> Duration {
    static STEP: OnceLock<Duration> = OnceLock::new();
    *STEP.get_or_init(|| shortest_step(Instant::now))
}

/// The shortest of the steps between some readings of a clock; the longest time if it stands still.
fn shortest_step(mut clock: impl FnMut() -> Instant) -> Duration {
    const READINGS: usize = 100;
    let mut last = clock();
    let steps = (0..READINGS).map(|_| {
        let before = std::mem::replace(&mut last, clock());
        last.duration_since(before)
    });
    steps.filter(|step| !step.is_zero()).min().unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEAR_LINE: Duration = Duration::from_nanos(30);
    const FAR_LINE: Duration = Duration::from_nanos(170);
    const FINE: Duration = Duration::from_nanos(20);

    #[test]
    fn many_lines_from_afar_are_far_and_a_few_are_not() {
        let mut distance = Distance::new(FINE);
        // A processor that was taken away for a while looks like a line from afar.
        for _ in 0..1000 {
            assert_eq!([FAR_LINE, NEAR_LINE].map(|took| distance.note(took)), [None; 2]);
        }
        assert!((1..VOTES).all(|_| distance.note(FAR_LINE).is_none()));
        assert_eq!([FAR_LINE; 2].map(|took| distance.note(took)), [Some(true), None]);
        assert!((1..VOTES).all(|_| distance.note(NEAR_LINE).is_none()), "nor is it near for a few");
        assert_eq!([NEAR_LINE; 2].map(|took| distance.note(took)), [Some(false), None]);
    }

    #[test]
    fn lines_that_were_here_say_nothing() {
        let mut distance = Distance::new(FINE);
        for took in [Duration::ZERO, FAR_LINE].repeat(usize::from(VOTES) - 1) {
            assert_eq!(distance.note(took), None);
        }
        assert_eq!(distance.note(Duration::ZERO), None);
        assert_eq!(distance.note(FAR_LINE), Some(true));
    }

    #[test]
    fn one_look_of_four_is_measured_and_none_by_a_coarse_clock() {
        let measured = |step: u64| {
            let mut distance = Distance::new(Duration::from_nanos(step));
            (0..400).filter(|_| distance.is_due()).count()
        };
        assert_eq!(measured(20), if cfg!(target_arch = "x86_64") { 100 } else { 0 });
        // Hyper-V's clock, and one that takes a system call.
        assert_eq!([100, 279].map(measured), [0; 2]);
    }

    #[test]
    fn the_step_of_a_clock_is_the_shortest() {
        let clock = |nanos: &'static [u64]| {
            let begun = Instant::now();
            let mut times = nanos.iter().cycle().scan(0, move |sum, step| {
                *sum += step;
                Some(begun + Duration::from_nanos(*sum))
            });
            move || times.next().expect("it goes on")
        };
        assert_eq!(shortest_step(clock(&[30, 20, 500])), FINE);
        assert_eq!(shortest_step(clock(&[0, 0, 0, 100])), Duration::from_nanos(100));
        assert_eq!(shortest_step(clock(&[0])), Duration::MAX);
    }
}
