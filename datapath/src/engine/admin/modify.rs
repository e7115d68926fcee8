//! Modifying a queue pair: the state machine's table decides, then the attributes take effect, or
//! nothing does.

use super::frame_len_max;
use crate::engine::{Core, ModifyError};
use crate::neighbor::Resolution;
use crate::qp::attr::{AddressVector, QpAttr, QpAttrMask, RecoveryPolicy, WriteOrder};
use crate::qp::plain::Plain;
use crate::qp::transition::check_transition;
use crate::qp::{
    self, Gap, Incoming, Keepalive, Qp, QpCold, QpFlags, Reads, RequesterCursor, ResponderCursor, Responses,
    Units,
};
use crate::qp_state::{QpState, QpType};
use crate::stream::{RtoConfig, RxStream, TxRecovery, TxStream, Watchdog, WatchdogConfig, sequence_window};
use cc_dctcp::{Controller, ControllerConfig};
use sr_recovery::StreamId;
use wire::encap::group_mac;
use wire::{Ecn, Flow, Psn, Template, WireMode, entropy};

impl Core {
    /// Changes the attributes that `mask` names, and the state if it names that (`ibv_modify_qp`).
    ///
    /// # Errors
    /// [`ModifyError`]; nothing has changed then.
    pub fn modify_qp(&mut self, qpn: u32, attr: &QpAttr, mask: QpAttrMask) -> Result<(), ModifyError> {
        let slot = self.qps.find(qpn).ok_or(ModifyError::UnknownQp(qpn))?;
        let (hot, cold) = self.qps.peek(slot).ok_or(ModifyError::UnknownQp(qpn))?;
        let (from, qp_type) = (hot.id.state, cold.attributes.qp_type);
        if mask.contains(QpAttrMask::CUR_STATE) && attr.cur_state != from {
            return Err(ModifyError::WrongCurrentState { given: attr.cur_state, actual: from });
        }
        let to = if mask.contains(QpAttrMask::STATE) { attr.state } else { from };
        check_transition(qp_type, from, to, mask)?;
        attr.validate(mask)?;
        let merged = match to {
            // As a queue pair has them that was just made.
            QpState::Reset => self.first_attributes(qp_type),
            _ => merge(&cold.attributes.attr, attr, mask, from != to),
        };
        if mask.intersects(QpAttrMask::KEEPALIVE | QpAttrMask::TIMEOUT) {
            merged.validate(QpAttrMask::KEEPALIVE | QpAttrMask::TIMEOUT)?;
        }
        if to == QpState::Sqd {
            check_reads(cold, &merged)?;
        }
        let has_other_way = mask.intersects(QpAttrMask::AV | QpAttrMask::PATH_MTU);
        let template = has_other_way.then(|| self.template_for(qp_type, &merged, qpn)).transpose()?;
        let loopback = merged.av.dst_ip == self.config.ip;
        let (rto, sequence_max) = (self.config.rto, self.config.sequence_max());
        let mut qp = self.qps.get(slot).ok_or(ModifyError::UnknownQp(qpn))?;
        qp.cold.attributes.attr = merged;
        if let Some(template) = template {
            qp.hot.template = template;
            qp.hot.id.loopback = loopback;
        }
        apply(&mut qp, &merged);
        match to {
            QpState::Reset => {
                // Before the queues are emptied, so that nothing is posted into the next life.
                qp.cold.send_queue.shared().set_state(QpState::Reset);
                reset(&mut qp, &mut self.units);
            }
            QpState::Err => qp::abort(&mut qp, &mut self.units),
            _ => {}
        }
        if from == QpState::Init && to == QpState::Rtr {
            start_receiving(&mut qp, &merged, sequence_max, rto);
            qp::join_host(&mut qp, &mut self.units, merged.av.dst_ip);
        }
        let watchdog = WatchdogConfig { timeout: merged.timeout, retry_cnt: merged.retry_cnt, rto };
        configure_watchdogs(qp.cold, watchdog);
        if from == QpState::Sqd && to == QpState::Sqd {
            resize_reads(qp.cold, &merged, sequence_max, rto);
        }
        if from == QpState::Rtr && to == QpState::Rts {
            start_sending(&mut qp, &merged, watchdog, sequence_max);
        }
        if matches!(to, QpState::Rts | QpState::Sqd)
            && let Some(responses) = qp.cold.responses.as_deref_mut()
        {
            responses.watchdog.configure(watchdog);
        }
        if mask.contains(QpAttrMask::KEEPALIVE) {
            set_keepalive(qp.cold, &mut self.units, merged.keepalive_ms, watchdog);
        }
        qp.hot.id.state = to;
        qp.cold.send_queue.shared().set_state(to);
        if from != to {
            qp::tell_if_drained(&qp, &mut self.units);
        }
        if mask.contains(QpAttrMask::SCHEDULING) || to == QpState::Reset {
            self.units.set_scheduling(slot, merged.scheduling);
        }
        qp.wake(qp.cold.requests(), &mut self.units);
        Ok(())
    }

