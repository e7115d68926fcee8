//! Two ends over a link that delivers in order and never repeats, as a reliable connection does,
//! and that counts each message that finds no receive. Bytes go by SEND, WRITE or READ.

use super::*;
use proptest::prelude::*;
use std::collections::VecDeque;

const PAYLOAD: usize = 40;
const RECEIVE_BYTES: usize = PAYLOAD + Header::BYTES;

/// Bytes of a block that is granted, and of an offer at most.
const BLOCK: usize = 60;
/// Blocks that a side grants.
const BLOCKS: usize = 3;

/// A message under way.
enum Wire {
    Send(Vec<u8>),
    /// To this block of the receiver's, with this immediate.
    Write(usize, u32, Vec<u8>),
}

/// Where the bytes of a message lie.
#[derive(Clone, Copy)]
enum Place {
    Own,
    Block(usize),
}

/// One end, its memory, and what it has sent that has not arrived.
struct Side {
    connection: Connection,
    memory: Vec<Vec<u8>>,
    /// Where the message of each receive lies.
    places: Vec<Place>,
    /// Memory that the peer may write to, which of it is granted, and which not yet.
    blocks: Vec<Vec<u8>>,
    granted: VecDeque<usize>,
    free: Vec<usize>,
    /// Memory that the peer reads, and the position that gives it back; by address.
    offered: Vec<Option<(u64, Vec<u8>)>>,
    /// READs under way.
    fetches: VecDeque<(Slot, Descriptor, usize)>,
    posted: VecDeque<Slot>,
    /// Messages that have taken a receive and that nobody has looked at.
    arrived: VecDeque<(Slot, Wire)>,
    wire: VecDeque<Wire>,
    /// Bytes that the program has still to write, and all that it was given to write.
    to_write: VecDeque<u8>,
    written: Vec<u8>,
    read: Vec<u8>,
    /// What the program has borrowed, with a copy of what it found there.
    borrowed: Vec<(Piece, Vec<u8>)>,
    /// How it writes.
    way: Way,
    /// Writes without looking at credit: the negative control.
    heedless: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    Send,
    Write,
    Offer,
}

