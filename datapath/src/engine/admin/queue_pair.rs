//! Creating, inspecting and destroying queue pairs.

#[cfg(test)]
mod tests;

use super::plain_path_mtu_max;
use crate::counters::QpCounters;
use crate::engine::{Core, CreateError, WINDOW_LIMIT};
use crate::memory::{Access, ProtectionDomainId};
use crate::qp::attr::{QpAttr, RecoveryPolicy};
use crate::qp::{
    self, Ahead, Attributes, Gap, Hull, Present, Qp, QpCold, QpFlags, QpIdentity, Qpc, Receives,
    RequesterCursor, ResponderCursor, SqEntry, Taken, Watched,
};
use crate::qp_state::{QpState, QpType};
use crate::queue::{QpShared, QueueCaps, RecvQueue, SendQueue, recv_queue, send_queue};
use crate::sched::SchedFlags;
use crate::stream::{RxStream, TxRecovery, TxStream, Watchdog, WatchdogConfig, sequence_window};
use crate::time::Time;
use cc_dctcp::{Controller, ControllerConfig};
use core::net::{IpAddr, Ipv4Addr};
use sr_recovery::StreamId;
use std::sync::Arc;
use wire::{Ecn, Flow, Psn, Template, WireMode};

/// What a queue pair is created with (`ibv_qp_init_attr`).
#[derive(Clone, Copy, Debug)]
pub struct QpConfig {
    /// Transport service.
    pub qp_type: QpType,
    /// A UD queue pair with QPN 1, for connection management (protocol.md 1.12). There is one at
    /// most.
    pub gsi: bool,
    /// Its protection domain.
    pub pd: ProtectionDomainId,
    /// Completion queue of sends.
    pub send_cq: u32,
    /// Completion queue of receives.
    pub recv_cq: u32,
    /// Shared receive queue, if it is to have no receive queue of its own.
    pub srq: Option<u32>,
    /// Sizes of its queues.
    pub caps: QueueCaps,
    /// Packets in the network at most, up to the engine's `window_max`. A loss lets
    /// [`sequence_window`] of them be outstanding.
    pub window: u16,
}

/// What the application gets of a new queue pair.
pub struct QpHandles {
    /// Its number.
    pub qpn: u32,
    /// Where sends are posted.
    pub send: SendQueue,
    /// Where receives are posted.
    pub recv: RecvQueue,
    /// Its state, as the engine publishes it.
    pub shared: Arc<QpShared>,
}

/// Memory of one queue pair, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QpMemory {
    /// The QPC: what the fast path touches.
    pub hot: usize,
    /// State for what is not the fast path.
    pub cold: usize,
    /// Send and receive rings.
    pub rings: usize,
    /// What one recovery context of the engine's pool takes while something is missing.
    pub recovery_context: usize,
}

/// A QPC that no queue pair uses.
pub(in crate::engine) fn vacant() -> Qpc {
    let psn = Psn::new(0);
    Qpc {
        id: QpIdentity {
            qpn: 0,
            dest_qpn: 0,
            pd: ProtectionDomainId(0),
            pkey: 0xFFFF,
            pmtu: 256,
            state: QpState::Reset,
            mode: WireMode::Srnic,
            access: Access::empty(),
            loopback: false,
        },
        sched: SchedFlags::empty(),
        responses_sched: SchedFlags::empty(),
        flags: QpFlags::empty(),
        service: QpType::Rc,
        tx: TxStream::new(psn, 1),
        req: RequesterCursor::default(),
        rx: RxStream::new(psn, 1, 0),
        rsp: ResponderCursor::new(psn, 0),
        controller: Controller::new(&ControllerConfig::Fixed { window_bytes: u32::MAX }),
        template: template_to_nowhere(),
        send_cq: 0,
    }
}

/// Headers of a flow to nowhere: what a QPC holds until an address vector is set.
fn template_to_nowhere() -> Template {
    let nowhere = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    let flow = Flow {
        src_mac: [0; 6],
        dst_mac: [0; 6],
        vlan: None,
        src: nowhere,
        dst: nowhere,
        src_port: 0,
        dst_port: 0,
        dscp: 0,
        ecn: Ecn::NotEct,
        ttl: 0,
    };
    Template::new(&flow).expect("both addresses are IPv4 and the DSCP is 0")
}

