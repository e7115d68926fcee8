//! Times of whole turns: two engines with a cable of memory between them, in one thread and in
//! virtual time.

#[path = "../tests/common/memory_port.rs"]
#[allow(dead_code, reason = "the integration tests use the rest")]
mod memory_port;
mod quick;
#[path = "../tests/common/rig.rs"]
#[allow(dead_code, reason = "the integration tests use the rest")]
mod rig;

use criterion::{Criterion, Throughput, criterion_main};
use datapath::engine::QpHandles;
use datapath::queue::QueueCaps;
use rig::{Options, Rig, write};
use wire::Pmtu;

/// WRITEs that are posted at once.
const BATCH: u16 = 32;
/// Turns in which they are all sent, received and acknowledged, many times over.
const STEPS: usize = 100;
const QUEUE_PAIRS: [u32; 2] = [1, 10_000];

/// From the first post to the last completion.
fn exchange(rig: &mut Rig, handles: &mut [QpHandles; 2], bytes: u32) {
    let gather = [rig.sides[0].sge(0, bytes)];
    let key = rig.sides[1].key;
    for wr_id in 0..BATCH {
        handles[0].send.post(&write(wr_id.into(), &gather, 0, key)).expect("the batch before is complete");
    }
    let mut completed = 0;
    let all = rig.run(STEPS, |rig| {
        completed += rig.sides[0].drain();
        completed == usize::from(BATCH)
    });
    assert!(all, "{completed} completed");
}

fn writes(criterion: &mut Criterion) {
    let mut options = Options::default();
    options.attr.path_mtu = Pmtu::B4096;
    for bytes in [64, 4096] {
        let mut rig = Rig::new(1, 256);
        let mut handles = rig.connect(&options);
        let mut group = criterion.benchmark_group(format!("poll loop/{bytes}"));
        group.throughput(Throughput::Elements(BATCH.into()));
        group.bench_function("32 WRITEs", |bencher| {
            bencher.iter(|| exchange(&mut rig, &mut handles, bytes));
        });
    }
}

fn idle(criterion: &mut Criterion) {
    let caps = QueueCaps { max_send_wr: 1, max_recv_wr: 1, max_send_sge: 1, max_recv_sge: 1, max_inline: 0 };
    let options = Options { caps, ..Options::default() };
    for count in QUEUE_PAIRS {
        let mut rig = Rig::new(count, 64);
        let _handles: Vec<_> = (0..count).map(|_| rig.connect(&options)).collect();
        rig.step();
        criterion.bench_function(&format!("poll loop/idle turn/{count}"), |bencher| {
            bencher.iter(|| {
                rig.now = rig.now.after(rig::TURN_NS);
                rig.sides[0].engine.turn(rig.now)
            });
        });
    }
}

fn benches() {
    let mut criterion = quick::criterion();
    writes(&mut criterion);
    idle(&mut criterion);
    criterion.final_summary();
}

criterion_main!(benches);
