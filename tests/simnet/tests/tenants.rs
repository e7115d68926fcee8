//! Tenants share an engine: bytes by weight, and who waits for a small message is served first.

use datapath::engine::QpLimit;
use datapath::memory::Access;
use datapath::queue::QueueCaps;
use datapath::sched::{CostTable, TenantAttr, TenantCaps, TenantClass, TenantCounters, TenantId};
use simnet::{
    HostModel, LinkConfig, LinkId, NodeId, PortOptions, Qp, QpOptions, Region, Rig, RigOptions, Work,
};
use wire::Pmtu;

const MIB: usize = 1 << 20;
const LEFT: NodeId = NodeId(0);
const RIGHT: NodeId = NodeId(1);

/// A tenant of the left node, its queue pairs to the right node, and memory of both.
struct Party {
    id: TenantId,
    qps: Vec<Qp>,
    source: Region,
    target: Region,
}

/// How often a program looks at its queues, in nanoseconds.
const STEP_NS: u64 = 5_000;

/// Two nodes. What the transmit ring holds cannot be overtaken, so that it is short.
fn rig(max_qps: u32) -> Rig {
    rig_with(PortOptions { tx_ring: 8, ..PortOptions::default() }, max_qps)
}

fn rig_with(port: PortOptions, max_qps: u32) -> Rig {
    let mut rig = Rig::new(RigOptions { port, max_qps, max_mrs: 4096, ..RigOptions::default() });
    rig.add_node();
    rig.add_node();
    rig.set_auto_poll(false);
    rig.net.keep_recent(0);
    rig
}

fn options() -> QpOptions {
    let caps = QueueCaps { max_send_wr: 16, max_recv_wr: 1, max_send_sge: 1, max_recv_sge: 1, max_inline: 0 };
    QpOptions { pmtu: Pmtu::B4096, window: 128, caps, cq_entries: 32, ..QpOptions::default() }
}

/// Queue pairs of a tenant, or of the default one.
fn party(rig: &mut Rig, count: usize, attr: Option<TenantAttr>, bytes: usize) -> Party {
    let core = rig.engine_mut(LEFT).core_mut();
    let id = attr.map_or(TenantId::DEFAULT, |attr| core.create_tenant(attr).expect("there is room"));
    let pd = core.allocate_pd_of(id).expect("it exists");
    let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::REMOTE_READ | Access::REMOTE_ATOMIC;
    let (source, target) = (rig.region_with(LEFT, bytes, pd, access), rig.region(RIGHT, bytes));
    let mut connected = || {
        let (a, b) =
            (rig.create_qp(LEFT, QpOptions { pd: Some(pd), ..options() }), rig.create_qp(RIGHT, options()));
        rig.connect(a, b);
        a
    };
    let qps = (0..count).map(|_| connected()).collect();
    Party { id, qps, source, target }
}

impl Party {
    /// Fills the send queues with WRITEs of so many bytes.
    fn fill(&self, rig: &mut Rig, bytes: usize) {
        let work = Work::write(self.source.at(0, bytes), self.target.at(0, bytes)).unsignaled();
        for qp in &self.qps {
            while rig.try_post(*qp, &work).is_ok() {}
        }
    }

    fn counters(&self, rig: &Rig) -> TenantCounters {
        let reports = rig.engine(LEFT).core().tenants();
        reports.iter().find(|report| report.id == self.id).expect("it exists").counters
    }

    /// WRITEs that are complete, of all its queue pairs.
    fn completed(&self, rig: &Rig) -> u64 {
        let ours: Vec<u32> = self.qps.iter().map(|qp| rig.qpn(*qp)).collect();
        let reports = rig.engine(LEFT).core().reports(rig.now());
        reports
            .iter()
            .filter(|report| ours.contains(&report.qpn))
            .map(|report| u64::from(report.completed))
            .sum()
    }
}

/// Runs while the parties have always something to send, each WRITEs of some size.
fn run_busy(rig: &mut Rig, parties: &[(&Party, usize)], ns: u64) {
    for _ in 0..ns / STEP_NS {
        for (party, bytes) in parties {
            party.fill(rig, *bytes);
        }
        rig.run_for(STEP_NS);
        for (party, _) in parties {
            party.qps.iter().for_each(|qp| rig.poll_qp(*qp));
        }
    }
}

