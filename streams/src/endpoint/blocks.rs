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
            Place::Own => None,
            Place::Written(shown) => Some(shown.chunk),
            Place::Read(chunk) => Some(*chunk),
        }
    }

    /// Blocks that were made to be granted.
    pub const fn count(&self) -> u32 {
        self.made
    }

    /// Makes blocks to grant, as many as there is memory for, `count` at most. Each posts a
    /// request.
    ///
    /// # Errors
    /// What the queue pair fails with.
    pub fn make(
        &mut self,
        count: u32,
        pool: &mut Pool,
        pair: &mut QueuePair,
        wr_id: u64,
        len: usize,
    ) -> Result<(), verbs_api::Error> {
        for _ in 0..count {
            let Ok(chunk) = pool.take_of(Size::Large) else { return Ok(()) };
            match pool.show(chunk, len, Access::REMOTE_WRITE, (pair, wr_id)) {
                Ok((window, descriptor)) => {
                    self.made += 1;
                    self.free.push(Shown { chunk, window, descriptor });
                }
                Err(error) => {
                    pool.give(chunk);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Returns `true` if blocks are to be granted now: a good part of them, or the peer has none.
    pub fn are_due(&self) -> bool {
        self.free.len() > self.granted.len()
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
        }
    }

    /// The queue pair is gone, and with it what the peer could see. Bytes that wait to be read
    /// stay.
    pub fn suspend(&mut self, pool: &mut Pool) {
        for place in &mut self.places {
            if let Place::Written(Shown { chunk, .. }) = place {
                *place = Place::Read(*chunk);
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

    /// Gives all memory back. The peer sees it no more.
    pub fn clear(&mut self, pool: &mut Pool) {
        for slot in 0..self.places.len() {
            self.vacate(Slot(u32::try_from(slot).unwrap_or(u32::MAX)), pool);
        }
        self.drop_shown(pool);
    }
}
