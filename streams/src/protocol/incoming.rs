//! The direction that this end receives.

use super::descriptor::Descriptor;
use super::header::{Header, Kind};
use super::violation::Violation;
use std::collections::VecDeque;

/// Bytes that are offered by one message at most.
const OFFER_MAX: u32 = 1 << 30;

/// A receive, by a number that the owner of its memory gave it. What it took may lie elsewhere, if
/// it was written or is read from the peer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Slot(pub u32);

/// Bytes of the stream that wait in the memory of a receive's message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// The receive.
    pub slot: Slot,
    /// Where its next byte is.
    pub offset: usize,
    /// Bytes from there on; at least 1.
    pub len: usize,
}

/// How a message came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrival {
    /// By SEND, into the memory of its receive.
    Sent,
    /// By WRITE with this immediate, into memory that was granted.
    Written(u32),
}

/// Bytes of one message that wait to be read.
#[derive(Debug)]
struct Waiting {
    slot: Slot,
    offset: usize,
    /// Bytes that are here.
    ready: usize,
    /// What is still at the peer; without length if all is here.
    rest: Descriptor,
    /// Of the bytes at the peer so many are on their way.
    coming: u32,
    /// Position behind its last byte.
    end: u64,
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
    waiting: VecDeque<Waiting>,
    /// Receives whose bytes the program reads where they lie.
    borrowed: Vec<Slot>,
    /// Messages of which bytes are still at the peer.
    offers: usize,
    /// The peer waits to hear that an offer was read.
    owes_taken: bool,
    /// Nobody reads any more.
    discards: bool,
    /// Lengths of the memory that was granted and not used yet.
    granted: VecDeque<u32>,
    /// The number of the next grant to be used, mod 2^32.
    next_grant: u32,
    fin: bool,
}