/// What each sent while all were busy, once the beginning is over.
fn shares(rig: &mut Rig, parties: &[(&Party, usize)], ns: u64) -> Vec<f64> {
    run_busy(rig, parties, 500_000);
    let before: Vec<u64> = parties.iter().map(|(party, _)| party.counters(rig).tx_bytes).collect();
    run_busy(rig, parties, ns);
    let after = parties.iter().map(|(party, _)| party.counters(rig).tx_bytes);
    let sent: Vec<u64> = after.zip(before).map(|(after, before)| after - before).collect();
    let all: u64 = sent.iter().sum();
    assert!(all as f64 > 0.9 * 12.5 * ns as f64, "the link is busy: {sent:?}");
    sent.iter().map(|bytes| *bytes as f64 / all as f64).collect()
}

/// PeRF (INFOCOM '24): who has 64 queue pairs takes 64 shares of 65, unless tenants share.
#[test]
fn one_queue_pair_gets_what_sixty_four_get() {
    let mut rig = rig(65);
    let one = party(&mut rig, 1, Some(TenantAttr::default()), MIB);
    let many = party(&mut rig, 64, Some(TenantAttr::default()), MIB);
    let shares = shares(&mut rig, &[(&one, MIB), (&many, MIB)], 4_000_000);
    assert!((shares[0] - 0.5).abs() <= 0.025, "{shares:?}");
}

/// What a host sends as responses to READs is its tenants', too, while it READs itself (PeRF,
/// appendix C).
#[test]
fn reads_both_ways_are_shared() {
    let mut rig = rig(65);
    let (nodes, bytes) = ([LEFT, RIGHT], MIB / 16);
    let parties = [1, 64].map(|count| {
        let made = nodes.map(|node| {
            let core = rig.engine_mut(node).core_mut();
            let id = core.create_tenant(TenantAttr::default()).expect("there is room");
            (id, core.allocate_pd_of(id).expect("it exists"))
        });
        let access = Access::LOCAL_WRITE | Access::REMOTE_READ;
        let memory = [0, 1].map(|side| rig.region_with(nodes[side], 2 * bytes, made[side].1, access));
        let mut connected = || {
            let ends = [0, 1]
                .map(|side| rig.create_qp(nodes[side], QpOptions { pd: Some(made[side].1), ..options() }));
            rig.connect(ends[0], ends[1]);
            ends
        };
        let qps: Vec<_> = (0..count).map(|_| connected()).collect();
        (made.map(|(id, _)| id), memory, qps)
    });
    let mut run = |ns: u64| {
        for _ in 0..ns / STEP_NS {
            for (_, memory, qps) in &parties {
                for (side, qp) in qps.iter().flat_map(|ends| ends.iter().enumerate()) {
                    let (here, there) = (memory[side].at(0, bytes), memory[1 - side].at(bytes, bytes));
                    while rig.try_post(*qp, &Work::read(here, there).unsignaled()).is_ok() {}
                }
            }
            rig.run_for(STEP_NS);
        }
        parties.each_ref().map(|(ids, ..)| {
            [0, 1].map(|side| {
                let reports = rig.engine(nodes[side]).core().tenants();
                reports.iter().find(|report| report.id == ids[side]).expect("it exists").counters.tx_bytes
            })
        })
    };
    let before = run(500_000);
    let after = run(4_000_000);
    for side in [0, 1] {
        let [one, many] = [0, 1].map(|party| (after[party][side] - before[party][side]) as f64);
        assert!(one + many > 0.9 * 12.5 * 4e6, "the link is busy: {one} and {many}");
        assert!((one / (one + many) - 0.5).abs() <= 0.025, "{one} and {many}");
    }
}

#[test]
fn without_tenants_sixty_four_queue_pairs_take_sixty_four_shares() {
    let mut rig = rig(65);
    let (one, many) = (party(&mut rig, 1, None, MIB), party(&mut rig, 64, None, MIB));
    let bytes = MIB / 16;
    run_busy(&mut rig, &[(&one, bytes), (&many, bytes)], 8_000_000);
    let (few, rest) = (one.completed(&rig), many.completed(&rig));
    let share = few as f64 / (few + rest) as f64;
    assert!(few + rest > 1_200, "the link is busy: {few} and {rest}");
    assert!(share < 1.5 / 65.0, "{few} of {}", few + rest);
    assert!(rig.engine(LEFT).core().tenants().is_empty());
}

