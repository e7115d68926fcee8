//! Whose turns come next. Each turn, the scheduler is asked only who comes after
//! [`turns::CONTEXT`] others; whoever is nearer was noted in an earlier turn. It is a hint: some
//! queue pairs become idle meanwhile, and others come in between. If fewer wait, nobody is noted:
//! those were woken a moment ago, and are in the caches.

use super::turns;

/// Turns that are remembered.
const WINDOW: usize = turns::CONTEXT;

const _: () = assert!(turns::CONTEXT - turns::PAYLOAD < WINDOW, "the nearest is still known");

/// Slots of queue pairs, or numbers of streams of responses, by turn, round and round.
pub(in crate::engine) struct Upcoming {
    slots: [Option<u32>; WINDOW],
    turn: usize,
}

impl Upcoming {
    /// Nobody is known.
    pub const fn new() -> Self {
        Self { slots: [None; WINDOW], turn: 0 }
    }

    /// One turn later, notes who comes after [`turns::CONTEXT`] others, if it is known.
    #[inline]
    pub const fn note(&mut self, slot: Option<u32>) {
        self.turn = self.turn.wrapping_add(1);
        self.slots[self.turn % WINDOW] = slot;
    }

    /// The queue pair or stream that comes after `turns` others, if it was noted.
    #[inline]
    pub const fn after(&self, turns: usize) -> Option<u32> {
        self.slots[self.turn.wrapping_sub(turns::CONTEXT - turns) % WINDOW]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_the_farthest_comes_nearer_by_a_turn_each_time() {
        let mut upcoming = Upcoming::new();
        let who = |turn: u32| (!turn.is_multiple_of(3)).then_some(turn);
        for turn in 0..40 {
            upcoming.note(who(turn));
            for turns in turns::PAYLOAD..=turns::CONTEXT {
                let noted = turn.checked_sub(u32::try_from(turns::CONTEXT - turns).expect("few"));
                assert_eq!(upcoming.after(turns), noted.and_then(who), "{turns} turns after turn {turn}");
            }
        }
    }
}
