//! Rounds: tenants that have something left of their share in this round, by class, and those that
//! wait for the next.

use std::collections::VecDeque;

/// Classes within a round.
pub(super) const CLASSES: usize = 3;

/// Where a tenant stands: in this round or the next, and in which class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    index: u8,
}

/// Tenants in the order of their turns.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    /// Those of two rounds; the first half is of even ones.
    lists: [VecDeque<u16>; 2 * CLASSES],
    /// A bit for each list that is not empty.
    occupied: u8,
    /// Number of this round, modulo 2^32.
    number: u32,
}

impl Rounds {
    /// Room for so many tenants in each list, so that none grows.
    pub fn reserve(&mut self, tenants: usize) {
        for list in &mut self.lists {
            list.reserve(tenants.saturating_sub(list.len()));
        }
    }

    /// Number of this round, modulo 2^32.
    #[inline]
    pub const fn number(&self) -> u32 {
        self.number
    }

    /// First list of this round, or of the next.
    #[inline]
    const fn first(&self, next: bool) -> u8 {
        let odd = (self.number & 1 != 0) != next;
        if odd { 3 } else { 0 }
    }

    /// Puts a tenant last in its class, in this round or the next.
    #[inline]
    pub fn push(&mut self, tenant: u16, class: u8, next: bool) {
        let index = self.first(next) + class;
        self.lists[usize::from(index)].push_back(tenant);
        self.occupied |= 1 << index;
    }

    /// Puts a tenant first in its class in this round.
    pub fn push_front(&mut self, tenant: u16, class: u8) {
        let index = self.first(false) + class;
        self.lists[usize::from(index)].push_front(tenant);
        self.occupied |= 1 << index;
    }

    /// The tenant whose turn it is, which stays where it stands. The next round begins if nobody is
    /// left in this one.
    #[inline]
    pub fn front(&mut self) -> Option<(Place, u16)> {
        if self.occupied == 0 {
            return None;
        }
        let mut ours = self.occupied & (0b111 << self.first(false));
        if ours == 0 {
            self.number = self.number.wrapping_add(1);
            ours = self.occupied;
        }
        #[expect(clippy::cast_possible_truncation, reason = "below 6")]
        let index = ours.trailing_zeros() as u8;
        self.lists[usize::from(index)].front().map(|tenant| (Place { index }, *tenant))
    }

    /// Takes the tenant away that is first there.
    #[inline]
    pub fn remove_front(&mut self, place: Place) {
        let list = &mut self.lists[usize::from(place.index)];
        list.pop_front();
        if list.is_empty() {
            self.occupied &= !(1 << place.index);
        }
    }

    /// The tenant that is first there becomes the last.
    #[inline]
    pub fn rotate(&mut self, place: Place) {
        let list = &mut self.lists[usize::from(place.index)];
        if list.len() > 1
            && let Some(tenant) = list.pop_front()
        {
            list.push_back(tenant);
        }
    }

    /// A tenant that is the last of its class in this round becomes the first.
    pub fn rotate_back(&mut self, class: u8, tenant: u16) {
        let list = &mut self.lists[usize::from(self.first(false) + class)];
        if list.back() == Some(&tenant) {
            list.rotate_right(1);
        }
    }

    /// The tenant whose turn comes after `turns` others if each that is there has one after the
    /// other, and how many it has had by then.
    #[inline]
    pub fn peek(&self, turns: usize) -> Option<(u16, usize)> {
        let ours = self.occupied & (0b111 << self.first(false));
        let candidates = if ours == 0 { self.occupied } else { ours };
        let list = self.lists.get(candidates.trailing_zeros() as usize)?;
        list.get(turns % list.len()).map(|tenant| (*tenant, turns / list.len()))
    }

    pub fn bytes(&self) -> usize {
        self.lists.iter().map(|list| list.capacity() * size_of::<u16>()).sum()
    }
}
