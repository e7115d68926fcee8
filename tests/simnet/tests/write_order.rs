//! WRITEs of more than 64 bytes that overlap: relaxed, ordered by their sender, or placed strictly
//! in order.

use datapath::qp::attr::{CongestionAlgorithm, WriteOrder};
use simnet::filter::Verdict;
use simnet::{Faults, FrameKind, Message, Op, Qp, QpOptions, Rig, RigOptions, Rng, Span, Transfer, Work};
use wire::Pmtu;

const LIMIT_NS: u64 = 2_000_000_000;
const AREA: usize = 4096;
const WRITES: usize = 100;

fn pair(seed: u64, write_order: WriteOrder) -> (Rig, Qp, Qp) {
    let options =
        QpOptions { pmtu: Pmtu::B256, sq_psn: 0xFF_FF80, window: 64, write_order, ..QpOptions::default() };
    Rig::pair(RigOptions::seeded(seed), options)
}

fn weather(rig: &mut Rig, a: Qp, b: Qp, faults: Faults) {
    rig.net.set_faults(rig.up(a), faults);
    rig.net.set_faults(rig.up(b), faults);
}

fn storm() -> Faults {
    Faults { loss_ppm: 30_000, duplicate_ppm: 50_000, ..Faults::reordering(150_000, 20_000) }
}

/// Posts [`WRITES`] WRITEs of random ranges of one area, one packet or several, small or not, all
/// at once. Returns the area, and what it must hold if the last WRITE of each byte stands.
fn post_overlapping(rig: &mut Rig, a: Qp, b: Qp, seed: u64) -> (Span, Vec<u8>) {
    let mut rng = Rng::new(seed);
    let (source, target) = (rig.region(a.node(), WRITES * AREA), rig.region(b.node(), AREA));
    rig.fill(source.all(), seed);
    let mut image = rig.bytes(target.all());
    for number in 0..WRITES {
        let len = [8, 64, 65, 200, 256, 1000][rng.index(6)];
        let (from, at) = (number * AREA, rng.index(AREA - len));
        image[at..at + len].copy_from_slice(&rig.bytes(source.at(from, len)));
        rig.post(a, &Work::write(source.at(from, len), target.at(at, len)));
    }
    (target.all(), image)
}

/// Returns `true` if the last WRITE of each byte stands in the end.
fn last_stands(seed: u64, write_order: WriteOrder) -> bool {
    let (mut rig, a, b) = pair(seed, write_order);
    weather(&mut rig, a, b, storm());
    let (area, image) = post_overlapping(&mut rig, a, b, seed);
    let outcome = rig.run_until(|rig| rig.sends(a).len() == WRITES, LIMIT_NS);
    outcome.unwrap_or_else(|stuck| panic!("seed {seed}: {stuck:?}"));
    let stands = rig.bytes(area) == image;
    // Copies that are still under way must not change it either.
    rig.run_until_quiet(LIMIT_NS).expect("nothing is left to do");
    assert_eq!(rig.bytes(area) == image, stands, "seed {seed}: written after all had completed");
    stands
}

#[test]
fn larger_writes_that_overlap_are_in_order_if_it_is_asked_for() {
    let broken = (0..60).filter(|&seed| !last_stands(seed, WriteOrder::empty())).count();
    assert!(broken > 10, "only {broken} of 60 histories go wrong without it: the test could not fail");
    for write_order in [WriteOrder::ORDERED_OVERLAP, WriteOrder::STRICT_PLACEMENT, WriteOrder::all()] {
        let wrong: Vec<u64> = (0..200).filter(|&seed| !last_stands(seed, write_order)).collect();
        assert_eq!(wrong, [], "{write_order:?}");
    }
}

/// Nanoseconds for 64 WRITEs of 1000 bytes, each `step` bytes behind the one before.
fn duration(write_order: WriteOrder, step: usize) -> u64 {
    let (mut rig, a, b) = pair(1, write_order);
    let (source, target) = (rig.region(a.node(), 1000), rig.region(b.node(), 64 * 1000));
    let started = rig.now();
    for number in 0..64 {
        rig.post(a, &Work::write(source.all(), target.at(number * step, 1000)));
    }
    rig.run_until(|rig| rig.sends(a).len() == 64, LIMIT_NS).unwrap();
    rig.now().since(started)
}

