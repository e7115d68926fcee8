//! The victim, its honest peer, and what may be written and read.

use core::cell::RefCell;
use core::net::IpAddr;
use datapath::counters::Counters;
use datapath::memory::Access;
use datapath::qp::attr::{QpAttr, QpAttrMask, RecoveryPolicy, WriteOrder};
use datapath::qp::state::{QpState, QpType};
use datapath::queue::SrqCaps;
use simnet::{
    Message, NodeId, Op, Passing, Qp, QpOptions, Region, Rig, RigOptions, Rng, Srq, Transfer, Verdict, Work,
};
use std::collections::BTreeMap;
use std::rc::Rc;
use wire::{Pmtu, Psn, WireMode};

pub const QKEY: u32 = 0x1234_5678;
/// The byte that the region nobody may read is full of.
const SECRET: u8 = 0xC7;
/// So many of them in a row are no accident.
const LEAK: usize = 24;
/// Receives and results of READs lie this far apart, and are this long.
const STRIDE: usize = 512;
const PLACE: usize = 400;
const PLACES: usize = 32;
const LIMIT_NS: u64 = 10_000_000_000;

/// A queue pair of the victim's.
#[derive(Clone, Copy)]
pub struct Target {
    /// It, and its honest peer.
    pub own: Qp,
    pub peer: Qp,
    pub qp_type: QpType,
    pub mode: WireMode,
}

/// What an eavesdropper knows of the honest traffic to the victim.
#[derive(Default)]
pub struct Overheard {
    pub frames: Vec<Vec<u8>>,
    /// The last PSN of requests and of acknowledgements, by QPN.
    pub psns: BTreeMap<u32, Psn>,
}

/// Frames that are kept at most.
const FRAMES_MAX: usize = 256;

pub struct Scene {
    pub rig: Rig,
    peer: NodeId,
    victim: NodeId,
    pub targets: Vec<Target>,
    srq: Srq,
    pub overheard: Rc<RefCell<Overheard>>,
    /// Peers may do everything with it.
    pub open: Region,
    receives: Region,
    results: Region,
    /// The honest peer's.
    theirs: Region,
    /// What nobody may touch, with the seed of its bytes.
    pub closed: Vec<(Region, u64)>,
    secret: Region,
}

impl Scene {
    pub fn new(seed: u64) -> Self {
        let ipv6 = seed % 4 == 3;
        let mut rig = Rig::new(RigOptions { ipv6, ..RigOptions::seeded(seed) });
        let (peer, victim) = (rig.add_node(), rig.add_node());
        let srq = rig.create_srq(victim, SrqCaps { max_wr: 16, max_sge: 2 });
        let open = rig.region(victim, 4096);
        let receives = rig.region(victim, PLACES * STRIDE);
        let results = rig.region(victim, PLACES * STRIDE);
        let theirs = rig.region(peer, 64 * 1024);
        let pd = rig.pd(victim);
        let foreign_pd = rig.engine_mut(victim).core_mut().allocate_pd();
        let all = Access::all().difference(Access::MW_BIND);
        let secret = rig.region_with(victim, 2048, pd, Access::LOCAL_WRITE);
        rig.set(secret.all(), &[SECRET; 2048]);
        let closed = [
            (rig.region_with(victim, 1000, pd, Access::REMOTE_READ), 1),
            (rig.region_with(victim, 1000, foreign_pd, all), 2),
            (rig.region_with(victim, 1000, pd, all), 3),
        ];
        closed.iter().for_each(|(region, seed)| rig.fill(region.all(), *seed));
        assert!(rig.deregister(closed[2].0), "its key ends before anybody knows it");
        let mut scene = Self {
            rig,
            peer,
            victim,
            targets: Vec::new(),
            srq,
            overheard: Rc::default(),
            open,
            receives,
            results,
            theirs,
            closed: closed.to_vec(),
            secret,
        };
        scene.connect_all();
        scene.listen();
        scene
    }

    fn connect_all(&mut self) {
        let rc = QpOptions {
            pmtu: Pmtu::B256,
            window: 64,
            max_rd_atomic: 4,
            max_dest_rd_atomic: 4,
            ..QpOptions::default()
        };
        let plain = QpOptions { wire_mode: WireMode::Plain, recovery: RecoveryPolicy::GoBackN, ..rc };
        for (options, shares) in [
            (rc, false),
            (rc, true),
            (QpOptions { recovery: RecoveryPolicy::GoBackN, ..rc }, false),
            (QpOptions { write_order: WriteOrder::all(), ..rc }, false),
            (plain, false),
            (QpOptions { qp_type: QpType::Uc, wire_mode: WireMode::Plain, ..rc }, false),
            (QpOptions { qp_type: QpType::Uc, wire_mode: WireMode::Plain, ..rc }, true),
        ] {
            let peer = self.rig.create_qp(self.peer, options);
            let srq = shares.then_some(self.srq);
            let own = self.rig.create_qp(self.victim, QpOptions { srq, ..options });
            self.rig.connect(peer, own);
            self.targets.push(Target { own, peer, qp_type: options.qp_type, mode: options.wire_mode });
        }
        let ud = QpOptions { qp_type: QpType::Ud, ..rc };
        let [peer, own] = [self.peer, self.victim].map(|node| self.rig.create_qp(node, ud));
        for qp in [peer, own] {
            let attr = QpAttr { qkey: QKEY, ..QpAttr::default() };
            for (state, mask) in [
                (QpState::Init, QpAttrMask::PKEY_INDEX | QpAttrMask::PORT | QpAttrMask::QKEY),
                (QpState::Rtr, QpAttrMask::empty()),
                (QpState::Rts, QpAttrMask::SQ_PSN),
            ] {
                let moved = self.rig.modify(qp, &QpAttr { state, ..attr }, mask | QpAttrMask::STATE);
                moved.expect("a datagram queue pair has no peer to agree with");
            }
        }
        let (qpn, group) = (self.rig.qpn(own), self.group());
        self.rig.engine_mut(self.victim).join_group(qpn, group).expect("a group");
        self.targets.push(Target { own, peer, qp_type: QpType::Ud, mode: WireMode::Plain });
    }

