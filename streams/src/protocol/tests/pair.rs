//! Two ends over a link that delivers in order and never repeats, as a reliable connection does,
//! and that counts each message that finds no receive. Bytes go by SEND, WRITE or READ.

use crate::protocol::*;
use proptest::prelude::*;
use std::collections::VecDeque;

pub const PAYLOAD: usize = 40;
pub const RECEIVE_BYTES: usize = PAYLOAD + Header::BYTES;

/// Bytes of a block that is granted, and of an offer at most.
pub const BLOCK: usize = 60;
/// Blocks that a side grants.
pub const BLOCKS: usize = 3;

/// A message under way.
pub enum Wire {
    Send(Vec<u8>),
    /// To this block of the receiver's, with this immediate.
    Write(usize, u32, Vec<u8>),
}

/// Where the bytes of a message lie.
#[derive(Clone, Copy)]
pub enum Place {
    Own,
    Block(usize),
}

/// One end, its memory, and what it has sent that has not arrived.
pub struct Side {
    pub connection: Connection,
    pub memory: Vec<Vec<u8>>,
    /// Where the message of each receive lies.
    pub places: Vec<Place>,
    /// Memory that the peer may write to, which of it is granted, and which not yet.
    pub blocks: Vec<Vec<u8>>,
    pub granted: VecDeque<usize>,
    pub free: Vec<usize>,
    /// Memory that the peer reads, and the position that gives it back; by address.
    pub offered: Vec<Option<(u64, Vec<u8>)>>,
    /// READs under way.
    pub fetches: VecDeque<(Slot, Descriptor, usize)>,
    pub posted: VecDeque<Slot>,
    /// Messages that have taken a receive and that nobody has looked at.
    pub arrived: VecDeque<(Slot, Wire)>,
    pub wire: VecDeque<Wire>,
    /// Bytes that the program has still to write, and all that it was given to write.
    pub to_write: VecDeque<u8>,
    pub written: Vec<u8>,
    pub read: Vec<u8>,
    /// What the program has borrowed, with a copy of what it found there.
    pub borrowed: Vec<(Piece, Vec<u8>)>,
    /// How it writes.
    pub way: Way,
    /// Writes without looking at credit: the negative control.
    pub heedless: bool,
    /// The program has dropped the stream, when so many bytes were sent.
    pub dropped: Option<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    Send,
    Write,
    Offer,
}

/// A message for the protocol.
pub struct Lying<'a>(pub &'a [u8]);

impl Message for Lying<'_> {
    fn crc(&self, len: usize) -> u32 {
        crc32c::crc32c(&self.0[Header::BYTES..Header::BYTES + len])
    }

    fn descriptor(&self, index: usize) -> [u8; Descriptor::BYTES] {
        let at = Header::BYTES + index * Descriptor::BYTES;
        self.0[at..at + Descriptor::BYTES].try_into().expect("sixteen")
    }
}

impl Side {
    pub fn new(receives: u32, checked: bool) -> Self {
        let own = hello(receives);
        let slots = receives + EXTRA_RECEIVES;
        Self {
            connection: Connection::new(&own, checked),
            memory: vec![Vec::new(); slots as usize],
            places: vec![Place::Own; slots as usize],
            blocks: vec![Vec::new(); BLOCKS],
            granted: VecDeque::new(),
            free: (0..BLOCKS).collect(),
            offered: Vec::new(),
            fetches: VecDeque::new(),
            posted: (0..slots).map(Slot).collect(),
            arrived: VecDeque::new(),
            wire: VecDeque::new(),
            to_write: VecDeque::new(),
            written: Vec::new(),
            read: Vec::new(),
            borrowed: Vec::new(),
            way: Way::Send,
            heedless: false,
            dropped: None,
        }
    }

    pub fn give(&mut self, len: usize) {
        for _ in 0..len {
            let byte = u8::try_from(self.written.len() * 7 % 251).expect("below 251");
            self.written.push(byte);
            self.to_write.push_back(byte);
        }
    }

    /// Writes what there is and fits; true if anything was sent.
    pub fn write(&mut self) -> bool {
        let before = self.wire.len();
        self.resend();
        while !self.to_write.is_empty() {
            let max = match self.connection.room() {
                Room::Bytes(max) => max,
                Room::Wait if self.heedless => PAYLOAD,
                Room::Wait | Room::Over(_) => break,
            };
            match (self.way, self.connection.grant()) {
                (Way::Write, Some(granted)) => self.write_to(granted),
                (Way::Offer, _) if self.connection.may_offer() => self.offer(),
                _ => self.send(max),
            }
        }
        self.wire.len() > before
    }