#[test]
fn weights_are_shares() {
    for (light, heavy) in [(10, 90), (20, 80), (30, 70), (40, 60), (50, 50)] {
        let mut rig = rig(65);
        let weighing = |weight| Some(TenantAttr { weight, ..TenantAttr::default() });
        let (a, b) = (party(&mut rig, 8, weighing(light), MIB), party(&mut rig, 2, weighing(heavy), MIB));
        let shares = shares(&mut rig, &[(&a, MIB), (&b, MIB)], 8_000_000);
        let wanted = f64::from(light) / f64::from(light + heavy);
        assert!((shares[0] / wanted - 1.0).abs() <= 0.05, "{light}:{heavy} {shares:?}");
    }
}

/// Whatever its class, each has its share.
#[test]
fn no_class_takes_the_share_of_another() {
    let mut rig = rig(65);
    let of = |class| Some(TenantAttr { class, ..TenantAttr::default() });
    let parties = [TenantClass::Latency, TenantClass::Normal, TenantClass::Bulk]
        .map(|class| party(&mut rig, 4, of(class), MIB));
    let shares = shares(&mut rig, &parties.each_ref().map(|party| (party, MIB)), 8_000_000);
    assert!(shares.iter().all(|share| (share - 1.0 / 3.0).abs() < 0.01), "{shares:?}");
}

#[test]
fn a_thousand_tenants_of_eight_queue_pairs_share() {
    let mut rig = rig(8_000);
    let parties: Vec<Party> =
        (0..1_000).map(|_| party(&mut rig, 8, Some(TenantAttr::default()), 4096)).collect();
    for party in &parties {
        party.fill(&mut rig, 4096);
    }
    // 1000 x 8 x 16 x 4 KiB take 42 ms: a third of that, in which each has some ten turns.
    rig.run_for(14_000_000);
    let sent: Vec<u64> = parties.iter().map(|party| party.counters(&rig).tx_bytes).collect();
    let (least, most) = (sent.iter().min().expect("some"), sent.iter().max().expect("some"));
    assert!(*least > 130_000, "the link is busy: {least}");
    assert!(most - least <= 2 * 16_384, "a turn more or less: {least} to {most}");
    rig.run_for(32_000_000);
    assert!(parties.iter().all(|party| party.completed(&rig) == 8 * 16), "all end");
}

/// Two tenants: one with a queue pair for small messages, one with 64 for bulk.
fn small_and_bulk(classes: Option<[TenantClass; 2]>, port: PortOptions) -> (Rig, [Party; 2]) {
    let mut rig = rig_with(port, 65);
    let of = |side: usize| classes.map(|of| TenantAttr { class: of[side], ..TenantAttr::default() });
    let parties = [party(&mut rig, 1, of(0), MIB), party(&mut rig, 64, of(1), MIB)];
    run_busy(&mut rig, &[(&parties[1], MIB / 16)], 200_000);
    (rig, parties)
}

/// Latencies of single WRITEs of 64 bytes beside bulk, on average, and what bulk completes.
fn measure(rig: &mut Rig, [small, bulk]: &[Party; 2], time_ns: u64) -> (f64, u64) {
    let (mut waits, before, start) = (Vec::new(), bulk.completed(rig), rig.now());
    while rig.now().since(start) < time_ns {
        let posted = rig.now();
        rig.post(small.qps[0], &Work::write(small.source.at(0, 64), small.target.at(0, 64)));
        while rig.take_completions(small.qps[0]).0.is_empty() {
            bulk.fill(rig, MIB / 16);
            rig.run_for(500);
            small.qps.iter().chain(&bulk.qps).for_each(|qp| rig.poll_qp(*qp));
        }
        waits.push(rig.now().since(posted) as f64);
    }
    assert!(waits.len() >= 30, "{}", waits.len());
    (waits.iter().sum::<f64>() / waits.len() as f64, bulk.completed(rig) - before)
}

fn beside_bulk(tenants: bool, tx_ring: usize, tells_ahead: bool) -> (f64, u64) {
    let port = PortOptions { tx_ring, tells_ahead, ..PortOptions::default() };
    let classes = tenants.then_some([TenantClass::Latency, TenantClass::Bulk]);
    let (mut rig, parties) = small_and_bulk(classes, port);
    measure(&mut rig, &parties, 4_000_000)
}