    /// Headers of the flow to the peer, if its Ethernet address is known and its packets fit the
    /// port.
    fn template_for(&mut self, qp_type: QpType, attr: &QpAttr, qpn: u32) -> Result<Template, ModifyError> {
        let caps = self.caps;
        let needed = frame_len_max(attr.path_mtu);
        if needed > caps.max_frame {
            let pmtu = attr.path_mtu.bytes();
            return Err(ModifyError::PathMtu { pmtu, needed, max_frame: caps.max_frame });
        }
        let plain = attr.path_mtu.in_dialect(attr.wire_mode);
        if plain != attr.path_mtu {
            return Err(ModifyError::PathMtuOfSrnic { pmtu: attr.path_mtu.bytes(), plain: plain.bytes() });
        }
        // Only who reacts to marks may ask for them.
        let ecn = if qp_type == QpType::Rc { Ecn::Ect0 } else { Ecn::NotEct };
        self.template_to(&attr.av, flow_label(attr, qpn), ecn)
    }

    /// Headers of packets to the host of an address vector, if its Ethernet address is known.
    pub(super) fn template_to(
        &mut self,
        av: &AddressVector,
        flow_label: u32,
        ecn: Ecn,
    ) -> Result<Template, ModifyError> {
        let own_mac = self.caps.mac;
        if av.src_ip != self.config.ip {
            return Err(ModifyError::SourceAddress { given: av.src_ip, own: self.config.ip });
        }
        let flow = Flow {
            src_mac: own_mac,
            dst_mac: self.next_hop(av, own_mac)?,
            vlan: self.config.vlan,
            src: av.src_ip,
            dst: av.dst_ip,
            src_port: entropy::sport_from_flow_label(flow_label),
            dst_port: self.config.udp_port,
            dscp: av.dscp,
            ecn,
            ttl: av.hop_limit,
        };
        Template::new(&flow).map_err(|_| ModifyError::Unsupported("an address vector of two families"))
    }

    fn next_hop(&mut self, av: &AddressVector, own: [u8; 6]) -> Result<[u8; 6], ModifyError> {
        let own_ip = self.config.ip;
        if av.dst_ip == own_ip {
            return Ok(own);
        }
        if let Some(mac) = self.neighbor.address_holder() {
            return Err(ModifyError::AddressTaken { ip: own_ip, mac });
        }
        if let Some(mac) = av.dst_mac {
            return Ok(mac);
        }
        if av.dst_ip.is_multicast() {
            return Ok(group_mac(av.dst_ip));
        }
        match self.neighbor.resolve(self.units.now, av.dst_ip) {
            Resolution::Known(mac) => Ok(mac),
            Resolution::Pending => Err(ModifyError::ResolvingNeighbor(av.dst_ip)),
            Resolution::Full => Err(ModifyError::NeighborsBusy(av.dst_ip)),
            Resolution::AddressTaken(mac) => Err(ModifyError::AddressTaken { ip: own_ip, mac }),
            Resolution::Unreachable => Err(ModifyError::Unreachable(av.dst_ip)),
            Resolution::OtherFamily => Err(ModifyError::Unsupported("an address vector of two families")),
        }
    }
}

/// The failure detectors of requests, of what they wait for, and of an idle peer take these
/// attributes.
fn configure_watchdogs(cold: &mut QpCold, config: WatchdogConfig) {
    cold.watchdog.configure(config);
    if let Some(reads) = cold.reads.as_deref_mut() {
        reads.watchdog.configure(config);
    }
    if let Some(keepalive) = cold.keepalive.as_deref_mut() {
        keepalive.configure(config);
    }
}

/// The flow label that makes the UDP source port (protocol.md 1.8).
fn flow_label(attr: &QpAttr, qpn: u32) -> u32 {
    if attr.av.flow_label == 0 {
        entropy::flow_label_from_qpns(qpn, attr.dest_qpn)
    } else {
        attr.av.flow_label
    }
}

