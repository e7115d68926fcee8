//! Times of a packet in both ends of a stream: everything but its bytes.

mod quick;

use criterion::{Criterion, Throughput, criterion_main};
use datapath::qp::attr::RecoveryPolicy;
use datapath::stream::{AckInfo, Advanced, Arrival, RxStream, TxRecovery, TxStream};
use datapath::time::Time;
use sr_recovery::{Command, Record, SlowPath, SlowPathConfig, StreamId};
use std::hint::black_box;
use wire::Psn;

const STREAM: StreamId = StreamId { qp: 0, response: false };
const WINDOW: u16 = 512;
/// Packets for each acknowledgement in order, as in `examples/turn_cost.rs`.
const BATCH: u32 = 4;
/// Packets in flight when one of them is lost.
const FLIGHT: u32 = 32;

/// A sender, its receiver, and their slow path, without a network between them.
struct Pair {
    tx: TxStream,
    cold: TxRecovery,
    rx: RxStream,
    slow: SlowPath,
    now: Time,
}

impl Pair {
    fn new() -> Self {
        let first = Psn::new(0xFF_FFF0);
        Self {
            tx: TxStream::new(first, WINDOW),
            cold: TxRecovery::new(STREAM, 1, WINDOW, RecoveryPolicy::SelectiveRepeat, first),
            rx: RxStream::new(first, WINDOW, 0),
            slow: SlowPath::new(SlowPathConfig { max_streams: 2, window_max: WINDOW.into(), contexts: 2 }),
            now: Time::ZERO,
        }
    }

    fn send(&mut self) -> Psn {
        assert!(self.tx.may_send_new());
        self.now = self.now.after(100);
        self.tx.send_new(self.now)
    }

    /// True if it is the highest that has arrived, while something is missing: an acknowledgement
    /// says so.
    fn arrive(&mut self, psn: Psn) -> bool {
        match self.rx.classify(black_box(psn)) {
            Arrival::InOrder => self.rx.advance(1),
            Arrival::AtEpsn | Arrival::Ahead(_) => {
                let slow = &mut self.slow;
                let highest = self.rx.on_placed_out_of_order(STREAM, psn, |record| slow.handle(&record));
                self.obey();
                return highest && self.rx.in_recovery();
            }
            other => panic!("{other:?}: nothing arrives twice"),
        }
        false
    }

    fn acknowledge(&mut self, sack: Option<Psn>) {
        let next = self.rx.epsn();
        let bitmap_base = next.next();
        let info =
            AckInfo { next, sack, bitmap: 0, bitmap_base, resend_all: false, duplicate: false, echo: None };
        let effect = self.tx.on_ack(&mut self.cold, self.now, black_box(&info));
        let effect = effect.expect("it says nothing that is old or untrue");
        if let Some(record) = effect.record {
            self.slow.handle(&record);
            self.obey();
        }
        black_box(effect);
    }

    /// Both ends do what the slow path has found out.
    fn obey(&mut self) {
        while let Some(command) = self.slow.poll() {
            if let Command::Advance { generation, epsn, .. } = command {
                if self.rx.on_advance(generation, epsn) == Advanced::Left {
                    self.slow.handle(&Record::RxClose { stream: STREAM, generation });
                }
            } else {
                self.tx.on_command(&mut self.cold, &command);
            }
        }
    }

    fn in_order(&mut self) {
        for _ in 0..BATCH {
            let psn = self.send();
            self.arrive(psn);
        }
        self.acknowledge(None);
    }

    /// The first of a flight is lost, and sent again when the others have been acknowledged one by
    /// one.
    fn one_lost(&mut self) {
        let lost = self.send();
        for _ in 1..FLIGHT {
            let psn = self.send();
            let sack = self.arrive(psn).then_some(psn);
            self.acknowledge(sack);
        }
        let psn = self.tx.next_retry(&self.cold).expect("the loss was noticed");
        assert_eq!(psn, lost);
        if let Some(record) = self.tx.take_retry(&mut self.cold, psn) {
            self.slow.handle(&record);
            self.obey();
        }
        self.arrive(psn);
        self.acknowledge(None);
        assert!(!self.rx.in_recovery() && self.tx.outstanding() == 0);
    }

    /// Each second packet overtakes the one before it; the receiver alone.
    fn swapped(&mut self) {
        for _ in 0..BATCH / 2 {
            let first = self.rx.epsn();
            assert!(self.arrive(first.next()));
            self.arrive(first);
            assert!(!self.rx.in_recovery());
        }
    }
}

fn benches() {
    let mut criterion: Criterion = quick::criterion();
    let mut group = criterion.benchmark_group("stream");
    let mut bench = |name: &str, packets: u32, run: fn(&mut Pair)| {
        let mut pair = Pair::new();
        group.throughput(Throughput::Elements(packets.into()));
        group.bench_function(name, |bencher| bencher.iter(|| run(black_box(&mut pair))));
    };
    bench("in order, 4 an acknowledgement", BATCH, Pair::in_order);
    bench("one of 32 lost, each acknowledged", FLIGHT, Pair::one_lost);
    bench("received in swapped pairs", BATCH, Pair::swapped);
    group.finish();
    criterion.final_summary();
}

criterion_main!(benches);