/// Nobody says which tenant is which: after some 10 ms it is known. What is said counts instead.
#[test]
fn classes_are_known_by_what_tenants_send() {
    let port = PortOptions { tx_ring: 8, ..PortOptions::default() };
    let (mut rig, parties) = small_and_bulk(Some([TenantClass::Auto; 2]), port);
    let classes = |rig: &mut Rig| {
        let tenants = rig.engine_mut(LEFT).core().tenants();
        parties.each_ref().map(|party| {
            let of = |id: TenantId| tenants.iter().find(|tenant| tenant.id == id).map(|tenant| tenant.class);
            of(party.id).expect("it exists")
        })
    };
    assert_eq!(classes(&mut rig), [TenantClass::Normal; 2], "nothing is known yet");
    let (unknown, _) = measure(&mut rig, &parties, 4_000_000);
    measure(&mut rig, &parties, 10_000_000);
    assert_eq!(classes(&mut rig), [TenantClass::Latency, TenantClass::Bulk]);
    let (known, bulk) = measure(&mut rig, &parties, 4_000_000);
    let (plain, bulk_plain) = beside_bulk(false, 8, false);
    println!(
        "a small WRITE beside bulk: {plain:.0} ns round robin, {unknown:.0} ns, {known:.0} ns once known"
    );
    assert!(known <= 0.25 * plain && known < unknown, "{known} ns, {unknown} ns before, {plain} ns without");
    assert!(bulk as f64 >= 0.95 * bulk_plain as f64, "{bulk} of {bulk_plain}");
    let heavier = TenantAttr { class: TenantClass::Auto, weight: 2, ..TenantAttr::default() };
    rig.engine_mut(LEFT).core_mut().modify_tenant(parties[0].id, heavier).expect("it exists");
    measure(&mut rig, &parties, 1_000_000);
    assert_eq!(classes(&mut rig), [TenantClass::Latency, TenantClass::Bulk], "it is what it was");
    let said = TenantAttr { class: TenantClass::Bulk, ..TenantAttr::default() };
    rig.engine_mut(LEFT).core_mut().modify_tenant(parties[0].id, said).expect("it exists");
    measure(&mut rig, &parties, 11_000_000);
    assert_eq!(classes(&mut rig), [TenantClass::Bulk; 2]);
}

/// The class D of PeRF: on average at least 75 % less than with round robin, and bulk keeps 0.95.
#[test]
fn small_messages_do_not_wait_for_bulk() {
    let (plain, bulk_plain) = beside_bulk(false, 8, false);
    let (shared, bulk_shared) = beside_bulk(true, 8, false);
    println!("a small WRITE beside bulk: {plain:.0} ns round robin, {shared:.0} ns with tenants");
    assert!(shared <= 0.25 * plain, "{shared} ns with tenants, {plain} ns without");
    assert!(bulk_shared as f64 >= 0.95 * bulk_plain as f64, "{bulk_shared} of {bulk_plain}");
    // What a deep ring holds cannot be overtaken.
    let (deep, _) = beside_bulk(true, 256, false);
    assert!(deep > 0.25 * plain, "{deep} ns behind a deep ring");
    // Where the port tells what the ring holds, a device with tenants keeps it short.
    let (bounded, bulk_bounded) = beside_bulk(true, 256, true);
    println!("behind a ring of 256 frames: {deep:.0} ns, {bounded:.0} ns if the port tells");
    assert!(bounded <= 0.15 * deep, "{bounded} ns where the ring is kept short");
    assert!(bulk_bounded as f64 >= 0.95 * bulk_plain as f64, "{bulk_bounded} of {bulk_plain}");
}

