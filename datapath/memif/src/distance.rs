//! How far away the peer's processor is: what a cache line takes that comes from there.

use std::time::Duration;

/// A line takes longer from another die or socket, and not so long within one.
const FAR: Duration = Duration::from_nanos(90);
/// A line that took less was here already: it has been looked at since the peer wrote it.
const HERE: Duration = Duration::from_nanos(15);
/// Times in a row that it takes to change one's mind; some pay back others.
const VOTES: u8 = 8;
/// Looks at the peer's count of which one is measured: it takes longer.
const LOOKS: u8 = 4;

/// What was measured. Begins near.
#[derive(Debug, Default)]
pub(crate) struct Distance {
    looks: u8,
    /// Lines that came from afar, less others; 0 to [`VOTES`].
    votes: u8,
    is_far: bool,
}

impl Distance {
    /// Counts a look; true if it is to be measured.
    #[inline]
    pub(crate) fn is_due(&mut self) -> bool {
        self.looks = (self.looks + 1) % LOOKS;
        self.looks == 0
    }

    /// A line took this time to come. Returns `true` if the peer is far away.
    pub(crate) fn note(&mut self, took: Duration) -> bool {
        if took >= FAR {
            self.votes = (self.votes + 1).min(VOTES);
        } else if took >= HERE {
            self.votes = self.votes.saturating_sub(1);
        }
        match self.votes {
            0 => self.is_far = false,
            VOTES => self.is_far = true,
            _ => {}
        }
        self.is_far
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEAR_LINE: Duration = Duration::from_nanos(30);
    const FAR_LINE: Duration = Duration::from_nanos(170);

    #[test]
    fn many_lines_from_afar_are_far_and_a_few_are_not() {
        let mut distance = Distance::default();
        // A processor that was taken away for a while looks like a line from afar.
        for _ in 0..1000 {
            assert!(!distance.note(FAR_LINE));
            assert!(!distance.note(NEAR_LINE));
        }
        assert!((1..VOTES).all(|_| !distance.note(FAR_LINE)));
        assert!(distance.note(FAR_LINE));
        assert!((1..VOTES).all(|_| distance.note(NEAR_LINE)), "nor is it near for a few");
        assert!(!distance.note(NEAR_LINE));
    }

    #[test]
    fn one_look_of_four_is_measured() {
        let mut distance = Distance::default();
        assert_eq!((0..400).filter(|_| distance.is_due()).count(), 100);
    }
}
