//! A bound on the frames in a port's transmit ring, for devices with tenants: what the ring has
//! accepted cannot be overtaken.
//!
//! The bound finds itself, as in Linux's dynamic queue limits: it doubles when the ring ran dry
//! while frames were held back, and shrinks by what the ring never ran below when the peer had
//! taken some. So a peer that takes many frames at once has a deep ring, and one that takes each as
//! it comes a shallow one.

use crate::time::Time;
use crate::tuning;

/// Frames that the ring may always have: a turn of one queue pair.
const LEAST: usize = tuning::PACKETS_PER_TURN;
/// As deep as any ring.
const MOST: usize = 1 << 14;
/// A turn has no room rather than less than this: it would be cut short, and count as a turn.
const LEAST_ROOM: usize = tuning::WQES_PER_TURN as usize;
/// The bound shrinks after so many looks at which the ring had become shorter, and so long.
const TAKES: u32 = 16;
const PERIOD_NS: u64 = 1_000_000;

/// Frames that the transmit ring may have.
#[derive(Clone, Copy, Debug)]
pub struct RingBound {
    limit: usize,
    /// Frames were held back in the last turn.
    holds_back: bool,
    /// Frames in the ring at the last look.
    last: usize,
    /// In this period: fewest frames at looks at which there were fewer than before, and how many
    /// such looks.
    fewest: usize,
    takes: u32,
    since: Time,
}

impl RingBound {
    pub const fn new() -> Self {
        Self { limit: LEAST, holds_back: false, last: 0, fewest: usize::MAX, takes: 0, since: Time::ZERO }
    }

    /// Frames that a turn may add to `ahead` in the ring.
    pub fn room(&mut self, ahead: usize, now: Time) -> usize {
        let held_back = core::mem::take(&mut self.holds_back);
        if held_back && ahead == 0 {
            self.limit = (2 * self.limit).min(MOST);
            self.begin_period(now);
        } else if ahead < self.last {
            self.note_take(ahead, now);
        }
        self.last = ahead;
        let room = self.limit.saturating_sub(ahead);
        if room < LEAST_ROOM { 0 } else { room.min(tuning::TX_BATCH) }
    }

    /// A turn had more to send than its room, which was less than a batch.
    pub const fn hold_back(&mut self) {
        self.holds_back = true;
    }

    /// The peer has taken some, and left so many.
    fn note_take(&mut self, left: usize, now: Time) {
        self.fewest = self.fewest.min(left);
        self.takes += 1;
        if self.takes >= TAKES && now.since(self.since) >= PERIOD_NS {
            // One may stay: the ring has not run dry.
            self.limit = self.limit.saturating_sub(self.fewest.saturating_sub(1)).max(LEAST);
            self.begin_period(now);
        }
    }

    const fn begin_period(&mut self, now: Time) {
        (self.fewest, self.takes, self.since) = (usize::MAX, 0, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A ring of 512 frames. Rounds of so many turns of 100 ns, in which all that may be sent is,
    /// up to `wanted` in the ring, and of which the peer takes `taken` frames at once. Returns what
    /// it took in the last ten rounds.
    fn play(bound: &mut RingBound, turns: u64, taken: usize, rounds: u64, wanted: usize) -> usize {
        let (mut ring, mut took) = (0_usize, 0);
        for round in 0..rounds {
            for turn in 0..turns {
                let now = Time(1_000_000_000 + 100 * (round * turns + turn));
                let room = bound.room(ring, now);
                let sent = room.min(512 - ring).min(wanted.saturating_sub(ring));
                if room < tuning::TX_BATCH && sent == room && wanted > ring + sent {
                    bound.hold_back();
                }
                ring += sent;
            }
            let takes = ring.min(taken);
            took += if round + 10 >= rounds { takes } else { 0 };
            ring -= takes;
        }
        took
    }

    /// Whether the engine turns ten times or a thousand times between two takes, a peer that takes
    /// 200 frames at once has them, and is not kept waiting behind many more.
    #[test]
    fn a_ring_is_as_deep_as_the_peer_takes_at_once() {
        for turns in [10, 60, 100, 1_000] {
            let mut bound = RingBound::new();
            let took = play(&mut bound, turns, 200, 2_000, 10_000);
            assert!(took >= 1_900, "{turns} turns: {took} of 2000, {bound:?}");
            assert!((190..=420).contains(&bound.limit), "{turns} turns: {bound:?}");
            // A peer that takes each frame as it comes.
            play(&mut bound, 1, 4, 200_000, 10_000);
            assert!(bound.limit <= LEAST + LEAST_ROOM, "{turns} turns: {bound:?}");
        }
    }

    /// What was once needed is given back, also if the ring, or what may be outstanding, is below
    /// the bound, so that nothing is held back.
    #[test]
    fn a_bound_beyond_the_ring_shrinks() {
        for wanted in [10_000, 300] {
            let mut bound = RingBound { limit: 4096, ..RingBound::new() };
            play(&mut bound, 20, 100, 20_000, wanted);
            assert!(bound.limit <= 220, "{wanted}: {bound:?}");
        }
    }

    #[test]
    fn a_turn_has_room_for_a_turn_or_none() {
        let mut bound = RingBound::new();
        let room = [0, 8, 9, LEAST, 1_000].map(|ahead| bound.room(ahead, Time(1)));
        assert_eq!(room, [LEAST, 8, 0, 0, 0]);
        (0..10_000).for_each(|_| assert_eq!(bound.room(0, Time(1)), LEAST, "nothing is held back"));
    }
}