    /// Sends again what the peer does not hold, as a later carrier has it.
    pub fn resend(&mut self) {
        loop {
            let (from, len) = (self.connection.position(), self.connection.resend_room());
            let Some(payload) =
                usize::try_from(from).ok().filter(|_| len > 0).map(|at| self.written[at..at + len].to_vec())
            else {
                break;
            };
            let header = self.connection.data(len_of(&payload), || crc32c::crc32c(&payload));
            self.wire.push_back(Wire::Send(message(&header, &payload)));
        }
    }

    /// The carrier is gone, with all that was under way.
    pub fn suspend(&mut self) {
        self.wire.clear();
        self.fetches.clear();
        for (slot, _) in core::mem::take(&mut self.arrived) {
            self.posted.push_back(slot);
        }
        for slot in self.connection.suspend() {
            self.vacate(slot);
        }
        self.free.extend(self.granted.drain(..));
        self.offered.iter_mut().for_each(|offered| *offered = None);
    }

    pub fn payload(&mut self, max: usize) -> Vec<u8> {
        let len = self.to_write.len().min(max);
        self.to_write.drain(..len).collect()
    }

    pub fn send(&mut self, max: usize) {
        let payload = self.payload(max);
        let header = self.connection.data(len_of(&payload), || crc32c::crc32c(&payload));
        self.wire.push_back(Wire::Send(message(&header, &payload)));
    }

    pub fn write_to(&mut self, granted: Descriptor) {
        let payload = self.payload(granted.len as usize - Header::BYTES);
        let (header, number) =
            self.connection
                .written(len_of(&payload), payload.len().is_multiple_of(2), || crc32c::crc32c(&payload));
        let block = usize::try_from(granted.addr).expect("a block");
        self.wire.push_back(Wire::Write(block, number, message(&header, &payload)));
    }

    pub fn offer(&mut self) {
        let payload = self.payload(BLOCK);
        let header = self.connection.offer(len_of(&payload));
        let addr = (self.offered.len() * BLOCK) as u64;
        let descriptor = Descriptor { addr, rkey: 0, len: len_of(&payload) };
        self.offered.push(Some((self.connection.position(), payload)));
        self.wire.push_back(Wire::Send(message(&header, &descriptor.to_bytes())));
    }

    /// Lets go of what the peer has read. When the stream has ended, of all, as soon as the peer
    /// has got what says so.
    pub fn release(&mut self) {
        let has_ended = self.connection.end().is_some() && self.wire.is_empty();
        for offered in &mut self.offered {
            if has_ended || matches!(offered, Some((end, _)) if *end <= self.connection.taken()) {
                *offered = None;
            }
        }
    }

    /// Grants all blocks that are free; true if there were some.
    pub fn grant(&mut self) -> bool {
        let count = self.free.len().min(self.connection.grants_max());
        if count == 0 {
            return false;
        }
        let blocks: Vec<usize> = self.free.drain(..count).collect();
        let describe = |block: &usize| Descriptor {
            addr: *block as u64,
            rkey: 0,
            len: u32::try_from(BLOCK).expect("small"),
        };
        let granted: Vec<Descriptor> = blocks.iter().map(describe).collect();
        let header = self.connection.grants(&granted);
        self.granted.extend(blocks);
        let payload: Vec<u8> = granted.iter().flat_map(Descriptor::to_bytes).collect();
        self.wire.push_back(Wire::Send(message(&header, &payload)));
        true
    }

    /// Begins to read what the peer offers; true if there was something to begin.
    pub fn fetch(&mut self, max: usize) -> bool {
        let Some((slot, offered)) = self.connection.next_fetch() else { return false };
        let len = max.min(offered.len as usize);
        self.connection.fetch(slot, u32::try_from(len).expect("small"));
        self.fetches.push_back((slot, offered, len));
        true
    }

    /// The oldest READ has come back; false if there is none.
    pub fn land(&mut self, peer: &Self) -> bool {
        let Some((slot, from, len)) = self.fetches.pop_front() else { return false };
        let addr = usize::try_from(from.addr).expect("an address");
        let Some((_, bytes)) = &peer.offered[addr / BLOCK] else {
            // What had come before the READ failed is looked at before.
            while self.look() {}
            self.connection.violate(Violation::Offer);
            return true;
        };
        self.memory[slot.0 as usize] = bytes[addr % BLOCK..addr % BLOCK + len].to_vec();
        self.connection.fetched(slot);
        true
    }

    pub fn control(&mut self) -> bool {
        let before = self.wire.len();
        while let Some(header) = self.connection.next_control() {
            self.wire.push_back(Wire::Send(header.to_bytes().to_vec()));
        }
        self.wire.len() > before
    }

    /// A message arrives; false if there is no receive for it.
    pub fn arrive(&mut self, message: Wire) -> bool {
        let slot = self.posted.pop_front();
        self.arrived.extend(slot.map(|slot| (slot, message)));
        slot.is_some()
    }