/// `old` with the fields that `mask` names taken from `new`. Plain has one way to recover, whatever
/// was asked for.
fn merge(old: &QpAttr, new: &QpAttr, mask: QpAttrMask, moves: bool) -> QpAttr {
    let mut merged = *old;
    // Asked for anew by each transition to SQD.
    if moves {
        merged.en_sqd_async_notify =
            mask.contains(QpAttrMask::EN_SQD_ASYNC_NOTIFY) && new.en_sqd_async_notify;
    }
    macro_rules! take {
        ($($flag:ident => $field:ident),+ $(,)?) => {
            $(if mask.contains(QpAttrMask::$flag) { merged.$field = new.$field; })+
        };
    }
    take! {
        STATE => state, ACCESS_FLAGS => access_flags, PKEY_INDEX => pkey, PORT => port_num, QKEY => qkey, AV => av,
        PATH_MTU => path_mtu, DEST_QPN => dest_qpn, RQ_PSN => rq_psn, SQ_PSN => sq_psn, TIMEOUT => timeout,
        RETRY_CNT => retry_cnt, RNR_RETRY => rnr_retry, MIN_RNR_TIMER => min_rnr_timer,
        MAX_QP_RD_ATOMIC => max_rd_atomic, MAX_DEST_RD_ATOMIC => max_dest_rd_atomic, WIRE_MODE => wire_mode,
        RECOVERY => recovery, WRITE_ORDER => write_order, CONGESTION => congestion,
        SCHEDULING => scheduling, KEEPALIVE => keepalive_ms,
    }
    if mask.contains(QpAttrMask::CONGESTION) {
        merged.congestion_tuning = new.congestion_tuning;
    }
    if merged.wire_mode == WireMode::Plain {
        merged.recovery = RecoveryPolicy::GoBackN;
    }
    merged
}

/// What may change in any state.
fn apply(qp: &mut Qp<'_>, attr: &QpAttr) {
    qp.hot.id.access = attr.access_flags;
    qp.hot.id.pkey = attr.pkey;
    qp.hot.id.dest_qpn = attr.dest_qpn;
    qp.hot.id.mode = attr.wire_mode;
    let order = attr.write_order;
    qp.hot.flags.set(QpFlags::ORDERED_OVERLAP, order.contains(WriteOrder::ORDERED_OVERLAP));
    qp.hot.flags.set(QpFlags::STRICT_PLACEMENT, order.contains(WriteOrder::STRICT_PLACEMENT));
    qp.hot.id.pmtu = u16::try_from(attr.path_mtu.bytes()).unwrap_or(u16::MAX);
    qp.cold.rnr_retries = 0;
}

/// The peer's window may be larger than ours: everything is taken that a recovery context has room
/// for, `sequence_max` packets.
fn start_receiving(qp: &mut Qp<'_>, attr: &QpAttr, sequence_max: u16, rto: RtoConfig) {
    let psn = Psn::new(attr.rq_psn);
    qp.hot.rx = RxStream::new(psn, sequence_max, qp.hot.rx.generation().wrapping_add(1));
    receive_from(qp, psn, qp.cold.receives.own_head());
    (qp.cold.was_established, qp.cold.other_dialect) = (false, 0);
    qp.cold.incoming.iter_mut().for_each(|incoming| **incoming = Incoming::default());
    if attr.wire_mode == WireMode::Plain && qp.cold.attributes.qp_type == QpType::Rc {
        qp.cold.plain = Some(Box::new(Plain::new(attr.max_dest_rd_atomic, Psn::new(attr.rq_psn))));
    } else if attr.max_dest_rd_atomic > 0 {
        // A queue pair in RTR has no attributes of its own for this yet (protocol.md 2.4).
        let defaults = QpAttr::default();
        let watchdog = WatchdogConfig { timeout: defaults.timeout, retry_cnt: defaults.retry_cnt, rto };
        start_responding(qp.cold, attr, watchdog);
    }
}

/// Nothing has been received: the first packet will be `psn`, the first receive stands at
/// `recv_head`.
fn receive_from(qp: &mut Qp<'_>, psn: Psn, recv_head: u32) {
    qp.hot.rsp = ResponderCursor::new(psn, recv_head);
    qp.cold.next_write = None;
    qp.cold.gap = Gap::default();
    qp.cold.refusal = None;
    qp.cold.drop_responses();
}

fn start_responding(cold: &mut QpCold, attr: &QpAttr, watchdog: WatchdogConfig) {
    let (id, window) = (cold.of_responses(), cold.attributes.window);
    let controller = Controller::new(&controller_config(attr, window));
    let generation = cold.response_lives.sent.wrapping_add(1);
    cold.responses = Some(Box::new(Responses::new(attr, id, window, controller, watchdog, generation)));
}

