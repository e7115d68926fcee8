//! One end of a stream.

use super::header::{Header, Kind};
use super::hello::Hello;
use super::incoming::{Incoming, Piece, Slot};
use super::outgoing::{Outgoing, Room, WriteRefused};
use super::violation::{Reason, Violation};

/// How a stream ended before both ends had said that they have no more bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The peer has given it up.
    Reset(Reason),
    /// The peer broke a rule.
    Violation(Violation),
    /// The connection below is gone.
    Lost,
    /// This end has given it up.
    Aborted,
}

/// What becomes of the receive that a message took.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// Its bytes wait to be read.
    Kept,
    /// It is to be posted again, before anything is sent.
    Repost,
}

/// What there is to read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reading {
    /// These bytes come next.
    Bytes(Piece),
    /// Nothing yet.
    Wait,
    /// All was read, and the peer has no more.
    Eof,
    /// All that came was read, and nothing more will come.
    Ended(End),
}

/// How far this end is with giving up the stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Resetting {
    No,
    Wanted(Reason),
    Sent,
}

/// The protocol of one end of a stream. It has no memory of its own: receives are [`Slot`]s, and
/// payloads are somebody else's.
#[derive(Debug)]
pub struct Connection {
    outgoing: Outgoing,
    incoming: Incoming,
    /// Data messages have a checksum.
    checked: bool,
    /// An update of credit is under way and not answered yet.
    update_out: bool,
    /// An update of the peer's is to be answered.
    owes_answer: bool,
    resetting: Resetting,
    /// The program has dropped the stream: what comes is thrown away.
    dropped: bool,
    end: Option<End>,
}

impl Connection {
    /// An end that has posted what `own` says, and [`EXTRA_RECEIVES`](super::EXTRA_RECEIVES) more.
    #[must_use]
    pub fn new(own: &Hello, checked: bool) -> Self {
        Self {
            outgoing: Outgoing::new(),
            incoming: Incoming::new(own.receives, own.receive_bytes),
            checked,
            update_out: false,
            owes_answer: false,
            resetting: Resetting::No,
            dropped: false,
            end: None,
        }
    }

    /// What the peer takes is known now.
    pub fn meet(&mut self, peer: &Hello) {
        self.outgoing.meet(peer);
    }

    /// What may be written.
    #[must_use]
    pub fn room(&self) -> Room {
        if self.end.is_some() { Room::Over(WriteRefused::Ended) } else { self.outgoing.room() }
    }

    /// How the stream ended, if it ended before its time.
    #[must_use]
    pub const fn end(&self) -> Option<End> {
        self.end
    }

    /// The header of a message with `len` bytes of the stream, whose checksum `crc` is called for
    /// if there is to be one. [`room`](Self::room) says how many there may be.
    pub fn data(&mut self, len: u32, crc: impl FnOnce() -> u32) -> Header {
        let word = if self.checked { crc() } else { 0 };
        let header = Header { length: len, checked: self.checked, ..self.header(Kind::Data, word) };
        self.outgoing.send(len);
        header
    }

    /// The next message without payload, which is to be sent now.
    pub fn next_control(&mut self) -> Option<Header> {
        if self.resetting == Resetting::Sent || self.end == Some(End::Lost) {
            return None;
        }
        if self.end.is_none() {
            if core::mem::take(&mut self.owes_answer) {
                return Some(self.header(Kind::Answer, 0));
            }
            if self.incoming.has_news() && !self.update_out && !self.dropped {
                self.update_out = true;
                return Some(self.header(Kind::Credit, 0));
            }
            if self.outgoing.take_fin() {
                return Some(self.header(Kind::Fin, 0));
            }
        }
        let Resetting::Wanted(reason) = self.resetting else { return None };
        self.resetting = Resetting::Sent;
        Some(self.header(Kind::Reset, reason.code()))
    }

    fn header(&mut self, kind: Kind, word: u32) -> Header {
        Header {
            kind,
            checked: false,
            length: 0,
            position: self.outgoing.position(),
            taken: self.incoming.position(),
            credit: self.incoming.tell(),
            word,
        }
    }

    /// A message of `byte_len` bytes came into `slot`. `crc` computes the checksum of that many
    /// bytes behind the header. What breaks a rule ends the stream ([`end`](Self::end)).
    pub fn receive(
        &mut self,
        slot: Slot,
        byte_len: usize,
        header: &[u8; Header::BYTES],
        crc: impl FnOnce(usize) -> u32,
    ) -> Fate {
        if self.end.is_some() {
            return Fate::Repost;
        }
        self.accept(slot, byte_len, header, crc).unwrap_or_else(|violation| {
            self.end = Some(End::Violation(violation));
            self.resetting = Resetting::Wanted(Reason::Violation);
            Fate::Repost
        })
    }

    fn accept(
        &mut self,
        slot: Slot,
        byte_len: usize,
        header: &[u8; Header::BYTES],
        crc: impl FnOnce(usize) -> u32,
    ) -> Result<Fate, Violation> {
        if byte_len < Header::BYTES {
            return Err(Violation::Short);
        }
        let header = Header::from_bytes(header)?;
        self.incoming.check(&header, byte_len)?;
        if header.checked && crc(header.length as usize) != header.word {
            return Err(Violation::Checksum);
        }
        self.outgoing.hear(header.credit, header.taken)?;
        match header.kind {
            Kind::Data => {
                self.incoming.take(slot, header.length, !self.dropped);
                return Ok(if self.dropped { Fate::Repost } else { Fate::Kept });
            }
            Kind::Credit => self.owes_answer = true,
            Kind::Answer => self.update_out = false,
            Kind::Fin => self.incoming.take_fin(),
            Kind::Reset => self.end = Some(End::Reset(Reason::from_code(header.word))),
            Kind::Grant | Kind::Offer => return Err(Violation::Unannounced),
        }
        Ok(Fate::Repost)
    }

    /// What there is to read.
    #[must_use]
    pub fn reading(&self) -> Reading {
        match (self.incoming.front(), self.end) {
            (Some(piece), _) => Reading::Bytes(piece),
            (None, _) if self.incoming.has_fin() => Reading::Eof,
            (None, Some(end)) => Reading::Ended(end),
            (None, None) => Reading::Wait,
        }
    }

    /// The program has read so many of the [`Reading::Bytes`]. A slot that it gives back is to be
    /// posted again, before anything is sent.
    pub fn consume(&mut self, len: usize) -> Option<Slot> {
        self.incoming.consume(len)
    }

    /// The program has no more bytes.
    pub fn shut(&mut self) {
        self.outgoing.shut();
    }

    /// The program has dropped the stream. What it has written is still sent, and the peer learns
    /// that nobody reads what it sends.
    pub fn drop_stream(&mut self) {
        self.dropped = true;
        self.outgoing.shut();
        let unread = self.incoming.front().is_some() || !self.incoming.has_fin();
        if unread && self.resetting == Resetting::No {
            self.resetting = Resetting::Wanted(Reason::Dropped);
        }
    }

    /// The program gives up the stream: what it has written may be lost.
    pub fn abort(&mut self) {
        if self.end.is_none() {
            self.end = Some(End::Aborted);
            self.resetting = Resetting::Wanted(Reason::Aborted);
        }
    }

    /// The connection below is gone. If both ends had said all by then, that is its orderly end.
    pub fn lose(&mut self) {
        let is_orderly = self.incoming.has_fin() && self.outgoing.is_complete();
        if self.end.is_none() && !is_orderly {
            self.end = Some(End::Lost);
        }
    }
}
