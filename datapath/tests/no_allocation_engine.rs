//! Once made, an engine allocates nothing: not in its turns, not when work is posted or completions
//! are polled.

mod common;

use common::counting::{Counting, allocations};
use common::rig::{Options, Rig, TURN_NS, write};
use datapath::engine::QpHandles;
use datapath::queue::*;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// SENDs and WRITEs of all lengths, receives for the former, on one queue pair.
struct Load {
    handles: [QpHandles; 2],
    posted: u32,
}

impl Load {
    fn new(rig: &mut Rig) -> Self {
        let caps = QueueCaps { max_recv_wr: 1024, ..QueueCaps::default() };
        let handles = rig.connect(&Options { caps, ..Options::default() });
        Self { handles, posted: 0 }
    }

    /// Posts what fits: receives first, so that there is always one.
    fn post(&mut self, rig: &Rig, receives: bool) {
        let [a, b] = &rig.sides;
        let [own, peer] = &mut self.handles;
        if receives {
            let wr_id = 1;
            while peer.recv.post(&RecvRequest { wr_id, scatter: &[b.sge(0, 1 << 16)] }).is_ok() {}
        }
        for _ in 0..4 {
            let length = (self.posted * 977) % 9_000;
            let gather = [a.sge(0, length / 3), a.sge(70_000, length - length / 3)];
            let request = write(7, &gather, 100_000, b.key);
            let opcode =
                if self.posted.is_multiple_of(3) { SendOpcode::Send } else { SendOpcode::WriteWithImm };
            let inline = SendRequest { opcode, data: SendData::Inline(b"twelve bytes"), ..request };
            let request = match self.posted % 4 {
                0 => inline,
                1 => SendRequest { opcode, ..request },
                _ => request,
            };
            if own.send.post(&request).is_err() {
                break;
            }
            self.posted += 1;
        }
    }
}

fn drain(rig: &mut Rig) -> usize {
    rig.sides.iter_mut().map(|side| side.drain()).sum()
}

/// Works for `steps`, with a pause now and then; returns what it allocated and how much completed.
fn work(rig: &mut Rig, load: &mut Load, steps: usize) -> (u64, usize) {
    let mut completed = 0;
    let count = allocations(|| {
        for step in 0..steps {
            if step % 200 < 100 {
                load.post(rig, true);
            }
            rig.step();
            completed += drain(rig);
        }
    });
    (count, completed)
}

#[test]
fn the_counter_counts() {
    assert_eq!(allocations(|| drop(std::hint::black_box(vec![0u8; 100]))), 1);
}

#[test]
fn lossless_traffic_allocates_nothing() {
    let mut rig = Rig::new(2, 2048);
    let mut load = Load::new(&mut rig);
    let (count, completed) = work(&mut rig, &mut load, 3_000);
    assert_eq!(count, 0);
    assert!(completed > 3_000, "{completed}");
    assert_eq!(rig.sides[0].engine.core().counters().tx_retransmits, 0);
}

#[test]
fn loss_allocates_nothing() {
    let mut rig = Rig::new(2, 2048);
    let mut load = Load::new(&mut rig);
    let mut state = 1u32;
    // 1 in 16, both ways.
    rig.drops = Box::new(move |_, _| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state >> 28 == 0
    });
    let (count, completed) = work(&mut rig, &mut load, 5_000);
    let counters = rig.sides[1].engine.core().counters();
    assert_eq!(count, 0, "{counters:?}");
    assert!(completed > 1_000 && counters.recoveries > 100 && counters.parked_writes > 0, "{counters:?}");
    let counters = rig.sides[0].engine.core().counters();
    assert!(counters.tx_retransmits > 300 && counters.tail_probes + counters.rto_fired > 0, "{counters:?}");
}

