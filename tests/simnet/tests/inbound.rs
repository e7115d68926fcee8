//! Tenants and what peers send to them: caps by marks.

use datapath::memory::Access;
use datapath::qp::attr::CongestionAlgorithm;
use datapath::queue::QueueCaps;
use datapath::sched::{TenantAttr, TenantCaps, TenantCounters, TenantId};
use simnet::{LinkId, NodeId, PortOptions, Qp, QpOptions, Region, Rig, RigOptions, Work};
use wire::Pmtu;

const MIB: usize = 1 << 20;
/// How often a program looks at its queues, in nanoseconds.
const STEP_NS: u64 = 5_000;
/// The host whose tenants are sent to.
const HOST: NodeId = NodeId(0);

/// A tenant of the host, a peer, and the queue pairs of the peer to that tenant.
struct Party {
    id: TenantId,
    peer: NodeId,
    qps: Vec<Qp>,
    source: Region,
    target: Region,
}

fn rig() -> Rig {
    let port = PortOptions { tx_ring: 32, ..PortOptions::default() };
    let mut rig = Rig::new(RigOptions { port, max_mrs: 256, ..RigOptions::default() });
    rig.add_node();
    rig.set_auto_poll(false);
    rig.net.keep_recent(0);
    rig
}

fn party(rig: &mut Rig, count: usize, attr: Option<TenantAttr>, congestion: CongestionAlgorithm) -> Party {
    let core = rig.engine_mut(HOST).core_mut();
    let id = attr.map_or(TenantId::DEFAULT, |attr| core.create_tenant(attr).expect("there is room"));
    let pd = core.allocate_pd_of(id).expect("it exists");
    let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::REMOTE_READ | Access::REMOTE_ATOMIC;
    let target = rig.region_with(HOST, MIB, pd, access);
    let peer = rig.add_node();
    let source = rig.region(peer, MIB);
    let caps = QueueCaps { max_send_wr: 16, max_recv_wr: 1, max_send_sge: 1, max_recv_sge: 1, max_inline: 0 };
    let options = QpOptions {
        pmtu: Pmtu::B1024,
        window: 256,
        caps,
        cq_entries: 32,
        congestion,
        ..QpOptions::default()
    };
    let mut connected = || {
        let (a, b) =
            (rig.create_qp(peer, options), rig.create_qp(HOST, QpOptions { pd: Some(pd), ..options }));
        rig.connect(a, b);
        a
    };
    let qps = (0..count).map(|_| connected()).collect();
    Party { id, peer, qps, source, target }
}

impl Party {
    fn fill(&self, rig: &mut Rig, bytes: usize) {
        let work = Work::write(self.source.at(0, bytes), self.target.at(0, bytes)).unsignaled();
        for qp in &self.qps {
            while rig.try_post(*qp, &work).is_ok() {}
        }
    }

    fn counters(&self, rig: &Rig) -> TenantCounters {
        let reports = rig.engine(HOST).core().tenants();
        reports.iter().find(|report| report.id == self.id).expect("it exists").counters
    }

    /// WRITEs of its peer that are complete.
    fn completed(&self, rig: &Rig) -> u64 {
        let reports = rig.engine(self.peer).core().reports(rig.now());
        reports.iter().map(|report| u64::from(report.completed)).sum()
    }
}

/// What the peers of each party complete in `ns` while all are busy with WRITEs of `bytes`.
fn run(rig: &mut Rig, parties: &[&Party], bytes: usize, ns: u64) -> Vec<u64> {
    let before: Vec<u64> = parties.iter().map(|party| party.completed(rig)).collect();
    for _ in 0..ns / STEP_NS {
        for party in parties {
            party.fill(rig, bytes);
        }
        rig.run_for(STEP_NS);
    }
    parties.iter().zip(before).map(|(party, before)| party.completed(rig) - before).collect()
}

fn capped(bytes_per_s: u64) -> Option<TenantAttr> {
    let rx = TenantCaps { bytes_per_s, operations_per_s: 0 };
    Some(TenantAttr { rx, ..TenantAttr::default() })
}

