//! Whose turns come next, as it was when each was seen first, from the farthest on: of those that
//! are nearer by now nobody has to be asked again. It is a hint: some become idle meanwhile, others come in
//! between. Where fewer wait nobody is known: those were woken a moment ago, and are in the
//! caches.

use super::turns;

/// Turns that are known ahead.
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

    /// A turn later: who comes after [`turns::CONTEXT`] others, if it is known.
    #[inline]
    pub const fn note(&mut self, slot: Option<u32>) {
        self.turn = self.turn.wrapping_add(1);
        self.slots[self.turn % WINDOW] = slot;
    }

    /// Who comes after `turns` others.
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