    /// The multicast group that the victim's datagram queue pair is a member of.
    pub fn group(&self) -> IpAddr {
        match self.rig.ip(self.victim) {
            IpAddr::V4(_) => IpAddr::from([239, 1, 2, 3]),
            IpAddr::V6(_) => IpAddr::from([0xFF0E, 0, 0, 0, 0, 1, 2, 3]),
        }
    }

    /// Overhears what goes to the victim, and looks for secrets in what it sends.
    fn listen(&mut self) {
        let overheard = Rc::clone(&self.overheard);
        let hear = move |passing: &Passing<'_>| {
            let mut overheard = overheard.borrow_mut();
            if let Some(packet) = passing.packet {
                overheard.psns.insert(packet.dest_qp(), packet.psn());
            }
            let number = usize::try_from(passing.number).unwrap_or(0) % FRAMES_MAX;
            match overheard.frames.get_mut(number) {
                Some(frame) => *frame = passing.frame.to_vec(),
                None => overheard.frames.push(passing.frame.to_vec()),
            }
            Verdict::Pass
        };
        let (to_victim, from_victim) = (self.targets[0].peer, self.targets[0].own);
        self.rig.net.set_filter(self.rig.up(to_victim), Box::new(hear));
        let search = |passing: &Passing<'_>| {
            let mut run = 0;
            for byte in passing.frame {
                run = if *byte == SECRET { run + 1 } else { 0 };
                assert!(run < LEAK, "a packet of the victim's carries what nobody may read");
            }
            Verdict::Pass
        };
        self.rig.net.set_filter(self.rig.up(from_victim), Box::new(search));
    }

    pub fn counters(&self) -> &Counters {
        self.rig.engine(self.victim).core().counters()
    }

    pub fn deliver(&mut self, frame: Vec<u8>) {
        self.rig.net.deliver(self.rig.now(), self.victim, frame);
    }

    pub fn run_for(&mut self, ns: u64) {
        self.rig.run_for(ns);
    }

    /// Something honest, by either side; and what failed is connected again.
    pub fn work(&mut self, rng: &mut Rng) {
        let target = self.targets[rng.index(self.targets.len())];
        let (own, peer) = (target.own, target.peer);
        let place = STRIDE * rng.index(PLACES);
        let len = rng.index(PLACE + 1);
        let receive = self.receives.at(place, PLACE);
        // Full queues, and those of a shared queue's queue pair, refuse.
        let _ = self.rig.try_post_recv(own, &[receive]);
        let _ = self.rig.post_srq(self.srq, 1, &[receive]);
        if target.qp_type == QpType::Ud {
            return;
        }
        let dead = [own, peer].iter().any(|qp| matches!(self.rig.state(*qp), QpState::Err | QpState::Sqe));
        if dead && rng.hits(500_000) {
            let psn = |rng: &mut Rng| u32::try_from(rng.below(1 << 24)).unwrap_or(0);
            let (one, other) = (psn(rng), psn(rng));
            self.rig.reconnect(peer, one, own, other);
        }
        let (mine, theirs) = (self.open.at(0, len), self.theirs.at(place, len));
        let word = |region: Region| region.at(64, 8);
        let results = self.results.at(place, PLACE.min(len));
        let works = [
            (peer, Work::write(theirs, mine)),
            (peer, Work::send(theirs)),
            (peer, Work::send(theirs).imm(7)),
            (peer, Work::write(theirs, mine).imm(9)),
            (peer, Work::read(theirs, mine)),
            (peer, Work::fetch_add(word(self.theirs), word(self.open), 1)),
            (own, Work::write(mine, theirs)),
            (own, Work::read(results, theirs)),
            (own, Work::send(mine)),
        ];
        let (qp, work) = &works[rng.index(works.len())];
        // UC reads nothing, and a queue pair in ERR or with a full queue takes nothing.
        let _ = self.rig.try_post(*qp, work);
    }

    /// Nothing was written outside of what was granted.
    pub fn verify(&self) {
        for (region, seed) in &self.closed {
            self.rig.verify(region.all(), *seed);
        }
        assert_eq!(self.rig.bytes(self.secret.all()), [SECRET; 2048], "nobody may write the secret");
        for place in (0..PLACES).map(|place| place * STRIDE) {
            self.rig.verify_untouched(self.receives.at(place + PLACE, STRIDE - PLACE));
            self.rig.verify_untouched(self.results.at(place + PLACE, STRIDE - PLACE));
        }
        self.rig.verify_guards();
    }

    /// The key and first address of what must not be reached.
    pub fn secret(&self) -> Region {
        self.secret
    }

    /// New connections work, in both directions.
    pub fn still_lives(&mut self) {
        let (a, b) = self.rig.connected(self.peer, self.victim, QpOptions::default());
        for (from, to, seed) in [(a, b, 500), (b, a, 600)] {
            let messages = vec![Message::new(Op::Send, 5000), Message::new(Op::Write, 5000)];
            let outcome = Transfer::new(&mut self.rig, from, to, messages, seed).run(&mut self.rig, LIMIT_NS);
            outcome.unwrap_or_else(|stuck| panic!("the engine does not live on: {stuck:?}"));
        }
    }
}