/// No memory.
const NOTHING: Descriptor = Descriptor { addr: 0, rkey: 0, len: 0 };

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
            waiting: VecDeque::with_capacity(receives as usize),
            borrowed: Vec::new(),
            offers: 0,
            owes_taken: false,
            discards: false,
            granted: VecDeque::new(),
            next_grant: 0,
            fin: false,
        }
    }

    /// Of the next byte to come.
    pub const fn position(&self) -> u64 {
        self.position
    }

    /// Bytes that are here, from position 0 on.
    pub fn held(&self) -> u64 {
        let missing = self.waiting.iter().find(|waiting| self.offers > 0 && waiting.rest.len > 0);
        missing.map_or(self.position, |waiting| waiting.end - u64::from(waiting.rest.len))
    }

    pub const fn has_fin(&self) -> bool {
        self.fin
    }

    /// Returns `true` if all bytes of all messages are here.
    pub const fn is_whole(&self) -> bool {
        self.offers == 0
    }

    /// Returns `true` if bytes wait to be read, here or at the peer.
    pub fn has_unread(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The carrier is gone: what is not here will come again, and receives are counted anew.
    /// Returns those of messages of which nothing is left.
    pub fn suspend(&mut self) -> Vec<Slot> {
        self.position = self.held();
        let first = self.waiting.iter().position(|waiting| waiting.rest.len > 0);
        let mut gone = self.waiting.split_off(first.unwrap_or(self.waiting.len()));
        if gone.front().is_some_and(|waiting| waiting.ready > 0)
            && let Some(waiting) = gone.pop_front()
        {
            self.waiting.push_back(Waiting { rest: NOTHING, coming: 0, end: self.position, ..waiting });
        }
        let kept = u32::try_from(self.waiting.len() + self.borrowed.len()).unwrap_or(u32::MAX);
        (self.counted, self.posted) = (0, self.receives.saturating_sub(kept));
        self.told = self.posted;
        (self.offers, self.owes_taken, self.fin) = (0, false, false);
        self.granted.clear();
        self.next_grant = 0;
        gone.into_iter().map(|waiting| waiting.slot).collect()
    }

    /// The credit that a header tells now; the peer knows then.
    pub const fn tell(&mut self) -> u32 {
        self.told = self.posted;
        self.owes_taken = false;
        self.posted
    }

    /// Returns `true` if the peer may wait for something that it was not told of.
    pub fn has_news(&self) -> bool {
        // Half of the receives that the peer can have while the program has the others.
        let borrowed = u32::try_from(self.borrowed.len()).unwrap_or(u32::MAX);
        let due = self.receives.saturating_sub(borrowed).div_ceil(2).max(1);
        self.owes_taken || !self.fin && self.posted.wrapping_sub(self.told) >= due
    }

    /// Returns `true` if the peer waits to hear that an offer was read.
    pub const fn owes_taken(&self) -> bool {
        self.owes_taken
    }

    /// Nobody reads any more: what is offered counts as read.
    pub fn discard(&mut self) {
        self.discards = true;
        self.give_up_offers();
    }

    /// Returns `true` if bytes are on their way from where the peer offers them.
    pub fn is_fetching(&self) -> bool {
        self.offers > 0 && self.waiting.iter().any(|waiting| waiting.coming > 0)
    }

    /// As soon as no READ is under way: the peer takes the memory back when it hears of it.
    fn give_up_offers(&mut self) {
        if !self.discards || self.offers == 0 || self.is_fetching() {
            return;
        }
        self.waiting.iter_mut().for_each(|waiting| waiting.rest = NOTHING);
        (self.offers, self.owes_taken) = (0, true);
    }

    /// Checks a message of `byte_len` bytes against what must come next.
    pub fn check(&self, arrival: Arrival, header: &Header, byte_len: usize) -> Result<(), Violation> {
        if byte_len != Header::BYTES.saturating_add(header.length as usize) {
            return Err(Violation::Length);
        }
        if header.position != self.position {
            return Err(Violation::Position);
        }
        if let Arrival::Written(number) = arrival {
            return self.check_written(number, header, byte_len);
        }
        if header.waited {
            return Err(Violation::Flags);
        }
        match header.kind {
            Kind::Data => self.check_data(header, byte_len, self.receive_bytes),
            Kind::Grant | Kind::Offer => self.check_named(header, byte_len),
            Kind::Credit | Kind::Answer | Kind::Reset if header.length > 0 => Err(Violation::Length),
            Kind::Fin if header.length > 0 => Err(Violation::Length),
            Kind::Fin if self.fin => Err(Violation::AfterFin),
            Kind::Credit | Kind::Answer | Kind::Fin | Kind::Reset | Kind::Resume => Ok(()),
        }
    }

    fn check_written(&self, number: u32, header: &Header, byte_len: usize) -> Result<(), Violation> {
        let granted = *self.granted.front().ok_or(Violation::Grant)?;
        if number != self.next_grant || header.kind != Kind::Data {
            return Err(Violation::Grant);
        }
        self.check_data(header, byte_len, granted as usize)
    }

    fn check_data(&self, header: &Header, byte_len: usize, max: usize) -> Result<(), Violation> {
        if self.fin {
            return Err(Violation::AfterFin);
        }
        if header.length == 0 || byte_len > max {
            return Err(Violation::Length);
        }
        self.check_counted()?;
        self.check_end(header.length)
    }

    /// A message with descriptors.
    fn check_named(&self, header: &Header, byte_len: usize) -> Result<(), Violation> {
        let count = header.length as usize / Descriptor::BYTES;
        let is_one = header.kind != Kind::Offer || count == 1;
        if header.kind == Kind::Offer && self.fin {
            return Err(Violation::AfterFin);
        }
        if byte_len > self.receive_bytes
            || !(header.length as usize).is_multiple_of(Descriptor::BYTES)
            || count == 0
            || !is_one
        {
            return Err(Violation::Length);
        }
        if header.checked {
            return Err(Violation::Flags);
        }
        self.check_counted()
    }

    const fn check_counted(&self) -> Result<(), Violation> {
        if self.counted == self.told { Err(Violation::Overrun) } else { Ok(()) }
    }

    const fn check_end(&self, len: u32) -> Result<(), Violation> {
        if self.position.checked_add(len as u64).is_none() { Err(Violation::Position) } else { Ok(()) }
    }

    /// Takes a message of data that was checked. The bytes of a `kept` one wait to be read.
    pub fn take(&mut self, slot: Slot, arrival: Arrival, len: u32, kept: bool) {
        if let Arrival::Written(_) = arrival {
            self.granted.pop_front();
            self.next_grant = self.next_grant.wrapping_add(1);
        }
        self.keep(slot, len, (Header::BYTES, len as usize, NOTHING), kept);
    }

    /// Takes what is offered. The bytes of a `kept` one are to be read from there.
    pub fn take_offer(&mut self, slot: Slot, offered: Descriptor, kept: bool) -> Result<(), Violation> {
        if offered.len == 0 || offered.len > OFFER_MAX {
            return Err(Violation::Descriptor);
        }
        self.check_end(offered.len)?;
        self.offers += usize::from(kept);
        self.owes_taken |= !kept;
        self.keep(slot, offered.len, (0, 0, offered), kept);
        Ok(())
    }

    fn keep(&mut self, slot: Slot, len: u32, place: (usize, usize, Descriptor), kept: bool) {
        self.position += u64::from(len);
        self.counted = self.counted.wrapping_add(1);
        let (offset, ready, rest) = place;
        if kept {
            let end = self.position;
            self.waiting.push_back(Waiting { slot, offset, ready, rest, coming: 0, end });
        }
    }

    /// Takes a counted message whose receive is posted again at once.
    pub const fn take_and_repost(&mut self) {
        self.counted = self.counted.wrapping_add(1);
        self.posted = self.posted.wrapping_add(1);
    }

    pub const fn take_fin(&mut self) {
        self.fin = true;
    }

    /// The peer is told now that it may write to memory of this length.
    pub fn grant(&mut self, len: u32) {
        self.granted.push_back(len);
    }

    /// The oldest offer of which bytes can be read now, into the memory of its receive.
    pub fn next_fetch(&self) -> Option<(Slot, Descriptor)> {
        if self.offers == 0 {
            return None;
        }
        let is_next = |waiting: &&Waiting| waiting.rest.len > 0 && waiting.coming == 0 && waiting.ready == 0;
        self.waiting.iter().find(is_next).map(|waiting| (waiting.slot, waiting.rest))
    }

    /// The next `len` bytes of an offer are on their way.
    pub fn fetch(&mut self, slot: Slot, len: u32) {
        if let Some(waiting) = self.find(slot) {
            waiting.coming = len.min(waiting.rest.len);
        }
    }

    /// They have come.
    pub fn fetched(&mut self, slot: Slot) {
        let Some(waiting) = self.find(slot) else { return };
        let came = core::mem::take(&mut waiting.coming);
        (waiting.offset, waiting.ready) = (0, came as usize);
        waiting.rest = waiting.rest.skip(came);
        if came > 0 && waiting.rest.len == 0 {
            self.offers -= 1;
            self.owes_taken = true;
        }
        self.give_up_offers();
    }

    /// Returns `true` if bytes of this receive's message wait to be read, or the program has them.
    pub fn is_in_use(&self, slot: Slot) -> bool {
        self.waiting.iter().any(|waiting| waiting.slot == slot) || self.borrowed.contains(&slot)
    }

    fn find(&mut self, slot: Slot) -> Option<&mut Waiting> {
        self.waiting.iter_mut().find(|waiting| waiting.slot == slot)
    }

    pub fn front(&self) -> Option<Piece> {
        let front = self.waiting.front().filter(|front| front.ready > 0)?;
        Some(Piece { slot: front.slot, offset: front.offset, len: front.ready })
    }

    /// The program has read so many bytes of the front piece. What is read to its end gives its
    /// slot back, which is to be posted.
    pub fn consume(&mut self, len: usize) -> Option<Slot> {
        let front = self.waiting.front_mut()?;
        let len = len.min(front.ready);
        (front.offset, front.ready) = (front.offset + len, front.ready - len);
        if front.ready > 0 || front.rest.len > 0 {
            return None;
        }
        let read = self.waiting.pop_front()?;
        self.posted = self.posted.wrapping_add(1);
        Some(read.slot)
    }

    /// Lends the front piece to the program, which has read it so. `None` if there is none, or if
    /// more of its message is to come to where it lies.
    pub fn borrow(&mut self) -> Option<Piece> {
        let piece = self.front()?;
        if self.waiting.front().is_some_and(|front| front.rest.len > 0) {
            return None;
        }
        self.waiting.pop_front();
        self.borrowed.push(piece.slot);
        Some(piece)
    }

    /// The program is done with what it has borrowed of this receive, which is to be posted.
    /// Returns `true` if it had something.
    pub fn give_back(&mut self, slot: Slot) -> bool {
        let Some(at) = self.borrowed.iter().position(|borrowed| *borrowed == slot) else { return false };
        self.borrowed.swap_remove(at);
        self.posted = self.posted.wrapping_add(1);
        true
    }
}
