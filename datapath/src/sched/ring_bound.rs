//! A bound on the frames in a port's transmit ring, for devices with tenants: what the ring has
//! accepted cannot be overtaken.
//!
//! The bound finds itself, as in Linux's dynamic queue limits: it doubles when the ring ran dry
//! while frames were held back, and shrinks by what the ring never ran below. So a thread that
//! turns the engine seldom has a deep ring, and one that spins a shallow one.

use crate::tuning;

/// Frames that the ring may always have: a turn of one queue pair.
const LEAST: usize = tuning::PACKETS_PER_TURN;
/// As deep as any ring.
const MOST: usize = 1 << 14;
/// Turns after which the bound shrinks.
const TURNS: u32 = 64;

/// Frames that the transmit ring may have.
#[derive(Clone, Copy, Debug)]
pub struct RingBound {
    limit: usize,
    /// Frames were held back in the last turn.
    holds_back: bool,
    /// Fewest frames in the ring, in so many turns that were held back.
    fewest: usize,
    turns: u32,
}

impl RingBound {
    pub const fn new() -> Self {
        Self { limit: LEAST, holds_back: false, fewest: usize::MAX, turns: 0 }
    }

    /// Frames that a turn may add to `ahead` in the ring.
    pub fn room(&mut self, ahead: usize) -> usize {
        if self.holds_back {
            self.holds_back = false;
            self.learn(ahead);
        }
        self.limit.saturating_sub(ahead).min(tuning::TX_BATCH)
    }

    /// A turn had more to send than its room, which was less than a batch.
    pub const fn hold_back(&mut self) {
        self.holds_back = true;
    }

    /// The last turn held frames back, and now the ring has `ahead`.
    fn learn(&mut self, ahead: usize) {
        if ahead == 0 {
            (self.fewest, self.turns) = (usize::MAX, 0);
            self.limit = (2 * self.limit).min(MOST);
            return;
        }
        self.fewest = self.fewest.min(ahead);
        self.turns += 1;
        if self.turns == TURNS {
            // One may stay: the ring has not run dry.
            self.limit = self.limit.saturating_sub(self.fewest - 1).max(LEAST);
            (self.fewest, self.turns) = (usize::MAX, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds of so many turns in a row, in which all that may be sent is, and of which `taken`
    /// frames leave before the next.
    fn play(bound: &mut RingBound, turns: usize, taken: usize, rounds: usize) {
        let mut ring = 0;
        for _ in 0..rounds {
            for _ in 0..turns {
                let room = bound.room(ring);
                if room < tuning::TX_BATCH {
                    bound.hold_back();
                }
                ring += room;
            }
            ring = ring.saturating_sub(taken);
        }
    }

    /// A wire that takes little between two turns needs no more than a batch, and one that takes
    /// much has as much as it takes.
    #[test]
    fn a_ring_is_as_deep_as_turns_are_apart() {
        let mut bound = RingBound::new();
        play(&mut bound, 1, 4, 1_000);
        assert_eq!(bound.limit, LEAST);
        // A thread that turns the engine ten times, and then does something else for long.
        play(&mut bound, 10, 200, 100);
        assert!((200..=400).contains(&bound.limit), "{bound:?}");
        play(&mut bound, 1, 4, 20 * TURNS as usize);
        assert!(bound.limit <= LEAST + 4, "{bound:?}");
    }

    #[test]
    fn a_ring_that_nothing_is_held_back_from_keeps_its_bound() {
        let mut bound = RingBound::new();
        assert_eq!([0, 10, LEAST, 1_000].map(|ahead| bound.room(ahead)), [LEAST, LEAST - 10, 0, 0]);
        (0..10_000).for_each(|_| assert_eq!(bound.room(0), LEAST));
    }
}
