//! Bringing queue pairs up through the attribute masks, and down again.

use super::{Qp, QpOptions, Rig};
use crate::network::NodeId;
use datapath::engine::ModifyError;
use datapath::qp::attr::{AddressVector, QpAttr, QpAttrMask};
use datapath::qp::state::QpState;
use datapath::qp::transition::TransitionRule;

/// Longest time that address resolution may take, in nanoseconds.
const RESOLVE_NS_MAX: u64 = 10_000_000_000;

impl Rig {
    /// A queue pair on each node (or two on one node), connected and in RTS.
    ///
    /// # Panics
    /// If an attribute is refused.
    pub fn connected(&mut self, left: NodeId, right: NodeId, options: QpOptions) -> (Qp, Qp) {
        let (a, b) = (self.create_qp(left, options), self.create_qp(right, options));
        self.connect(a, b);
        (a, b)
    }

    /// Takes two queue pairs in RESET to RTS, connected to each other.
    ///
    /// # Panics
    /// If an attribute is refused, or address resolution gets no answer in ten seconds.
    pub fn connect(&mut self, a: Qp, b: Qp) {
        for (qp, peer) in [(a, b), (b, a)] {
            self.endpoints[qp.index].peer = Some(peer);
            self.to_init(qp);
        }
        self.to_rtr(a, b);
        self.to_rtr(b, a);
        self.to_rts(a);
        self.to_rts(b);
    }

    /// RESET to INIT: receives can be posted.
    ///
    /// # Panics
    /// If an attribute is refused.
    pub fn to_init(&mut self, qp: Qp) {
        let attr = QpAttr { state: QpState::Init, ..self.attributes(qp) };
        let mask = self.mask(qp, QpState::Reset, QpState::Init);
        self.modify(qp, &attr, mask).expect("RESET to INIT");
    }

    /// INIT to RTR, towards `peer`; resolves its address first if the options ask for that.
    ///
    /// # Panics
    /// If an attribute is refused, or address resolution gets no answer in ten seconds.
    pub fn to_rtr(&mut self, qp: Qp, peer: Qp) {
        let (attr, mask) = self.rtr_attributes(qp, peer);
        let mut outcome = self.modify(qp, &attr, mask);
        if matches!(outcome, Err(ModifyError::ResolvingNeighbor(_))) {
            let resolved = self.run_until(
                |rig| {
                    outcome = rig.modify(qp, &attr, mask);
                    !matches!(outcome, Err(ModifyError::ResolvingNeighbor(_)))
                },
                RESOLVE_NS_MAX,
            );
            resolved.expect("address resolution ends");
        }
        outcome.expect("INIT to RTR");
    }

    /// The attributes that take `qp` from INIT to RTR, towards `peer`.
    #[must_use]
    pub fn rtr_attributes(&self, qp: Qp, peer: Qp) -> (QpAttr, QpAttrMask) {
        let there = &self.endpoints[peer.index];
        let resolve = self.endpoints[qp.index].options.resolve;
        let attr = QpAttr {
            state: QpState::Rtr,
            av: AddressVector {
                src_ip: self.ip(qp.node),
                dst_ip: self.ip(peer.node),
                dst_mac: (!resolve).then(|| self.net.mac(peer.node)),
                ..AddressVector::default()
            },
            dest_qpn: there.handles.qpn,
            rq_psn: there.options.sq_psn,
            ..self.attributes(qp)
        };
        (attr, self.mask(qp, QpState::Init, QpState::Rtr))
    }

    /// RTR to RTS.
    ///
    /// # Panics
    /// If an attribute is refused.
    pub fn to_rts(&mut self, qp: Qp) {
        let attr = QpAttr { state: QpState::Rts, ..self.attributes(qp) };
        let mask = self.mask(qp, QpState::Rtr, QpState::Rts);
        self.modify(qp, &attr, mask).expect("RTR to RTS");
    }