#[test]
fn waiting_for_receives_allocates_nothing() {
    let mut rig = Rig::new(2, 2048);
    let mut load = Load::new(&mut rig);
    let mut completed = 0;
    let count = allocations(|| {
        for step in 0..10_000 {
            load.post(&rig, step % 1_000 == 0);
            rig.step();
            rig.now = rig.now.after(10_000);
            completed += drain(&mut rig);
        }
    });
    assert_eq!(count, 0);
    let counters = rig.sides[0].engine.core().counters();
    assert!(completed > 1_000 && counters.rx_rnr_naks > 3, "{completed}: {counters:?}");
}

#[test]
fn doorbells_allocate_nothing() {
    let mut rig = Rig::new(64, 2048);
    let mut handles: Vec<_> = (0..64).map(|_| rig.connect(&Options::default())).collect();
    let key = rig.sides[1].key;
    let gather = [rig.sides[0].sge(0, 64)];
    let mut completed = 0;
    let count = allocations(|| {
        for _ in 0..100 {
            for [own, _] in &mut handles {
                own.send.post(&write(1, &gather, 0, key)).unwrap();
            }
            for _ in 0..10 {
                rig.step();
            }
            completed += drain(&mut rig);
        }
    });
    assert_eq!((count, completed), (0, 6_400));
    assert_eq!(rig.sides[0].engine.core().counters().doorbells, 6_400, "each post woke its queue pair");
}

#[test]
fn ten_thousand_idle_queue_pairs_allocate_nothing() {
    let caps = QueueCaps { max_send_wr: 1, max_recv_wr: 1, max_send_sge: 1, max_recv_sge: 1, max_inline: 0 };
    let options = Options { caps, ..Options::default() };
    let mut rig = Rig::new(10_000, 256);
    let mut handles: Vec<_> = (0..10_000).map(|_| rig.connect(&options)).collect();
    let key = rig.sides[1].key;
    let gather = [rig.sides[0].sge(0, 64)];
    let mut completed = 0;
    let count = allocations(|| {
        for step in 0..1_000 {
            handles[step % 7 * 1_000][0].send.post(&write(1, &gather, 0, key)).ok();
            rig.step();
            completed += drain(&mut rig);
        }
    });
    assert_eq!(count, 0);
    assert!(completed > 900, "{completed}");
}

/// Where a frame of IPv4 has its PSN.
const PSN_AT: std::ops::Range<usize> = 42 + 9..42 + 12;

/// More streams miss a packet at once than the slow path has scoreboards for.
#[test]
fn a_gap_on_each_of_two_hundred_queue_pairs_allocates_nothing() {
    const PAIRS: u32 = 200;
    const MESSAGES: usize = 12;
    const FIRST: [u8; 3] = [0xFF, 0xFF, 0xF0];
    let mut rig = Rig::new(PAIRS, 8192);
    let mut handles: Vec<_> = (0..PAIRS).map(|_| rig.connect(&Options::default())).collect();
    let key = rig.sides[1].key;
    let gather = [rig.sides[0].sge(0, 64)];
    let heals = rig.now.after(100 * TURN_NS);
    let now = std::rc::Rc::new(std::cell::Cell::new(rig.now));
    let clock = std::rc::Rc::clone(&now);
    rig.drops = Box::new(move |side, frame| side == 0 && clock.get() < heals && frame[PSN_AT] == FIRST);
    let (mut completed, mut open) = (0, 0);
    let count = allocations(|| {
        for step in 0..600 {
            if step < MESSAGES {
                for [own, _] in &mut handles {
                    own.send.post(&write(1, &gather, 0, key)).unwrap();
                }
            }
            rig.step();
            now.set(rig.now);
            completed += drain(&mut rig);
            open = open.max(rig.sides[0].engine.core().slow_path_stats().senders_open);
        }
    });
    let [sender, receiver] = [0, 1].map(|side| rig.sides[side].engine.core().counters());
    assert_eq!((count, completed), (0, PAIRS as usize * MESSAGES), "{sender:?}");
    assert!(receiver.recoveries >= 64 && receiver.drop_no_context > 0, "{receiver:?}");
    let stats = rig.sides[0].engine.core().slow_path_stats();
    assert_eq!(open, 128, "all scoreboards were in use");
    assert!(stats.untracked >= 72, "the others recovered without: {stats:?}");
}
