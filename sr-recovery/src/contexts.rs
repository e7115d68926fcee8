//! Recovery contexts: a table of all streams, and a pool of contexts for those that are in
//! recovery.
//!
//! The pool is made with the slow path and never grows: a stream that finds it empty recovers
//! without a context, or not yet.

use crate::message::{Generation, is_newer};
use wire::Psn;

/// What a stream keeps while it recovers.
pub(crate) trait Context {
    /// An empty one, for windows up to `window` packets.
    fn new(window: u32) -> Self;

    /// Bytes on the heap.
    fn bytes(&self) -> usize;
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// No record yet, so any generation is the first.
    Fresh,
    /// Nothing to remember, the generation goes on.
    Idle,
    /// The generation is over.
    Closed,
    /// In recovery, with the context at this place of the pool.
    Open(u32),
    /// In recovery without a context. The packets before this one are SACKed, or were declared
    /// lost.
    Untracked(Psn),
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    state: State,
    generation: Generation,
}

/// How a record's generation relates to what is known of its stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Standing {
    /// Of the recovery whose context this is.
    Open(u32),
    /// Of a recovery without a context, which has declared all losses before this PSN.
    Untracked(Psn),
    /// There is no context, or only one of an older generation.
    New,
    /// Of an older generation, or of one that was closed.
    Stale,
    /// No such stream.
    Unknown,
}

#[derive(Debug)]
pub(crate) struct Contexts<C> {
    entries: Box<[Entry]>,
    pool: Vec<C>,
    free: Vec<u32>,
}

impl<C: Context> Contexts<C> {
    /// A pool of `contexts`, for windows up to `window` packets.
    pub(crate) fn new(streams: usize, contexts: u32, window: u32) -> Self {
        Self {
            entries: vec![Entry { state: State::Fresh, generation: 0 }; streams].into_boxed_slice(),
            pool: (0..contexts).map(|_| C::new(window)).collect(),
            free: (0..contexts).rev().collect(),
        }
    }

    /// Contexts in use.
    pub(crate) fn open_count(&self) -> usize {
        self.pool.len() - self.free.len()
    }

    /// Bytes on the heap.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.entries)
            + self.pool.capacity() * size_of::<C>()
            + self.pool.iter().map(C::bytes).sum::<usize>()
            + self.free.capacity() * size_of::<u32>()
    }

    pub(crate) fn standing(&self, stream: usize, generation: Generation) -> Standing {
        let Some(entry) = self.entries.get(stream) else { return Standing::Unknown };
        match entry.state {
            State::Fresh => Standing::New,
            _ if is_newer(generation, entry.generation) => Standing::New,
            _ if generation != entry.generation => Standing::Stale,
            State::Idle => Standing::New,
            State::Closed => Standing::Stale,
            State::Open(slot) => Standing::Open(slot),
            State::Untracked(declared) => Standing::Untracked(declared),
        }
    }

    pub(crate) fn get(&self, slot: u32) -> &C {
        &self.pool[slot as usize]
    }

    pub(crate) fn get_mut(&mut self, slot: u32) -> &mut C {
        &mut self.pool[slot as usize]
    }

    /// Begins a generation of a stream, in the context that it holds or a free one, which the
    /// caller resets. `None` if all are taken.
    pub(crate) fn open(&mut self, stream: usize, generation: Generation) -> Option<u32> {
        let slot = match self.entries[stream].state {
            State::Open(slot) => slot,
            _ => self.free.pop()?,
        };
        self.entries[stream] = Entry { state: State::Open(slot), generation };
        Some(slot)
    }

    /// The stream recovers without a context, and has declared all losses before `declared`.
    pub(crate) fn go_untracked(&mut self, stream: usize, generation: Generation, declared: Psn) {
        self.leave(stream, State::Untracked(declared), generation);
    }

    /// The stream has nothing to remember, but this generation goes on.
    pub(crate) fn forget(&mut self, stream: usize, generation: Generation) {
        self.leave(stream, State::Idle, generation);
    }

    /// This generation is over.
    pub(crate) fn close(&mut self, stream: usize, generation: Generation) {
        self.leave(stream, State::Closed, generation);
    }

    fn leave(&mut self, stream: usize, state: State, generation: Generation) {
        if let State::Open(slot) = self.entries[stream].state {
            self.free.push(slot);
        }
        self.entries[stream] = Entry { state, generation };
    }
}