impl Core {
    /// Creates a queue pair in state RESET.
    ///
    /// # Errors
    /// [`CreateError`].
    pub fn create_qp(&mut self, config: &QpConfig) -> Result<QpHandles, CreateError> {
        self.check_qp_config(config)?;
        self.check_tenant(config.pd)?;
        let (slot, qpn) = self.allocate_qp(config.gsi)?;
        self.units.last_words.forget(qpn);
        let shared = Arc::new(QpShared::new(slot, self.doorbells.clone()));
        let attr = self.first_attributes(config.qp_type);
        let (send, send_reader) = send_queue(&config.caps, &shared);
        let send = send.of_service(config.qp_type, attr.path_mtu.bytes());
        let own_recvs = if config.srq.is_some() { 0 } else { config.caps.max_recv_wr };
        let (recv, recv_reader) = recv_queue(&QueueCaps { max_recv_wr: own_recvs, ..config.caps }, &shared);
        let sequence = sequence_window(config.window);
        let old = self.qps.hot(slot);
        // Queues of the engine may still name the slot; generations outlive the queue pair.
        let (sched, responses_sched) =
            (old.sched & SchedFlags::LISTED, old.responses_sched & SchedFlags::LISTED);
        let generation = old.rx.generation().wrapping_add(1);
        let mut hot = vacant();
        hot.id.qpn = qpn;
        hot.id.pd = config.pd;
        hot.id.mode = attr.wire_mode;
        hot.sched = sched;
        hot.responses_sched = responses_sched;
        hot.flags.set(QpFlags::SHARES_RECEIVES, config.srq.is_some());
        hot.service = config.qp_type;
        hot.send_cq = config.send_cq;
        hot.rx = RxStream::new(Psn::new(0), sequence, generation);
        let life = self.qps.next_life(slot);
        let stream = StreamId { qp: slot, response: false };
        let entries = config.caps.max_send_wr.next_power_of_two() as usize;
        let cold = QpCold {
            present: Present::Yes,
            slot,
            attributes: Attributes { qp_type: config.qp_type, attr, window: config.window },
            send_queue: send_reader,
            receives: config.srq.map_or(Receives::Own(recv_reader), |srq| Receives::Shared(Taken::new(srq))),
            recv_cq: config.recv_cq,
            sq_entries: vec![SqEntry::default(); entries].into(),
            writes: Hull::default(),
            tx_recovery: TxRecovery::new(stream, life, sequence, attr.recovery, Psn::new(0)),
            watchdog: Watchdog::new(WatchdogConfig { timeout: 0, retry_cnt: 0, rto: self.config.rto }),
            heard_at: Time::ZERO,
            counters: QpCounters::default(),
            was_established: false,
            other_dialect: 0,
            failure: None,
            rnr: None,
            rnr_retries: 0,
            rnr_since: Time::ZERO,
            probes: [None; 2],
            rx_recovery: None,
            next_write: None,
            gap: Gap::default(),
            refusal: None,
            reads: None,
            responses: None,
            incoming: (config.qp_type == QpType::Uc).then(Box::default),
            plain: None,
            keepalive: None,
            response_lives: self.qps.response_lives(slot),
            watched: Watched::default(),
            host: None,
        };
        self.units.set_scheduling(slot, attr.scheduling);
        self.note_tenant(slot, config.pd);
        self.qps.insert(slot, hot, cold);
        [config.send_cq, config.recv_cq].into_iter().for_each(|cq| self.cq_users.add(cq));
        config.srq.into_iter().for_each(|srq| self.srq_users.add(srq));
        self.note_crowd();
        Ok(QpHandles { qpn, send, recv, shared })
    }

    /// A free slot, and a QPN for it.
    fn allocate_qp(&mut self, gsi: bool) -> Result<(u32, u32), CreateError> {
        let capacity = self.qps.capacity();
        if gsi && self.qps.has_gsi() {
            return Err(CreateError::Exhausted { what: "general services queue pairs", capacity: 1 });
        }
        let place = if gsi { self.qps.allocate_gsi() } else { self.qps.allocate() };
        place.ok_or(CreateError::Exhausted { what: "queue pairs", capacity })
    }

    /// Attributes of a new queue pair. UC and UD have one dialect, and a datagram may fill a
    /// packet.
    pub(super) fn first_attributes(&self, qp_type: QpType) -> QpAttr {
        let default = QpAttr::default();
        let plain = QpAttr { wire_mode: WireMode::Plain, recovery: RecoveryPolicy::GoBackN, ..default };
        match qp_type {
            QpType::Rc => default,
            QpType::Uc => plain,
            QpType::Ud => QpAttr { path_mtu: plain_path_mtu_max(&self.caps), ..plain },
        }
    }

