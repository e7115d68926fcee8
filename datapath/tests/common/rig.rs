//! Two engines, a cable between them, and virtual time.

use super::memory_port::{MemoryPort, carry};
use datapath::engine::{CreateError, Engine, EngineConfig, QpConfig, QpHandles};
use datapath::memory::{Access, HeapBacking, MemoryKey, ProtectionDomainId};
use datapath::port::Port;
use datapath::qp::attr::{AddressVector, CongestionAlgorithm, QpAttr, QpAttrMask as M};
use datapath::qp::state::{QpState, QpType};
use datapath::queue::*;
use datapath::sched::SchedulerConfig;
use datapath::stream::RtoConfig;
use datapath::time::Time;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use wire::Pmtu;

/// Registered bytes of each side, at iova 0.
pub const REGION: usize = 1 << 20;
/// Virtual time from one turn to the next.
pub const TURN_NS: u64 = 1_000;

/// How queue pairs are made.
#[derive(Clone, Copy)]
pub struct Options {
    pub window: u16,
    pub caps: QueueCaps,
    /// The shared receive queue that its receives come from.
    pub srq: Option<u32>,
    pub attr: QpAttr,
}

impl Default for Options {
    fn default() -> Self {
        let attr = QpAttr {
            congestion: CongestionAlgorithm::Fixed,
            path_mtu: Pmtu::B1024,
            sq_psn: 0xFF_FFF0,
            rq_psn: 0xFF_FFF0,
            access_flags: Access::LOCAL_WRITE | Access::REMOTE_WRITE,
            ..QpAttr::default()
        };
        Self { window: 512, caps: QueueCaps::default(), srq: None, attr }
    }
}

/// One engine, with one region and one completion queue.
pub struct Side {
    pub engine: Engine<MemoryPort>,
    pub pd: ProtectionDomainId,
    pub key: MemoryKey,
    pub cq: CompletionQueue,
    cq_number: u32,
    ip: IpAddr,
    mac: [u8; 6],
}

impl Side {
    fn new(host: u8, config: EngineConfig, frames: usize) -> Self {
        let ip = IpAddr::V4(Ipv4Addr::new(10, 0, 0, host));
        let port = MemoryPort::new(host, frames, 4_400);
        let mac = port.caps().mac;
        let mut engine = Engine::new(port, EngineConfig { ip, ..config }).unwrap();
        let pd = engine.core_mut().allocate_pd();
        let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::REMOTE_READ | Access::REMOTE_ATOMIC;
        let key = engine
            .core_mut()
            .memory_mut()
            .register(pd, Arc::new(HeapBacking::new(REGION)), 0, access)
            .unwrap();
        let (cq_number, cq) = engine.core_mut().create_cq(1 << 16).unwrap();
        Self { engine, pd, key, cq, cq_number, ip, mac }
    }

    /// Queue pairs made from now on complete into a queue of so many entries.
    pub fn use_small_cq(&mut self, entries: u32) {
        (self.cq_number, self.cq) = self.engine.core_mut().create_cq(entries).unwrap();
    }

    /// A queue pair in RESET.
    pub fn create(&mut self, options: &Options) -> QpHandles {
        self.try_create(options).unwrap()
    }

    /// A queue pair in RESET, if there is room.
    pub fn try_create(&mut self, options: &Options) -> Result<QpHandles, CreateError> {
        let config = QpConfig {
            qp_type: QpType::Rc,
            gsi: false,
            pd: self.pd,
            send_cq: self.cq_number,
            recv_cq: self.cq_number,
            srq: options.srq,
            caps: options.caps,
            window: options.window,
        };
        self.engine.core_mut().create_qp(&config)
    }

    /// From RESET to RTS, with the peer at `(ip, mac)`.
    pub fn bring_up(&mut self, qpn: u32, dest_qpn: u32, peer: (IpAddr, [u8; 6]), options: &Options) {
        let av = AddressVector {
            src_ip: self.ip,
            dst_ip: peer.0,
            dst_mac: Some(peer.1),
            ..AddressVector::default()
        };
        let mut attr = QpAttr { av, dest_qpn, ..options.attr };
        let steps = [
            (QpState::Init, M::PKEY_INDEX | M::PORT | M::ACCESS_FLAGS),
            (
                QpState::Rtr,
                M::AV
                    | M::PATH_MTU
                    | M::DEST_QPN
                    | M::RQ_PSN
                    | M::MAX_DEST_RD_ATOMIC
                    | M::MIN_RNR_TIMER
                    | M::WIRE_MODE
                    | M::RECOVERY
                    | M::WRITE_ORDER
                    | M::CONGESTION
                    | M::SCHEDULING,
            ),
            (QpState::Rts, M::TIMEOUT | M::RETRY_CNT | M::RNR_RETRY | M::SQ_PSN | M::MAX_QP_RD_ATOMIC),
        ];
        for (state, mask) in steps {
            attr.state = state;
            self.engine.core_mut().modify_qp(qpn, &attr, mask | M::STATE).unwrap();
        }
    }

