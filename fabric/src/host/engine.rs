//! A host with the engine that runs on the wire, its queue pairs, and the flows on them.

use super::HostError;
use crate::clock::Ps;
use crate::memory::SharedMemory;
use crate::port::FoldingPort;
use core::net::{IpAddr, Ipv4Addr};
use datapath::engine::{Engine, EngineConfig, QpConfig, QpHandles};
use datapath::memory::{Access, ProtectionDomainId};
use datapath::port::PortCaps;
use datapath::qp::attr::{
    AddressVector, CongestionAlgorithm, CongestionTuning, QpAttr, QpAttrMask, RecoveryPolicy,
};
use datapath::qp::state::{QpState, QpType};
use datapath::qp::transition::TransitionRule;
use datapath::queue::{
    Completion, CompletionQueue, QueueCaps, SendData, SendFlags, SendOpcode, SendRequest, Sge, WcStatus,
};
use datapath::stream::RtoConfig;
use std::sync::Arc;
use wire::Pmtu;

/// Where the shared memory begins, for local and remote accesses alike.
const IOVA: u64 = 0x10_0000;
/// Ethernet, IPv4, UDP, BTH, RETH, META and ICRC, and some room for what is longer.
const HEADERS: usize = 128;

/// What all hosts of a run are made with.
#[derive(Clone, Copy, Debug)]
pub struct EngineHostConfig {
    /// Queue pairs of a host at most: flows from and to it at one time.
    pub max_qps: u32,
    /// Window in packets: the cap.
    pub window: u16,
    /// Streams that can be in Recovery at once.
    pub recovery_contexts: u32,
    /// Path MTU.
    pub mtu: Pmtu,
    /// Congestion control.
    pub congestion: CongestionAlgorithm,
    /// Its parameters.
    pub tuning: CongestionTuning,
    /// How losses are recovered.
    pub recovery: RecoveryPolicy,
    /// Time between two turns of an engine, if there is something to do.
    pub turn: Ps,
    /// Frames of the transmit ring.
    pub ring: u32,
    /// Bytes of a message; a flow is sent as so many WRITEs as it takes. 0: as one.
    pub message: u32,
    /// Messages of a flow that are posted at once.
    pub depth: u32,
}

impl Default for EngineHostConfig {
    fn default() -> Self {
        Self {
            max_qps: 128,
            window: 160,
            recovery_contexts: 2,
            mtu: Pmtu::B1024,
            congestion: CongestionAlgorithm::Dctcp,
            tuning: CongestionTuning::default(),
            recovery: RecoveryPolicy::SelectiveRepeat,
            turn: Ps::from_ns(500),
            ring: 16,
            message: 0,
            depth: 1,
        }
    }
}

impl EngineHostConfig {
    /// Longest frame, in bytes.
    #[must_use]
    pub const fn max_frame(&self) -> usize {
        self.mtu.bytes() as usize + HEADERS
    }

    /// Bytes of the largest message of flows of at most `flow` bytes.
    #[must_use]
    pub const fn largest_message(&self, flow: u32) -> u32 {
        if self.message == 0 || flow < self.message { flow } else { self.message }
    }
}

/// A simulated host with an engine.
pub struct EngineHost {
    /// Its engine.
    pub engine: Engine<FoldingPort>,
    /// Where completions are.
    completions: CompletionQueue,
    pd: ProtectionDomainId,
    cq: u32,
    key: u32,
    number: u32,
    pairs: Vec<QpHandles>,
    /// What each pair sends.
    sending: Vec<Sending>,
    free: Vec<u32>,
    psn: u32,
}

/// A flow that a queue pair sends.
#[derive(Clone, Copy, Debug, Default)]
struct Sending {
    flow: u64,
    /// Completions of other flows are none of this one's.
    generation: u32,
    rkey: u32,
    /// Bytes of a message.
    message: u32,
    /// Bytes that are not posted yet, and those of which completions came.
    left: u32,
    done: u32,
    /// Messages posted and not completed.
    posted: u32,
}

/// Address of host `number`.
#[must_use]
pub fn ip_of(number: u32) -> IpAddr {
    IpAddr::V4(Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 0, 0, 0)) + number))
}

/// One end of a flow: a queue pair of a host, and the first PSN that it sends.
#[derive(Clone, Copy, Debug)]
pub struct End {
    /// The host.
    pub host: u32,
    /// The queue pair, among those of the host.
    pub pair: u32,
    qpn: u32,
    psn: u32,
}

