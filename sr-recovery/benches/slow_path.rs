//! Times of the slow path: records in, decisions out, and the bitmaps underneath.

#[path = "../tests/support/mod.rs"]
mod support;

use criterion::{BatchSize, Criterion, Throughput, criterion_main};
use sr_recovery::bitmap::PsnBitmap;
use sr_recovery::{Record, SlowPath, SlowPathConfig};
use std::hint::black_box;
use std::time::Duration;
use support::fast_path::{Receiver, Sender};
use support::{psn, rng::Rng};

/// Packets in flight.
const WINDOW: u32 = 500;
/// Packets lost of a thousand.
const LOSS: u32 = 10;
const PACKETS: u32 = 5_000;

fn slow_path() -> SlowPath {
    SlowPath::new(SlowPathConfig { max_streams: 2, window_max: 512, contexts: 1 })
}

/// What both ends tell their slow paths when 1 % of 5,000 packets are lost, each acknowledged, and
/// sent again behind the window that is in flight.
#[derive(Default)]
struct Story {
    sender: Vec<Record>,
    receiver: Vec<Record>,
}

impl Story {
    fn new() -> Self {
        let (mut story, mut slow, mut rng) = (Self::default(), slow_path(), Rng::new(7));
        let (mut sender, mut receiver) = (Sender::default(), Receiver::default());
        while sender.una() < PACKETS {
            while sender.in_flight() < WINDOW && sender.snd_nxt() < PACKETS {
                sender.send_new();
            }
            match sender.wire.pop_front() {
                Some(_) if rng.chance(LOSS) => {}
                Some(packet) => receiver.on_packet(packet),
                None => sender.on_timeout(),
            }
            while let Some(record) = receiver.records.pop_front() {
                slow.handle(&record);
                story.receiver.push(record);
                while let Some(command) = slow.poll() {
                    receiver.on_command(&command);
                }
            }
            while let Some(ack) = receiver.acks.pop_front() {
                sender.on_ack(ack);
                story.hear(&mut sender, &mut slow);
            }
            sender.send_retries();
            story.hear(&mut sender, &mut slow);
        }
        assert!(sender.resent > 40, "{} packets were sent again", sender.resent);
        story
    }

    fn hear(&mut self, sender: &mut Sender, slow: &mut SlowPath) {
        while let Some(record) = sender.records.pop_front() {
            slow.handle(&record);
            self.sender.push(record);
            while let Some(command) = slow.poll() {
                sender.on_command(&command, false);
            }
        }
    }
}

fn decisions(criterion: &mut Criterion) {
    let Story { sender, receiver } = Story::new();
    let mut group = criterion.benchmark_group("slow path, 1 % lost of a window of 500");
    for (name, records) in [("sender's records", sender), ("receiver's records", receiver)] {
        group.throughput(Throughput::Elements(records.len() as u64));
        group.bench_function(name, |bencher| {
            bencher.iter_batched(
                slow_path,
                |mut slow| {
                    for record in &records {
                        slow.handle(black_box(record));
                        while let Some(command) = slow.poll() {
                            black_box(command);
                        }
                    }
                    slow
                },
                BatchSize::PerIteration,
            );
        });
    }
}

/// A window of packets arrives in random order; where the first gap is is asked each time, as the
/// slow path does.
fn bitmap(criterion: &mut Criterion) {
    let mut rng = Rng::new(7);
    let mut order: Vec<u32> = (0..WINDOW).collect();
    for at in (1..WINDOW).rev() {
        order.swap(at as usize, rng.below(at + 1) as usize);
    }
    let (mut bitmap, mut base) = (PsnBitmap::new(WINDOW), 0);
    bitmap.reset(psn(base));
    let mut group = criterion.benchmark_group("bitmap");
    group.throughput(Throughput::Elements(WINDOW.into()));
    group.bench_function("a window of 500 in random order", |bencher| {
        bencher.iter(|| {
            let end = psn(base + WINDOW);
            for offset in &order {
                assert!(bitmap.set(psn(base + black_box(*offset))));
                black_box(bitmap.first_zero(bitmap.base(), end));
            }
            assert_eq!(bitmap.advance(end), WINDOW);
            base = (base + WINDOW) % (1 << 24);
        });
    });
}

fn benches() {
    let mut criterion = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(500))
        .configure_from_args();
    decisions(&mut criterion);
    bitmap(&mut criterion);
    criterion.final_summary();
}

criterion_main!(benches);