fn start_sending(qp: &mut Qp<'_>, attr: &QpAttr, watchdog: WatchdogConfig, sequence_max: u16) {
    let (psn, window) = (Psn::new(attr.sq_psn), qp.cold.attributes.window);
    let position = qp.hot.req.head;
    qp.hot.req =
        RequesterCursor { head: position, next: position, msn_base: position, ..RequesterCursor::default() };
    let sequence = sequence_window(window);
    qp.hot.tx = TxStream::new(psn, sequence);
    let stream = StreamId { qp: qp.cold.slot, response: false };
    let generation = qp.cold.tx_recovery.generation().wrapping_add(1);
    qp.cold.tx_recovery = TxRecovery::new(stream, generation, sequence, attr.recovery, psn);
    qp.cold.watchdog = Watchdog::new(watchdog);
    qp.hot.controller = Controller::new(&controller_config(attr, window));
    qp::adopt_window(&mut qp.hot.tx, &qp.hot.controller, qp.hot.id.pmtu);
    if let Some(plain) = qp.cold.plain.as_deref_mut() {
        plain.start_sending(psn, position);
    } else if attr.max_rd_atomic > 0 {
        start_reading(qp.cold, attr, watchdog, sequence_max);
    }
}

fn start_reading(cold: &mut QpCold, attr: &QpAttr, watchdog: WatchdogConfig, sequence_max: u16) {
    let generation = cold.response_lives.received.wrapping_add(1);
    cold.reads = Some(Box::new(Reads::new(attr, sequence_max, watchdog, generation)));
}

/// From now on it asks after so many milliseconds without a sign of life, or never if that is 0.
fn set_keepalive(cold: &mut QpCold, units: &mut Units, ms: u32, watchdog: WatchdogConfig) {
    cold.keepalive = Keepalive::new(ms, units.now, watchdog);
    match cold.keepalive.as_deref() {
        Some(keepalive) => units.arm_keepalive(cold.slot, keepalive.first_look()),
        None => units.disarm_keepalive(cold.slot),
    }
}

/// Whether READs and atomics that are under way go with what `new` allows.
fn check_reads(cold: &QpCold, new: &QpAttr) -> Result<(), ModifyError> {
    let old = &cold.attributes.attr;
    let asks = cold.reads.as_deref().is_some_and(|reads| reads.under_way() > 0);
    if asks && new.max_rd_atomic != old.max_rd_atomic {
        return Err(ModifyError::UnderWay("max_rd_atomic"));
    }
    let answers = cold.responses.as_deref().is_some_and(Responses::holds_any)
        || cold.plain.as_deref().is_some_and(Plain::responds);
    if answers && new.max_dest_rd_atomic < old.max_dest_rd_atomic {
        return Err(ModifyError::UnderWay("max_dest_rd_atomic"));
    }
    Ok(())
}

/// As many READs and atomics as `attr` allows. Whoever had none has begun no stream of responses,
/// so that one begins where it would have in RTR and RTS.
fn resize_reads(cold: &mut QpCold, attr: &QpAttr, sequence_max: u16, rto: RtoConfig) {
    let watchdog = WatchdogConfig { timeout: attr.timeout, retry_cnt: attr.retry_cnt, rto };
    if let Some(plain) = cold.plain.as_deref_mut() {
        return plain.resize(attr.max_dest_rd_atomic);
    }
    match cold.reads.as_deref_mut() {
        Some(reads) => reads.resize(attr.max_rd_atomic),
        None if attr.max_rd_atomic > 0 => start_reading(cold, attr, watchdog, sequence_max),
        None => {}
    }
    match cold.responses.as_deref_mut() {
        Some(responses) => responses.resize(attr.max_dest_rd_atomic),
        None if attr.max_dest_rd_atomic > 0 => start_responding(cold, attr, watchdog),
        None => {}
    }
}

/// The controller's window in whole packets is the queue pair's window.
fn controller_config(attr: &QpAttr, window: u16) -> ControllerConfig {
    let mtu_bytes = attr.path_mtu.bytes();
    attr.congestion_tuning.controller(attr.congestion, u32::from(window) * mtu_bytes, mtu_bytes)
}

/// RESET empties the queues without completions; what was taken of a shared receive queue is
/// flushed.
fn reset(qp: &mut Qp<'_>, units: &mut Units) {
    qp::stop_streams(qp, units);
    units.last_words.forget(qp.hot.id.qpn);
    qp.hot.req.head = qp.cold.send_queue.tail();
    qp.hot.req.next = qp.hot.req.head;
    qp.hot.req.sent = 0;
    qp.cold.send_queue.release(qp.hot.req.head);
    qp::flush_taken(qp, units);
    receive_from(qp, Psn::new(0), qp.cold.receives.discard_own());
    qp::deactivate(qp);
}
