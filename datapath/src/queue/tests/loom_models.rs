//! Every interleaving of the application's side and the engine's, as far as the memory model allows
//! it:
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p srnic-datapath --no-default-features --lib loom_`
//!
//! Each model fails if one of the orders that it is about is weakened: `Release` in
//! `WordRing::publish` and `release`, `Acquire` in `tail` and `head`, the `SeqCst` fences of
//! `ring`, `fence_idle`, `set_state`, `ring_if_flushing`, `Sleep::wake`, `Sleep::sleep`,
//! `CompletionQueue::arm` and `CompletionWriter::take_event`. A model that should panic shows what
//! is lost without a step.

use super::shared_in;
use crate::qp_state::QpState;
use crate::queue::sync::{Alarm, AtomicBool, AtomicU32, Mutex, Ordering};
use crate::queue::word_ring::{WordRing, load, store};
use crate::queue::*;
use core::time::Duration;
use loom::cell::UnsafeCell;
use loom::model::Builder;
use loom::thread;
use std::sync::Arc;

const ENTRIES: u32 = 2;
const MESSAGES: u32 = 3;
/// Positions wrap inside the model.
const START: u32 = u32::MAX - 1;

/// A ring, and beside each entry a cell that loom checks for accesses not ordered by the ring.
struct Watched {
    ring: WordRing,
    cells: [UnsafeCell<u64>; ENTRIES as usize],
}

// SAFETY: that the ring orders all accesses to the cells is what the model checks; loom fails it
// otherwise.
unsafe impl Sync for Watched {}
// SAFETY: the cells hold plain numbers.
unsafe impl Send for Watched {}

impl Watched {
    fn new() -> Self {
        Self { ring: WordRing::new(ENTRIES, 2, START), cells: [UnsafeCell::new(0), UnsafeCell::new(0)] }
    }

    fn cell(&self, position: u32) -> &UnsafeCell<u64> {
        &self.cells[(position % ENTRIES) as usize]
    }

    fn write_all(&self) {
        for number in 0..MESSAGES {
            let position = START.wrapping_add(number);
            while position.wrapping_sub(self.ring.head()) >= ENTRIES {
                thread::yield_now();
            }
            let value = u64::from(number) + 1;
            // SAFETY: the entry was handed back, or never used; loom checks that.
            self.cell(position).with_mut(|cell| unsafe { *cell = value });
            let entry = self.ring.entry(position);
            store(&entry[0], value);
            store(&entry[1], !value);
            self.ring.publish(position.wrapping_add(1));
        }
    }

    fn read_all(&self) {
        for number in 0..MESSAGES {
            let position = START.wrapping_add(number);
            while self.ring.tail() == position {
                thread::yield_now();
            }
            let value = u64::from(number) + 1;
            for _ in 0..2 {
                let entry = self.ring.entry(position);
                assert_eq!((load(&entry[0]), load(&entry[1])), (value, !value), "read in place, twice");
            }
            // SAFETY: the entry was published and not handed back; loom checks that.
            self.cell(position).with(|cell| assert_eq!(unsafe { *cell }, value));
            self.ring.release(position.wrapping_add(1));
        }
    }
}

#[test]
fn loom_no_entry_is_read_early_torn_or_overwritten() {
    // Three switches between the threads where neither waits; without a bound the model takes
    // hours.
    let mut builder = Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(|| {
        let watched = Arc::new(Watched::new());
        let writer = {
            let watched = Arc::clone(&watched);
            thread::spawn(move || watched.write_all())
        };
        watched.read_all();
        writer.join().unwrap();
    });
}

/// The engine, as far as doorbells go: takes what is posted, and becomes idle when nothing is left.
struct Engine<'a> {
    shared: &'a QpShared,
    doorbells: &'a Doorbells,
    seen: u32,
}

impl Engine<'_> {
    /// Takes a doorbell, if there is one.
    fn turn(&mut self, tail: impl Fn() -> u32) -> bool {
        let rung = self.doorbells.pop().is_some();
        if rung {
            loop {
                self.seen = tail();
                self.shared.deactivate();
                if tail() == self.seen || !self.shared.reactivate() {
                    break;
                }
            }
        }
        rung
    }
}

#[test]
fn loom_no_wake_up_is_lost_and_at_most_one_doorbell_waits() {
    loom::model(|| {
        // There is room for one doorbell: a second one fails the model.
        let (shared, doorbells) = shared_in(QpState::Rts);
        let ring = Arc::new(WordRing::new(4, 1, 0));
        let application = {
            let (shared, ring) = (Arc::clone(&shared), Arc::clone(&ring));
            thread::spawn(move || {
                for posted in 1..=2 {
                    ring.publish(posted);
                    shared.ring();
                }
            })
        };
        let mut engine = Engine { shared: &shared, doorbells: &doorbells, seen: 0 };
        for _ in 0..2 {
            engine.turn(|| ring.tail());
        }
        application.join().unwrap();
        while engine.turn(|| ring.tail()) {}
        assert_eq!(engine.seen, 2, "posted, and nobody woke the engine");
    });
}

/// Two queue pairs become idle with one fence: what is posted to either meanwhile rings, or is
/// seen behind it.
#[test]
fn loom_no_work_is_left_where_several_rest_with_one_fence() {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(|| {
        let doorbells = Doorbells::new(2);
        let shared = [0, 1].map(|slot| {
            let shared = Arc::new(QpShared::new(slot, doorbells.clone()));
            assert!(shared.reactivate());
            shared
        });
        let rings = [0, 1].map(|_| Arc::new(WordRing::new(4, 1, 0)));
        let application = {
            let (shared, rings) = (shared.clone(), rings.clone());
            thread::spawn(move || {
                for (shared, ring) in shared.iter().zip(&rings) {
                    ring.publish(1);
                    shared.ring();
                }
            })
        };
        shared.iter().for_each(|shared| shared.set_idle_unfenced());
        QpShared::fence_idle();
        let seen = [0, 1].map(|slot: usize| rings[slot].tail() == 1 && shared[slot].reactivate());
        application.join().unwrap();
        let rung: Vec<_> = core::iter::from_fn(|| doorbells.pop()).collect();
        for (slot, seen) in (0..).zip(seen) {
            let times = rung.iter().filter(|rung| **rung == slot).count() + usize::from(seen);
            assert_eq!(times, 1, "work of {slot} is found once");
        }
    });
}

/// Queue pairs ring for an engine whose thread sleeps whenever it finds nothing.
fn rings_for_a_sleeper(ringers: u32) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        let doorbells = Doorbells::new(ringers as usize);
        doorbells.sleep().enable().unwrap();
        let engine = {
            let doorbells = doorbells.clone();
            // Under loom sleeping has no limit: a lost wake-up is a deadlock.
            thread::spawn(move || {
                for _ in 0..ringers {
                    while doorbells.pop().is_none() {
                        doorbells.sleep().sleep(Duration::from_millis(1), None, || doorbells.is_empty());
                    }
                }
            })
        };
        let others: Vec<_> = (1..ringers)
            .map(|slot| {
                let shared = QpShared::new(slot, doorbells.clone());
                thread::spawn(move || shared.ring())
            })
            .collect();
        QpShared::new(0, doorbells.clone()).ring();
        for other in others {
            other.join().unwrap();
        }
        engine.join().unwrap();
    });
}

#[test]
fn loom_no_wake_up_is_lost_by_a_thread_that_sleeps() {
    rings_for_a_sleeper(1);
}

#[test]
fn loom_two_that_wake_the_sleeper_are_both_seen() {
    rings_for_a_sleeper(2);
}

/// A queue of memif's, as far as sleep goes: both ends are other processes.
struct Packets {
    count: AtomicU32,
    masked: AtomicBool,
    interrupt: Alarm,
    /// Stands for a time in which stores become visible: what was stored under it before is seen
    /// by who had it since, and the other way round.
    time: Mutex<()>,
}

/// The peer hands a packet over, and raises an interrupt if nobody polls. The receiver asks for
/// interrupts and looks again, `settled` or at once, and sleeps.
fn packets_for_a_sleeper(settled: bool) {
    loom::model(move || {
        let queue = Arc::new(Packets {
            count: AtomicU32::new(0),
            masked: AtomicBool::new(true),
            interrupt: Alarm::new(),
            time: Mutex::new(()),
        });
        let peer = {
            let queue = Arc::clone(&queue);
            thread::spawn(move || {
                {
                    let _time = queue.time.lock().unwrap();
                    queue.count.store(1, Ordering::Release);
                }
                if !queue.masked.load(Ordering::Relaxed) {
                    queue.interrupt.ring();
                }
            })
        };
        queue.masked.store(false, Ordering::Relaxed);
        if settled {
            drop(queue.time.lock().unwrap());
        }
        while queue.count.load(Ordering::Acquire) == 0 {
            queue.interrupt.wait(None, Duration::from_millis(50));
        }
        peer.join().unwrap();
    });
}

#[test]
fn loom_no_packet_is_lost_by_a_thread_that_asked_for_interrupts_and_looked_again() {
    packets_for_a_sleeper(true);
}

/// The look behind the short sleep is what counts.
#[test]
#[should_panic(expected = "deadlock")]
fn loom_without_the_short_sleep_a_packet_would_be_lost() {
    packets_for_a_sleeper(false);
}

/// What a program and the thread that stands in for it share.
struct Hybrid {
    /// The lock of the engine, and what the thread has to do.
    work: Mutex<u32>,
    doorbells: Doorbells,
    hand_over: HandOver,
    served: AtomicU32,
}

impl Hybrid {
    /// The program makes work, as a poll or as a post. It `tells` the thread if that drives.
    fn call(&self, polls: bool, tells: bool) {
        if polls {
            self.hand_over.note_poll();
        }
        let mut work = self.work.lock().unwrap();
        *work += 1;
        let taken = self.hand_over.is_taken();
        drop(work);
        if taken && tells {
            self.served.fetch_add(1, Ordering::Relaxed);
            self.doorbells.sleep().wake();
        }
    }

    /// The thread drives, and sleeps whenever there is nothing to do, until `done`.
    fn stand_in(&self, done: impl Fn(u32) -> bool) {
        let mut work = self.work.lock().unwrap();
        self.hand_over.set_taken(true);
        while !done(*work) {
            let served = self.served.load(Ordering::Relaxed);
            drop(work);
            let idle = || self.served.load(Ordering::Relaxed) == served;
            self.doorbells.sleep().sleep(Duration::from_millis(1), None, idle);
            work = self.work.lock().unwrap();
        }
        self.hand_over.set_taken(false);
    }
}

/// A program uses an engine while a thread takes it over.
fn hand_over(polls: bool, tells: bool) {
    loom::model(move || {
        let doorbells = Doorbells::new(1);
        doorbells.sleep().enable().unwrap();
        let work = Mutex::new(0);
        let engine = Hybrid { work, doorbells, hand_over: HandOver::new(), served: AtomicU32::new(0) };
        let engine = Arc::new(engine);
        let program = {
            let engine = Arc::clone(&engine);
            thread::spawn(move || engine.call(polls, tells))
        };
        engine.stand_in(|work| if polls { engine.hand_over.is_polled() } else { work > 0 });
        program.join().unwrap();
    });
}

#[test]
fn loom_what_a_program_posts_wakes_the_thread_that_stands_in() {
    hand_over(false, true);
}

#[test]
fn loom_a_thread_that_stands_in_steps_back_for_who_polls() {
    hand_over(true, true);
}

#[test]
#[should_panic(expected = "deadlock")]
fn loom_a_thread_that_is_not_told_of_a_post_sleeps_on() {
    hand_over(false, false);
}

/// The application arms a completion queue, polls it once more and waits; the engine completes
/// meanwhile.
#[test]
fn loom_an_armed_queue_is_polled_full_or_tells() {
    loom::model(|| {
        let (mut cq, mut writer) = completion_queue(2);
        writer.listen();
        let engine = thread::spawn(move || {
            let completion = Completion {
                wr_id: 1,
                status: WcStatus::Success,
                opcode: WcOpcode::Send,
                flags: WcFlags::empty(),
                byte_len: 0,
                imm: 0,
                qpn: 2,
                src_qp: 0,
            };
            writer.push(&completion).unwrap();
            writer.note(&completion) && writer.take_event()
        });
        cq.arm(false);
        let polled = cq.poll().is_some();
        assert!(engine.join().unwrap() || polled, "completed, and the application waits for ever");
    });
}

/// A queue pair is destroyed while a thread posts to it: its slot waits for the doorbell, if there
/// is one.
#[test]
fn loom_a_slot_is_not_used_again_before_the_doorbell_of_its_last_life() {
    loom::model(|| {
        let (shared, doorbells) = shared_in(QpState::Rts);
        let application = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.ring())
        };
        let taken = doorbells.pop().is_some();
        let due = shared.close() && !taken;
        application.join().unwrap();
        shared.ring();
        assert_eq!(
            doorbells.pop().is_some(),
            due,
            "a doorbell that nobody waits for, or none that somebody does"
        );
    });
}

/// What a queue pair's doorbell did before it fails.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    /// Nothing: the next post rings.
    Idle,
    /// The engine took it.
    Taken,
    /// It waits in the queue.
    Waiting,
}

/// The application posts receives while the engine takes the queue pair to ERR: all that were taken
/// are flushed.
fn receives_posted_while_the_queue_pair_fails(before: Before) {
    loom::model(move || {
        let (shared, doorbells) = shared_in(QpState::Rts);
        if before != Before::Idle {
            shared.ring();
        }
        if before == Before::Taken {
            assert_eq!(doorbells.pop(), Some(7));
        }
        let caps = QueueCaps { max_recv_wr: 2, max_recv_sge: 1, ..QueueCaps::default() };
        let (mut recv, reader) = recv_queue(&caps, &shared);
        let application = thread::spawn(move || {
            for wr_id in 0..2 {
                recv.post(&RecvRequest { wr_id, scatter: &[] }).unwrap();
            }
        });
        shared.set_state(QpState::Err);
        let mut engine = Engine { shared: &shared, doorbells: &doorbells, seen: reader.tail() };
        // Only what the engine has taken becomes idle.
        if before == Before::Taken {
            shared.deactivate();
            if reader.tail() != engine.seen {
                shared.ring();
            }
        }
        engine.turn(|| reader.tail());
        application.join().unwrap();
        while engine.turn(|| reader.tail()) {}
        assert_eq!(engine.seen, 2, "posted, and never flushed");
    });
}

#[test]
fn loom_no_receive_is_lost_when_an_idle_queue_pair_fails() {
    receives_posted_while_the_queue_pair_fails(Before::Idle);
}

#[test]
fn loom_no_receive_is_lost_when_an_active_queue_pair_fails() {
    receives_posted_while_the_queue_pair_fails(Before::Taken);
}

#[test]
fn loom_no_receive_is_lost_when_a_queue_pair_fails_that_has_just_rung() {
    receives_posted_while_the_queue_pair_fails(Before::Waiting);
}

#[test]
fn loom_a_shared_receive_is_read_whole_and_not_overwritten_while_it_is_taken() {
    loom::model(|| {
        // One entry for two receives: the second waits until the engine has given it back.
        let (mut queue, mut reader) = shared_recv_queue(&SrqCaps { max_wr: 1, max_sge: 1 });
        let application = thread::spawn(move || {
            for wr_id in 1..=2 {
                let sge = Sge { addr: !wr_id, length: 1, lkey: 1 };
                while queue.post(&RecvRequest { wr_id, scatter: &[sge] }).is_err() {
                    thread::yield_now();
                }
            }
        });
        for wr_id in 1..=2 {
            let number = loop {
                match reader.take() {
                    Some(number) => break number,
                    None => thread::yield_now(),
                }
            };
            let wqe = reader.wqe(number);
            assert_eq!((wqe.wr_id, wqe.sges().next().map(|sge| sge.addr)), (wr_id, Some(!wr_id)));
            reader.give_back(number);
        }
        application.join().unwrap();
    });
}