    /// What a queue pair's options decide, on all of its way to RTS.
    fn attributes(&self, qp: Qp) -> QpAttr {
        let options = self.endpoints[qp.index].options;
        QpAttr {
            pkey: options.pkey,
            access_flags: options.access,
            path_mtu: options.pmtu,
            max_dest_rd_atomic: options.max_dest_rd_atomic,
            min_rnr_timer: options.min_rnr_timer,
            wire_mode: options.wire_mode,
            recovery: options.recovery,
            write_order: options.write_order,
            congestion: options.congestion,
            congestion_tuning: options.congestion_tuning,
            scheduling: options.scheduling,
            sq_psn: options.sq_psn,
            timeout: options.timeout,
            retry_cnt: options.retry_cnt,
            rnr_retry: options.rnr_retry,
            max_rd_atomic: options.max_rd_atomic,
            keepalive_ms: options.keepalive_ms,
            ..QpAttr::default()
        }
    }

    /// All of them that the transition takes.
    fn mask(&self, qp: Qp, from: QpState, to: QpState) -> QpAttrMask {
        TransitionRule::attributes(self.endpoints[qp.index].options.qp_type, from, to)
    }

    /// Any state to RESET: both queues are empty afterwards, without completions.
    ///
    /// # Panics
    /// Never: RESET can be reached from every state.
    pub fn reset(&mut self, qp: Qp) {
        self.to_state(qp, QpState::Reset);
    }

    /// Any state to ERR: everything outstanding flushes.
    ///
    /// # Panics
    /// Never: ERR can be reached from every state.
    pub fn to_err(&mut self, qp: Qp) {
        self.to_state(qp, QpState::Err);
    }

    /// Changes the state and nothing else.
    ///
    /// # Panics
    /// If that transition needs attributes.
    pub fn to_state(&mut self, qp: Qp, state: QpState) {
        let attr = QpAttr { state, en_sqd_async_notify: true, ..QpAttr::default() };
        let told = state == QpState::Sqd && self.state(qp) == QpState::Rts;
        let notify = if told { QpAttrMask::EN_SQD_ASYNC_NOTIFY } else { QpAttrMask::empty() };
        self.modify(qp, &attr, QpAttrMask::STATE | notify).expect("the transition needs no attributes");
    }

    /// Resets both ends and connects them again, with new first PSNs.
    ///
    /// # Panics
    /// If an attribute is refused.
    pub fn reconnect(&mut self, a: Qp, a_psn: u32, b: Qp, b_psn: u32) {
        self.set_first_psn(a, a_psn);
        self.set_first_psn(b, b_psn);
        self.restart(a);
        self.restart(b);
    }

    /// The first PSN that a queue pair sends when it is connected next; the peer must be connected
    /// after this.
    pub fn set_first_psn(&mut self, qp: Qp, psn: u32) {
        self.endpoints[qp.index].options.sq_psn = psn & 0xFF_FFFF;
    }

    /// Takes one end through RESET to RTS again, towards the peer that it had. The peer is left as
    /// it is.
    ///
    /// # Panics
    /// If the queue pair never had a peer, or an attribute is refused.
    pub fn restart(&mut self, qp: Qp) {
        let peer = self.peer(qp).expect("it was connected before");
        self.reset(qp);
        self.to_init(qp);
        self.to_rtr(qp, peer);
        self.to_rts(qp);
    }

    /// Destroys a queue pair and its completion queues at its engine. What was completed can still
    /// be looked at; nothing else may be done with it. False if it was destroyed before.
    ///
    /// # Panics
    /// If another queue pair uses its completion queues.
    pub fn destroy(&mut self, qp: Qp) -> bool {
        let (qpn, cqs) = (self.qpn(qp), self.endpoints[qp.index].cqs);
        let engine = &mut self.nodes[qp.node.0].engine;
        let destroyed = engine.core_mut().destroy_qp(qpn);
        if destroyed {
            assert!(
                cqs.into_iter().all(|cq| engine.core_mut().destroy_cq(cq)),
                "nobody else uses its completion queues"
            );
        }
        destroyed
    }

    /// `modify_qp` as it is.
    ///
    /// # Errors
    /// [`ModifyError`].
    pub fn modify(&mut self, qp: Qp, attr: &QpAttr, mask: QpAttrMask) -> Result<(), ModifyError> {
        let qpn = self.qpn(qp);
        self.nodes[qp.node.0].engine.core_mut().modify_qp(qpn, attr, mask)
    }
}
