//! Storms of one tenant's peers: packets that never come in order use up what repairs losses, and
//! what is lost of another tenant's is repaired all the same (datapath/src/qp/shares.rs).

use datapath::memory::Access;
use datapath::queue::QueueCaps;
use datapath::sched::{TenantAttr, TenantCounters, TenantId};
use simnet::{
    Faults, LinkId, NodeId, PortOptions, Qp, QpOptions, Region, Rig, RigOptions, SlowPathDriver, Work,
};
use wire::Pmtu;

/// The host whose tenants are sent to.
const HOST: NodeId = NodeId(0);
const MESSAGE: usize = 16 << 10;
/// How often programs look at their queues, in nanoseconds.
const STEP_NS: u64 = 5_000;
const RUN_NS: u64 = 2_000_000;
/// How long packets of the victim's peer, and acknowledgements to it, are under way.
const PATH_NS: u64 = 5_000;

/// What an attacker's peers do to the host.
#[derive(Clone, Copy, Debug)]
enum Storm {
    /// Half of their packets are late.
    Reordering,
    /// Packets are lost in bursts.
    Losses,
    /// Their SENDs find no receive.
    NotReady,
}

/// A tenant of the host, a peer, and the queue pairs of that peer.
struct Party {
    id: TenantId,
    peer: NodeId,
    qps: Vec<Qp>,
    source: Region,
    target: Region,
    sends: bool,
}

fn party(rig: &mut Rig, count: usize, tenants: bool, options: QpOptions, sends: bool) -> Party {
    let core = rig.engine_mut(HOST).core_mut();
    let id = match tenants {
        true => core.create_tenant(TenantAttr::default()).expect("there is room"),
        false => TenantId::DEFAULT,
    };
    let pd = core.allocate_pd_of(id).expect("it exists");
    let target = rig.region_with(HOST, MESSAGE, pd, Access::LOCAL_WRITE | Access::REMOTE_WRITE);
    let peer = rig.add_node();
    let source = rig.region(peer, MESSAGE);
    let mut connected = || {
        let here = rig.create_qp(HOST, QpOptions { pd: Some(pd), ..options });
        let there = rig.create_qp(peer, options);
        rig.connect(there, here);
        there
    };
    let qps = (0..count).map(|_| connected()).collect();
    Party { id, peer, qps, source, target, sends }
}

fn options(pmtu: Pmtu) -> QpOptions {
    let caps = QueueCaps { max_send_wr: 16, max_recv_wr: 8, max_send_sge: 1, max_recv_sge: 1, max_inline: 0 };
    QpOptions { pmtu, window: 64, caps, cq_entries: 16, ..QpOptions::default() }
}

impl Party {
    fn fill(&self, rig: &mut Rig) {
        let (from, to) = (self.source.at(0, MESSAGE), self.target.at(0, MESSAGE));
        let work = if self.sends { Work::send(from) } else { Work::write(from, to) }.unsignaled();
        for qp in &self.qps {
            while rig.try_post(*qp, &work).is_ok() {}
        }
    }

    fn completed(&self, rig: &Rig) -> u64 {
        let reports = rig.engine(self.peer).core().reports(rig.now());
        reports.iter().map(|report| u64::from(report.completed)).sum()
    }

    fn counters(&self, rig: &Rig) -> Option<TenantCounters> {
        let reports = rig.engine(HOST).core().tenants();
        reports.iter().find(|report| report.id == self.id).map(|report| report.counters)
    }
}

/// What is tried.
#[derive(Clone, Copy, Debug)]
struct Case {
    storm: Storm,
    /// Attackers, each with a host and a tenant of its own.
    attackers: usize,
    tenants: bool,
    /// Recovery contexts of an engine.
    contexts: u32,
    slow_path: SlowPathDriver,
}

/// What came of it.
#[derive(Debug)]
struct Outcome {
    /// Messages of the victim that completed.
    victim: u64,
    /// Packets out of order that the host dropped, as they found no context, no room for a record,
    /// or as both were for others.
    no_context: u64,
    no_room: u64,
    shares: u64,
    /// Those of the victim among the last.
    victims_drops: u64,
    rnr_naks: u64,
}

impl Outcome {
    /// What part of the victim's messages alone it completed.
    fn of(&self, alone: &Self) -> f64 {
        self.victim as f64 / alone.victim as f64
    }
}

impl Case {
    const ALONE: Self = Self {
        storm: Storm::Reordering,
        attackers: 0,
        tenants: true,
        contexts: 64,
        slow_path: SlowPathDriver::Stepped,
    };