    /// Looks at the oldest message that has arrived; false if there is none.
    pub fn look(&mut self) -> bool {
        let Some((slot, wire)) = self.arrived.pop_front() else { return false };
        let (arrival, message) = match wire {
            Wire::Send(message) => (Arrival::Sent, message),
            Wire::Write(block, number, message) => {
                assert_eq!(self.granted.pop_front(), Some(block), "another block than the next");
                self.places[slot.0 as usize] = Place::Block(block);
                self.blocks[block].clone_from(&message);
                (Arrival::Written(number), message)
            }
        };
        let mut header = [0; Header::BYTES];
        let given = message.len().min(Header::BYTES);
        header[..given].copy_from_slice(&message[..given]);
        let (byte_len, lying) = (message.len(), Lying(&message));
        let received = Received { slot, arrival, byte_len, header: &header, message: &lying };
        if self.connection.receive(&received) == Fate::Repost {
            self.vacate(slot);
        }
        self.memory[slot.0 as usize] = message;
        self.release();
        true
    }

    /// The message of this receive is done with.
    pub fn vacate(&mut self, slot: Slot) {
        let place = core::mem::replace(&mut self.places[slot.0 as usize], Place::Own);
        if let Place::Block(block) = place {
            self.free.push(block);
        }
        self.posted.push_back(slot);
    }

    pub fn bytes(&self, Piece { slot, offset, len }: Piece) -> &[u8] {
        let memory = match self.places[slot.0 as usize] {
            Place::Own => &self.memory[slot.0 as usize],
            Place::Block(block) => &self.blocks[block],
        };
        &memory[offset..offset + len]
    }

    /// The program gives up the stream.
    pub fn reset(&mut self) {
        if self.dropped.is_none() {
            self.to_write.clear();
            self.connection.abort();
            self.control();
        }
    }

    /// The program drops the stream. What it has borrowed it still has.
    pub fn drop_stream(&mut self) {
        if self.dropped.is_none() {
            self.dropped = Some(self.written.len() - self.to_write.len());
            self.to_write.clear();
            self.connection.drop_stream();
            self.control();
        }
    }

    /// Borrows what comes next.
    pub fn borrow(&mut self) {
        if self.dropped.is_none()
            && let Some(piece) = self.connection.borrow()
        {
            let bytes = self.bytes(piece).to_vec();
            self.read.extend_from_slice(&bytes);
            self.borrowed.push((piece, bytes));
        }
    }

    /// Gives one of the borrowed pieces back, which nobody has touched meanwhile.
    pub fn give_back(&mut self, which: usize) {
        if self.borrowed.is_empty() {
            return;
        }
        let (piece, bytes) = self.borrowed.swap_remove(which % self.borrowed.len());
        assert_eq!(self.bytes(piece), bytes, "somebody wrote to what was borrowed");
        assert!(self.connection.give_back(piece.slot));
        self.vacate(piece.slot);
    }

    /// Reads at most `len` bytes; how many were read.
    pub fn read(&mut self, len: usize) -> usize {
        let mut done = 0;
        if self.dropped.is_some() {
            return 0;
        }
        while let Reading::Bytes(piece) = self.connection.reading() {
            let part = piece.len.min(len - done);
            if part == 0 {
                break;
            }
            let bytes = self.bytes(Piece { len: part, ..piece }).to_vec();
            self.read.extend(bytes);
            if let Some(slot) = self.connection.consume(part) {
                self.vacate(slot);
            }
            done += part;
        }
        done
    }
}

pub fn message(header: &Header, payload: &[u8]) -> Vec<u8> {
    [&header.to_bytes()[..], payload].concat()
}

pub fn len_of(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).expect("small")
}

pub fn hello(receives: u32) -> Hello {
    let features = Features { writes: true, reads: true, ..Features::default() };
    let receive_bytes = u32::try_from(RECEIVE_BYTES).expect("small");
    Hello { receives, receive_bytes, features, token: [0; 16] }
}

pub struct Pair {
    pub sides: [Side; 2],
    /// Messages that found no receive.
    pub rnr: usize,
}

impl Pair {
    pub fn new(receives: [u32; 2], checked: bool) -> Self {
        let mut sides = receives.map(|receives| Side::new(receives, checked));
        sides[0].connection.meet(&hello(receives[1]));
        sides[1].connection.meet(&hello(receives[0]));
        Self { sides, rnr: 0 }
    }

    /// Delivers the oldest message from one side to the other; true if there was one.
    pub fn deliver(&mut self, from: usize) -> bool {
        let Some(message) = self.sides[from].wire.pop_front() else { return false };
        if !self.sides[1 - from].arrive(message) {
            self.rnr += 1;
        }
        true
    }

    /// The oldest READ of a side has come back; true if there was one.
    pub fn land(&mut self, at: usize) -> bool {
        let [one, other] = &mut self.sides;
        if at == 0 { one.land(other) } else { other.land(one) }
    }

