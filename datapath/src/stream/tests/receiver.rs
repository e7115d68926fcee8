//! RxStream and the real slow path against a receiver that remembers every packet.
//!
//! A lost packet is one that has not arrived yet, so that the state after each arrival of each
//! order is that of a receiver that lost all later ones; they arrive in the end, as retransmissions
//! would.

use super::{STREAM, psn, slow_path};
use crate::stream::{Advanced, Arrival, RxStream};
use sr_recovery::{Command, Record, SlowPath};
use std::collections::{BTreeSet, VecDeque};

const WINDOW: u16 = 32;

struct Receiver {
    stream: RxStream,
    slow_path: SlowPath,
    /// On their way to the fast path.
    commands: VecDeque<Command>,
    /// The oracle: all that arrived.
    arrived: BTreeSet<u32>,
    /// Offset of the first packet of this run from the very first one.
    base: u32,
}

impl Receiver {
    fn new() -> Self {
        Self {
            stream: RxStream::new(psn(0), WINDOW, 7),
            slow_path: slow_path(),
            commands: VecDeque::new(),
            arrived: BTreeSet::new(),
            base: 0,
        }
    }

    fn first_missing(&self) -> u32 {
        (self.base..).find(|at| !self.arrived.contains(at)).unwrap()
    }

    fn on_packet(&mut self, at: u32) {
        let before = self.stream.epsn();
        let known = self.arrived.contains(&at);
        match self.stream.classify(psn(at)) {
            Arrival::InOrder => {
                assert!(!known && !self.stream.in_recovery() && psn(at) == before);
                self.stream.advance(1);
            }
            Arrival::AtEpsn => {
                assert!(self.stream.in_recovery() && psn(at) == before);
                self.place(at);
            }
            Arrival::Ahead(distance) => {
                assert_eq!(psn(at), before.add(distance));
                self.place(at);
            }
            Arrival::Duplicate => assert!(known && psn(at).is_before(before)),
            Arrival::DuplicateAhead => assert!(known && before.is_before(psn(at))),
            Arrival::BeyondWindow => panic!("{at} is inside the window"),
        }
        self.arrived.insert(at);
        while let Some(command) = self.slow_path.poll() {
            self.commands.push_back(command);
        }
        self.check();
    }

    fn place(&mut self, at: u32) {
        let highest = self.arrived.last().is_none_or(|last| *last < at);
        let mut records = Vec::new();
        let is_highest = self.stream.on_placed_out_of_order(STREAM, psn(at), |record| records.push(record));
        assert_eq!(is_highest, highest, "packet {at}");
        assert!(records.len() <= RxStream::RECORDS_MAX);
        records.iter().for_each(|record| self.slow_path.handle(record));
    }

    /// The fast path takes the oldest command.
    fn deliver(&mut self) {
        let Some(Command::Advance { generation, epsn, .. }) = self.commands.pop_front() else { return };
        let before = self.stream.epsn();
        match self.stream.on_advance(generation, epsn) {
            Advanced::Left => {
                assert!(!self.stream.in_recovery());
                self.slow_path.handle(&Record::RxClose { stream: STREAM, generation });
            }
            Advanced::StillMissing => assert!(self.stream.in_recovery()),
            Advanced::Ignored => assert_eq!(before, self.stream.epsn()),
        }
        assert!(!self.stream.epsn().is_before(before), "ePSN never goes back");
        self.check();
    }

    /// Holds at any time.
    fn check(&self) {
        let naive = psn(self.first_missing());
        assert!(
            !naive.is_before(self.stream.epsn()),
            "ePSN {:?} passes a gap at {naive:?}",
            self.stream.epsn()
        );
        if !self.stream.in_recovery() {
            assert_eq!(self.stream.epsn(), naive, "nothing is missing, they say");
            assert!(self.arrived.range(self.first_missing()..).next().is_none(), "and forgot what is above");
        }
    }

    /// All commands have been taken: the fast path knows what the oracle knows.
    fn check_quiet(&mut self) {
        while !self.commands.is_empty() {
            self.deliver();
        }
        assert_eq!(self.stream.epsn(), psn(self.first_missing()));
        let missing = self.arrived.last().is_some_and(|last| *last > self.first_missing());
        assert_eq!(self.stream.in_recovery(), missing);
    }

    /// `order` arrives; after the n-th packet as many commands are taken as `delays` allows: bit n
    /// clear means all, set means none.
    fn play(&mut self, order: &[u32], delays: u32) {
        for (n, at) in order.iter().enumerate() {
            self.on_packet(self.base + at);
            while delays >> n & 1 == 0 && !self.commands.is_empty() {
                self.deliver();
            }
        }
        // With the last bit set, what is still on its way meets the first packets of the next run.
        if delays >> order.len() & 1 == 0 {
            self.check_quiet();
        }
        self.base += order.iter().max().map_or(0, |last| last + 1);
        self.arrived.retain(|at| *at >= self.base);
    }
}