    /// A victim whose peer loses packets in bursts, beside a storm. Links have room for all, so
    /// that they compete for nothing but repair.
    fn run(self) -> Outcome {
        let mut rig = Rig::new(RigOptions {
            port: PortOptions { tx_ring: 64, ..PortOptions::default() },
            max_qps: 300,
            max_mrs: 1024,
            recovery_contexts: self.contexts,
            slow_path: self.slow_path,
            ..RigOptions::default()
        });
        rig.add_node();
        rig.set_auto_poll(false);
        rig.net.keep_recent(0);
        rig.net.link_mut(LinkId::Down(HOST)).ps_per_byte = 8;
        let victim = party(&mut rig, 4, self.tenants, options(Pmtu::B1024), false);
        for link in [LinkId::Up(victim.peer), LinkId::Down(victim.peer)] {
            rig.net.link_mut(link).propagation_ns = PATH_NS;
        }
        let losses = Faults { burst_ppm: 10_000, burst_frames_max: 4, ..Faults::default() };
        rig.net.set_faults(LinkId::Up(victim.peer), losses);
        let attackers: Vec<_> = (0..self.attackers).map(|_| self.attacker(&mut rig)).collect();
        let run = |rig: &mut Rig, ns: u64| {
            for _ in 0..ns / STEP_NS {
                victim.fill(rig);
                attackers.iter().for_each(|attacker| attacker.fill(rig));
                rig.run_for(STEP_NS);
            }
            victim.completed(rig)
        };
        let before = run(&mut rig, 1_000_000);
        let completed = run(&mut rig, RUN_NS) - before;
        let counters = rig.engine(HOST).core().counters();
        let of = |party: &Party| party.counters(&rig).map_or(0, |counters| counters.rx_share_drops);
        let outcome = Outcome {
            victim: completed,
            no_context: counters.drop_no_context,
            no_room: counters.drop_metadata_full,
            shares: counters.drop_tenant_share,
            victims_drops: of(&victim),
            rnr_naks: counters.tx_rnr_naks,
        };
        println!("{self:?}: {outcome:?}");
        outcome
    }

    fn attacker(&self, rig: &mut Rig) -> Party {
        let sends = matches!(self.storm, Storm::NotReady);
        let count = 250 / self.attackers;
        let attacker = party(rig, count, self.tenants, options(Pmtu::B256), sends);
        let faults = match self.storm {
            Storm::NotReady => Faults::default(),
            Storm::Reordering => Faults::reordering(500_000, 100_000),
            Storm::Losses => Faults { burst_ppm: 50_000, burst_frames_max: 16, ..Faults::default() },
        };
        rig.net.set_faults(LinkId::Up(attacker.peer), faults);
        attacker
    }
}

/// A victim that is alone has what it can; beside a storm it keeps nearly all of that, if it has a
/// tenant of its own.
#[test]
fn a_storm_leaves_other_tenants_recovery_contexts() {
    let alone = Case::ALONE.run();
    for storm in [Storm::Reordering, Storm::Losses] {
        let case = Case { storm, attackers: 1, ..Case::ALONE };
        let (with, without) = (case.run(), Case { tenants: false, ..case }.run());
        assert!(with.of(&alone) >= 0.9, "{with:?}, alone {alone:?}");
        assert!(with.shares > 1_000 && with.victims_drops == 0, "{with:?}");
        // Without shares it loses what it could have kept, again and again.
        assert!(without.of(&alone) < 0.75 && without.no_context > 1_000, "{without:?}, alone {alone:?}");
    }
}

#[test]
fn receivers_that_are_not_ready_take_nothing_of_other_tenants() {
    let alone = Case::ALONE.run();
    let beside = Case { storm: Storm::NotReady, attackers: 1, ..Case::ALONE }.run();
    assert!(beside.of(&alone) >= 0.9 && beside.rnr_naks > 1_000, "{beside:?}, alone {alone:?}");
}

/// A slow path that comes late finds its queue full of one tenant's records, unless they are
/// shared.
#[test]
fn a_storm_leaves_other_tenants_records_of_the_slow_path() {
    let late = Case { contexts: 256, slow_path: SlowPathDriver::Late(100_000), ..Case::ALONE };
    let alone = late.run();
    let storm = Case { attackers: 2, ..late };
    let (with, without) = (storm.run(), Case { tenants: false, ..storm }.run());
    assert!(with.of(&alone) >= 0.9, "{with:?}, alone {alone:?}");
    assert_eq!((with.no_room, with.victims_drops), (0, 0), "{with:?}");
    assert!(without.no_room > 10_000, "the queue is full for everybody: {without:?}");
}