/// The wire takes a frame in a millisecond, so that the ring is held short all the time. What a
/// host sends to itself needs no ring, and has its share of the round: 16 KiB.
#[test]
fn loopback_has_its_share_while_the_ring_is_held_short() {
    let up = LinkConfig { ps_per_byte: 250_000_000, ..LinkConfig::default() };
    let mut rig = rig_with(PortOptions { up, tells_ahead: true, ..PortOptions::default() }, 8);
    let bulk = party(&mut rig, 2, Some(TenantAttr::default()), MIB);
    let (here, there) = rig.connected(LEFT, LEFT, options());
    let (source, target) = (rig.region(LEFT, 4096), rig.region(LEFT, 4096));
    run_busy(&mut rig, &[(&bulk, MIB / 16)], 200_000);
    let mut done = 0;
    for _ in 0..10 {
        bulk.fill(&mut rig, MIB / 16);
        rig.post(here, &Work::write(source.at(0, 4096), target.at(0, 4096)));
        rig.run_for(10_000);
        [here, there].iter().chain(&bulk.qps).for_each(|qp| rig.poll_qp(*qp));
        done += rig.take_completions(here).0.len();
    }
    assert!(rig.counters(here).tx_ring_bounded > 10, "the ring was held short");
    assert!(done >= 4, "{done} WRITEs of 4 KiB to itself");
}

/// In 16 KiB of bulk a tenant with small messages has sixteen turns.
#[test]
fn small_messages_have_sixteen_turns_for_one_of_bulk() {
    let mut rig = rig(256);
    let of = |class| Some(TenantAttr { class, ..TenantAttr::default() });
    let small = party(&mut rig, 160, of(TenantClass::Normal), MIB);
    let bulk = party(&mut rig, 4, of(TenantClass::Bulk), MIB);
    // A message to a turn.
    let turns = |rig: &Rig| (small.counters(rig).tx_packets, bulk.counters(rig).tx_bytes);
    let mut run = |ns: u64| {
        for _ in 0..ns / 1_000 {
            bulk.fill(&mut rig, MIB);
            let reports = rig.engine(LEFT).core().reports(rig.now());
            let idle = |qp| reports.iter().any(|report| report.qpn == qp && report.requests == 0);
            for qp in &small.qps {
                if idle(rig.qpn(*qp)) {
                    rig.post(*qp, &Work::write(small.source.at(0, 64), small.target.at(0, 64)).unsignaled());
                }
            }
            rig.run_for(1_000);
        }
        turns(&rig)
    };
    let before = run(200_000);
    let after = run(2_000_000);
    let each = (after.0 - before.0) as f64 / ((after.1 - before.1) as f64 / 16_384.0);
    assert!((each - 16.0).abs() <= 1.0, "{each} turns for 16 KiB");
}

/// What a foreground of single WRITEs and one that scavenges get of the link, in bytes.
fn beside_scavenger(class: Option<TenantClass>, period_ns: u64) -> (u64, u64) {
    let mut rig = rig(65);
    let first = party(&mut rig, 4, Some(TenantAttr::default()), MIB);
    let other =
        class.map(|class| party(&mut rig, 8, Some(TenantAttr { class, ..TenantAttr::default() }), MIB));
    let bytes = MIB / 16;
    let start = rig.now();
    let mut next = [0_u64; 4];
    while rig.now().since(start) < 6_000_000 {
        let passed = rig.now().since(start);
        for (qp, next) in first.qps.iter().zip(&mut next) {
            if passed >= *next
                && rig
                    .try_post(
                        *qp,
                        &Work::write(first.source.at(0, bytes), first.target.at(0, bytes)).unsignaled(),
                    )
                    .is_ok()
            {
                *next += period_ns;
            }
        }
        if let Some(other) = &other {
            other.fill(&mut rig, bytes);
        }
        rig.run_for(1_000);
    }
    (first.counters(&rig).tx_bytes, other.map_or(0, |other| other.counters(&rig).tx_bytes))
}

/// A scavenger takes what is left, and nothing else.
#[test]
fn a_scavenger_takes_what_is_left() {
    let all = 12.5 * 6_000_000.0 * 4096.0 / 4196.0;
    for (period_ns, name) in [(42_000, "half of the link"), (25_000, "most of it"), (0, "all of it")] {
        let (alone, _) = beside_scavenger(None, period_ns);
        let (first, scavenged) = beside_scavenger(Some(TenantClass::Scavenger), period_ns);
        println!("{name}: alone {alone}, {first} beside a scavenger that has {scavenged}");
        assert!(first as f64 >= 0.95 * alone as f64, "{name}: {first} of {alone}");
        let left = all - alone as f64;
        assert!(period_ns == 0 || scavenged as f64 >= 0.8 * left, "{name}: {scavenged} of {left}");
    }
    // One of another class takes its share.
    let (alone, _) = beside_scavenger(None, 0);
    let (first, equal) = beside_scavenger(Some(TenantClass::Bulk), 0);
    assert!((first as f64 / alone as f64) < 0.55, "{first} of {alone}");
    assert!((equal as f64 / first as f64 - 1.0).abs() < 0.05, "{first} and {equal}");
}

