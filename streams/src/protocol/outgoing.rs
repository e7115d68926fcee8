//! The direction that this end sends.

use super::hello::Hello;
use super::violation::Violation;

/// Credit that a peer can have left at most: the receives of a queue pair.
const CREDIT_MAX: u32 = 32_767;

/// How far the end of the direction is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fin {
    Open,
    /// The program has written its last byte.
    Wanted,
    Sent,
}

/// What may be written now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Room {
    /// The next message may have so many bytes of payload, at least 1.
    Bytes(usize),
    /// The peer has no receive to spare, or has not said yet what it takes.
    Wait,
    /// Nothing more can be written, ever.
    Over(WriteRefused),
}

/// Why nothing more can be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WriteRefused {
    /// This end has said that there are no more bytes.
    Shut,
    /// The stream has ended.
    Ended,
}

/// Positions and credit of the bytes that go out.
#[derive(Debug)]
pub struct Outgoing {
    /// Of the next byte.
    position: u64,
    /// Bytes that the peer holds.
    taken: u64,
    /// Counted messages sent, mod 2^32.
    counted: u32,
    /// Counted receives that the peer has posted, mod 2^32.
    credit: u32,
    /// Payload of a message at most; 0 until the peer has said.
    payload_max: usize,
    fin: Fin,
}

impl Outgoing {
    pub const fn new() -> Self {
        Self { position: 0, taken: 0, counted: 0, credit: 0, payload_max: 0, fin: Fin::Open }
    }

    pub const fn position(&self) -> u64 {
        self.position
    }

    /// What the peer takes.
    pub fn meet(&mut self, peer: &Hello) {
        self.payload_max = peer.payload_max();
        // Messages of the peer may have been faster than its hello, and say more. Nothing was sent
        // yet, so that neither number has wrapped.
        self.credit = self.credit.max(peer.receives);
    }

    const fn left(&self) -> u32 {
        self.credit.wrapping_sub(self.counted)
    }

    pub fn room(&self) -> Room {
        match (self.fin, self.left()) {
            (Fin::Wanted | Fin::Sent, _) => Room::Over(WriteRefused::Shut),
            (Fin::Open, 0) => Room::Wait,
            (Fin::Open, _) if self.payload_max == 0 => Room::Wait,
            (Fin::Open, _) => Room::Bytes(self.payload_max),
        }
    }

    /// A message with so many bytes goes out.
    pub const fn send(&mut self, len: u32) {
        self.position += len as u64;
        self.counted = self.counted.wrapping_add(1);
    }

    /// What a header of the peer says of this direction.
    pub fn hear(&mut self, credit: u32, taken: u64) -> Result<(), Violation> {
        if taken < self.taken || taken > self.position {
            return Err(Violation::Taken);
        }
        let (more, left) = (credit.wrapping_sub(self.credit), credit.wrapping_sub(self.counted));
        if more > CREDIT_MAX || left > CREDIT_MAX {
            return Err(Violation::Credit);
        }
        (self.credit, self.taken) = (credit, taken);
        Ok(())
    }

    /// The program has no more bytes.
    pub fn shut(&mut self) {
        if self.fin == Fin::Open {
            self.fin = Fin::Wanted;
        }
    }

    /// Returns `true` if a Fin is to be sent now; it is sent then.
    pub fn take_fin(&mut self) -> bool {
        let wanted = self.fin == Fin::Wanted;
        if wanted {
            self.fin = Fin::Sent;
        }
        wanted
    }

    /// Returns `true` if the peer holds all there is.
    pub fn is_complete(&self) -> bool {
        self.fin == Fin::Sent && self.taken == self.position
    }
}