#[test]
fn only_writes_that_overlap_wait() {
    let (free, ordered) = (WriteOrder::empty(), WriteOrder::ORDERED_OVERLAP);
    assert_eq!(duration(ordered, 1000), duration(free, 1000), "side by side: nobody waits");
    assert!(duration(ordered, 999) > 5 * duration(free, 999), "one byte of overlap: a round trip each");
}

#[test]
fn a_ring_of_buffers_waits_for_the_buffer_and_not_for_the_ring() {
    let (mut rig, a, b) = pair(1, WriteOrder::ORDERED_OVERLAP);
    let (source, ring) = (rig.region(a.node(), 256), rig.region(b.node(), 32 * 256));
    for number in 0..128 {
        rig.post(a, &Work::write(source.all(), ring.at(number % 32 * 256, 256)));
    }
    let started = rig.now();
    rig.run_until(|rig| rig.sends(a).len() == 128, LIMIT_NS).unwrap();
    let ordered = rig.now().since(started);
    // 32 at once, then one more for each that is acknowledged: a few round trips, not 96.
    assert!(ordered < 3 * duration(WriteOrder::empty(), 1000), "{ordered} ns");
}

#[test]
fn a_write_waits_behind_a_read_no_longer_than_for_its_own_range() {
    let (mut rig, a, b) = pair(1, WriteOrder::ORDERED_OVERLAP);
    let (here, there) = (rig.region(a.node(), 8192), rig.region(b.node(), 8192));
    rig.net.set_filter(
        rig.up(b),
        Box::new(
            |passing| {
                if passing.kind() == FrameKind::Data { Verdict::Delay(300_000) } else { Verdict::Pass }
            },
        ),
    );
    rig.post(a, &Work::read(here.at(0, 100), there.at(0, 100)));
    rig.post(a, &Work::write(here.at(1000, 100), there.at(1000, 100)));
    rig.post(a, &Work::write(here.at(2000, 100), there.at(1000, 100)));
    rig.fill(here.at(2000, 100), 9);
    let newest = rig.bytes(here.at(2000, 100));
    let written = |rig: &mut Rig| rig.bytes(there.at(1000, 100)) == newest;
    rig.run_until(written, 200_000).expect("both WRITEs are done before the READ is");
    assert_eq!(rig.sends(a).len(), 0);
}

#[test]
fn strict_placement_places_nothing_out_of_order() {
    for seed in 0..20 {
        let (mut rig, a, b) = pair(seed, WriteOrder::STRICT_PLACEMENT);
        weather(&mut rig, a, b, storm());
        let target = rig.region(b.node(), 100_000);
        let source = rig.region(a.node(), 100_000);
        rig.fill(source.all(), seed);
        let bytes = rig.bytes(source.all());
        rig.post(a, &Work::write(source.all(), target.all()));
        let mut high = 0;
        let outcome = rig.run_until(
            |rig| {
                let now = rig.bytes(target.all());
                let arrived = now.iter().zip(&bytes).position(|(now, sent)| now != sent).unwrap_or(now.len());
                assert!(arrived >= high, "seed {seed}: what was there is gone");
                high = arrived;
                let whole_packets = arrived.next_multiple_of(256).min(now.len());
                assert!(
                    now[whole_packets..].iter().all(|&byte| byte == 0),
                    "seed {seed}: {arrived} bytes, and some behind"
                );
                rig.sends(a).len() == 1
            },
            LIMIT_NS,
        );
        outcome.unwrap_or_else(|stuck| panic!("seed {seed}: {stuck:?}"));
        assert!(rig.counters(b).drop_strict_placement > 0);
        assert_eq!(rig.counters(b).rx_out_of_order, 0);
    }
}

#[test]
fn every_operation_survives_both_promises() {
    for seed in 0..8 {
        let options = QpOptions {
            pmtu: Pmtu::B256,
            window: 64,
            write_order: WriteOrder::all(),
            congestion: CongestionAlgorithm::Dctcp,
            ..QpOptions::default()
        };
        let (mut rig, a, b) = Rig::pair(RigOptions::seeded(seed), options);
        weather(&mut rig, a, b, storm());
        let messages = Message::mix_of(&Op::WITH_RESPONSES, &mut Rng::new(seed), 100, 10_000);
        let mut transfers = [
            Transfer::new(&mut rig, a, b, messages.clone(), 1),
            Transfer::new(&mut rig, b, a, messages, 1000),
        ];
        let outcome = Transfer::run_all(&mut transfers, &mut rig, LIMIT_NS);
        outcome.unwrap_or_else(|stuck| panic!("seed {seed}: {stuck:?}"));
    }
}