/// What a tenant alone sends in `ns`, as its caps count it: bytes, and operations.
fn capped(tx: TenantCaps, bytes: usize, ns: u64) -> (f64, f64) {
    let mut rig = rig(65);
    let party = party(&mut rig, 8, Some(TenantAttr { tx, ..TenantAttr::default() }), MIB);
    run_busy(&mut rig, &[(&party, bytes)], 500_000);
    let before = party.counters(&rig);
    run_busy(&mut rig, &[(&party, bytes)], ns);
    let after = party.counters(&rig);
    let packets = after.tx_packets - before.tx_packets;
    (
        (after.tx_bytes - before.tx_bytes + 100 * packets) as f64,
        (after.tx_operations - before.tx_operations) as f64,
    )
}

#[test]
fn a_cap_in_bytes_holds_and_gives_all_that_it_has() {
    for percent in [10, 25, 50, 75, 100] {
        let tx = TenantCaps { bytes_per_s: 12_500_000_000 / 100 * percent, operations_per_s: 0 };
        let (sent, _) = capped(tx, MIB, 4_000_000);
        let wanted = tx.bytes_per_s as f64 * 0.004;
        assert!((sent / wanted - 1.0).abs() <= 0.02, "{percent} %: {sent} of {wanted}");
    }
    let (sent, _) = capped(TenantCaps::default(), MIB, 4_000_000);
    assert!(sent > 0.98 * 50e6, "without a cap it sends what the link takes: {sent}");
}

#[test]
fn a_cap_in_operations_holds_and_gives_all_that_it_has() {
    for percent in [10, 50, 100] {
        let tx = TenantCaps { bytes_per_s: 0, operations_per_s: 10_000_000 / 100 * percent };
        let (_, begun) = capped(tx, 64, 4_000_000);
        let wanted = tx.operations_per_s as f64 * 0.004;
        assert!((begun / wanted - 1.0).abs() <= 0.02, "{percent} %: {begun} of {wanted}");
    }
    let (_, begun) = capped(TenantCaps::default(), 64, 1_000_000);
    assert!(begun > 20_000.0, "without a cap: {begun}");
}

/// How many of 200 looks at eight busy queue pairs find that a cap of their tenant holds them back.
fn found_above_its_cap(tx: TenantCaps) -> usize {
    let mut rig = rig(65);
    let party = party(&mut rig, 8, Some(TenantAttr { tx, ..TenantAttr::default() }), MIB);
    run_busy(&mut rig, &[(&party, MIB)], 500_000);
    let looks = (0..200).map(|_| {
        run_busy(&mut rig, &[(&party, MIB)], STEP_NS);
        let reports = rig.engine(LEFT).core().reports(rig.now());
        reports.iter().filter(|report| report.limit == QpLimit::Tenant).count()
    });
    looks.sum()
}

#[test]
fn a_queue_pair_says_that_its_tenants_cap_holds_it_back() {
    let tenth = TenantCaps { bytes_per_s: 1_250_000_000, operations_per_s: 0 };
    let (capped, free) = (found_above_its_cap(tenth), found_above_its_cap(TenantCaps::default()));
    println!("{capped} and {free} of 1,600 looks");
    assert!(capped > 800 && free == 0, "{capped} and {free}");
}

#[test]
fn another_cap_holds_within_a_millisecond() {
    let mut rig = rig(65);
    let of = |bytes_per_s| {
        let tx = TenantCaps { bytes_per_s, operations_per_s: 0 };
        TenantAttr { tx, ..TenantAttr::default() }
    };
    let party = party(&mut rig, 4, Some(of(2_000_000_000)), MIB);
    run_busy(&mut rig, &[(&party, MIB)], 1_000_000);
    for bytes_per_s in [8_000_000_000, 1_000_000_000, 5_000_000_000] {
        rig.engine_mut(LEFT).core_mut().modify_tenant(party.id, of(bytes_per_s)).expect("it exists");
        run_busy(&mut rig, &[(&party, MIB)], 500_000);
        let before = party.counters(&rig);
        run_busy(&mut rig, &[(&party, MIB)], 2_000_000);
        let after = party.counters(&rig);
        let sent = after.tx_bytes - before.tx_bytes + 100 * (after.tx_packets - before.tx_packets);
        let wanted = bytes_per_s as f64 * 0.002;
        assert!((sent as f64 / wanted - 1.0).abs() <= 0.02, "{bytes_per_s}: {sent} of {wanted}");
    }
}

