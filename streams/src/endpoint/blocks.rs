//! Memory of messages that do not lie in their receive: blocks that the peer writes to, or that it
//! is read into.

use crate::pool::{Chunk, Pool, Size};
use crate::protocol::{Descriptor, Slot};
use std::collections::VecDeque;
use verbs_api::{Access, MemoryWindow, QueuePair};

/// A block that the peer may write to.
pub struct Shown {
    chunk: Chunk,
    window: MemoryWindow,
    pub descriptor: Descriptor,
}

/// Where the bytes of a receive's message lie.
enum Place {
    /// In its own chunk.
    Own,
    Written(Shown),
    Read(Chunk),
    /// The program has the memory, which is this.
    Lent(Lent),
}

enum Lent {
    /// The receive's own chunk.
    Own,
    /// A block that was granted. The peer does not see it any more.
    Granted,
    /// A block that it was read into.
    Read,
}

/// The blocks of a stream that receives.
#[derive(Default)]
pub struct Blocks {
    places: Vec<Place>,
    /// Blocks that the peer may write to, in the order in which it does.
    granted: VecDeque<Shown>,
    /// Those that it is to be granted.
    free: Vec<Shown>,
    /// Blocks that were made to be granted.
    made: u32,
}

impl Blocks {
    pub fn new(slots: u32) -> Self {
        Self { places: (0..slots).map(|_| Place::Own).collect(), ..Self::default() }
    }

    /// The block of this receive's message; `None` if it lies in its own chunk.
    pub fn of(&self, slot: Slot) -> Option<Chunk> {
        match self.places.get(slot.0 as usize)? {
            Place::Own | Place::Lent(_) => None,
            Place::Written(shown) => Some(shown.chunk),
            Place::Read(chunk) => Some(*chunk),
        }
    }

    /// Returns `true` if the chunk of this receive is not the program's.
    pub fn has_own(&self, slot: Slot) -> bool {
        !matches!(self.places.get(slot.0 as usize), Some(Place::Lent(Lent::Own)))
    }

    /// Lends the memory of this receive's message, whose chunk is `own`, to the program. Nobody
    /// else sees it from now on.
    pub fn lend(&mut self, slot: Slot, own: Chunk) -> Option<Chunk> {
        let place = self.places.get_mut(slot.0 as usize)?;
        let (chunk, lent) = match core::mem::replace(place, Place::Own) {
            Place::Own => (own, Lent::Own),
            Place::Read(chunk) => (chunk, Lent::Read),
            Place::Written(Shown { chunk, window, .. }) => {
                drop(window);
                (chunk, Lent::Granted)
            }
            Place::Lent(lent) => {
                *place = Place::Lent(lent);
                return None;
            }
        };
        *place = Place::Lent(lent);
        Some(chunk)
    }

    /// The program is done with it. Returns `true` if it was a block that the peer was granted,
    /// which may have another one.
    pub fn take_back(&mut self, slot: Slot, chunk: Chunk, pool: &mut Pool) -> bool {
        let Some(place) = self.places.get_mut(slot.0 as usize) else { return false };
        let Place::Lent(lent) = place else { return false };
        let granted = matches!(lent, Lent::Granted);
        if !matches!(lent, Lent::Own) {
            pool.give(chunk);
        }
        self.made -= u32::from(granted);
        *place = Place::Own;
        granted
    }

    /// Blocks that were made to be granted, and are the peer's or the program's.
    pub const fn count(&self) -> u32 {
        self.made
    }

