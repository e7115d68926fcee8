//! RetryQ: the PSNs of one stream that wait to be sent again, lowest first.
//!
//! The slow path decides what enters. A set instead of a list: it cannot overflow, a PSN is never
//! in it twice, and a window of 512 packets costs 64 bytes.

use wire::Psn;

/// PSNs waiting for retransmission, all within one window.
#[derive(Debug)]
pub struct RetryQueue {
    words: Box<[u64]>,
    mask: u32,
    waiting: u32,
}

impl RetryQueue {
    /// A queue for a stream that has at most `window` packets outstanding.
    #[must_use]
    pub fn new(window: u16) -> Self {
        let bits = u32::from(window).max(64).next_power_of_two();
        Self { words: vec![0; bits as usize / 64].into(), mask: bits - 1, waiting: 0 }
    }

    /// PSNs that wait.
    #[must_use]
    pub const fn len(&self) -> u32 {
        self.waiting
    }

    /// True if none waits.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// Bytes on the heap.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.words.len() * 8
    }

    /// Adds `first..=last`, all inside the stream's window.
    pub fn insert(&mut self, first: Psn, last: Psn) {
        let count = last.distance_from(first) + 1;
        for step in 0..u32::try_from(count).unwrap_or(0).min(self.mask + 1) {
            let (word, bit) = self.position(first.add(step));
            if self.words[word] & bit == 0 {
                self.words[word] |= bit;
                self.waiting += 1;
            }
        }
    }

    /// The waiting PSN closest to `una`, looking `span` PSNs far.
    #[must_use]
    pub fn lowest(&self, una: Psn, span: u32) -> Option<Psn> {
        if self.waiting == 0 {
            return None;
        }
        let mut step = 0;
        while step < span {
            let at = una.add(step).get() & self.mask;
            let rest = self.words[(at / 64) as usize] >> (at % 64);
            if rest != 0 {
                let found = step + rest.trailing_zeros();
                return (found < span).then(|| una.add(found));
            }
            step += 64 - at % 64;
        }
        None
    }

    /// Takes `psn` out; true if it waited.
    pub fn remove(&mut self, psn: Psn) -> bool {
        let (word, bit) = self.position(psn);
        let waited = self.words[word] & bit != 0;
        if waited {
            self.words[word] &= !bit;
            self.waiting -= 1;
        }
        waited
    }

    /// Forgets everything in `from..to`: it has arrived.
    pub fn retire(&mut self, from: Psn, to: Psn) {
        if self.waiting > 0 {
            for step in 0..to.steps_from(from).min(self.mask + 1) {
                self.remove(from.add(step));
            }
        }
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.words.fill(0);
        self.waiting = 0;
    }

    fn position(&self, psn: Psn) -> (usize, u64) {
        let at = psn.get() & self.mask;
        ((at / 64) as usize, 1 << (at % 64))
    }
}