    /// To RESET or ERR.
    pub fn force(&mut self, qpn: u32, state: QpState) {
        self.engine.core_mut().modify_qp(qpn, &QpAttr { state, ..QpAttr::default() }, M::STATE).unwrap();
    }

    /// Completions polled, without looking at them; asserts that they are successes.
    pub fn drain(&mut self) -> usize {
        let mut polled = 0;
        while let Some(completion) = self.cq.poll() {
            assert_eq!(completion.status, WcStatus::Success);
            polled += 1;
        }
        polled
    }

    /// Where packets for this side go.
    pub const fn address(&self) -> (IpAddr, [u8; 6]) {
        (self.ip, self.mac)
    }

    /// An element of this side's region.
    pub const fn sge(&self, addr: u64, length: u32) -> Sge {
        Sge { addr, length, lkey: self.key.0 }
    }
}

/// Whether a frame of side 0 or 1 is lost on its way.
pub type Drops = Box<dyn FnMut(usize, &[u8]) -> bool>;

/// Both sides.
pub struct Rig {
    pub sides: [Side; 2],
    pub now: Time,
    /// What is lost.
    pub drops: Drops,
}

impl Rig {
    pub fn new(max_qps: u32, frames: usize) -> Self {
        Self::with_scheduler(max_qps, frames, SchedulerConfig::default())
    }

    /// Two sides whose engines have the given scheduling policy.
    pub fn with_scheduler(max_qps: u32, frames: usize, scheduler: SchedulerConfig) -> Self {
        Self::with_config(frames, EngineConfig { max_qps, scheduler, ..EngineConfig::default() })
    }

    /// Two sides whose engines are made as `config` says, but for addresses and timers.
    pub fn with_config(frames: usize, config: EngineConfig) -> Self {
        let config = EngineConfig { rto: RtoConfig::SIMULATION, ..config };
        let sides = [1, 2].map(|host| Side::new(host, config, frames));
        Self { sides, now: Time(1_000_000), drops: Box::new(|_, _| false) }
    }

    /// A connected pair of queue pairs, in RTS.
    pub fn connect(&mut self, options: &Options) -> [QpHandles; 2] {
        self.connect_as([options; 2])
    }

    /// A connected pair of queue pairs, in RTS, with options of its own for each side.
    pub fn connect_as(&mut self, options: [&Options; 2]) -> [QpHandles; 2] {
        let handles = [0, 1].map(|side| self.sides[side].create(options[side]));
        self.bring_up_as(&handles, options);
        handles
    }

    /// Both queue pairs from RESET to RTS.
    pub fn bring_up(&mut self, handles: &[QpHandles; 2], options: &Options) {
        self.bring_up_as(handles, [options; 2]);
    }

    fn bring_up_as(&mut self, handles: &[QpHandles; 2], options: [&Options; 2]) {
        for (own, peer) in [(0, 1), (1, 0)] {
            let address = self.sides[peer].address();
            self.sides[own].bring_up(handles[own].qpn, handles[peer].qpn, address, options[own]);
        }
    }

    /// A turn of each engine, then the cable. Returns the frames that moved.
    pub fn step(&mut self) -> usize {
        for side in &mut self.sides {
            side.engine.turn(self.now);
        }
        let carried = self.carry();
        self.now = self.now.after(TURN_NS);
        carried
    }

    /// Moves what both sent.
    pub fn carry(&mut self) -> usize {
        let [a, b] = &mut self.sides;
        let (a, b) = (a.engine.port_mut(), b.engine.port_mut());
        let there = carry(a, b, &mut |frame| (self.drops)(0, frame));
        there + carry(b, a, &mut |frame| (self.drops)(1, frame))
    }

    /// Steps until `done`, at most `steps` times; time jumps where nothing is to do. False if it
    /// did not come.
    pub fn run(&mut self, steps: usize, mut done: impl FnMut(&mut Self) -> bool) -> bool {
        for _ in 0..steps {
            if done(self) {
                return true;
            }
            let moved = self.step();
            if moved == 0 && !self.sides.iter().any(|side| side.engine.has_work()) {
                let next = self.sides.iter().filter_map(|side| side.engine.next_deadline()).min();
                self.now = self.now.max(next.unwrap_or(Time::ZERO));
            }
        }
        done(self)
    }
}

/// A signaled WRITE of `length` bytes from the own region's start to `remote_addr`.
pub const fn write<'a>(wr_id: u64, gather: &'a [Sge], remote_addr: u64, rkey: MemoryKey) -> SendRequest<'a> {
    SendRequest {
        wr_id,
        opcode: SendOpcode::Write,
        flags: SendFlags::SIGNALED,
        imm: 0,
        remote_addr,
        rkey: rkey.0,
        data: SendData::Gather(gather),
    }
}