/// WRITEs of a victim that complete within 3 ms, beside a tenant that does atomics, or alone. Hosts
/// take about three times as long for an atomic as for a WRITE.
fn victim_of_atomics(attack: bool, costs: CostTable) -> u64 {
    let host = HostModel { frame_ns: 100, atomic_ns: 120, ..HostModel::default() };
    let port = PortOptions { tx_ring: 64, ..PortOptions::default() };
    let mut rig = Rig::new(RigOptions { port, host, costs, max_mrs: 4096, ..RigOptions::default() });
    rig.add_node();
    rig.add_node();
    rig.set_auto_poll(false);
    let attr = |operations_per_s| {
        let tx = TenantCaps { bytes_per_s: 0, operations_per_s };
        Some(TenantAttr { tx, ..TenantAttr::default() })
    };
    let victim = party(&mut rig, 8, attr(3_000_000), MIB);
    let attacker = party(&mut rig, 48, attr(3_000_000), MIB);
    let atomic = Work::fetch_add(attacker.source.at(0, 8), attacker.target.at(0, 8), 1).unsignaled();
    let mut run = |ns: u64| {
        for _ in 0..ns / STEP_NS {
            victim.fill(&mut rig, 64);
            for qp in attacker.qps.iter().filter(|_| attack) {
                while rig.try_post(*qp, &atomic).is_ok() {}
            }
            rig.run_for(STEP_NS);
        }
        victim.completed(&rig)
    };
    let before = run(1_000_000);
    run(3_000_000) - before
}

/// Harmonic (NSDI '24): caps count what operations cost, so that atomics take no more of a host
/// than WRITEs.
#[test]
fn atomics_of_one_tenant_do_not_take_the_hosts_time_of_another() {
    let alone = victim_of_atomics(false, CostTable::default());
    let beside = victim_of_atomics(true, CostTable::default());
    assert!(alone as f64 > 0.98 * 9_000.0, "its cap is what holds it back: {alone}");
    assert!(beside as f64 >= 0.95 * alone as f64, "{beside} of {alone}");
    let equal = victim_of_atomics(true, CostTable::EQUAL);
    println!("alone {alone}, beside atomics {beside}, which cost as much as WRITEs: {equal}");
    assert!((equal as f64) < 0.95 * alone as f64, "{equal} of {alone}");
}

#[test]
fn counters_add_up_to_those_of_the_engine() {
    let mut rig = rig(65);
    rig.net.link_mut(LinkId::Up(LEFT)).faults.loss_ppm = 10_000;
    let parties =
        [1, 2, 3].map(|weight| party(&mut rig, 4, Some(TenantAttr { weight, ..TenantAttr::default() }), MIB));
    for party in &parties {
        for qp in &party.qps {
            for bytes in [64, 5_000, 300_000] {
                rig.write(*qp, party.source.at(0, bytes), party.target.at(0, bytes));
                rig.post(*qp, &Work::read(party.source.at(0, bytes), party.target.at(0, bytes)));
            }
        }
    }
    rig.run_until_quiet(1_000_000_000).expect("all end");
    let core = rig.engine(LEFT).core();
    let counters = core.counters();
    let tenants = core.tenants();
    let sum = |of: fn(&TenantCounters) -> u64| tenants.iter().map(|tenant| of(&tenant.counters)).sum::<u64>();
    assert!(counters.tx_retransmits > 0, "something was lost");
    let sent = counters.tx_requests + counters.tx_responses + counters.tx_retransmits;
    assert_eq!(sum(|tenant| tenant.tx_packets), sent);
    assert_eq!(sum(|tenant| tenant.tx_operations), 3 * 4 * 6);
    assert_eq!(sum(|tenant| tenant.turns), counters.sched_grants);
}
