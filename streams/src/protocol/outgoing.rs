//! The direction that this end sends.

use super::descriptor::Descriptor;
use super::header::Header;
use super::hello::{Features, Hello};
use super::violation::Violation;
use std::collections::VecDeque;

/// Credit that a peer can have left at most: the receives of a queue pair.
const CREDIT_MAX: u32 = 32_767;
/// Grants that wait for use at most.
const GRANTS_MAX: usize = 64;

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
    /// What the peer can do beside SENDs.
    features: Features,
    /// Memory of the peer's that is granted and not used yet.
    grants: VecDeque<Descriptor>,
    /// The number of the oldest of them, mod 2^32.
    next_grant: u32,
    /// Position behind the last bytes that were offered.
    offered: u64,
    /// Position up to which bytes are to be sent again.
    resend: u64,
    fin: Fin,
}

impl Outgoing {
    pub fn new() -> Self {
        Self {
            position: 0,
            taken: 0,
            counted: 0,
            credit: 0,
            payload_max: 0,
            features: Features::default(),
            grants: VecDeque::new(),
            next_grant: 0,
            offered: 0,
            resend: 0,
            fin: Fin::Open,
        }
    }

    pub const fn features(&self) -> Features {
        self.features
    }

    /// Bytes that the peer holds, as far as it has told.
    pub const fn taken(&self) -> u64 {
        self.taken
    }

    /// Payload of a message to the peer at most; 0 until it has said.
    pub const fn payload_max(&self) -> usize {
        self.payload_max
    }

    /// Returns `true` if a counted message may be sent.
    pub const fn has_credit(&self) -> bool {
        self.left() > 0 && self.payload_max > 0
    }

    /// Returns `true` if the peer is still to read what was offered to it.
    pub const fn has_offers(&self) -> bool {
        self.taken < self.offered
    }

    /// Memory that the next message may be written to.
    pub fn next_grant(&self) -> Option<Descriptor> {
        self.grants.front().copied()
    }

    /// Returns `true` if grants have come on this carrier.
    pub const fn was_granted(&self) -> bool {
        self.next_grant > 0
    }

    /// The peer grants memory.
    pub fn take_grant(&mut self, granted: Descriptor) -> Result<(), Violation> {
        if granted.len as usize <= Header::BYTES || self.grants.len() == GRANTS_MAX {
            return Err(Violation::Descriptor);
        }
        self.grants.push_back(granted);
        Ok(())
    }

    /// Uses the oldest grant; returns its number.
    pub fn use_grant(&mut self) -> u32 {
        self.grants.pop_front();
        let number = self.next_grant;
        self.next_grant = number.wrapping_add(1);
        number
    }

    pub const fn position(&self) -> u64 {
        self.position
    }

    /// What the peer takes.
    pub fn meet(&mut self, peer: &Hello) {
        self.payload_max = peer.payload_max();
        self.features = peer.features;
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
            (Fin::Open, _) if self.position < self.resend => Room::Wait,
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

    /// A message with memory that has so many bytes goes out.
    pub const fn offer(&mut self, len: u32) {
        self.send(len);
        self.offered = self.position;
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

    /// The carrier is gone.
    pub fn suspend(&mut self) {
        self.grants.clear();
        (self.next_grant, self.offered) = (0, 0);
        (self.counted, self.credit) = (0, 0);
        self.resend = self.resend.max(self.position);
        if self.fin == Fin::Sent {
            self.fin = Fin::Wanted;
        }
    }

    /// The peer holds what it says, and takes as many counted messages on the next carrier.
    pub fn resume(&mut self, credit: u32, taken: u64) -> Result<(), Violation> {
        if taken < self.taken || taken > self.resend {
            return Err(Violation::Taken);
        }
        if credit > CREDIT_MAX {
            return Err(Violation::Credit);
        }
        (self.position, self.taken, self.credit) = (taken, taken, credit);
        Ok(())
    }

    /// Returns `true` if bytes are to be sent again.
    pub const fn is_behind(&self) -> bool {
        self.position < self.resend
    }

    /// Bytes that are to be sent again and that the next message may have.
    pub fn resend_room(&self) -> usize {
        let left = usize::try_from(self.resend.saturating_sub(self.position)).unwrap_or(usize::MAX);
        if self.has_credit() { left.min(self.payload_max) } else { 0 }
    }

    /// Returns `true` if bytes were sent and the peer has not told that it holds them.
    pub const fn has_untaken(&self) -> bool {
        self.taken < self.position || self.is_behind()
    }

    /// The program has no more bytes.
    pub fn shut(&mut self) {
        if self.fin == Fin::Open {
            self.fin = Fin::Wanted;
        }
    }

    /// Returns `true` if a Fin is to be sent now; it is sent then.
    pub fn take_fin(&mut self) -> bool {
        let wanted = self.fin == Fin::Wanted && self.position >= self.resend;
        if wanted {
            self.fin = Fin::Sent;
        }
        wanted
    }

    /// Returns `true` if the peer holds all there is.
    pub fn is_complete(&self) -> bool {
        self.fin == Fin::Sent && !self.has_untaken()
    }
}
