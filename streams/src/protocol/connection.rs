//! One end of a stream.

use super::descriptor::Descriptor;
use super::header::{Header, Kind};
use super::hello::{Features, Hello};
use super::incoming::{Arrival, Incoming, Piece, Slot};
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

/// Payload of an Offer.
const DESCRIPTOR: u32 = 16;

/// A message where it lies.
pub trait Message {
    /// CRC32C of the `len` bytes behind the header.
    fn crc(&self, len: usize) -> u32;
    /// A descriptor behind the header, the first being 0.
    fn descriptor(&self, index: usize) -> [u8; Descriptor::BYTES];
}

/// A message for [`Connection::receive`].
pub struct Received<'a, M> {
    /// The receive that it took.
    pub slot: Slot,
    /// How it came.
    pub arrival: Arrival,
    /// Its bytes with the header.
    pub byte_len: usize,
    /// Its header.
    pub header: &'a [u8; Header::BYTES],
    /// Where it lies.
    pub message: &'a M,
}

/// How far this end is with giving up the stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Resetting {
    No,
    Wanted(Reason),
    Sent(Reason),
}

/// The connection below, as the protocol sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Carrier {
    /// Messages go and come.
    Up,
    /// It is gone, and another may come.
    Gone,
    /// Another is there: each end is to say what it holds.
    New,
    /// This end has said it, and waits for the peer's word.
    Greeted,
}

