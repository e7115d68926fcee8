//! Times of a turn in the schedule queue, by policy, with one queue pair and with ten thousand.

mod quick;

use criterion::{Criterion, criterion_main};
use datapath::sched::{EventMux, SchedAttributes, SchedFlags, SchedulerConfig, Usage};
use datapath::time::Time;
use std::hint::black_box;

const COUNTS: [usize; 2] = [1, 10_000];
/// Virtual time between two turns.
const TURN_NS: u64 = 100;
/// What a turn sends at most: a message of one packet.
const PAYLOAD: usize = 4096;
/// Each priority may take an eighth of the 330 Gb/s that such turns are, and the lowest what is
/// left.
const CAPPED: SchedulerConfig = SchedulerConfig::StrictPriority { cap_mbps: [40_000; 8] };
const POLICIES: [(&str, SchedulerConfig); 4] = [
    ("round robin", SchedulerConfig::RoundRobin),
    ("weighted", SchedulerConfig::Weighted),
    ("strict priority", CAPPED),
    ("deficit round robin", SchedulerConfig::DeficitRoundRobin),
];

/// Queue pairs of all weights up to 4 and of all priorities.
struct Ready {
    mux: EventMux,
    flags: Vec<SchedFlags>,
    now: Time,
}

impl Ready {
    fn new(config: &SchedulerConfig, count: usize) -> Self {
        let mut mux = EventMux::new(config, count);
        let mut flags = vec![SchedFlags::default(); count];
        for (slot, flags) in (0_u32..).zip(&mut flags) {
            let of_slot = |modulus: u32| u8::try_from(slot % modulus).unwrap_or(0);
            let attributes = SchedAttributes { weight: 1 + of_slot(4), priority: of_slot(8) };
            mux.set_attributes(slot, attributes);
            mux.wake(slot, flags, true);
        }
        Self { mux, flags, now: Time::ZERO }
    }

    /// Whoever is next sends a packet, and is ready again, or not.
    fn turn(&mut self, ready: bool) -> u32 {
        self.now = self.now.after(TURN_NS);
        let turn = self.mux.next_ready(self.now).expect("somebody is ready");
        let flags = &mut self.flags[turn.slot as usize];
        flags.remove(SchedFlags::QUEUED);
        let usage = Usage { bytes: turn.bytes.min(PAYLOAD), packets: 1, ..Usage::default() };
        self.mux.settle(turn.slot, flags, usage, black_box(ready));
        turn.slot
    }

    /// One turn, after which a doorbell wakes the queue pair: it keeps no place from one turn to
    /// the next.
    fn turn_and_wake(&mut self) -> u32 {
        let slot = self.turn(false);
        self.mux.wake(slot, &mut self.flags[slot as usize], black_box(true));
        slot
    }
}

fn benches() {
    let mut criterion: Criterion = quick::criterion();
    for (name, config) in POLICIES {
        let mut group = criterion.benchmark_group(format!("scheduler/{name}"));
        for count in COUNTS {
            let mut ready = Ready::new(&config, count);
            group.bench_function(format!("stays ready/{count}"), |bencher| {
                bencher.iter(|| ready.turn(true));
            });
            let mut ready = Ready::new(&config, count);
            group.bench_function(format!("rests and wakes/{count}"), |bencher| {
                bencher.iter(|| ready.turn_and_wake());
            });
            assert_eq!(ready.mux.waiting(), count, "nobody is forgotten");
        }
    }
    criterion.final_summary();
}

criterion_main!(benches);
