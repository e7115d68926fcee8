//! One elephant among 9,999 mice: 1 MiB WRITEs without end beside single ones of 64 bytes.

use datapath::queue::QueueCaps;
use datapath::sched::SchedulerConfig;
use simnet::{Qp, QpOptions, Rig, RigOptions, Rng, Work};
use wire::Pmtu;

const MICE: usize = 9_999;
/// How often the clock is looked at, and how often a mouse writes, in nanoseconds.
const STEP_NS: u64 = 250;
const STEPS: u64 = 8_000;
const ELEPHANT_BYTES: usize = 1 << 20;

/// Latencies of the mice's WRITEs in nanoseconds, sorted, and the elephant's packets.
fn latencies(elephant: bool, tx_ring: usize) -> (Vec<u64>, u64) {
    let mut options = RigOptions {
        max_qps: 10_000,
        scheduler: SchedulerConfig::DeficitRoundRobin,
        ..RigOptions::default()
    };
    options.port.tx_ring = tx_ring;
    let mut rig = Rig::new(options);
    let (left, right) = (rig.add_node(), rig.add_node());
    let caps = QueueCaps { max_send_wr: 4, max_recv_wr: 1, max_send_sge: 1, max_recv_sge: 1, max_inline: 0 };
    let qp = QpOptions { pmtu: Pmtu::B4096, window: 128, caps, cq_entries: 8, ..QpOptions::default() };
    let big = rig.connected(left, right, qp).0;
    let mice: Vec<Qp> = (0..MICE).map(|_| rig.connected(left, right, qp).0).collect();
    let (source, target) = (rig.region(left, ELEPHANT_BYTES), rig.region(right, ELEPHANT_BYTES));
    rig.set_auto_poll(false);
    rig.net.keep_recent(0);
    let mut rng = Rng::new(7);
    let (mut waiting, mut latencies): (Vec<(Qp, u64)>, Vec<u64>) = (Vec::new(), Vec::new());
    for step in 0..STEPS {
        let work = Work::write(source.all(), target.all()).unsignaled();
        while elephant && rig.try_post(big, &work).is_ok() {}
        let mouse = mice[rng.index(MICE)];
        if step + 400 < STEPS && waiting.iter().all(|(other, _)| *other != mouse) {
            rig.write(mouse, source.at(0, 64), target.at(0, 64));
            waiting.push((mouse, rig.now().0));
        }
        rig.run_for(STEP_NS);
        let now = rig.now().0;
        waiting.retain(|(mouse, posted)| {
            rig.poll_qp(*mouse);
            let done = !rig.take_completions(*mouse).0.is_empty();
            latencies.extend(done.then_some(now - posted));
            !done
        });
    }
    assert!(waiting.is_empty(), "{} mice still wait", waiting.len());
    latencies.sort_unstable();
    (latencies, rig.counters(big).tx_requests)
}

#[test]
fn mice_beside_an_elephant_wait_at_most_three_times_as_long() {
    let p99 = |latencies: &[u64]| latencies[latencies.len() * 99 / 100];
    // What the ring holds cannot be overtaken: 8 frames of 4 KB are 2.7 us of the link.
    let ((alone, without), (beside, with)) = (latencies(false, 8), latencies(true, 8));
    let (alone_p99, beside_p99) = (p99(&alone), p99(&beside));
    println!("{} mice; p99 alone {alone_p99} ns, beside an elephant {beside_p99} ns", beside.len());
    assert!(alone.len() > 5_000 && beside.len() > 5_000);
    // 2 ms of 100 Gb/s are 5,900 packets of 4 KB.
    assert!(with - without > 4_000, "the elephant sent {} packets", with - without);
    assert!(beside_p99 <= 3 * alone_p99, "{beside_p99} ns beside, {alone_p99} ns alone");
    let deep_p99 = p99(&latencies(true, 256).0);
    assert!(deep_p99 > 3 * alone_p99, "a deep ring blunts every scheduler: {deep_p99} ns");
}
