//! After its start the slow path does not allocate, as long as no more streams recover than it was
//! made for.

mod support;

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

use sr_recovery::{Record, SlowPath, SlowPathConfig, StreamId};
use support::{psn, rng::Rng};

thread_local! {
    /// Of this thread alone: the harness has others.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    /// Bytes that this thread holds.
    static HELD: Cell<isize> = const { Cell::new(0) };
}

/// The system's allocator, counted.
struct Counting;

// SAFETY: every call goes to `System` as it is; counting in `const`, `Drop`-less thread-locals
// allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        HELD.set(HELD.get() + layout.size().cast_signed());
        // SAFETY: the caller keeps `GlobalAlloc::alloc`'s contract, which is that of `System`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        HELD.set(HELD.get() - layout.size().cast_signed());
        // SAFETY: `ptr` came from `System` by `alloc` above, with this layout.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations(run: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    run();
    ALLOCATIONS.get() - before
}

const WINDOW: u32 = 512;

/// Records of a sender and a receiver that lose packets all the time, enter and leave recovery.
fn churn(rng: &mut Rng, qp: u32, generation: u32, records: &mut Vec<Record>) {
    let stream = StreamId { qp, response: rng.chance(500) };
    let (una, snd_nxt) = (psn(0), psn(WINDOW));
    for seq in 0..100 {
        let (first, last) = (psn(rng.below(WINDOW)), psn(rng.below(WINDOW)));
        let (bitmap_base, bitmap) = (una, rng.next());
        let (sack, threshold) = (Some(last), 0);
        records.push(Record::Ack {
            stream,
            generation,
            seq,
            una,
            snd_nxt,
            sack,
            bitmap_base,
            bitmap,
            threshold,
        });
        records.push(Record::Resent { stream, generation, seq, psn: first, snd_nxt });
        let first = psn(rng.below(100));
        records.push(Record::RxRun { stream, generation, first, last: first, epsn: una });
    }
    records.push(Record::Rto { stream, generation, seq: 100 });
    records.push(Record::ResendAll { stream, generation, seq: 101, una, snd_nxt, first: una, last: snd_nxt });
    if rng.chance(500) {
        records.push(Record::RxClose { stream, generation });
        records.push(Record::TxClose { stream, generation });
    }
}

fn play(slow_path: &mut SlowPath, records: &[Record]) {
    for record in records {
        if !slow_path.ready() {
            while slow_path.poll().is_some() {}
        }
        slow_path.handle(record);
    }
    while slow_path.poll().is_some() {}
}

#[test]
fn nothing_is_allocated_after_the_start() {
    let mut rng = Rng::new(1);
    let mut records = Vec::new();
    for round in 0..200 {
        churn(&mut rng, round % 8, round, &mut records);
    }
    let config = SlowPathConfig { max_streams: 16, window_max: WINDOW, contexts: 16 };
    let mut slow_path = SlowPath::new(config);
    assert_eq!(allocations(|| play(&mut slow_path, &records)), 0);
    let stats = slow_path.stats();
    assert_eq!((stats.untracked, stats.records_refused), (0, 0));
    assert!(stats.packets_lost > 10_000 && stats.advances > 100, "{stats:?}");
    assert!(stats.commands_waiting_max > 100, "{stats:?}");
}

#[test]
fn more_streams_than_contexts_allocate_nothing_either() {
    let mut rng = Rng::new(2);
    let mut records = Vec::new();
    for qp in 0..8 {
        churn(&mut rng, qp, 1, &mut records);
    }
    let config = SlowPathConfig { max_streams: 16, window_max: WINDOW, contexts: 2 };
    let mut slow_path = SlowPath::new(config);
    assert_eq!(allocations(|| play(&mut slow_path, &records)), 0);
    let stats = slow_path.stats();
    assert!(stats.untracked > 0 && stats.records_refused > 0, "{stats:?}");
    assert!(stats.senders_open <= 2 && stats.receivers_open <= 2, "{stats:?}");
}

#[test]
fn its_size_is_what_it_says() {
    for (max_streams, window_max, contexts) in [(2, 64, 1), (200, 512, 128), (20_000, 32_768, 64)] {
        let before = HELD.get();
        let slow_path = SlowPath::new(SlowPathConfig { max_streams, window_max, contexts });
        assert_eq!(slow_path.bytes().cast_signed(), HELD.get() - before);
    }
}