    /// Everything that is under way arrives and is answered; sides that read do so. Returns how
    /// many rounds that took, or `None` if it never ends.
    pub fn settle(&mut self, reads: [bool; 2]) -> Option<usize> {
        (1..10_000).find(|_| {
            let mut moved = false;
            for (at, reads) in reads.into_iter().enumerate() {
                if reads {
                    (0..self.sides[at].borrowed.len()).for_each(|_| self.sides[at].give_back(0));
                }
                while self.deliver(at) {
                    moved = true;
                }
                while self.sides[at].look() {
                    moved = true;
                }
                if reads {
                    moved |= self.sides[at].read(usize::MAX) > 0;
                }
                while self.sides[at].fetch(usize::MAX) || self.land(at) {
                    moved = true;
                }
                moved |= self.sides[at].write();
                moved |= self.sides[at].control();
                self.sides[at].release();
            }
            !moved
        })
    }

    /// The carrier is gone, and there is another; none, if one end needs none.
    pub fn cut(&mut self, unsure: bool) {
        if self.sides.iter().any(|side| side.connection.end().is_some()) {
            for side in &mut self.sides {
                side.wire.clear();
                side.fetches.clear();
                while side.look() {}
                side.connection.lose();
            }
            return;
        }
        for side in &mut self.sides {
            side.suspend();
            side.connection.resume(unsure);
            side.control();
        }
    }

    pub fn step(&mut self, step: &Step) {
        match *step {
            Step::Write(at, len, way) => {
                self.sides[at].way = way;
                let is_there = self.sides[at].dropped.is_none();
                if is_there && !matches!(self.sides[at].connection.room(), Room::Over(_)) {
                    self.sides[at].give(len);
                    self.sides[at].write();
                }
            }
            Step::Read(at, len) => drop(self.sides[at].read(len)),
            Step::Borrow(at) => self.sides[at].borrow(),
            Step::GiveBack(at, which) => self.sides[at].give_back(which),
            Step::Control(at) => drop(self.sides[at].control()),
            Step::Deliver(from) => drop(self.deliver(from)),
            Step::Look(at) => drop(self.sides[at].look()),
            Step::Grant(at) => drop(self.sides[at].grant()),
            Step::Fetch(at, len) => drop(self.sides[at].fetch(len)),
            Step::Land(at) => drop(self.land(at)),
            Step::Cut(unsure) => self.cut(unsure),
            Step::Reset(at) => self.sides[at].reset(),
            Step::Drop(at) => self.sides[at].drop_stream(),
            Step::Shut(at) => {
                // A program shuts when all it has was taken.
                if self.sides[at].to_write.is_empty() {
                    self.sides[at].connection.shut();
                }
            }
        }
    }
}

#[derive(Clone, Debug)]
pub enum Step {
    Write(usize, usize, Way),
    Read(usize, usize),
    Borrow(usize),
    GiveBack(usize, usize),
    Control(usize),
    Deliver(usize),
    Look(usize),
    Grant(usize),
    Fetch(usize, usize),
    Land(usize),
    Cut(bool),
    Shut(usize),
    Reset(usize),
    Drop(usize),
}

/// Steps after which both ends can still say all.
pub fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(step(), 0..300)
}

/// Steps of which some end the stream before its time.
pub fn steps_and_ends() -> impl Strategy<Value = Vec<Step>> {
    let side = 0..2_usize;
    let step = prop_oneof![
        80 => step(),
        1 => side.clone().prop_map(Step::Reset),
        2 => side.prop_map(Step::Drop),
    ];
    prop::collection::vec(step, 0..300)
}

fn step() -> impl Strategy<Value = Step> {
    let side = 0..2_usize;
    let way = prop_oneof![Just(Way::Send), Just(Way::Write), Just(Way::Offer)];
    prop_oneof![
        6 => (side.clone(), 1..150_usize, way).prop_map(|(at, len, way)| Step::Write(at, len, way)),
        6 => (side.clone(), 1..150_usize).prop_map(|(at, len)| Step::Read(at, len)),
        5 => side.clone().prop_map(Step::Borrow),
        4 => (side.clone(), 0..9_usize).prop_map(|(at, which)| Step::GiveBack(at, which)),
        6 => side.clone().prop_map(Step::Control),
        12 => side.clone().prop_map(Step::Deliver),
        10 => side.clone().prop_map(Step::Look),
        3 => side.clone().prop_map(Step::Grant),
        5 => (side.clone(), 1..70_usize).prop_map(|(at, len)| Step::Fetch(at, len)),
        5 => side.clone().prop_map(Step::Land),
        1 => side.prop_map(Step::Shut),
        1 => any::<bool>().prop_map(Step::Cut),
    ]
}
