//! What holds of every policy: nobody is lost, doubled or starved, and no turn is too large.

use crate::sched::*;
use crate::time::Time;
use crate::tuning::BYTES_PER_TURN;
use proptest::prelude::*;

const SLOTS: usize = 6;
const LAST_SLOT: u32 = 5;

/// Caps that leave most of a link of 100 Gb/s to those below.
const CAPPED: SchedulerConfig =
    SchedulerConfig::StrictPriority { cap_mbps: [0, 1_000, 1_000, 1_000, 1_000, 1_000, 1_000, 1_000] };
const ALL: [SchedulerConfig; 4] =
    [SchedulerConfig::RoundRobin, SchedulerConfig::Weighted, SchedulerConfig::DeficitRoundRobin, CAPPED];

fn any_policy() -> impl Strategy<Value = SchedulerConfig> {
    prop_oneof![
        Just(SchedulerConfig::RoundRobin),
        Just(SchedulerConfig::Weighted),
        Just(SchedulerConfig::DeficitRoundRobin),
        prop::array::uniform8(prop_oneof![Just(0), 1..200_000_u32])
            .prop_map(|cap_mbps| SchedulerConfig::StrictPriority { cap_mbps }),
    ]
}

fn attributes() -> impl Strategy<Value = SchedAttributes> {
    (1..=WEIGHT_LIMIT, 0..8_u8).prop_map(|(weight, priority)| SchedAttributes { weight, priority })
}

#[derive(Clone, Copy, Debug)]
enum Op {
    /// The slot may have become ready.
    Wake(u32, bool),
    /// Somebody's turn: what part of it is used, in packets of some size, and how it ends.
    Scheduled {
        packets: usize,
        len: usize,
        end: u8,
        gap_ns: u64,
    },
    Attributes(u32, SchedAttributes),
}

fn op() -> impl Strategy<Value = Op> {
    let slot = 0..=LAST_SLOT;
    prop_oneof![
        3 => (slot.clone(), any::<bool>()).prop_map(|(slot, ready)| Op::Wake(slot, ready)),
        6 => (0..=16_usize, 0..=4096_usize, 0..4_u8, 0..10_000_u64)
            .prop_map(|(packets, len, end, gap_ns)| Op::Scheduled { packets, len, end, gap_ns }),
        1 => (slot, attributes()).prop_map(|(slot, attributes)| Op::Attributes(slot, attributes)),
    ]
}

proptest! {
    #[test]
    fn the_ready_stand_in_the_queue_once_and_nobody_else(
        config in any_policy(),
        ops in prop::collection::vec(op(), 1..300),
    ) {
        let mut mux = EventMux::new(&config, SLOTS);
        let mut flags = [SchedFlags::default(); SLOTS];
        let mut now = Time::ZERO;
        for op in ops {
            match op {
                Op::Wake(slot, ready) => mux.wake(slot, &mut flags[slot as usize], ready),
                Op::Attributes(slot, attributes) => mux.set_attributes(slot, attributes),
                Op::Scheduled { packets, len, end, gap_ns } => {
                    now = now.after(gap_ns);
                    let waiting = mux.waiting();
                    let Some(turn) = mux.next_ready(now) else {
                        prop_assert_eq!(waiting, 0, "somebody waits, and nobody is next");
                        continue;
                    };
                    let flags = &mut flags[turn.slot as usize];
                    prop_assert!(flags.contains(SchedFlags::QUEUED), "slot {} was not queued", turn.slot);
                    prop_assert!(turn.bytes <= BYTES_PER_TURN);
                    flags.remove(SchedFlags::QUEUED);
                    // As a queue pair does it: whole packets, as many as fit.
                    let packets = packets.min(turn.bytes.checked_div(len).unwrap_or(packets));
                    let usage = Usage { bytes: packets * len, packets, ..Usage::default() };
                    match end {
                        0 => mux.settle(turn.slot, flags, usage, false),
                        1 => mux.resume(turn.slot, flags, usage),
                        _ => mux.settle(turn.slot, flags, usage, true),
                    }
                }
            }
            let queued = flags.iter().filter(|flags| flags.contains(SchedFlags::QUEUED)).count();
            prop_assert_eq!(mux.waiting(), queued);
        }
    }

    /// Everybody is always ready, and takes of each turn what its messages make of it: nobody waits
    /// for more turns than the shares of all others explain.
    #[test]
    fn nobody_starves(
        policy in 0..ALL.len(),
        attributes in prop::array::uniform6(attributes()),
        lens in prop::array::uniform6(0..=4096_usize),
    ) {
        let config = ALL[policy];
        let mut mux = EventMux::new(&config, SLOTS);
        let mut flags = [SchedFlags::default(); SLOTS];
        for (slot, attributes) in (0..).zip(attributes) {
            mux.set_attributes(slot, attributes);
            mux.wake(slot, &mut flags[slot as usize], true);
        }
        let weights: usize = attributes.iter().map(|attributes| usize::from(attributes.weight)).sum();
        let (turns_most, ns_most) = match config {
            SchedulerConfig::RoundRobin => (SLOTS, u64::MAX),
            SchedulerConfig::Weighted => (weights, u64::MAX),
            // 8 messages of 0 bytes are the smallest turn: 800 of 4224 bytes, and 5 more for what
            // is left over.
            SchedulerConfig::DeficitRoundRobin => (6 * weights + 6 * SLOTS, u64::MAX),
            // A gigabit a second is the least that a priority gets: 8 ns a byte, for a turn of each
            // of five others in it, and what it owes from when nobody else was ready.
            SchedulerConfig::StrictPriority { .. } => (usize::MAX, 8 * (5 * 17_000 + 4 * 16_384)),
        };
        let mut served_at = [(0_usize, Time::ZERO); SLOTS];
        let (mut turns, mut now) = (0, Time::ZERO);
        while turns < 20_000 || (ns_most < u64::MAX && now.0 < 3 * ns_most) {
            turns += 1;
            let turn = mux.next_ready(now).expect("all are ready");
            let slot = turn.slot as usize;
            flags[slot].remove(SchedFlags::QUEUED);
            let packets = turn.bytes.checked_div(lens[slot]).unwrap_or(8).min(8);
            let usage = Usage { bytes: packets * lens[slot], packets, ..Usage::default() };
            // At 100 Gb/s.
            now = now.after((usage.bytes + 100 * packets) as u64 * 8 / 100);
            served_at[slot] = (turns, now);
            mux.settle(turn.slot, &mut flags[slot], usage, true);
            for (slot, (turn, at)) in served_at.into_iter().enumerate() {
                let (waited, ns) = (turns - turn, now.since(at));
                prop_assert!(waited <= turns_most && ns <= ns_most, "slot {}: {} turns, {} ns", slot, waited, ns);
            }
        }
    }
}