/// Calls `each` with every order of `0..count`.
fn permutations(count: u32, each: &mut impl FnMut(&[u32])) {
    fn extend(order: &mut Vec<u32>, count: u32, each: &mut impl FnMut(&[u32])) {
        if order.len() == count as usize {
            return each(order);
        }
        for next in 0..count {
            if !order.contains(&next) {
                order.push(next);
                extend(order, count, each);
                order.pop();
            }
        }
    }
    extend(&mut Vec::new(), count, each);
}

#[test]
fn every_order_with_every_delay_of_the_advances() {
    let mut receiver = Receiver::new();
    for count in 1..=6 {
        permutations(count, &mut |order| {
            for delays in 0..1 << (count + 1) {
                receiver.play(order, delays);
            }
        });
    }
    receiver.check_quiet();
}

#[test]
fn every_order_of_seven() {
    let mut receiver = Receiver::new();
    permutations(7, &mut |order| {
        for delays in [0, 0b0111_1111, 0b0101_0101, 0b0010_1010, 0b0001_1111, 0b0111_0000] {
            receiver.play(order, delays);
        }
    });
    receiver.check_quiet();
}

#[test]
fn every_order_with_every_duplicate() {
    let mut receiver = Receiver::new();
    for count in 1..=5 {
        permutations(count, &mut |order| {
            for copied in 0..order.len() {
                for position in copied + 1..=order.len() {
                    let mut order = order.to_vec();
                    order.insert(position, order[copied]);
                    for delays in 0..1 << order.len() {
                        receiver.play(&order, delays);
                    }
                }
            }
        });
    }
    receiver.check_quiet();
}

#[test]
fn what_lies_behind_the_window_is_named_so() {
    let stream = RxStream::new(psn(0), WINDOW, 0);
    assert_eq!(stream.classify(psn(31)), Arrival::Ahead(31));
    assert_eq!(stream.classify(psn(32)), Arrival::BeyondWindow);
    assert_eq!(stream.classify(psn(0).add((1 << 23) - 1)), Arrival::BeyondWindow);
    assert_eq!(stream.classify(psn(0).prev()), Arrival::Duplicate);
}

#[test]
fn an_advance_of_an_episode_that_ended_is_ignored() {
    let mut receiver = Receiver::new();
    receiver.on_packet(1);
    receiver.on_packet(0);
    let late = receiver.commands[0];
    receiver.check_quiet();
    // The next episode: 3 is missing, and the late Advance would pass it.
    receiver.on_packet(4);
    receiver.commands.push_front(late);
    let before = receiver.stream.epsn();
    receiver.deliver();
    assert_eq!((before, receiver.stream.epsn()), (psn(2), psn(2)));
    let Command::Advance { generation, .. } = late else { panic!("{late:?}") };
    assert_ne!(generation, receiver.stream.generation());
    assert_eq!(receiver.stream.on_advance(generation, psn(5)), Advanced::Ignored, "whatever it says");
    assert!(receiver.stream.in_recovery());
}

#[test]
fn an_abandoned_episode_cannot_come_back() {
    let mut receiver = Receiver::new();
    receiver.on_packet(1);
    receiver.stream.note_dropped();
    let generation = receiver.stream.generation();
    receiver.stream.abandon();
    assert!(!receiver.stream.in_recovery() && !receiver.stream.take_dropped());
    assert_eq!(receiver.stream.on_advance(generation, psn(2)), Advanced::Ignored);
    // The next life of the slot, in Recovery at once: the generation tells them apart.
    let mut next = RxStream::new(psn(0), WINDOW, receiver.stream.generation().wrapping_add(1));
    next.on_placed_out_of_order(STREAM, psn(1), |_| ());
    assert_eq!(next.on_advance(generation, psn(2)), Advanced::Ignored);
    assert_eq!(next.epsn(), psn(0));
}

#[test]
fn an_advance_that_was_overtaken_does_not_take_epsn_back() {
    let mut stream = RxStream::new(psn(0), WINDOW, 0);
    stream.on_placed_out_of_order(STREAM, psn(9), |_| ());
    let generation = stream.generation();
    assert_eq!(stream.on_advance(generation, psn(5)), Advanced::StillMissing);
    assert_eq!(stream.on_advance(generation, psn(3)), Advanced::StillMissing);
    assert_eq!(stream.epsn(), psn(5));
}

#[test]
fn a_note_of_something_dropped_is_taken_once() {
    let mut stream = RxStream::new(psn(0), WINDOW, 0);
    assert!(!stream.take_dropped());
    stream.note_dropped();
    assert!(stream.take_dropped());
    assert!(!stream.take_dropped());
}
