//! Two ends over a link that delivers in order and never repeats, as a reliable connection does,
//! and that counts each message that finds no receive.

use super::*;
use proptest::prelude::*;
use std::collections::VecDeque;

const PAYLOAD: usize = 7;
const RECEIVE_BYTES: usize = PAYLOAD + Header::BYTES;

/// One end, its memory, and what it has sent that has not arrived.
struct Side {
    connection: Connection,
    memory: Vec<Vec<u8>>,
    posted: VecDeque<Slot>,
    /// Messages that have taken a receive and that nobody has looked at.
    arrived: VecDeque<(Slot, Vec<u8>)>,
    wire: VecDeque<Vec<u8>>,
    /// Bytes that the program has still to write, and all that it was given to write.
    to_write: VecDeque<u8>,
    written: Vec<u8>,
    read: Vec<u8>,
    /// Writes without looking at credit: the negative control.
    heedless: bool,
}

impl Side {
    fn new(receives: u32, checked: bool) -> Self {
        let own = hello(receives);
        let slots = receives + EXTRA_RECEIVES;
        Self {
            connection: Connection::new(&own, checked),
            memory: vec![Vec::new(); slots as usize],
            posted: (0..slots).map(Slot).collect(),
            arrived: VecDeque::new(),
            wire: VecDeque::new(),
            to_write: VecDeque::new(),
            written: Vec::new(),
            read: Vec::new(),
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
        while !self.to_write.is_empty() {
            let max = match self.connection.room() {
                Room::Bytes(max) => max,
                Room::Wait if self.heedless => PAYLOAD,
                Room::Wait | Room::Over(_) => break,
            };
            let len = self.to_write.len().min(max);
            let payload: Vec<u8> = self.to_write.drain(..len).collect();
            let header =
                self.connection.data(u32::try_from(len).expect("small"), || crc32c::crc32c(&payload));
            self.wire.push_back([&header.to_bytes()[..], &payload].concat());
        }
        self.wire.len() > before
    }

    fn control(&mut self) -> bool {
        let before = self.wire.len();
        while let Some(header) = self.connection.next_control() {
            self.wire.push_back(header.to_bytes().to_vec());
        }
        self.wire.len() > before
    }

    /// A message arrives; false if there is no receive for it.
    fn arrive(&mut self, message: Vec<u8>) -> bool {
        let slot = self.posted.pop_front();
        self.arrived.extend(slot.map(|slot| (slot, message)));
        slot.is_some()
    }

    /// Looks at the oldest message that has arrived; false if there is none.
    fn look(&mut self) -> bool {
        let Some((slot, message)) = self.arrived.pop_front() else { return false };
        let mut header = [0; Header::BYTES];
        let given = message.len().min(Header::BYTES);
        header[..given].copy_from_slice(&message[..given]);
        let crc = |len: usize| crc32c::crc32c(&message[Header::BYTES..Header::BYTES + len]);
        if self.connection.receive(slot, message.len(), &header, crc) == Fate::Repost {
            self.posted.push_back(slot);
        }
        self.memory[slot.0 as usize] = message;
        true
    }

    /// Reads at most `len` bytes; how many were read.
    fn read(&mut self, len: usize) -> usize {
        let mut done = 0;
        while let Reading::Bytes(piece) = self.connection.reading() {
            let part = piece.len.min(len - done);
            if part == 0 {
                break;
            }
            let bytes = &self.memory[piece.slot.0 as usize][piece.offset..piece.offset + part];
            self.read.extend_from_slice(bytes);
            self.posted.extend(self.connection.consume(part));
            done += part;
        }
        done
    }
}

fn hello(receives: u32) -> Hello {
    Hello { receives, receive_bytes: u32::try_from(RECEIVE_BYTES).expect("small"), token: [0; 16] }
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

    /// Everything that is under way arrives and is answered; sides that read do so. Returns how
    /// many rounds that took, or `None` if it never ends.
    fn settle(&mut self, reads: [bool; 2]) -> Option<usize> {
        (1..10_000).find(|_| {
            let mut moved = false;
            for (at, reads) in reads.into_iter().enumerate() {
                while self.deliver(at) {
                    moved = true;
                }
                while self.sides[at].look() {
                    moved = true;
                }
                if reads {
                    moved |= self.sides[at].read(usize::MAX) > 0;
                }
                moved |= self.sides[at].write();
                moved |= self.sides[at].control();
            }
            !moved
        })
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Write(at, len) => {
                if !matches!(self.sides[at].connection.room(), Room::Over(_)) {
                    self.sides[at].give(len);
                    self.sides[at].write();
                }
            }
            Step::Read(at, len) => drop(self.sides[at].read(len)),
            Step::Control(at) => drop(self.sides[at].control()),
            Step::Deliver(from) => drop(self.deliver(from)),
            Step::Look(at) => drop(self.sides[at].look()),
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
    Write(usize, usize),
    Read(usize, usize),
    Control(usize),
    Deliver(usize),
    Look(usize),
    Shut(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let side = 0..2_usize;
    let step = prop_oneof![
        6 => (side.clone(), 1..40_usize).prop_map(|(at, len)| Step::Write(at, len)),
        6 => (side.clone(), 1..40_usize).prop_map(|(at, len)| Step::Read(at, len)),
        6 => side.clone().prop_map(Step::Control),
        12 => side.clone().prop_map(Step::Deliver),
        10 => side.clone().prop_map(Step::Look),
        1 => side.prop_map(Step::Shut),
    ];
    prop::collection::vec(step, 0..200)
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
        kind in 0..9_u8, position in 0..3_u64, flags in 0..3_u16, length in 0..9_u32,
    ) {
        let mut message = message;
        if let Some(header) = message.first_chunk_mut::<16>() {
            header[..2].copy_from_slice(&[1, kind]);
            header[2..4].copy_from_slice(&flags.to_le_bytes());
            header[4..8].copy_from_slice(&length.to_le_bytes());
            header[8..16].copy_from_slice(&position.to_le_bytes());
        }
        let mut side = Side::new(2, false);
        side.connection.meet(&hello(2));
        prop_assert!(side.arrive(message.clone()) && side.look());
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
        pair.sides[0].wire[0][Header::BYTES + 3] ^= 4;
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
