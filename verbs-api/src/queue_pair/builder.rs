//! The builder of queue pairs.

use super::connect::PreparedQueuePair;
use super::manual::ManualQueuePair;
use super::parts::Parts;
use crate::completion::CompletionQueue;
use crate::error::Error;
use crate::memory::ProtectionDomain;
use crate::raw;
use crate::shared_receive::SharedReceiveQueue;
use core::time::Duration;
use datapath::engine::ModifyError;
use datapath::memory::Access;
use datapath::qp::attr::{
    CongestionAlgorithm, CongestionTuning, QpAttr, QpAttrMask, RecoveryPolicy, WriteOrder,
};
use datapath::qp::state::{QpState, QpType};
use datapath::qp::transition::TransitionRule;
use datapath::queue::QueueCaps;
use datapath::sched::SchedAttributes;
#[cfg(doc)]
use datapath::sched::SchedulerConfig;
use std::sync::Arc;
use wire::{Pmtu, WireMode};

/// READs and atomics under way, unless told otherwise.
const RD_ATOMIC: u8 = 16;

/// Sizes and attributes of a connection, reliable unless told otherwise, with usable defaults; made
/// by [`ProtectionDomain::queue_pair`].
///
/// Values are checked by [`build`](Self::build) and [`connect`](PreparedQueuePair::connect), which
/// name what is wrong.
#[must_use = "a builder makes nothing until `build`"]
pub struct QueuePairBuilder {
    parts: Parts,
    attr: QpAttr,
}

