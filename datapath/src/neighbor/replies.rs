//! Replies that wait for a transmit slot, written out already.

use super::{ECHO_DATA_MAX, REPLY_QUEUE};

/// Longest reply: Ethernet with a VLAN tag, IPv4, ICMP, echo data; over IPv6 it is as long.
const FRAME_MAX: usize = 18 + 20 + 8 + ECHO_DATA_MAX;

/// A ring of frames.
#[derive(Debug)]
pub struct Replies {
    bytes: Box<[u8]>,
    lens: [usize; REPLY_QUEUE],
    head: usize,
    count: usize,
}

impl Replies {
    pub fn new() -> Self {
        Self {
            bytes: vec![0; REPLY_QUEUE * FRAME_MAX].into_boxed_slice(),
            lens: [0; REPLY_QUEUE],
            head: 0,
            count: 0,
        }
    }

    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Appends the frame that `emit` writes; false if there was no room.
    pub fn push(&mut self, emit: impl FnOnce(&mut [u8]) -> Option<usize>) -> bool {
        if self.count == REPLY_QUEUE {
            return false;
        }
        let index = (self.head + self.count) % REPLY_QUEUE;
        let Some(len) = emit(&mut self.bytes[index * FRAME_MAX..][..FRAME_MAX]) else { return false };
        self.lens[index] = len;
        self.count += 1;
        true
    }

    /// The oldest frame.
    pub fn front(&self) -> Option<&[u8]> {
        (self.count > 0).then(|| &self.bytes[self.head * FRAME_MAX..][..self.lens[self.head]])
    }

    /// Drops the oldest frame.
    pub const fn pop(&mut self) {
        if self.count > 0 {
            self.head = (self.head + 1) % REPLY_QUEUE;
            self.count -= 1;
        }
    }
}