/// A message for the protocol.
struct Lying<'a>(&'a [u8]);

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
    fn new(receives: u32, checked: bool) -> Self {
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
        }
    }

    fn give(&mut self, len: usize) {
        for _ in 0..len {
            let byte = u8::try_from(self.written.len() * 7 % 251).expect("below 251");
            self.written.push(byte);
            self.to_write.push_back(byte);
        }
    }

    /// Writes what there is and fits; true if anything was sent.
    fn write(&mut self) -> bool {
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
    fn resend(&mut self) {
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
    fn suspend(&mut self) {
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

    fn payload(&mut self, max: usize) -> Vec<u8> {
        let len = self.to_write.len().min(max);
        self.to_write.drain(..len).collect()
    }

    fn send(&mut self, max: usize) {
        let payload = self.payload(max);
        let header = self.connection.data(len_of(&payload), || crc32c::crc32c(&payload));
        self.wire.push_back(Wire::Send(message(&header, &payload)));
    }

    fn write_to(&mut self, granted: Descriptor) {
        let payload = self.payload(granted.len as usize - Header::BYTES);
        let (header, number) = self.connection.written(len_of(&payload), || crc32c::crc32c(&payload));
        let block = usize::try_from(granted.addr).expect("a block");
        self.wire.push_back(Wire::Write(block, number, message(&header, &payload)));
    }

    fn offer(&mut self) {
        let payload = self.payload(BLOCK);
        let header = self.connection.offer(len_of(&payload));
        let addr = (self.offered.len() * BLOCK) as u64;
        let descriptor = Descriptor { addr, rkey: 0, len: len_of(&payload) };
        self.offered.push(Some((self.connection.position(), payload)));
        self.wire.push_back(Wire::Send(message(&header, &descriptor.to_bytes())));
    }

    /// Lets go of what the peer has read.
    fn release(&mut self) {
        for offered in &mut self.offered {
            if matches!(offered, Some((end, _)) if *end <= self.connection.taken()) {
                *offered = None;
            }
        }
    }

    /// Grants all blocks that are free; true if there were some.
    fn grant(&mut self) -> bool {
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
    fn fetch(&mut self, max: usize) -> bool {
        let Some((slot, offered)) = self.connection.next_fetch() else { return false };
        let len = max.min(offered.len as usize);
        self.connection.fetch(slot, u32::try_from(len).expect("small"));
        self.fetches.push_back((slot, offered, len));
        true
    }

    /// The oldest READ has come back; false if there is none.
    fn land(&mut self, peer: &Self) -> bool {
        let Some((slot, from, len)) = self.fetches.pop_front() else { return false };
        let addr = usize::try_from(from.addr).expect("an address");
        let (_, bytes) = peer.offered[addr / BLOCK].as_ref().expect("it is still offered");
        self.memory[slot.0 as usize] = bytes[addr % BLOCK..addr % BLOCK + len].to_vec();
        self.connection.fetched(slot);
        true
    }

    fn control(&mut self) -> bool {
        let before = self.wire.len();
        while let Some(header) = self.connection.next_control() {
            self.wire.push_back(Wire::Send(header.to_bytes().to_vec()));
        }
        self.wire.len() > before
    }

    /// A message arrives; false if there is no receive for it.
    fn arrive(&mut self, message: Wire) -> bool {
        let slot = self.posted.pop_front();
        self.arrived.extend(slot.map(|slot| (slot, message)));
        slot.is_some()
    }

    /// Looks at the oldest message that has arrived; false if there is none.
    fn look(&mut self) -> bool {
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
    fn vacate(&mut self, slot: Slot) {
        let place = core::mem::replace(&mut self.places[slot.0 as usize], Place::Own);
        if let Place::Block(block) = place {
            self.free.push(block);
        }
        self.posted.push_back(slot);
    }

    fn bytes(&self, Piece { slot, offset, len }: Piece) -> &[u8] {
        let memory = match self.places[slot.0 as usize] {
            Place::Own => &self.memory[slot.0 as usize],
            Place::Block(block) => &self.blocks[block],
        };
        &memory[offset..offset + len]
    }

    /// Borrows what comes next.
    fn borrow(&mut self) {
        if let Some(piece) = self.connection.borrow() {
            let bytes = self.bytes(piece).to_vec();
            self.read.extend_from_slice(&bytes);
            self.borrowed.push((piece, bytes));
        }
    }

    /// Gives one of the borrowed pieces back, which nobody has touched meanwhile.
    fn give_back(&mut self, which: usize) {
        if self.borrowed.is_empty() {
            return;
        }
        let (piece, bytes) = self.borrowed.swap_remove(which % self.borrowed.len());
        assert_eq!(self.bytes(piece), bytes, "somebody wrote to what was borrowed");
        assert!(self.connection.give_back(piece.slot));
        self.vacate(piece.slot);
    }

    /// Reads at most `len` bytes; how many were read.
    fn read(&mut self, len: usize) -> usize {
        let mut done = 0;
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

fn message(header: &Header, payload: &[u8]) -> Vec<u8> {
    [&header.to_bytes()[..], payload].concat()
}

fn len_of(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).expect("small")
}

fn hello(receives: u32) -> Hello {
    let features = Features { writes: true, reads: true, ..Features::default() };
    let receive_bytes = u32::try_from(RECEIVE_BYTES).expect("small");
    Hello { receives, receive_bytes, features, token: [0; 16] }
}

struct Pair {
    sides: [Side; 2],
    /// Messages that found no receive.
    rnr: usize,
}

impl Pair {
    fn new(receives: [u32; 2], checked: bool) -> Self {
        let mut sides = receives.map(|receives| Side::new(receives, checked));
        sides[0].connection.meet(&hello(receives[1]));
        sides[1].connection.meet(&hello(receives[0]));
        Self { sides, rnr: 0 }
    }

    /// Delivers the oldest message from one side to the other; true if there was one.
    fn deliver(&mut self, from: usize) -> bool {
        let Some(message) = self.sides[from].wire.pop_front() else { return false };
        if !self.sides[1 - from].arrive(message) {
            self.rnr += 1;
        }
        true
    }

    /// The oldest READ of a side has come back; true if there was one.
    fn land(&mut self, at: usize) -> bool {
        let [one, other] = &mut self.sides;
        if at == 0 { one.land(other) } else { other.land(one) }
    }

    /// Everything that is under way arrives and is answered; sides that read do so. Returns how
    /// many rounds that took, or `None` if it never ends.
    fn settle(&mut self, reads: [bool; 2]) -> Option<usize> {
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
            }
            !moved
        })
    }

    /// The carrier is gone, and there is another.
    fn cut(&mut self, unsure: bool) {
        for side in &mut self.sides {
            side.suspend();
            side.connection.resume(unsure);
            side.control();
        }
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Write(at, len, way) => {
                self.sides[at].way = way;
                if !matches!(self.sides[at].connection.room(), Room::Over(_)) {
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
enum Step {
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
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let side = 0..2_usize;
    let way = prop_oneof![Just(Way::Send), Just(Way::Write), Just(Way::Offer)];
    let step = prop_oneof![
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
    ];
    prop::collection::vec(step, 0..300)
}

proptest! {
    #[test]
    fn each_byte_comes_once_and_in_order(
        receives in [1..9_u32, 1..9_u32], checked: bool, steps in steps(),
    ) {
        let mut pair = Pair::new(receives, checked);
        for step in &steps {
            pair.step(step);
            for at in 0..2 {
                prop_assert!(pair.sides[1 - at].written.starts_with(&pair.sides[at].read));
            }
        }
        prop_assert!(pair.settle([true; 2]).is_some(), "it never comes to rest");
        for side in &mut pair.sides {
            side.connection.shut();
        }
        prop_assert!(pair.settle([true; 2]).is_some());
        prop_assert_eq!(pair.rnr, 0);
        for at in 0..2 {
            prop_assert_eq!(&pair.sides[at].read, &pair.sides[1 - at].written);
            prop_assert_eq!(pair.sides[at].connection.reading(), Reading::Eof);
        }
        // What the last message of each end says is all that the other wants to know.
        for side in &mut pair.sides {
            side.connection.lose();
            prop_assert_eq!(side.connection.reading(), Reading::Eof);
        }
    }

    #[test]
    fn who_never_reads_keeps_nobody_from_being_read(
        receives in [1..9_u32, 1..9_u32], len in 1..3000_usize,
    ) {
        let mut pair = Pair::new(receives, false);
        pair.sides[0].give(len);
        pair.sides[1].give(3000);
        prop_assert!(pair.settle([false, true]).is_some(), "it never comes to rest");
        prop_assert_eq!(pair.sides[1].read.len(), len);
        prop_assert_eq!(pair.rnr, 0);
        // The peer of who never reads was held back by credit.
        prop_assert!(!pair.sides[1].to_write.is_empty());
    }

    #[test]
    fn any_message_leaves_the_stream_alive_or_closed_for_a_reason(
        message in prop::collection::vec(any::<u8>(), 0..RECEIVE_BYTES + 1),
        written in prop::option::of(0..3_u32),
        kind in 0..9_u8, position in 0..3_u64, flags in 0..3_u16, length in prop::option::of(0..9_u32),
    ) {
        let mut message = message;
        let payload = u32::try_from(message.len().saturating_sub(Header::BYTES)).expect("small");
        let length = length.unwrap_or(payload);
        if let Some(header) = message.first_chunk_mut::<16>() {
            header[..2].copy_from_slice(&[1, kind]);
            header[2..4].copy_from_slice(&flags.to_le_bytes());
            header[4..8].copy_from_slice(&length.to_le_bytes());
            header[8..16].copy_from_slice(&position.to_le_bytes());
        }
        let mut side = Side::new(2, false);
        side.connection.meet(&hello(2));
        let wire = match written {
            Some(number) => {
                prop_assert!(side.grant());
                Wire::Write(0, number, message.clone())
            }
            None => Wire::Send(message.clone()),
        };
        side.wire.clear();
        prop_assert!(side.arrive(wire) && side.look());
        match side.connection.end() {
            Some(End::Violation(_)) => {
                prop_assert!(matches!(side.connection.reading(), Reading::Ended(End::Violation(_))));
                let told = side.connection.next_control();
                prop_assert_eq!(told.map(|header| header.word), Some(Reason::Violation.code()));
                prop_assert_eq!(side.connection.next_control(), None);
            }
            end => prop_assert!(matches!(end, None | Some(End::Reset(_)))),
        }
        let read = side.read(usize::MAX);
        prop_assert!(read == 0 || message[Header::BYTES..] == side.read[..]);
    }
}

/// Each way carries its bytes, and what it needs comes back.
#[test]
fn each_way_is_gone_and_gives_its_memory_back() {
    for way in [Way::Send, Way::Write, Way::Offer] {
        let mut pair = Pair::new([4, 4], false);
        assert!(pair.sides[1].grant());
        pair.settle([true; 2]);
        for round in 1..=10 {
            pair.sides[0].way = way;
            pair.sides[0].give(BLOCK - Header::BYTES);
            pair.sides[0].write();
            let gone = match &pair.sides[0].wire[0] {
                Wire::Write(..) => Way::Write,
                Wire::Send(message) if message[1] == Kind::Offer as u8 => Way::Offer,
                Wire::Send(_) => Way::Send,
            };
            assert_eq!(gone, way);
            pair.settle([true; 2]).expect("it comes to rest");
            pair.sides[1].grant();
            pair.settle([true; 2]).expect("it comes to rest");
            assert_eq!(pair.sides[1].read.len(), round * (BLOCK - Header::BYTES));
        }
        assert_eq!(pair.sides[1].read, pair.sides[0].written);
        assert!(pair.sides[0].offered.iter().all(Option::is_none), "the peer tells what it has read");
        assert_eq!(pair.sides[1].granted.len(), BLOCKS);
    }
}

/// What is offered is held when all of it is here, and not before; the end waits for it.
#[test]
fn an_offer_that_is_read_in_parts_is_held_when_all_is_here() {
    let mut pair = Pair::new([4, 4], false);
    pair.sides[0].way = Way::Offer;
    pair.sides[0].give(BLOCK);
    pair.sides[0].write();
    pair.sides[0].connection.shut();
    pair.sides[0].control();
    while pair.deliver(0) {}
    while pair.sides[1].look() {}
    for part in 1..=3 {
        assert_eq!(pair.sides[1].connection.reading(), Reading::Wait);
        assert!(pair.sides[1].fetch(BLOCK / 3) && !pair.sides[1].fetch(1));
        assert!(pair.land(1));
        assert_eq!(pair.sides[1].connection.next_control().is_some(), part == 3, "one update at the end");
        assert_eq!(pair.sides[1].read(usize::MAX), BLOCK / 3);
    }
    assert_eq!(pair.sides[1].connection.reading(), Reading::Eof);
}

#[test]
fn what_was_offered_and_is_not_here_is_missing_when_the_carrier_is_lost() {
    let mut pair = Pair::new([4, 4], false);
    pair.sides[0].way = Way::Offer;
    pair.sides[0].give(5);
    pair.sides[0].write();
    pair.sides[0].connection.shut();
    pair.sides[0].control();
    while pair.deliver(0) {}
    while pair.sides[1].look() {}
    pair.sides[1].connection.shut();
    pair.sides[1].connection.lose();
    assert_eq!(pair.sides[1].connection.reading(), Reading::Ended(End::Lost));
}

/// A stream that was dropped says so when the peer has read what it offers, or nobody would hear
/// of that.
#[test]
fn what_a_dropped_stream_has_offered_is_read() {
    let mut pair = Pair::new([2, 2], false);
    pair.sides[0].way = Way::Offer;
    pair.sides[0].give(BLOCK);
    pair.sides[0].write();
    pair.sides[0].connection.drop_stream();
    pair.settle([false, true]).expect("it comes to rest");
    assert_eq!(pair.sides[1].read, pair.sides[0].written);
    assert_eq!(pair.sides[1].connection.end(), Some(End::Reset(Reason::Dropped)));
    assert!(pair.sides[0].offered.iter().all(Option::is_none));
}

#[test]
fn what_was_not_announced_or_names_no_memory_closes_the_stream() {
    let (grant, offer) = ((Kind::Grant, 1), (Kind::Offer, 1));
    let none = Features::default();
    let all = Features { writes: true, reads: true, ..Features::default() };
    for ((kind, count), features, len, violation) in [
        (grant, none, 64, Violation::Unannounced),
        (offer, none, 64, Violation::Unannounced),
        (grant, all, 32, Violation::Descriptor),
        (offer, all, 0, Violation::Descriptor),
        (offer, all, (1 << 30) + 1, Violation::Descriptor),
        ((Kind::Offer, 2), all, 64, Violation::Length),
        ((Kind::Grant, 0), all, 64, Violation::Length),
    ] {
        let mut side = Side::new(4, false);
        side.connection = Connection::new(&Hello { features, ..hello(4) }, false);
        side.connection.meet(&hello(4));
        let length = u32::try_from(count * Descriptor::BYTES).expect("small");
        let header = Header { kind, checked: false, length, position: 0, taken: 0, credit: 4, word: 0 };
        let payload = Descriptor { addr: 0, rkey: 0, len }.to_bytes().repeat(count);
        assert!(side.arrive(Wire::Send(message(&header, &payload))) && side.look());
        assert_eq!(side.connection.end(), Some(End::Violation(violation)), "{kind:?}");
    }
}

/// More grants than any end needs would fill our memory.
#[test]
fn grants_without_end_close_the_stream() {
    let mut side = Side::new(40, false);
    side.connection.meet(&hello(4));
    let payload = Descriptor { addr: 0, rkey: 0, len: 64 }.to_bytes().repeat(2);
    let header =
        Header { kind: Kind::Grant, checked: false, length: 32, position: 0, taken: 0, credit: 4, word: 0 };
    let mut count = 0;
    while side.connection.end().is_none() {
        assert!(side.arrive(Wire::Send(message(&header, &payload))) && side.look());
        count += 2;
    }
    assert_eq!((count, side.connection.end()), (66, Some(End::Violation(Violation::Descriptor))));
}

/// Whatever was under way when a carrier went, on the next one each byte comes once.
#[test]
fn a_later_carrier_goes_on_where_each_end_stands() {
    for way in [Way::Send, Way::Write, Way::Offer] {
        let mut pair = Pair::new([8, 8], true);
        pair.sides[1].grant();
        pair.settle([true; 2]);
        pair.sides[0].way = way;
        pair.sides[0].give(BLOCK * 4);
        pair.sides[0].write();
        pair.sides[0].connection.shut();
        pair.sides[0].control();
        pair.deliver(0);
        pair.sides[1].look();
        pair.cut(false);
        assert_eq!(pair.sides[0].connection.room(), Room::Over(WriteRefused::Shut));
        assert_eq!(pair.sides[0].connection.resend_room(), 0, "nobody has said what it holds");
        pair.settle([true; 2]).expect("it comes to rest");
        assert_eq!(pair.sides[1].read, pair.sides[0].written, "{way:?}");
        assert_eq!(pair.sides[1].connection.reading(), Reading::Eof);
        assert_eq!(pair.rnr, 0);
    }
}

/// The end of a stream that came before the carrier went is told again, and is no second one.
/// Who gets a new carrier has no receive to spare for what the program has in its hands.
#[test]
fn what_is_borrowed_is_no_credit_on_a_later_carrier() {
    let mut pair = Pair::new([4, 4], false);
    pair.sides[1].give(3 * PAYLOAD);
    assert!(pair.settle([false, false]).is_some());
    (0..3).for_each(|_| pair.sides[0].borrow());
    pair.cut(false);
    pair.sides[1].give(10 * PAYLOAD);
    assert!(pair.settle([false, false]).is_some());
    // One receive is left: of the ten messages one has come.
    assert_eq!(pair.sides[0].read(usize::MAX), PAYLOAD);
    assert!(pair.settle([true, true]).is_some());
    assert_eq!(pair.sides[0].read, pair.sides[1].written);
}

#[test]
fn what_both_ends_hold_is_not_sent_again() {
    let mut pair = Pair::new([4, 4], false);
    pair.sides[0].give(PAYLOAD * 2);
    pair.sides[0].write();
    pair.sides[0].connection.shut();
    pair.settle([true; 2]).expect("it comes to rest");
    assert_eq!(pair.sides[1].connection.reading(), Reading::Eof);
    pair.cut(true);
    pair.settle([true; 2]).expect("it comes to rest");
    assert_eq!(pair.sides[1].connection.reading(), Reading::Eof);
    assert_eq!(pair.sides[1].read.len(), PAYLOAD * 2);
    assert!(pair.sides.iter().all(|side| side.connection.end().is_none()));
}

/// Over a carrier that says nothing of arrival, who drops its stream waits for the peer's word, and
/// asks for it.
#[test]
fn who_drops_over_an_unsure_carrier_hears_first_that_all_has_come() {
    let mut pair = Pair::new([4, 4], false);
    pair.cut(true);
    pair.settle([true; 2]).expect("it comes to rest");
    pair.sides[0].give(5);
    pair.sides[0].write();
    pair.sides[0].connection.drop_stream();
    pair.sides[0].control();
    assert!(pair.sides[0].wire.iter().all(|wire| !is_of(wire, Kind::Reset)));
    pair.sides[0].connection.ask();
    pair.settle([false, true]).expect("it comes to rest");
    assert_eq!(pair.sides[1].read, pair.sides[0].written);
    assert_eq!(pair.sides[1].connection.end(), Some(End::Reset(Reason::Dropped)));
}

fn is_of(wire: &Wire, kind: Kind) -> bool {
    matches!(wire, Wire::Send(message) if message[1] == kind as u8)
}

/// What an end cannot hold, or has given back, and a greeting that comes at the wrong time.
#[test]
fn a_greeting_that_cannot_be_closes_the_stream() {
    let resume =
        Header { kind: Kind::Resume, checked: false, length: 0, position: 0, taken: 0, credit: 4, word: 0 };
    let greeted = |header: &Header| {
        let mut pair = Pair::new([4, 4], false);
        for side in &mut pair.sides {
            side.give(PAYLOAD);
            side.write();
        }
        pair.settle([true; 2]).expect("it comes to rest");
        let side = &mut pair.sides[0];
        side.suspend();
        side.connection.resume(true);
        side.control();
        assert!(side.arrive(Wire::Send(message(header, b""))) && side.look());
        side.connection.end()
    };
    let good = Header { position: PAYLOAD as u64, taken: PAYLOAD as u64, ..resume };
    assert_eq!(greeted(&good), None);
    for (header, violation) in [
        (Header { position: 0, ..good }, Violation::Position),
        (Header { taken: PAYLOAD as u64 + 1, ..good }, Violation::Taken),
        (Header { credit: 40_000, ..good }, Violation::Credit),
        (Header { kind: Kind::Answer, ..good }, Violation::Unannounced),
    ] {
        assert_eq!(greeted(&header), Some(End::Violation(violation)));
    }
    let mut side = Side::new(4, false);
    side.connection.meet(&hello(4));
    assert!(side.arrive(Wire::Send(message(&resume, b""))) && side.look());
    assert_eq!(side.connection.end(), Some(End::Violation(Violation::Unannounced)));
}

/// The negative control of `rnr == 0` above.
#[test]
fn who_does_not_look_at_credit_finds_no_receive() {
    let mut pair = Pair::new([2, 2], false);
    pair.sides[0].heedless = true;
    pair.sides[0].give(PAYLOAD * 7);
    pair.settle([false; 2]);
    assert_eq!(pair.rnr, 1, "six receives for seven messages");
    assert_eq!(pair.sides[1].connection.end(), Some(End::Violation(Violation::Overrun)));
}

#[test]
fn a_flipped_bit_is_an_error_and_is_not_read() {
    for checked in [true, false] {
        let mut pair = Pair::new([2, 2], checked);
        pair.sides[0].give(5);
        pair.sides[0].write();
        let Wire::Send(message) = &mut pair.sides[0].wire[0] else { panic!("it is sent") };
        message[Header::BYTES + 3] ^= 4;
        pair.settle([true; 2]);
        let end = pair.sides[1].connection.end();
        assert_eq!(end, checked.then_some(End::Violation(Violation::Checksum)));
        assert_eq!(pair.sides[1].read.len(), if checked { 0 } else { 5 });
        let told = pair.sides[0].connection.end();
        assert_eq!(told, checked.then_some(End::Reset(Reason::Violation)));
    }
}

#[test]
fn a_message_of_a_later_carrier_must_go_on_where_this_one_stopped() {
    let mut pair = Pair::new([4, 4], false);
    pair.sides[0].give(PAYLOAD * 2);
    pair.sides[0].write();
    // The first is lost, which no reliable connection does.
    pair.sides[0].wire.pop_front();
    pair.settle([true; 2]);
    assert_eq!(pair.sides[1].connection.end(), Some(End::Violation(Violation::Position)));
    assert!(pair.sides[1].read.is_empty());
}

#[test]
fn what_was_written_before_a_drop_is_read_and_then_the_end() {
    let mut pair = Pair::new([2, 2], false);
    pair.sides[0].give(PAYLOAD * 2);
    pair.sides[0].write();
    pair.sides[0].connection.drop_stream();
    pair.settle([false, true]);
    let other = &mut pair.sides[1];
    assert_eq!(other.read, other.written_by_peer(PAYLOAD * 2));
    assert_eq!(other.connection.reading(), Reading::Eof);
    assert_eq!(other.connection.room(), Room::Over(WriteRefused::Ended));
    assert_eq!(other.connection.end(), Some(End::Reset(Reason::Dropped)));
}

#[test]
fn who_drops_what_was_read_to_its_end_resets_nothing() {
    let mut pair = Pair::new([2, 2], false);
    pair.sides[0].connection.shut();
    pair.settle([true; 2]);
    pair.sides[1].connection.drop_stream();
    pair.settle([true; 2]);
    for side in &mut pair.sides {
        assert_eq!(side.connection.end(), None);
        side.connection.lose();
        assert_eq!(side.connection.reading(), Reading::Eof);
    }
}

#[test]
fn a_carrier_lost_in_the_middle_is_an_error_behind_what_came() {
    let mut pair = Pair::new([2, 2], false);
    pair.sides[0].give(3);
    pair.sides[0].write();
    pair.deliver(0);
    pair.sides[1].look();
    for side in &mut pair.sides {
        side.connection.lose();
        side.read(usize::MAX);
        assert_eq!(side.connection.reading(), Reading::Ended(End::Lost));
        assert_eq!(side.connection.room(), Room::Over(WriteRefused::Ended));
        assert_eq!(side.connection.next_control(), None);
    }
    assert_eq!(pair.sides[1].read.len(), 3);
}

#[test]
fn an_abort_is_told_and_ends_both() {
    let mut pair = Pair::new([2, 2], false);
    pair.sides[0].connection.abort();
    pair.settle([true; 2]);
    assert_eq!(pair.sides[0].connection.reading(), Reading::Ended(End::Aborted));
    assert_eq!(pair.sides[1].connection.reading(), Reading::Ended(End::Reset(Reason::Aborted)));
}

impl Side {
    fn written_by_peer(&self, len: usize) -> Vec<u8> {
        (0..len).map(|at| u8::try_from(at * 7 % 251).expect("below 251")).collect()
    }
}
