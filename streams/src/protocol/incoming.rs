//! The direction that this end receives.

use super::header::{Header, Kind};
use super::violation::Violation;
use std::collections::VecDeque;

/// A receive's memory, by a number that the owner of the memory gave it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Slot(pub u32);

/// Bytes of the stream that wait in a receive's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// The memory.
    pub slot: Slot,
    /// Where its next byte is.
    pub offset: usize,
    /// Bytes from there on; at least 1.
    pub len: usize,
}

/// Positions, receives and waiting bytes of the direction that comes in.
#[derive(Debug)]
pub struct Incoming {
    /// Of the next byte to come.
    position: u64,
    /// Counted messages that came, mod 2^32.
    counted: u32,
    /// Counted receives posted, mod 2^32.
    posted: u32,
    /// As many as the peer was told of.
    told: u32,
    /// Counted receives that there are.
    receives: u32,
    receive_bytes: usize,
    pieces: VecDeque<Piece>,
    fin: bool,
}

impl Incoming {
    /// `receives` counted receives of `receive_bytes` bytes are posted, and the peer knows.
    pub fn new(receives: u32, receive_bytes: u32) -> Self {
        Self {
            position: 0,
            counted: 0,
            posted: receives,
            told: receives,
            receives,
            receive_bytes: receive_bytes as usize,
            pieces: VecDeque::with_capacity(receives as usize),
            fin: false,
        }
    }

    pub const fn position(&self) -> u64 {
        self.position
    }

    pub const fn has_fin(&self) -> bool {
        self.fin
    }

    /// The credit that a header tells now; the peer knows then.
    pub const fn tell(&mut self) -> u32 {
        self.told = self.posted;
        self.posted
    }

    /// Returns `true` if the peer may wait for credit that it was not told of.
    pub fn has_news(&self) -> bool {
        !self.fin && self.posted.wrapping_sub(self.told) >= self.receives.div_ceil(2)
    }

    /// Checks a message of `byte_len` bytes against what must come next.
    pub fn check(&self, header: &Header, byte_len: usize) -> Result<(), Violation> {
        if byte_len != Header::BYTES.saturating_add(header.length as usize) {
            return Err(Violation::Length);
        }
        if header.position != self.position {
            return Err(Violation::Position);
        }
        match header.kind {
            Kind::Data => self.check_data(header, byte_len),
            Kind::Grant | Kind::Offer => Err(Violation::Unannounced),
            Kind::Credit | Kind::Answer | Kind::Reset if header.length > 0 => Err(Violation::Length),
            Kind::Fin if header.length > 0 => Err(Violation::Length),
            Kind::Fin if self.fin => Err(Violation::AfterFin),
            Kind::Credit | Kind::Answer | Kind::Fin | Kind::Reset => Ok(()),
        }
    }

    fn check_data(&self, header: &Header, byte_len: usize) -> Result<(), Violation> {
        if self.fin {
            return Err(Violation::AfterFin);
        }
        if header.length == 0 || byte_len > self.receive_bytes {
            return Err(Violation::Length);
        }
        if self.counted == self.told {
            return Err(Violation::Overrun);
        }
        if self.position.checked_add(header.length.into()).is_none() {
            return Err(Violation::Position);
        }
        Ok(())
    }

    /// Takes a message of data that was checked. The bytes of a `kept` one wait to be read.
    pub fn take(&mut self, slot: Slot, len: u32, kept: bool) {
        self.position += u64::from(len);
        self.counted = self.counted.wrapping_add(1);
        if kept {
            self.pieces.push_back(Piece { slot, offset: Header::BYTES, len: len as usize });
        }
    }

    pub const fn take_fin(&mut self) {
        self.fin = true;
    }

    pub fn front(&self) -> Option<Piece> {
        self.pieces.front().copied()
    }

    /// The program has read so many bytes of the front piece. What is read to its end gives its
    /// slot back, which is to be posted.
    pub fn consume(&mut self, len: usize) -> Option<Slot> {
        let front = self.pieces.front_mut()?;
        let len = len.min(front.len);
        (front.offset, front.len) = (front.offset + len, front.len - len);
        if front.len > 0 {
            return None;
        }
        let read = self.pieces.pop_front()?;
        self.posted = self.posted.wrapping_add(1);
        Some(read.slot)
    }
}