/// Of the cap, what a peer with so many queue pairs sends once it knows of it.
fn of_cap(bytes_per_s: u64, congestion: CongestionAlgorithm) -> f64 {
    let mut rig = rig();
    let party = party(&mut rig, 2, capped(bytes_per_s), congestion);
    run(&mut rig, &[&party], 16_384, 1_000_000);
    let before = party.counters(&rig);
    run(&mut rig, &[&party], 16_384, 5_000_000);
    let after = party.counters(&rig);
    let sent = after.rx_bytes - before.rx_bytes + 100 * (after.rx_packets - before.rx_packets);
    sent as f64 / (bytes_per_s as f64 * 0.005)
}

#[test]
fn peers_that_listen_to_marks_send_what_a_tenant_may_receive() {
    for gigabytes in [2, 4, 6, 8] {
        let cap = gigabytes * 1_000_000_000;
        let sent = of_cap(cap, CongestionAlgorithm::Dctcp);
        assert!((sent - 1.0).abs() <= 0.02, "{gigabytes} GB/s: {sent}");
    }
    // Who does not listen is not slowed down.
    let sent = of_cap(4_000_000_000, CongestionAlgorithm::Fixed);
    assert!(sent > 2.5, "{sent}");
}

#[test]
fn another_cap_holds_within_a_millisecond() {
    let mut rig = rig();
    let party = party(&mut rig, 2, capped(8_000_000_000), CongestionAlgorithm::Dctcp);
    run(&mut rig, &[&party], 16_384, 2_000_000);
    for gigabytes in [2, 6, 3] {
        let cap = gigabytes * 1_000_000_000;
        let attr = capped(cap).expect("it has one");
        rig.engine_mut(HOST).core_mut().modify_tenant(party.id, attr).expect("it exists");
        run(&mut rig, &[&party], 16_384, 1_000_000);
        let before = party.counters(&rig);
        run(&mut rig, &[&party], 16_384, 2_000_000);
        let after = party.counters(&rig);
        let sent = after.rx_bytes - before.rx_bytes + 100 * (after.rx_packets - before.rx_packets);
        let part = sent as f64 / (cap as f64 * 0.002);
        assert!((part - 1.0).abs() <= 0.02, "{gigabytes} GB/s: {part}");
    }
}

/// Two peers on one link: what one tenant may not receive, the other gets.
#[test]
fn a_cap_leaves_the_rest_to_others() {
    let share = |cap| {
        let mut rig = rig();
        let first = party(&mut rig, 2, capped(cap), CongestionAlgorithm::Dctcp);
        let other = party(&mut rig, 2, capped(0), CongestionAlgorithm::Dctcp);
        rig.net.link_mut(LinkId::Down(HOST)).mark_frames = Some(40);
        run(&mut rig, &[&first, &other], 16_384, 1_000_000);
        run(&mut rig, &[&first, &other], 16_384, 4_000_000)
    };
    let (without, with) = (share(0), share(2_000_000_000));
    let all = without[0] + without[1];
    assert!(with[1] > without[1] && with[0] + with[1] > all * 97 / 100, "{without:?} {with:?}");
    assert!((with[1] as f64) > 0.95 * (all - with[0]) as f64, "{without:?} {with:?}");
}

/// Each byte and operation is charged once, to whom it is for.
#[test]
fn what_peers_send_is_charged_to_the_tenant_that_it_is_for() {
    let mut rig = rig();
    let parties =
        [capped(9_000_000_000), capped(0)].map(|attr| party(&mut rig, 3, attr, CongestionAlgorithm::Fixed));
    for (number, party) in (1_u64..).zip(&parties) {
        for qp in &party.qps {
            for _ in 0..number {
                rig.write(*qp, party.source.at(0, 5_000), party.target.at(0, 5_000));
                rig.post(*qp, &Work::read(party.source.at(0, 3_000), party.target.at(0, 3_000)));
                rig.post(*qp, &Work::fetch_add(party.source.at(0, 8), party.target.at(0, 8), 1));
            }
        }
    }
    rig.run_until_quiet(1_000_000_000).expect("all end");
    for (number, party) in (1_u64..).zip(&parties) {
        let counters = party.counters(&rig);
        let all = 3 * number;
        let charged = (counters.rx_operations, counters.rx_packets, counters.rx_bytes, counters.rx_marked);
        assert_eq!(charged, (3 * all, (5 + 1 + 1) * all, 5_000 * all, 0));
        assert_eq!(counters.tx_packets, (3 + 1) * all, "responses");
    }
}