const fn mac_of(number: u32) -> [u8; 6] {
    let [a, b, c, d] = number.to_be_bytes();
    [0x02, 0, a, b, c, d]
}

impl EngineHost {
    /// Host `number`, with the memory of all hosts.
    ///
    /// # Errors
    /// [`HostError`].
    pub fn new(
        number: u32,
        seed: u64,
        config: &EngineHostConfig,
        memory: &Arc<SharedMemory>,
    ) -> Result<Self, HostError> {
        let caps = PortCaps { mac: mac_of(number), max_frame: config.max_frame() };
        let engine = EngineConfig {
            ip: ip_of(number),
            max_qps: config.max_qps,
            max_cqs: 1,
            max_srqs: 0,
            max_mrs: 1,
            max_ahs: 0,
            window_max: config.window,
            recovery_contexts: config.recovery_contexts,
            crowd: config.max_qps,
            rto: RtoConfig::SIMULATION,
            seed: (seed ^ u64::from(number) << 1).into(),
            key_seed: (seed ^ u64::from(number) << 1 ^ 1).into(),
            ..EngineConfig::default()
        };
        let mut engine = Engine::new(FoldingPort::new(caps), engine)?;
        let core = engine.core_mut();
        let pd = core.allocate_pd();
        let (cq, completions) = core.create_cq(config.max_qps * config.depth)?;
        let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
        let memory = Arc::clone(memory) as Arc<dyn datapath::memory::Backing>;
        let key = core.memory_mut().register(pd, memory, IOVA, access)?.0;
        let (pairs, sending, free) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Self { engine, completions, pd, cq, key, number, pairs, sending, free, psn: 0 })
    }

    /// A queue pair for an end of a flow; `None` if all are in use.
    ///
    /// # Errors
    /// [`HostError::Create`].
    pub fn take_pair(&mut self, config: &EngineHostConfig) -> Result<Option<End>, HostError> {
        let pair = match self.free.pop() {
            Some(pair) => pair,
            None if self.pairs.len() >= config.max_qps as usize => return Ok(None),
            None => self.create_pair(config)?,
        };
        self.sending[pair as usize].done = 0;
        // Far enough from those of the flow before that a late packet of it is none of this one.
        self.psn = self.psn.wrapping_add(0x01_2345) & 0xFF_FFFF;
        let qpn = self.pairs[pair as usize].qpn;
        Ok(Some(End { host: self.number, pair, qpn, psn: self.psn }))
    }

    fn create_pair(&mut self, config: &EngineHostConfig) -> Result<u32, HostError> {
        let max_send_wr = config.depth;
        let caps = QueueCaps { max_send_wr, max_recv_wr: 1, max_send_sge: 1, max_recv_sge: 1, max_inline: 0 };
        let pair = QpConfig {
            qp_type: QpType::Rc,
            gsi: false,
            pd: self.pd,
            send_cq: self.cq,
            recv_cq: self.cq,
            srq: None,
            caps,
            window: config.window,
        };
        self.pairs.push(self.engine.core_mut().create_qp(&pair)?);
        self.sending.push(Sending::default());
        Ok(u32::try_from(self.pairs.len()).unwrap_or(u32::MAX) - 1)
    }

    /// Connects a queue pair of this host to its peer.
    ///
    /// # Errors
    /// [`HostError::Modify`].
    pub fn connect(&mut self, config: &EngineHostConfig, end: End, peer: End) -> Result<(), HostError> {
        let init = QpAttr { access_flags: Access::REMOTE_WRITE | Access::LOCAL_WRITE, ..QpAttr::default() };
        self.enter(end, (QpState::Reset, QpState::Init), init, QpAttrMask::empty())?;
        let ready = QpAttr {
            av: AddressVector {
                src_ip: ip_of(self.number),
                dst_ip: ip_of(peer.host),
                dst_mac: Some(mac_of(peer.host)),
                ..AddressVector::default()
            },
            path_mtu: config.mtu,
            dest_qpn: peer.qpn,
            rq_psn: peer.psn,
            recovery: config.recovery,
            congestion: config.congestion,
            congestion_tuning: config.tuning,
            ..QpAttr::default()
        };
        let chosen = QpAttrMask::RECOVERY | QpAttrMask::CONGESTION;
        self.enter(end, (QpState::Init, QpState::Rtr), ready, chosen)?;
        let send = QpAttr { sq_psn: end.psn, timeout: 14, retry_cnt: 7, rnr_retry: 7, ..QpAttr::default() };
        self.enter(end, (QpState::Rtr, QpState::Rts), send, QpAttrMask::empty())
    }

    /// Takes a queue pair from one state to the next with what that transition requires, and
    /// `chosen` beside it.
    fn enter(
        &mut self,
        end: End,
        (from, to): (QpState, QpState),
        attr: QpAttr,
        chosen: QpAttrMask,
    ) -> Result<(), HostError> {
        let rule = TransitionRule::find(QpType::Rc, from, to);
        let required = rule.map_or(QpAttrMask::STATE, |rule| rule.required(from, to));
        let attr = QpAttr { state: to, ..attr };
        Ok(self.engine.core_mut().modify_qp(end.qpn, &attr, required | chosen)?)
    }

    /// Sends a flow of `bytes` to the peer, whose memory has `rkey`.
    ///
    /// # Errors
    /// [`HostError::Post`].
    pub fn send(
        &mut self,
        config: &EngineHostConfig,
        end: End,
        (flow, bytes): (u64, u32),
        rkey: u32,
    ) -> Result<(), HostError> {
        let sending = &mut self.sending[end.pair as usize];
        let generation = sending.generation.wrapping_add(1);
        let message = config.largest_message(bytes);
        *sending = Sending { flow, generation, rkey, message, left: bytes, done: 0, posted: 0 };
        self.post(end.pair)?;
        for _ in 1..config.depth {
            if self.sending[end.pair as usize].left > 0 {
                self.post(end.pair)?;
            }
        }
        Ok(())
    }

    /// Posts the next message of a pair's flow.
    fn post(&mut self, pair: u32) -> Result<(), HostError> {
        let sending = &mut self.sending[pair as usize];
        let length = sending.left.min(sending.message);
        sending.left -= length;
        sending.posted += 1;
        let source = [Sge { addr: IOVA, length, lkey: self.key }];
        Ok(self.pairs[pair as usize].send.post(&SendRequest {
            wr_id: u64::from(sending.generation) << 32 | u64::from(pair),
            opcode: SendOpcode::Write,
            flags: SendFlags::SIGNALED,
            imm: 0,
            remote_addr: IOVA,
            rkey: sending.rkey,
            data: SendData::Gather(&source),
        })?)
    }

    /// The key of its memory.
    #[must_use]
    pub const fn rkey(&self) -> u32 {
        self.key
    }

    /// A flow that has ended, and how; what completed posts the next messages.
    ///
    /// # Errors
    /// [`HostError::Post`].
    pub fn poll(&mut self) -> Result<Option<(u64, WcStatus)>, HostError> {
        while let Some(completion) = self.completions.poll() {
            if let Some(ended) = self.complete(&completion)? {
                return Ok(Some(ended));
            }
        }
        Ok(None)
    }

    #[expect(clippy::cast_possible_truncation, reason = "the number is two of them")]
    fn complete(&mut self, completion: &Completion) -> Result<Option<(u64, WcStatus)>, HostError> {
        let (generation, pair) = ((completion.wr_id >> 32) as u32, completion.wr_id as u32);
        let sending = &mut self.sending[pair as usize];
        if generation != sending.generation {
            return Ok(None);
        }
        if completion.status != WcStatus::Success {
            sending.generation = sending.generation.wrapping_add(1);
            return Ok(Some((sending.flow, completion.status)));
        }
        sending.posted -= 1;
        sending.done += sending.message;
        if sending.left > 0 {
            self.post(pair)?;
            return Ok(None);
        }
        Ok((sending.posted == 0).then_some((sending.flow, WcStatus::Success)))
    }

    /// Bytes of the flow of an end of this host of which completions came.
    #[must_use]
    pub fn completed(&self, end: End) -> u32 {
        self.sending[end.pair as usize].done
    }

    /// Ends the use of a queue pair.
    ///
    /// # Errors
    /// [`HostError::Modify`].
    pub fn give_back(&mut self, end: End) -> Result<(), HostError> {
        let reset = QpAttr { state: QpState::Reset, ..QpAttr::default() };
        self.engine.core_mut().modify_qp(end.qpn, &reset, QpAttrMask::STATE)?;
        self.free.push(end.pair);
        Ok(())
    }
}
