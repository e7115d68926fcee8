//! How long what a turn takes has waited at most, when turns do not empty the port (protocol.md
//! 2.2).

use super::Core;
use crate::qp::Ahead;
use crate::time::Time;
use arrayvec::ArrayVec;

/// Looks that are remembered. With more turns between a frame's coming and its turn, what it waited
/// is taken for longer than it was.
const LOOKS: usize = 64;

/// A look at a port that was not empty.
#[derive(Clone, Copy, Debug)]
struct Look {
    at: Time,
    /// Frames that had come by then, counted as `taken` is.
    arrived: u64,
}

/// What is known of frames that turns left in the port.
#[derive(Debug)]
pub(super) struct Backlog {
    /// What the next turn takes came later. Whoever else sets that found the port empty.
    bound: Time,
    /// Frames taken since it was.
    taken: u64,
    looks: ArrayVec<Look, LOOKS>,
}

impl Backlog {
    pub const fn new() -> Self {
        Self { bound: Time::NEVER, taken: 0, looks: ArrayVec::new_const() }
    }

    /// A turn at `now` took so many frames, and left some, `waiting` of them if the port knows.
    /// What it took came later than `since`. Returns the same of the next turn.
    fn note(&mut self, now: Time, since: Time, taken: usize, waiting: Option<usize>) -> Time {
        if since != self.bound {
            (self.bound, self.taken) = (since, 0);
            self.looks.clear();
        }
        self.taken += taken as u64;
        if let Some(waiting) = waiting
            && !self.looks.is_full()
        {
            self.looks.push(Look { at: now, arrived: self.taken + waiting as u64 });
        }
        // Whatever had come by such a look is taken.
        let passed = self.looks.iter().take_while(|look| look.arrived <= self.taken).count();
        if let Some(last) = self.looks.drain(..passed).last() {
            self.bound = last.at;
        }
        self.bound
    }
}

impl Core {
    /// The turn took so many frames, and left others in the port.
    #[cold]
    #[inline(never)]
    pub(super) fn note_backlog(&mut self, taken: usize, waiting: Option<usize>) {
        let units = &mut self.units;
        units.drained_at = self.backlog.note(units.now, units.drained_at, taken, waiting);
        if units.host_marks_ns > 0 && units.waited_ns() > units.host_marks_ns.into() {
            units.ahead.insert(Ahead::MARKS);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three turns take 30 frames of 90 that had come by the first, and 60 more come meanwhile.
    #[test]
    fn a_frame_waits_since_the_last_look_before_it_came() {
        let mut backlog = Backlog::new();
        let mut since = Time(100);
        let mut look = |now, waiting| {
            since = backlog.note(Time(now), since, 30, waiting);
            since
        };
        assert_eq!(look(200, Some(60)), Time(100), "the first 90 came before");
        assert_eq!(look(300, Some(60)), Time(100));
        assert_eq!(look(400, Some(60)), Time(200), "those behind them came later than that look");
        assert_eq!(look(500, Some(30)), Time(300));
        assert_eq!(look(600, Some(0)), Time(600), "there are none, so the next comes later");
    }

    #[test]
    fn a_port_that_does_not_know_is_as_late_as_when_it_was_last_empty() {
        let mut backlog = Backlog::new();
        for now in [200, 300, 400] {
            assert_eq!(backlog.note(Time(now), Time(100), 63, None), Time(100));
        }
    }

    /// What was seen before the port was empty counts no more.
    #[test]
    fn a_port_that_was_empty_begins_anew() {
        let mut backlog = Backlog::new();
        assert_eq!(backlog.note(Time(200), Time(100), 63, Some(10)), Time(100));
        assert_eq!(backlog.note(Time(1_000), Time(900), 63, Some(63)), Time(900));
        assert_eq!(backlog.note(Time(1_100), Time(900), 63, Some(63)), Time(1_000));
    }

    /// A long queue before slow turns: it is taken for older than it is, not for younger.
    #[test]
    fn more_turns_than_are_remembered_make_a_wait_longer() {
        let mut backlog = Backlog::new();
        let (mut since, waiting) = (Time(0), 63 * 200);
        for turn in 1..1_000_u64 {
            let now = Time(turn * 1_000);
            since = backlog.note(now, since, 63, Some(waiting));
            let came = now.0.saturating_sub(200_000);
            assert!(since.0 <= came, "turn {turn}: {since:?}");
            assert!(turn < 600 || since.0 + 400_000 > now.0, "turn {turn}: {since:?}");
        }
    }
}