    /// Makes blocks to grant, as many as there is memory for, `count` at most. Each posts a
    /// request. Returns how many there were.
    ///
    /// # Errors
    /// What the queue pair fails with.
    pub fn make(
        &mut self,
        count: u32,
        pool: &mut Pool,
        (pair, wr_id): (&mut QueuePair, u64),
        len: usize,
    ) -> Result<u32, verbs_api::Error> {
        for made in 0..count {
            let Ok(chunk) = pool.take_of(Size::Large) else { return Ok(made) };
            match pool.show(chunk, 0..len, Access::REMOTE_WRITE, (pair, wr_id)) {
                Ok((window, descriptor)) => {
                    self.made += 1;
                    self.free.push(Shown { chunk, window, descriptor });
                }
                Err(error) => {
                    pool.give(chunk);
                    // Without a window bytes are sent, as without memory.
                    let none_left = matches!(error, verbs_api::Error::Register(_));
                    return if none_left { Ok(made) } else { Err(error) };
                }
            }
        }
        Ok(count)
    }

    /// Returns `true` if blocks are to be granted now: a quarter of them at least, or the peer has
    /// none.
    pub fn are_due(&self) -> bool {
        let many = self.granted.is_empty() || 4 * self.free.len() >= self.made as usize;
        !self.free.is_empty() && many
    }

    /// Returns `true` if no more than a quarter of the blocks wait for the program, or are its own.
    pub fn are_mostly_read(&self) -> bool {
        let idle = self.granted.len() + self.free.len();
        4 * (self.made as usize).saturating_sub(idle) <= self.made as usize
    }

    /// The descriptors of the next `max` blocks to be granted.
    pub fn next(&self, max: usize) -> Vec<Descriptor> {
        self.free.iter().take(max).map(|shown| shown.descriptor).collect()
    }

    /// The first `count` of them are granted.
    pub fn grant(&mut self, count: usize) {
        self.granted.extend(self.free.drain(..count));
    }

    /// The block that the peer writes to next.
    pub fn front(&self) -> Option<Chunk> {
        self.granted.front().map(|shown| shown.chunk)
    }

    /// The message of this receive was written there.
    pub fn written(&mut self, slot: Slot) {
        if let Some(place) = self.places.get_mut(slot.0 as usize)
            && let Some(shown) = self.granted.pop_front()
        {
            *place = Place::Written(shown);
        }
    }

    /// Memory to read what this receive's message offers into; `None`: its own chunk.
    pub fn read_into(&mut self, slot: Slot, pool: &mut Pool) -> Option<Chunk> {
        let place = self.places.get_mut(slot.0 as usize)?;
        if matches!(place, Place::Own)
            && let Ok(chunk) = pool.take_of(Size::Large)
        {
            *place = Place::Read(chunk);
        }
        self.of(slot)
    }

    /// The message of this receive is done with.
    pub fn vacate(&mut self, slot: Slot, pool: &mut Pool) {
        let Some(place) = self.places.get_mut(slot.0 as usize) else { return };
        match core::mem::replace(place, Place::Own) {
            Place::Own => {}
            Place::Written(shown) => self.free.push(shown),
            Place::Read(chunk) => pool.give(chunk),
            lent @ Place::Lent(_) => *place = lent,
        }
    }

    /// The queue pair is gone, and with it what the peer could see. Bytes that wait to be read
    /// stay.
    pub fn suspend(&mut self, pool: &mut Pool) {
        for place in &mut self.places {
            match place {
                Place::Written(Shown { chunk, .. }) => *place = Place::Read(*chunk),
                Place::Lent(lent @ Lent::Granted) => *lent = Lent::Read,
                Place::Own | Place::Read(_) | Place::Lent(_) => {}
            }
        }
        self.drop_shown(pool);
    }

    fn drop_shown(&mut self, pool: &mut Pool) {
        self.made = 0;
        for Shown { chunk, window, .. } in self.free.drain(..).chain(self.granted.drain(..)) {
            drop(window);
            pool.give(chunk);
        }
    }

    /// Gives all memory back but for what the program has. The peer sees it no more.
    pub fn clear(&mut self, pool: &mut Pool) {
        for slot in 0..self.places.len() {
            self.vacate(Slot(u32::try_from(slot).unwrap_or(u32::MAX)), pool);
        }
        self.drop_shown(pool);
    }
}
