//! The memory budget of ten thousand queue pairs.

use crate::common::rig::{Options, Rig};
use datapath::queue::QueueCaps;

/// What the paper's FPGA keeps for 10,000 connections, in bytes.
const PAPER_BYTES: usize = 4_400_000;

#[test]
fn ten_thousand_queue_pairs_fit_their_budget() {
    const PAIRS: u32 = 10_000;
    let mut rig = Rig::new(PAIRS, 64);
    let empty = rig.sides[0].engine.core().memory_used();
    let caps = QueueCaps { max_send_wr: 16, max_recv_wr: 16, ..QueueCaps::default() };
    let options = Options { caps, ..Options::default() };
    let handles: Vec<_> = (0..PAIRS).map(|_| rig.connect(&options)).collect();
    let memory = rig.sides[0].engine.core().memory_used();
    println!("{memory:?}: {} bytes in total; the paper: {PAPER_BYTES}", memory.total());
    assert_eq!((empty.queue_pairs, memory.queue_pairs), (0, PAIRS as usize));
    assert!(memory.hot_per_qp() <= 256);
    // What the fast path needs of all of them: contexts, and 64 bytes in its tables for each,
    // beside the wheel's buckets.
    assert_eq!(memory.hot, PAIRS as usize * memory.hot_per_qp());
    assert!(memory.tables <= PAIRS as usize * 64 + 20_000, "{memory:?}");
    assert!(memory.hot + memory.tables <= PAPER_BYTES, "{memory:?}");
    // Idle queue pairs took nothing from the pool, and what they added is theirs alone.
    assert_eq!(memory.recovery_contexts, empty.recovery_contexts);
    assert_eq!((memory.hot, memory.tables), (empty.hot, empty.tables));
    // Of it 512 bytes say which of four windows' packets are to be sent again, in both directions
    // (docs/adr/0029).
    assert!(memory.cold / PAIRS as usize <= 1_280, "{memory:?}");
    assert!(handles.iter().all(|[handles, _]| rig.sides[0].engine.core_mut().destroy_qp(handles.qpn)));
    assert_eq!(rig.sides[0].engine.core().memory_used(), empty);
}