    fn check_qp_config(&self, config: &QpConfig) -> Result<(), CreateError> {
        if config.gsi && config.qp_type != QpType::Ud {
            return Err(CreateError::Unsupported("a general services queue pair of another type than UD"));
        }
        for cq in [config.send_cq, config.recv_cq] {
            if self.units.cqs.get(cq).is_none() {
                return Err(CreateError::UnknownCq(cq));
            }
        }
        if let Some(srq) = config.srq
            && self.units.srqs.get(srq).is_none()
        {
            return Err(CreateError::UnknownSrq(srq));
        }
        let caps = &config.caps;
        let recvs_min = u32::from(config.srq.is_none());
        let window_max = self.config.window_max.min(WINDOW_LIMIT);
        CreateError::check("max_send_wr", caps.max_send_wr, 1, QueueCaps::WR_LIMIT)?;
        CreateError::check("max_recv_wr", caps.max_recv_wr, recvs_min, QueueCaps::WR_LIMIT)?;
        CreateError::check("max_send_sge", caps.max_send_sge, 1, QueueCaps::SGE_LIMIT)?;
        CreateError::check("max_recv_sge", caps.max_recv_sge, 1, QueueCaps::SGE_LIMIT)?;
        CreateError::check("max_inline", caps.max_inline, 0, QueueCaps::INLINE_LIMIT)?;
        CreateError::check("window", config.window.into(), 1, window_max.into())
    }

    /// Takes the window of a queue pair down to `window` packets, if it is larger: the peer takes
    /// no more. Counts from the next transition to RTS. Returns the window, or `None` if there is
    /// no such queue pair.
    pub fn limit_window(&mut self, qpn: u32, window: u16) -> Option<u16> {
        let slot = self.qps.find(qpn)?;
        let Qp { cold, .. } = self.qps.get(slot)?;
        cold.attributes.window = cold.attributes.window.min(window.max(1));
        Some(cold.attributes.window)
    }

    /// The attributes and the state of a queue pair.
    #[must_use]
    pub fn query_qp(&self, qpn: u32) -> Option<QpAttr> {
        let (qpc, cold) = self.qps.peek(self.qps.find(qpn)?)?;
        Some(QpAttr { state: qpc.id.state, cur_state: qpc.id.state, ..cold.attributes.attr })
    }

    /// Destroys a queue pair. What was outstanding ends without completions, except that what it
    /// took of a shared receive queue is flushed; late packets find nothing. False if it does not
    /// exist.
    pub fn destroy_qp(&mut self, qpn: u32) -> bool {
        let Some(slot) = self.qps.find(qpn) else { return false };
        // No doorbell of this life may be left for the next one: those that wait are taken now.
        while let Some(rung) = self.doorbells.pop() {
            self.on_doorbell(rung);
        }
        self.deactivate_idle();
        let Some(mut qp) = self.qps.get(slot) else { return false };
        qp::keep_last_word(&mut qp, &mut self.units, true);
        qp::stop_streams(&mut qp, &mut self.units);
        qp::flush_taken(&mut qp, &mut self.units);
        self.units.memory.unbind_queue_pair(qpn);
        self.units.groups.leave_all(slot);
        qp.hot.id.state = QpState::Reset;
        qp.cold.send_queue.shared().set_state(QpState::Reset);
        // The one that a thread is about to ring holds the slot until it comes.
        [qp.hot.send_cq, qp.cold.recv_cq].into_iter().for_each(|cq| self.cq_users.remove(cq));
        qp.cold.receives.srq().into_iter().for_each(|srq| self.srq_users.remove(srq));
        let doorbell_due = qp.cold.send_queue.shared().close() && !qp.hot.flags.contains(QpFlags::ACTIVE);
        self.forget_tenant(slot);
        let removed = self.qps.remove(slot, doorbell_due);
        self.note_crowd();
        removed
    }

    fn note_crowd(&mut self) {
        self.units.crowded = self.qps.len() > self.config.crowd as usize;
        self.units.ahead.set(Ahead::CROWD, self.units.crowded);
    }

    /// Queue pairs that exist.
    #[must_use]
    pub fn qp_count(&self) -> usize {
        self.qps.len()
    }

    /// Memory of one queue pair.
    #[must_use]
    pub fn qp_memory(&self, qpn: u32) -> Option<QpMemory> {
        let (_, cold) = self.qps.peek(self.qps.find(qpn)?)?;
        Some(QpMemory {
            hot: size_of::<Qpc>(),
            cold: cold.bytes(),
            rings: cold.send_queue.bytes() + cold.receives.bytes(),
            recovery_context: self.units.contexts.last().map_or(0, |context| context.bytes()),
        })
    }

    /// Recovery contexts that are free: all of them, when nothing is missing anywhere.
    #[must_use]
    pub fn free_recovery_contexts(&self) -> usize {
        self.units.contexts.len()
    }
}
