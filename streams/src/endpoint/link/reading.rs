//! The bytes that come in, as the program reads them: copied, or where they lie.

use super::Link;
use crate::lent::Lent;
use crate::pool::{Chunk, Pool};
use crate::protocol::{Piece, Reading, Slot};
use std::io;

/// Bytes for a program that reads in place.
pub enum Borrowed {
    /// In a chunk, which is to be [given back](Link::give_back).
    Lent { slot: Slot, lent: Lent },
    /// A copy of what could not be lent; empty at the end of the stream.
    Copied(Vec<u8>),
}

impl Default for Borrowed {
    fn default() -> Self {
        Self::Copied(Vec::new())
    }
}

impl Link {
    /// Reads bytes; `None` if there are none yet.
    pub fn read(&mut self, pool: &mut Pool, buffer: &mut [u8]) -> Option<io::Result<usize>> {
        let mut done = 0;
        while done < buffer.len() {
            let Reading::Bytes(piece) = self.protocol.reading() else { break };
            let Some(own) = self.slots.get(piece.slot.0 as usize).copied() else { break };
            let chunk = self.blocks.of(piece.slot).unwrap_or(own);
            let len = piece.len.min(buffer.len() - done);
            if let Err(error) = pool.read(chunk, piece.offset, &mut buffer[done..done + len]) {
                return Some(Err(io::Error::other(error)));
            }
            if let Some(slot) = self.protocol.consume(len) {
                self.blocks.vacate(slot, pool);
                self.post(pool, slot);
            }
            done += len;
        }
        self.carried.read += done as u64;
        self.pump(pool);
        if done > 0 || buffer.is_empty() { Some(Ok(done)) } else { self.nothing(0) }
    }

    /// What a read returns that finds no bytes, which is `eof` where none will come.
    fn nothing<T>(&self, eof: T) -> Option<io::Result<T>> {
        match self.protocol.reading() {
            Reading::Bytes(_) | Reading::Wait => None,
            Reading::Eof => Some(Ok(eof)),
            Reading::Ended(end) => Some(Err(self.error(end).into())),
        }
    }

    /// Lends the bytes that come next to the program; `None` if there are none yet.
    pub fn borrow(&mut self, pool: &mut Pool) -> Option<io::Result<Borrowed>> {
        if let Some(piece) = self.protocol.borrow() {
            self.carried.read += piece.len as u64;
            if !self.is_by_tcp() {
                self.carried.read_in_place += piece.len as u64;
            }
            let lent = self.lend_piece(pool, piece);
            // Of the receives that are left, more may be news to the peer now.
            self.pump(pool);
            return Some(lent.ok_or_else(|| io::Error::other("the bytes lie nowhere")));
        }
        if let Reading::Bytes(piece) = self.protocol.reading() {
            // More of the message is to come to where these bytes lie.
            let mut copy = vec![0; piece.len];
            let read = self.read(pool, &mut copy)?;
            return Some(read.map(|len| {
                copy.truncate(len);
                Borrowed::Copied(copy)
            }));
        }
        self.nothing(Borrowed::default())
    }

    fn lend_piece(&mut self, pool: &Pool, Piece { slot, offset, len }: Piece) -> Option<Borrowed> {
        let own = self.slots.get(slot.0 as usize).copied()?;
        let chunk = self.blocks.lend(slot, own)?;
        // SAFETY: the message has come, so no request that has not completed names the chunk, and
        // until it is given back the protocol says that its slot is in use, so none will. If it was
        // written, `lend` has dropped the window to it. Until then it is of `blocks`, which gives
        // no chunk back that is lent, and lends none again.
        let lent = unsafe { pool.lend(chunk, offset..offset + len) }?;
        Some(Borrowed::Lent { slot, lent })
    }

    /// The program is done with what it has borrowed of this receive, in this chunk.
    pub fn give_back(&mut self, pool: &mut Pool, slot: Slot, chunk: Chunk) {
        if self.protocol.give_back(slot) {
            self.wants_blocks |= self.blocks.take_back(slot, chunk, pool);
            self.post(pool, slot);
            self.pump(pool);
        }
    }
}
