//! Every operation against a set of PSNs, with the base near the wrap of the PSN space.

use std::collections::BTreeSet;

use proptest::prelude::*;
use wire::Psn;

use super::PsnBitmap;

/// Positions are steps from here, so the model needs no wrap.
const ORIGIN: u32 = 0xFF_FFF0;

fn psn(position: u32) -> Psn {
    Psn::new(ORIGIN).add(position)
}

#[derive(Clone, Copy, Debug)]
enum Operation {
    Set(u32),
    Clear(u32),
    SetRange(u32, u32),
    Advance(u32),
    Reset(u32),
}

/// Distances are from the base at that time; some reach beyond the window or before it.
fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        8 => (0..300_u32).prop_map(Operation::Set),
        2 => (0..300_u32).prop_map(Operation::Clear),
        3 => (0..300_u32, 0..200_u32).prop_map(|(from, len)| Operation::SetRange(from, len)),
        3 => (0..150_u32).prop_map(Operation::Advance),
        1 => (0..100_u32).prop_map(Operation::Reset),
    ]
}

/// The naive window: a set of positions.
struct Model {
    base: u32,
    capacity: u32,
    ones: BTreeSet<u32>,
}

impl Model {
    fn spans(&self, position: u32) -> bool {
        (self.base..self.base + self.capacity).contains(&position)
    }

    fn apply(&mut self, bitmap: &mut PsnBitmap, operation: Operation) {
        match operation {
            Operation::Set(at) => {
                let new = self.spans(self.base + at) && self.ones.insert(self.base + at);
                assert_eq!(bitmap.set(psn(self.base + at)), new);
            }
            Operation::Clear(at) => {
                assert_eq!(bitmap.clear(psn(self.base + at)), self.ones.remove(&(self.base + at)));
            }
            Operation::SetRange(from, len) => {
                // starts up to 20 before the base
                let (first, end) = (self.base + from - 20.min(self.base + from), self.base + from + len);
                let inside: Vec<_> = (first..end).filter(|&position| self.spans(position)).collect();
                let new = inside.into_iter().filter(|&position| self.ones.insert(position)).count();
                assert_eq!(bitmap.set_range(psn(first), psn(end)) as usize, new);
            }
            Operation::Advance(by) => {
                let before = self.ones.len();
                self.base += by;
                self.ones.retain(|&position| position >= self.base);
                assert_eq!(bitmap.advance(psn(self.base)) as usize, before - self.ones.len());
                assert_eq!(bitmap.advance(psn(self.base).prev()), 0, "never back");
            }
            Operation::Reset(by) => {
                self.base += by;
                self.ones.clear();
                bitmap.reset(psn(self.base));
            }
        }
    }

    fn compare(&self, bitmap: &PsnBitmap, from: u32, end: u32) {
        assert_eq!(bitmap.base(), psn(self.base));
        assert_eq!(bitmap.capacity(), self.capacity);
        assert_eq!(bitmap.count() as usize, self.ones.len());
        for position in self.base.saturating_sub(3)..self.base + self.capacity + 3 {
            assert_eq!(bitmap.test(psn(position)), self.ones.contains(&position));
        }
        let (from, end) = (self.base + from % self.capacity, self.base + end % (self.capacity + 1));
        let one = (from..end).find(|position| self.ones.contains(position)).unwrap_or(end);
        let zero = (from..end).find(|position| !self.ones.contains(position)).unwrap_or(end);
        assert_eq!(bitmap.first_one(psn(from), psn(end)), psn(one));
        assert_eq!(bitmap.first_zero(psn(from), psn(end)), psn(zero));
        let count = (from..end).filter(|position| self.ones.contains(position)).count();
        assert_eq!(bitmap.count_range(psn(from), psn(end)) as usize, count);
        let word = (0..64).fold(0, |word, i| word | u64::from(self.ones.contains(&(from + i))) << i);
        assert_eq!(bitmap.word_at(psn(from)), word);
    }
}

proptest! {
    #[test]
    fn behaves_like_a_set(
        capacity in 1..200_u32,
        operations in prop::collection::vec((operation(), any::<u16>(), any::<u16>()), 1..60),
    ) {
        let mut bitmap = PsnBitmap::new(capacity);
        bitmap.reset(psn(0));
        let mut model = Model { base: 0, capacity: bitmap.capacity(), ones: BTreeSet::new() };
        prop_assert_eq!(model.capacity, capacity.max(64).next_power_of_two());
        for (operation, from, end) in operations {
            model.apply(&mut bitmap, operation);
            model.compare(&bitmap, u32::from(from), u32::from(end));
        }
    }

    #[test]
    fn finds_what_is_zero_in_both(
        ones in prop::collection::btree_set(0..128_u32, 0..128),
        others in prop::collection::btree_set(0..128_u32, 0..128),
        from in 0..128_u32,
        end in 0..=128_u32,
    ) {
        let (mut a, mut b) = (PsnBitmap::new(128), PsnBitmap::new(128));
        a.reset(psn(0));
        b.reset(psn(0));
        ones.iter().for_each(|&position| { a.set(psn(position)); });
        others.iter().for_each(|&position| { b.set(psn(position)); });
        let zero = (from..end).find(|p| !ones.contains(p) && !others.contains(p)).unwrap_or(end);
        prop_assert_eq!(a.first_zero_in_both(&b, psn(from), psn(end)), psn(zero));
    }
}

#[test]
fn capacity_is_bounded() {
    assert_eq!(PsnBitmap::new(0).capacity(), 64);
    assert_eq!(PsnBitmap::new(u32::MAX).capacity(), 1 << 22);
}

#[test]
fn a_packet_takes_one_bit() {
    assert_eq!(PsnBitmap::new(512).bytes(), 512 / 8);
}

#[test]
fn advance_beyond_the_window_empties_it() {
    let mut bitmap = PsnBitmap::new(64);
    bitmap.reset(psn(0));
    bitmap.set_range(psn(0), psn(64));
    assert_eq!(bitmap.advance(psn(1000)), 64);
    assert_eq!((bitmap.base(), bitmap.count()), (psn(1000), 0));
    assert!((1000..1064).all(|position| !bitmap.test(psn(position))));
}
