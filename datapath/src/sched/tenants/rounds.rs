//! Rounds: tenants that have something left of their share in this round, by class, and those that
//! wait for the next.

/// Lists of a round, by class.
const CLASSES: u8 = 3;
/// Those of even rounds come first.
const LISTS: usize = 2 * CLASSES as usize;

/// A list: a class in this round or the next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    index: u8,
}

/// The ends of a list, where it is not empty.
#[derive(Clone, Copy, Debug, Default)]
struct Ends {
    first: u16,
    last: u16,
}

/// Tenants in the order of their turns, each in one list at most.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    lists: [Ends; LISTS],
    /// A bit for each list that is not empty.
    occupied: u8,
    /// Number of this round, modulo 2^32.
    number: u32,
    /// The tenant behind each tenant.
    next: Vec<u16>,
}

impl Rounds {
    /// Room for so many tenants.
    pub fn reserve(&mut self, tenants: usize) {
        if self.next.len() < tenants {
            self.next.resize(tenants, 0);
        }
    }

    /// Number of this round, modulo 2^32.
    #[inline]
    pub const fn number(&self) -> u32 {
        self.number
    }

    /// True if nobody is in any.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.occupied == 0
    }

    /// First list of a round.
    #[inline]
    const fn first_of(number: u32) -> u8 {
        if number & 1 == 0 { 0 } else { CLASSES }
    }

    /// Puts a tenant last in its class, in this round or the next.
    #[inline]
    pub fn push(&mut self, tenant: u16, class: u8, next: bool) {
        let index = Self::first_of(self.number.wrapping_add(u32::from(next))) + class;
        let list = &mut self.lists[usize::from(index)];
        let last = core::mem::replace(&mut list.last, tenant);
        if self.occupied & (1 << index) == 0 {
            self.occupied |= 1 << index;
            list.first = tenant;
        } else {
            self.next[usize::from(last)] = tenant;
        }
    }

    /// The lists of this round that are not empty.
    #[inline]
    const fn ours(&self) -> u8 {
        self.occupied & (0b111 << Self::first_of(self.number))
    }

    /// The tenant whose turn it is, which stays where it stands. The next round begins if nobody is
    /// left in this one.
    #[inline]
    pub fn front(&mut self) -> Option<(Place, u16)> {
        let mut ours = self.ours();
        if ours == 0 {
            if self.occupied == 0 {
                return None;
            }
            self.number = self.number.wrapping_add(1);
            ours = self.occupied;
        }
        #[expect(clippy::cast_possible_truncation, reason = "below 6")]
        let index = ours.trailing_zeros() as u8;
        let list = self.lists.get(usize::from(index))?;
        Some((Place { index }, list.first))
    }

    /// Takes the tenant away that is first there.
    #[inline]
    pub fn remove_front(&mut self, place: Place) {
        let list = &mut self.lists[usize::from(place.index)];
        if list.first == list.last {
            self.occupied &= !(1 << place.index);
        } else {
            list.first = self.next[usize::from(list.first)];
        }
    }

    /// The tenant that is first there becomes the last.
    #[inline]
    pub fn rotate(&mut self, place: Place) {
        let list = &mut self.lists[usize::from(place.index)];
        let (first, last) = (list.first, list.last);
        if first != last {
            list.first = self.next[usize::from(first)];
            list.last = first;
            self.next[usize::from(last)] = first;
        }
    }

    /// The tenant whose turn comes after `turns` others if each that is there has one after the
    /// other, and how many it has had by then.
    pub fn peek(&self, turns: usize) -> Option<(u16, usize)> {
        let ours = self.ours();
        let candidates = if ours == 0 { self.occupied } else { ours };
        let list = self.lists.get(candidates.trailing_zeros() as usize)?;
        let (mut tenant, mut had) = (list.first, 0);
        for _ in 0..turns {
            if tenant == list.last {
                (tenant, had) = (list.first, had + 1);
            } else {
                tenant = *self.next.get(usize::from(tenant))?;
            }
        }
        Some((tenant, had))
    }

    pub fn bytes(&self) -> usize {
        self.next.capacity() * size_of::<u16>()
    }
}
