//! QPNs and slots over many lives of queue pairs.

use crate::common::rig::{Options, Rig};
use datapath::queue::QueueCaps;
use std::collections::{HashMap, HashSet};

fn small() -> Options {
    let caps = QueueCaps { max_send_wr: 1, max_recv_wr: 1, max_send_sge: 1, max_recv_sge: 1, max_inline: 0 };
    Options { window: 1, caps, ..Options::default() }
}

/// The bits of a QPN that name the slot.
const fn slot_of(qpn: u32, max_qps: u32) -> u32 {
    qpn % max_qps.next_power_of_two()
}

#[test]
fn no_qpn_comes_back_for_many_lives_of_its_slot() {
    // The upper bits tell 2^23 lives of a slot apart, or 2^14.
    for (max_qps, lives) in [(1, 20_000), (2, 20_000), (3, 20_000), (1_000, 20_000)] {
        let mut rig = Rig::new(max_qps, 8);
        let side = &mut rig.sides[0];
        let mut seen = HashSet::new();
        for life in 0..lives {
            let qpn = side.create(&small()).qpn;
            assert!(seen.insert(qpn), "QPN {qpn:#x} again in life {life} of {max_qps}");
            assert!((2..0xFF_FFFF).contains(&qpn), "{qpn:#x} is reserved");
            assert!(slot_of(qpn, max_qps) < max_qps);
            assert!(side.engine.core_mut().destroy_qp(qpn));
            assert!(!side.engine.core_mut().destroy_qp(qpn), "it is gone");
            assert_eq!(side.engine.core().query_qp(qpn), None);
        }
    }
}

#[test]
fn queue_pairs_that_live_at_once_have_slots_of_their_own_and_a_freed_slot_rests_longest() {
    let max_qps = 100;
    let mut rig = Rig::new(max_qps, 8);
    let side = &mut rig.sides[0];
    let handles: Vec<_> = (0..max_qps).map(|_| side.create(&small())).collect();
    let slots: HashMap<u32, u32> = handles.iter().map(|qp| (slot_of(qp.qpn, max_qps), qp.qpn)).collect();
    assert_eq!((slots.len(), side.engine.core().qp_count()), (100, 100));
    for (slot, qpn) in &slots {
        assert!(side.engine.core_mut().destroy_qp(*qpn), "slot {slot}");
        assert_eq!(side.engine.core().query_qp(*qpn), None);
    }
    let freed: Vec<u32> = slots.keys().copied().collect();
    let again: Vec<u32> = (0..max_qps).map(|_| slot_of(side.create(&small()).qpn, max_qps)).collect();
    assert_eq!(again, freed, "first freed, first used again");
}

#[test]
fn a_full_table_says_so_and_takes_the_next_after_one_went() {
    let mut rig = Rig::new(2, 8);
    let side = &mut rig.sides[0];
    let [first, _second] = [side.create(&small()), side.create(&small())];
    let message = side.try_create(&small()).err().unwrap().to_string();
    assert!(message.contains("queue pairs") && message.contains('2'), "{message}");
    assert!(side.engine.core_mut().destroy_qp(first.qpn));
    let third = side.create(&small());
    assert_eq!(slot_of(third.qpn, 2), slot_of(first.qpn, 2));
    assert_ne!(third.qpn, first.qpn);
}