/// The protocol of one end of a stream. It has no memory of its own: receives are [`Slot`]s, and
/// payloads are somebody else's.
#[derive(Debug)]
pub struct Connection {
    outgoing: Outgoing,
    incoming: Incoming,
    /// What this end has announced.
    own: Features,
    /// Data messages have a checksum.
    checked: bool,
    /// An update of credit is under way and not answered yet.
    update_out: bool,
    /// An update of the peer's is to be answered.
    owes_answer: bool,
    resetting: Resetting,
    carrier: Carrier,
    /// What this carrier has sent is at the peer only when that has told so.
    unsure: bool,
    /// The peer is to tell what it holds.
    asks: bool,
    /// The peer has waited long for a grant.
    waited: bool,
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
            own: own.features,
            checked,
            update_out: false,
            owes_answer: false,
            resetting: Resetting::No,
            carrier: Carrier::Up,
            unsure: false,
            asks: false,
            waited: false,
            dropped: false,
            end: None,
        }
    }

    /// What the peer takes is known now.
    pub fn meet(&mut self, peer: &Hello) {
        self.outgoing.meet(peer);
    }

    /// The connection below is one of which only the peer's word says what has arrived: TCP.
    pub const fn begin_unsure(&mut self) {
        self.unsure = true;
    }

    /// Returns `true` if bytes of this receive's message wait to be read, or are
    /// [borrowed](Self::borrow).
    #[must_use]
    pub fn is_in_use(&self, slot: Slot) -> bool {
        self.incoming.is_in_use(slot)
    }

    /// Returns `true` if both ends have said all, or one has given the stream up: no later carrier
    /// is needed.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.end.is_some() || self.is_orderly()
    }

    fn is_orderly(&self) -> bool {
        self.incoming.has_fin() && self.incoming.is_whole() && self.outgoing.is_complete()
    }

    /// What may be written.
    #[must_use]
    pub fn room(&self) -> Room {
        match (self.end, self.outgoing.room()) {
            (Some(_), _) => Room::Over(WriteRefused::Ended),
            (None, Room::Bytes(_)) if self.carrier != Carrier::Up => Room::Wait,
            (None, room) => room,
        }
    }

    /// The connection below is gone, and the stream is to go on over another one. Returns receives
    /// whose messages will come again.
    pub fn suspend(&mut self) -> Vec<Slot> {
        self.carrier = Carrier::Gone;
        (self.update_out, self.owes_answer, self.asks) = (false, false, false);
        if let Resetting::Sent(reason) = self.resetting {
            self.resetting = Resetting::Wanted(reason);
        }
        self.outgoing.suspend();
        self.incoming.suspend()
    }

    /// Another connection is there, on which nothing was sent. Its first message is of
    /// [`next_control`](Self::next_control). `unsure`: only the peer's word says what has arrived.
    pub fn resume(&mut self, unsure: bool) {
        self.carrier = Carrier::New;
        self.unsure = unsure;
    }

    /// Returns `true` if messages of the stream go and come.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.carrier == Carrier::Up
    }

    /// Returns `true` if the peer is still to hear that this end has given the stream up, or reads
    /// no more.
    #[must_use]
    pub const fn owes_reset(&self) -> bool {
        self.peer_goes_on() && matches!(self.resetting, Resetting::Wanted(_))
    }

    /// Returns `true` if it has sent that, and the peer goes on until it comes.
    #[must_use]
    pub const fn has_reset(&self) -> bool {
        self.peer_goes_on() && matches!(self.resetting, Resetting::Sent(_))
    }

    const fn peer_goes_on(&self) -> bool {
        !matches!(self.end, Some(End::Lost | End::Reset(_)))
    }

    /// Returns `true` if messages go and come, and nothing is to be sent again.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.is_up() && !self.outgoing.is_behind()
    }

    /// Bytes from [`position`](Self::position) on that are to be sent again, and that the next
    /// message may have; 0 while there are none, or no credit. Nothing else is written before.
    #[must_use]
    pub fn resend_room(&self) -> usize {
        if self.is_up() && self.end.is_none() { self.outgoing.resend_room() } else { 0 }
    }

    /// Has the peer tell what it holds.
    pub const fn ask(&mut self) {
        self.asks = true;
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

    /// Memory of the peer's that the next message may be written to, with its header.
    #[must_use]
    pub fn grant(&self) -> Option<Descriptor> {
        self.outgoing.next_grant()
    }

    /// Returns `true` if the peer has granted memory on this carrier.
    #[must_use]
    pub const fn was_granted(&self) -> bool {
        self.outgoing.was_granted()
    }

    /// The header of a message that is written to the oldest [`grant`](Self::grant), for which this
    /// end has `waited` long, otherwise as [`data`](Self::data), and its immediate.
    pub fn written(&mut self, len: u32, waited: bool, crc: impl FnOnce() -> u32) -> (Header, u32) {
        (Header { waited, ..self.data(len, crc) }, self.outgoing.use_grant())
    }

    /// Returns `true`, once, if the peer has waited long for a grant that it has used by now.
    pub const fn take_waited(&mut self) -> bool {
        core::mem::replace(&mut self.waited, false)
    }

    /// Returns `true` if bytes may be offered, as far as there is [`room`](Self::room): the peer
    /// reads what is offered. What has a checksum is not offered, since its bytes are read before
    /// they are all there.
    #[must_use]
    pub const fn may_offer(&self) -> bool {
        self.outgoing.features().reads && !self.checked
    }

    /// The header of a message with the descriptor of `len` bytes of the stream. They are kept
    /// until [`taken`](Self::taken) covers them.
    pub fn offer(&mut self, len: u32) -> Header {
        let header = Header { length: DESCRIPTOR, ..self.header(Kind::Offer, 0) };
        self.outgoing.offer(len);
        header
    }

    /// Bytes of this direction that the peer holds, as far as it has told.
    #[must_use]
    pub const fn taken(&self) -> u64 {
        self.outgoing.taken()
    }

    /// Position of the next byte that goes out.
    #[must_use]
    pub const fn position(&self) -> u64 {
        self.outgoing.position()
    }

    /// Returns `true` if the peer writes to what is granted to it.
    #[must_use]
    pub const fn may_grant(&self) -> bool {
        self.outgoing.features().writes
    }

    /// How many descriptors a Grant may have now.
    #[must_use]
    pub fn grants_max(&self) -> usize {
        let may = self.end.is_none() && !self.dropped && self.may_grant() && self.outgoing.has_credit();
        if may { self.outgoing.payload_max() / Descriptor::BYTES } else { 0 }
    }

    /// The header of a message with these descriptors, of which there are 1 to
    /// [`grants_max`](Self::grants_max). The peer writes to them in this order.
    pub fn grants(&mut self, granted: &[Descriptor]) -> Header {
        let length = u32::try_from(granted.len() * Descriptor::BYTES).unwrap_or(u32::MAX);
        let header = Header { length, ..self.header(Kind::Grant, 0) };
        self.outgoing.send(0);
        granted.iter().for_each(|granted| self.incoming.grant(granted.len));
        header
    }

    /// The oldest offer of which bytes can be read now, into the memory of its receive.
    #[must_use]
    pub fn next_fetch(&self) -> Option<(Slot, Descriptor)> {
        if self.dropped { None } else { self.incoming.next_fetch() }
    }

    /// The next `len` bytes of this offer are being read; 1 to what is left of it.
    pub fn fetch(&mut self, slot: Slot, len: u32) {
        self.incoming.fetch(slot, len);
    }

    /// They are there, from the beginning of the memory on.
    pub fn fetched(&mut self, slot: Slot) {
        self.incoming.fetched(slot);
    }

    /// The next message without payload, which is to be sent now.
    pub fn next_control(&mut self) -> Option<Header> {
        match self.carrier {
            Carrier::Gone | Carrier::Greeted => return None,
            Carrier::New => {
                self.carrier = Carrier::Greeted;
                return Some(self.header(Kind::Resume, 0));
            }
            Carrier::Up => {}
        }
        if matches!(self.resetting, Resetting::Sent(_)) || self.end == Some(End::Lost) {
            return None;
        }
        if self.end.is_none() {
            if core::mem::take(&mut self.owes_answer) {
                return Some(self.header(Kind::Answer, 0));
            }
            if self.wants_update() {
                (self.update_out, self.asks) = (true, false);
                return Some(self.header(Kind::Credit, 0));
            }
            if self.outgoing.take_fin() {
                return Some(self.header(Kind::Fin, 0));
            }
        }
        let Resetting::Wanted(reason) = self.resetting else { return None };
        let is_early = self.has_unheard() || self.outgoing.is_behind() || self.incoming.is_fetching();
        if reason == Reason::Dropped && self.end.is_none() && is_early {
            // The peer would not say any more that it holds them, or not take them, or take back
            // what is being read.
            return None;
        }
        self.resetting = Resetting::Sent(reason);
        Some(self.header(Kind::Reset, reason.code()))
    }

    fn wants_update(&self) -> bool {
        let has_news = if self.dropped { self.incoming.owes_taken() } else { self.incoming.has_news() };
        (has_news || self.asks && self.outgoing.has_untaken()) && !self.update_out
    }

    /// Returns `true` if there are bytes of which only the peer's word can say that they arrived.
    const fn has_unheard(&self) -> bool {
        self.outgoing.has_offers() || self.unsure && self.outgoing.has_untaken()
    }

    fn header(&mut self, kind: Kind, word: u32) -> Header {
        Header {
            kind,
            checked: false,
            waited: false,
            length: 0,
            position: self.outgoing.position(),
            taken: self.incoming.held(),
            credit: self.incoming.tell(),
            word,
        }
    }

    /// Where the message begins that broke a rule; of an offer, its bytes that could not be read.
    #[must_use]
    pub fn violated_at(&self) -> u64 {
        match self.end {
            Some(End::Violation(Violation::Offer)) => self.incoming.held(),
            _ => self.incoming.position(),
        }
    }

    /// A message came. What breaks a rule ends the stream ([`end`](Self::end)).
    pub fn receive<M: Message>(&mut self, received: &Received<'_, M>) -> Fate {
        if self.end.is_some() {
            // The peer hears of it behind its own Resume, which says where this end stands.
            if self.carrier == Carrier::Greeted && self.accept_resume(received).is_err() {
                // One that says what cannot be hears it at once.
                self.carrier = Carrier::Up;
            }
            return Fate::Repost;
        }
        self.accept(received).unwrap_or_else(|violation| {
            self.violate(violation);
            Fate::Repost
        })
    }

    /// The peer broke a rule, which ends the stream.
    pub fn violate(&mut self, violation: Violation) {
        if self.end.is_none() {
            self.end = Some(End::Violation(violation));
            self.resetting = Resetting::Wanted(Reason::Violation);
            // It is told even if the peer has not said what it holds.
            if self.carrier == Carrier::Greeted {
                self.carrier = Carrier::Up;
            }
        }
    }

    fn accept<M: Message>(&mut self, received: &Received<'_, M>) -> Result<Fate, Violation> {
        let Received { slot, arrival, byte_len, .. } = *received;
        if byte_len < Header::BYTES {
            return Err(Violation::Short);
        }
        let header = Header::from_bytes(received.header)?;
        if self.is_unannounced(header.kind) {
            return Err(Violation::Unannounced);
        }
        if header.kind == Kind::Resume {
            return self.resume_by(&header, byte_len);
        }
        self.incoming.check(arrival, &header, byte_len)?;
        if header.checked && received.message.crc(header.length as usize) != header.word {
            return Err(Violation::Checksum);
        }
        self.outgoing.hear(header.credit, header.taken)?;
        let kept = if self.dropped { Fate::Repost } else { Fate::Kept };
        match header.kind {
            Kind::Data => {
                self.waited |= header.waited;
                self.incoming.take(slot, arrival, header.length, !self.dropped);
                return Ok(kept);
            }
            Kind::Offer => {
                let offered = Descriptor::from_bytes(&received.message.descriptor(0));
                self.incoming.take_offer(slot, offered, !self.dropped)?;
                return Ok(kept);
            }
            Kind::Grant => self.take_grants(&header, received.message)?,
            Kind::Credit => self.owes_answer = true,
            Kind::Answer => self.update_out = false,
            Kind::Fin => self.incoming.take_fin(),
            Kind::Reset => self.end = Some(End::Reset(Reason::from_code(header.word))),
            Kind::Resume => {}
        }
        Ok(Fate::Repost)
    }

    /// Of a stream that has ended nothing else is taken.
    fn accept_resume<M: Message>(&mut self, received: &Received<'_, M>) -> Result<Fate, Violation> {
        let header = Header::from_bytes(received.header)?;
        match header.kind {
            Kind::Resume => self.resume_by(&header, received.byte_len),
            _ => Err(Violation::Unannounced),
        }
    }

    /// The peer has said where it stands on this carrier.
    fn resume_by(&mut self, header: &Header, byte_len: usize) -> Result<Fate, Violation> {
        self.check_resume(header, byte_len)?;
        self.outgoing.resume(header.credit, header.taken)?;
        self.carrier = Carrier::Up;
        Ok(Fate::Repost)
    }

    fn check_resume(&self, header: &Header, byte_len: usize) -> Result<(), Violation> {
        if byte_len != Header::BYTES || header.length > 0 {
            return Err(Violation::Length);
        }
        if header.checked || header.waited {
            return Err(Violation::Flags);
        }
        // What it has written before cannot be less than we hold.
        if header.position < self.incoming.held() { Err(Violation::Position) } else { Ok(()) }
    }

    /// A Resume comes first on a later carrier, and nothing else does.
    fn is_unannounced(&self, kind: Kind) -> bool {
        let begins = matches!(self.carrier, Carrier::New | Carrier::Greeted);
        if begins != (kind == Kind::Resume) {
            return true;
        }
        match kind {
            Kind::Grant => !self.own.writes,
            Kind::Offer => !self.own.reads,
            _ => false,
        }
    }

    fn take_grants(&mut self, header: &Header, message: &impl Message) -> Result<(), Violation> {
        self.incoming.take_and_repost();
        let count = header.length as usize / Descriptor::BYTES;
        let granted = (0..count).map(|index| Descriptor::from_bytes(&message.descriptor(index)));
        granted.into_iter().try_for_each(|granted| self.outgoing.take_grant(granted))
    }

    /// What there is to read.
    #[must_use]
    pub fn reading(&self) -> Reading {
        match (self.incoming.front(), self.end) {
            (Some(piece), _) => Reading::Bytes(piece),
            (None, _) if self.incoming.has_fin() && !self.incoming.has_unread() => Reading::Eof,
            (None, Some(end)) => Reading::Ended(end),
            (None, None) => Reading::Wait,
        }
    }

    /// The program has read so many of the [`Reading::Bytes`]. A slot that it gives back is to be
    /// posted again, before anything is sent.
    pub fn consume(&mut self, len: usize) -> Option<Slot> {
        self.incoming.consume(len)
    }

    /// Lends all that is left of the message that comes next to the program: that counts as read.
    /// `None` if nothing is there, or if more of the message is to come to where it lies. There may
    /// be a [`next_control`](Self::next_control) after it.
    pub fn borrow(&mut self) -> Option<Piece> {
        self.incoming.borrow()
    }

    /// The program is done with what it has borrowed of this receive. If that is `true`, the slot
    /// is to be posted again, before anything is sent.
    #[must_use]
    pub fn give_back(&mut self, slot: Slot) -> bool {
        self.incoming.give_back(slot)
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
        let unread = self.incoming.has_unread() || !self.incoming.has_fin();
        self.incoming.discard();
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
        if self.end.is_none() && !self.is_orderly() {
            self.end = Some(End::Lost);
        }
    }
}
