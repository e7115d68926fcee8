//! A bounded queue of messages between two threads: one writes, one reads, nobody waits.

use core::marker::PhantomData;

use crate::{
    sync::{Arc, AtomicU32, AtomicU64, Ordering, OwnLine},
    words::{WORDS, Words},
};

/// Entries and the two positions, which count up for ever and wrap at 2^32.
///
/// Order: the writer stores an entry's words (relaxed), then publishes the position behind it
/// (`tail`, release); the reader loads `tail` (acquire), so it sees the words of every entry below
/// it. The reader hands an entry back by publishing `head` (release) after it loaded its words; the
/// writer loads `head` (acquire) before it overwrites them.
struct Shared {
    entries: Box<[[AtomicU64; WORDS]]>,
    mask: u32,
    tail: OwnLine<AtomicU32>,
    head: OwnLine<AtomicU32>,
}

impl Shared {
    fn entry(&self, position: u32) -> &[AtomicU64; WORDS] {
        &self.entries[(position & self.mask) as usize]
    }
}

/// The writing end.
pub(crate) struct Writer<T> {
    shared: Arc<Shared>,
    /// Position behind the last entry written.
    tail: u32,
    /// Where the reader was when it was looked at last.
    head_seen: u32,
    messages: PhantomData<fn(T)>,
}

/// The reading end.
pub(crate) struct Reader<T> {
    shared: Arc<Shared>,
    /// Position of the next entry to read.
    head: u32,
    messages: PhantomData<fn() -> T>,
}

/// A ring of `capacity` messages, rounded up to a power of two, whose first entry has the position
/// `start`.
pub(crate) fn ring<T: Words>(capacity: u32, start: u32) -> (Writer<T>, Reader<T>) {
    let capacity = capacity.clamp(1, 1 << 20).next_power_of_two();
    let entries = (0..capacity).map(|_| core::array::from_fn(|_| AtomicU64::new(0))).collect();
    let position = || OwnLine(AtomicU32::new(start));
    let shared = Arc::new(Shared { entries, mask: capacity - 1, tail: position(), head: position() });
    let writer = Writer { shared: Arc::clone(&shared), tail: start, head_seen: start, messages: PhantomData };
    (writer, Reader { shared, head: start, messages: PhantomData })
}

impl<T: Words> Writer<T> {
    /// Returns `true` if `count` messages fit.
    #[inline]
    pub(crate) fn has_room(&mut self, count: u32) -> bool {
        let needed = |head: u32, tail: u32| tail.wrapping_sub(head) + count;
        if needed(self.head_seen, self.tail) > self.capacity() {
            self.head_seen = self.shared.head.0.load(Ordering::Acquire);
        }
        needed(self.head_seen, self.tail) <= self.capacity()
    }

    /// Writes a message; false if there is no room.
    pub(crate) fn push(&mut self, message: &T) -> bool {
        if !self.has_room(1) {
            return false;
        }
        for (word, value) in self.shared.entry(self.tail).iter().zip(message.encode()) {
            word.store(value, Ordering::Relaxed);
        }
        self.tail = self.tail.wrapping_add(1);
        self.shared.tail.0.store(self.tail, Ordering::Release);
        true
    }

    /// Messages that the ring holds.
    pub(crate) fn capacity(&self) -> u32 {
        self.shared.mask + 1
    }

    /// Position behind the last message written.
    pub(crate) const fn position(&self) -> u32 {
        self.tail
    }

    /// Messages that the reader has not taken.
    pub(crate) fn waiting(&self) -> u32 {
        self.tail.wrapping_sub(self.shared.head.0.load(Ordering::Acquire))
    }
}

impl<T: Words> Reader<T> {
    /// The oldest message.
    pub(crate) fn pop(&mut self) -> Option<T> {
        if self.is_empty() {
            return None;
        }
        let mut words = [0; WORDS];
        for (value, word) in words.iter_mut().zip(self.shared.entry(self.head)) {
            *value = word.load(Ordering::Relaxed);
        }
        self.head = self.head.wrapping_add(1);
        self.shared.head.0.store(self.head, Ordering::Release);
        let message = T::decode(&words);
        debug_assert!(message.is_some(), "only `push` writes entries");
        message
    }

    /// Returns `true` if no message waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.shared.tail.0.load(Ordering::Acquire) == self.head
    }

    /// Position of the next message to read.
    pub(crate) const fn position(&self) -> u32 {
        self.head
    }
}

#[cfg(test)]
mod tests;