/// Setters of one field each.
macro_rules! setters {
    ($($(#[doc = $doc:literal])+ $name:ident: $type:ty => $($field:ident).+;)+) => {
        $($(#[doc = $doc])+
        pub const fn $name(mut self, $name: $type) -> Self {
            self.$($field).+ = $name;
            self
        })+
    };
}

impl QueuePairBuilder {
    pub(crate) fn new(
        domain: &ProtectionDomain,
        send_cq: &CompletionQueue,
        recv_cq: &CompletionQueue,
    ) -> Self {
        let device = domain.device();
        Self {
            parts: Parts::new(domain, send_cq, recv_cq),
            attr: QpAttr {
                access_flags: Access::LOCAL_WRITE.union(Access::REMOTE_WRITE),
                path_mtu: device.path_mtu_max(),
                sq_psn: device.new_psn(),
                max_rd_atomic: RD_ATOMIC,
                max_dest_rd_atomic: RD_ATOMIC,
                ..QpAttr::default()
            },
        }
    }

    setters! {
        /// Sizes of the queues (`ibv_qp_cap`). By default 128 sends with 32 bytes of inline data
        /// and 128 receives.
        caps: QueueCaps => parts.caps;
        /// Packets in the network at most, 1 up to the device's `window_max`, which is the default.
        /// The connection uses the smaller of this and of what the peer takes.
        window: u16 => parts.window;
        /// Largest path MTU; the connection uses the smaller of both ends', and 1024 instead of
        /// 1408 in plain RoCEv2. By default the largest that fits the port.
        path_mtu: Pmtu => attr.path_mtu;
        /// Sets what the peer may do. By default it may WRITE. Anything else that it asks for fails
        /// with `RemInvReqErr`, whatever the region grants.
        access: Access => attr.access_flags;
        /// A try lasts 4.096 us x 2^timeout; 0 to 31, 0: the failure detector is off. Default 14,
        /// 67 ms.
        timeout: u8 => attr.timeout;
        /// Tries without any sign of life before `RetryExcErr`, 0 to 7. Default 7.
        retry_cnt: u8 => attr.retry_cnt;
        /// Waits for a receive of the peer's before `RnrRetryExcErr`, 0 to 7; 7, the default: for
        /// ever.
        rnr_retry: u8 => attr.rnr_retry;
        /// Code of the time that the peer waits if it finds no receive here, 0 to 31 (protocol.md
        /// 1.5). Default 12, 0.64 ms.
        min_rnr_timer: u8 => attr.min_rnr_timer;
        /// READs and atomics that may be under way at once, and no more than the peer takes; others
        /// wait. 0 to 255. Default 16. If it is 0, at either end, one that is posted fails with
        /// `LocQpOpErr`, and ends the queue pair.
        max_rd_atomic: u8 => attr.max_rd_atomic;
        /// READs and atomics of the peer's that are taken at once. Default 16. 0: none, as with
        /// [`max_rd_atomic`](Self::max_rd_atomic).
        max_dest_rd_atomic: u8 => attr.max_dest_rd_atomic;
        /// Congestion controller. Default DCTCP, which takes a loss for congestion only if delay
        /// confirms it.
        congestion: CongestionAlgorithm => attr.congestion;
        /// Parameters of the congestion controller: the response to losses, RTT-fair growth, target
        /// delays.
        congestion_tuning: CongestionTuning => attr.congestion_tuning;
        /// Weight, 1 to 64, and priority, 0 to 7, beside other queue pairs; which of them counts is
        /// the device's [`SchedulerConfig`]. Default 1 and 0.
        scheduling: SchedAttributes => attr.scheduling;
        /// Sets how losses are repaired. Default selective repeat.
        recovery: RecoveryPolicy => attr.recovery;
        /// Differentiated services code point of its packets, 0 to 63, in the IPv4 ToS or the IPv6
        /// traffic class beside the ECN bits. Default 0.
        dscp: u8 => attr.av.dscp;
        /// IPv4 TTL or IPv6 hop limit of its packets, 1 to 255. Default 64.
        hop_limit: u8 => attr.av.hop_limit;
        /// 20 bits from which the UDP source port derives, and with it the path through switches
        /// that spread by it; 0, the default: derived from both queue pair numbers (protocol.md
        /// 1.8).
        flow_label: u32 => attr.av.flow_label;
        /// First PSN, 24 bits: that it sends, or, of a connection by address, that the peer sends.
        /// By default one that late packets of other connections are unlikely to fit.
        first_psn: u32 => attr.sq_psn;
    }

    /// Asks an idle peer whether it is there: when nothing was heard of it for so long, in whole
    /// milliseconds rounded up, it is sent a packet that it acknowledges and that changes nothing
    /// there. If it does not answer in all tries of [`timeout`](Self::timeout), of which there are
    /// [`retry_cnt`](Self::retry_cnt) more than one, the queue pair goes to ERR as with
    /// `RetryExcErr`: receives that were posted are flushed, and there is an
    /// [`AsyncEvent::QpFatal`](datapath::engine::AsyncEvent::QpFatal). Zero, the default: never, so
    /// that who only receives never learns that its peer died. The peer needs no keepalive of its
    /// own for this, but must run its engine within the tries. Refused with a `timeout` of 0.
    /// Unreliable queue pairs have none.
    pub fn keepalive(mut self, idle: Duration) -> Self {
        self.attr.keepalive_ms = u32::try_from(idle.as_nanos().div_ceil(1_000_000)).unwrap_or(u32::MAX);
        self
    }

    /// The dialect on the wire, which the peer must speak as well. Default [`WireMode::Srnic`];
    /// [`WireMode::Plain`] is standard RoCEv2, for peers that know no other: it recovers by
    /// go-back-N, and its default controller is DCQCN.
    pub const fn wire_mode(mut self, wire_mode: WireMode) -> Self {
        self.attr = speaking(self.attr, wire_mode);
        self
    }

    /// Makes it an unreliable connection (UC): SEND and WRITE in standard RoCEv2 packets that
    /// nobody acknowledges, both ends alike. A message arrives whole or not at all, and a request
    /// completes when its last packet is on its way (protocol.md 1.3). Nothing is sent again, so
    /// that timeouts, retries, recovery and congestion control mean nothing; READs and atomics
    /// cannot be posted, and a fence, which waits for those, has no effect.
    ///
    /// ```
    /// use verbs_api::{Device, Driver, RecvRequest, SendData, SendRequest};
    ///
    /// # fn main() -> Result<(), verbs_api::Error> {
    /// let here = Device::open("sim:unreliable")?;
    /// let there = Device::builder().driver(Driver::THREAD).open("sim:unreliable")?;
    /// let (pd, cq) = (here.alloc_pd(), here.create_cq(16)?);
    /// let (its_pd, mut its_cq) = (there.alloc_pd(), there.create_cq(16)?);
    /// let pair = pd.queue_pair(&cq, &cq).unreliable().build()?;
    /// let its_pair = its_pd.queue_pair(&its_cq, &its_cq).unreliable().build()?;
    /// let (one, two) = (pair.endpoint(), its_pair.endpoint());
    /// let (mut pair, mut its_pair) = (pair.connect(&two)?, its_pair.connect(&one)?);
    ///
    /// its_pair.post_recv(&RecvRequest { wr_id: 1, scatter: &[] })?;
    /// pair.post_send(&SendRequest::send(SendData::Inline(&[])).with_imm(7))?;
    /// let received = loop {
    ///     if let Some(completion) = its_cq.poll() {
    ///         break completion;
    ///     }
    /// };
    /// assert_eq!((received.wr_id, received.imm), (1, 7));
    /// # Ok(()) }
    /// ```
    pub const fn unreliable(mut self) -> Self {
        self.parts.qp_type = QpType::Uc;
        self
    }

    /// Keeps WRITEs that overlap in order: one of more than 64 bytes waits until those before it
    /// that it overlaps are acknowledged, so that the last one posted stands. Without it, which is
    /// the default, WRITEs of at most 64 bytes are in order, and larger ones may land in either
    /// (protocol.md 2.4). See [`WriteOrder::ORDERED_OVERLAP`].
    pub const fn ordered_overlap(mut self, ordered: bool) -> Self {
        self.attr.write_order = with(self.attr.write_order, WriteOrder::ORDERED_OVERLAP, ordered);
        self
    }

    /// Places requests strictly in the order in which they were posted, at both ends: the endpoint
    /// tells the peer. What comes out of order is dropped and asked for again, so that a loss costs
    /// a window, as with go-back-N. And nothing is placed before it was verified: without it,
    /// whoever looks into a message that is not complete may see what a packet brought that was
    /// damaged on the way. Default off. See [`WriteOrder::STRICT_PLACEMENT`].
    pub const fn strict_placement(mut self, strict: bool) -> Self {
        self.attr.write_order = with(self.attr.write_order, WriteOrder::STRICT_PLACEMENT, strict);
        self
    }

    /// Takes receives from a shared queue instead of one of its own.
    pub fn srq(mut self, srq: &SharedReceiveQueue) -> Self {
        self.parts.srq = Some(Arc::clone(srq.shared()));
        self
    }

    /// Makes the queue pair: receives can be posted, and its endpoint is known.
    ///
    /// # Errors
    /// [`Error::Create`], [`Error::Connect`], [`Error::OtherDevice`].
    pub fn build(self) -> Result<PreparedQueuePair, Error> {
        self.validate()?;
        let mut attr = self.attr;
        if self.parts.qp_type == QpType::Uc {
            // Whatever was asked for: it knows no other, and reads nothing.
            (attr.wire_mode, attr.recovery) = (WireMode::Plain, RecoveryPolicy::GoBackN);
            (attr.max_rd_atomic, attr.max_dest_rd_atomic) = (0, 0);
        }
        let owned = self.parts.create()?;
        let mask = TransitionRule::attributes(owned.send.service(), QpState::Reset, QpState::Init);
        owned.life.modify(&QpAttr { state: QpState::Init, ..attr }, mask)?;
        Ok(PreparedQueuePair::new(owned, attr))
    }

    /// Makes a queue pair of another type than RC, in state RESET, for a program that drives the
    /// states itself.
    ///
    /// # Errors
    /// As [`QueuePairBuilder::create`].
    pub fn create_of(mut self, qp_type: QpType) -> Result<ManualQueuePair, Error> {
        self.parts.qp_type = qp_type;
        self.create()
    }

    /// Makes a queue pair in RESET, for programs that drive its states themselves. Of the builder's
    /// settings its sizes, its window and its shared receive queue count; the attributes are the
    /// program's.
    ///
    /// # Errors
    /// [`Error::Create`], [`Error::OtherDevice`].
    pub fn create(self) -> Result<ManualQueuePair, Error> {
        Ok(ManualQueuePair::new(self.parts.create()?))
    }

    /// Makes a queue pair of any type in RESET whose queues several threads may post to at once:
    /// what [`create_of`](Self::create_of) makes, for programs that share it.
    ///
    /// # Errors
    /// As [`QueuePairBuilder::create`].
    pub fn create_raw(mut self, qp_type: QpType) -> Result<raw::QueuePair, Error> {
        self.parts.qp_type = qp_type;
        let (send, recv, life) = self.parts.create_apart()?;
        Ok(raw::QueuePair::new(send, recv, life))
    }

    /// Checks now what the engine will take only when connecting: by then the peer has heard of
    /// this queue pair.
    fn validate(&self) -> Result<(), ModifyError> {
        let mask = QpAttrMask::SQ_PSN
            | QpAttrMask::CONGESTION
            | QpAttrMask::SCHEDULING
            | QpAttrMask::TIMEOUT
            | QpAttrMask::KEEPALIVE
            | QpAttrMask::RETRY_CNT
            | QpAttrMask::RNR_RETRY
            | QpAttrMask::MIN_RNR_TIMER
            | QpAttrMask::WIRE_MODE
            | QpAttrMask::RECOVERY;
        self.attr.validate(mask)?;
        self.attr.av.validate_headers()?;
        let device = self.parts.domain.device();
        if self.attr.path_mtu > device.path_mtu_max() {
            return Err(device.path_mtu_error(self.attr.path_mtu));
        }
        Ok(())
    }
}

/// `order` with one promise made or not.
const fn with(order: WriteOrder, promise: WriteOrder, made: bool) -> WriteOrder {
    if made { order.union(promise) } else { order.difference(promise) }
}

/// `attr` with a dialect, and what goes with it.
pub(super) const fn speaking(mut attr: QpAttr, wire_mode: WireMode) -> QpAttr {
    attr.wire_mode = wire_mode;
    if matches!(wire_mode, WireMode::Plain) {
        attr.recovery = RecoveryPolicy::GoBackN;
        attr.congestion = CongestionAlgorithm::Dcqcn;
    }
    attr
}
