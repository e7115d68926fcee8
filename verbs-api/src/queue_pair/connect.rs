//! A queue pair that waits for its peer's endpoint.

use super::builder::speaking;
use super::{Owned, QueuePair};
use crate::address::resolved;
use crate::cm::ConnectionError;
use crate::device::Device;
use crate::endpoint::Endpoint;
use crate::error::Error;
use core::net::IpAddr;
use datapath::qp::attr::{AddressVector, QpAttr, WriteOrder};
use datapath::qp::state::{QpState, QpType};
use datapath::qp::transition::TransitionRule;
use datapath::queue::RecvRequest;
use rdma_cm::{Agreed, Dialect, Terms};
use wire::WireMode;

/// A queue pair in state INIT: give [`endpoint`](Self::endpoint) to the peer, and
/// [`connect`](Self::connect) with the peer's.
///
/// Sending takes a connected one, which is another type:
///
/// ```compile_fail,E0599
/// # use verbs_api::{PreparedQueuePair, SendData, SendRequest};
/// fn too_early(mut pair: PreparedQueuePair) {
///     let _ = pair.post_send(&SendRequest::send(SendData::Inline(b"hello")));
/// }
/// ```
pub struct PreparedQueuePair {
    owned: Owned,
    attr: QpAttr,
}

impl PreparedQueuePair {
    pub(super) const fn new(owned: Owned, attr: QpAttr) -> Self {
        Self { owned, attr }
    }

    /// The endpoint of this queue pair, which the peer needs to connect.
    #[must_use]
    pub fn endpoint(&self) -> Endpoint {
        let device = self.owned.device();
        Endpoint {
            ip: device.ip(),
            mac: Some(device.mac()),
            qpn: self.owned.life.qpn(),
            psn: self.attr.sq_psn,
            path_mtu: self.attr.path_mtu.in_dialect(self.attr.wire_mode),
            window: device.window_max(),
            mtu: device.link_mtu(),
            rd_atomic: self.attr.max_dest_rd_atomic,
            wire_mode: self.attr.wire_mode,
            strict_placement: self.attr.write_order.contains(WriteOrder::STRICT_PLACEMENT),
            unreliable: self.unreliable(),
        }
    }

    fn unreliable(&self) -> bool {
        self.owned.send.service() == QpType::Uc
    }

    /// Posts a receive request ahead of the connection, so that the peer's first message finds it.
    ///
    /// # Errors
    /// [`Error::Post`]; nothing was posted then.
    pub fn post_recv(&mut self, request: &RecvRequest<'_>) -> Result<(), Error> {
        self.owned.post_recv(request)
    }

    /// Connects to the peer, which must be of the same service, with the smaller of both path MTUs
    /// and of both windows, and with strict placement if either end asks for it. Needs nothing of
    /// the peer, unless its endpoint has no Ethernet address: then this runs the engine until the
    /// address is resolved.
    ///
    /// The peer must have connected, too, before what is sent to it arrives; what comes too early
    /// is sent again.
    ///
    /// # Errors
    /// [`Error::Connect`], [`Error::Service`], [`Error::WireMode`], [`Error::Incompatible`]. The
    /// queue pair is gone then.
    pub fn connect(self, remote: &Endpoint) -> Result<QueuePair, Error> {
        if let (Some(ours), Some(theirs)) = (self.owned.device().link_mtu(), remote.mtu)
            && ours != theirs
        {
            return Err(Error::Incompatible {
                what: "the MTU of the link, in bytes,",
                ours: ours.into(),
                theirs: theirs.into(),
                remedy: "give both ends of a memif pair the same mtu=",
            });
        }
        if self.unreliable() != remote.unreliable {
            return Err(Error::Service { reliable: !self.unreliable() });
        }
        if self.attr.wire_mode != remote.wire_mode {
            return Err(Error::WireMode { ours: self.attr.wire_mode, theirs: remote.wire_mode });
        }
        let window = self.owned.life.limit_window(remote.window);
        let path_mtu = self.attr.path_mtu.min(remote.path_mtu).in_dialect(self.attr.wire_mode);
        let mut write_order = self.attr.write_order;
        if remote.strict_placement {
            write_order |= WriteOrder::STRICT_PLACEMENT;
        }
        let attr = QpAttr {
            write_order,
            av: AddressVector {
                src_ip: self.owned.device().ip(),
                dst_ip: remote.ip,
                dst_mac: remote.mac,
                ..self.attr.av
            },
            path_mtu,
            dest_qpn: remote.qpn,
            rq_psn: remote.psn,
            max_rd_atomic: self.attr.max_rd_atomic.min(remote.rd_atomic),
            ..self.attr
        };
        self.start(&attr)?;
        Ok(QueuePair { link: None, owned: self.owned, remote: *remote, path_mtu, window })
    }

    /// Connects as two connection managers have agreed.
    pub(crate) fn connect_as(self, agreed: &Agreed, peer: IpAddr) -> Result<QueuePair, Error> {
        let remote = Endpoint {
            ip: peer,
            mac: None,
            qpn: agreed.remote_qpn,
            psn: self.attr.sq_psn,
            path_mtu: agreed.path_mtu,
            window: agreed.window.unwrap_or(self.owned.device().window_max()),
            mtu: None,
            rd_atomic: agreed.initiator_depth,
            wire_mode: agreed.wire_mode,
            strict_placement: agreed.strict_placement,
            // Connection managers know no other connections here.
            unreliable: false,
        };
        let attr = QpAttr { sq_psn: agreed.sq_psn, ..speaking(self.attr, agreed.wire_mode) };
        Self { attr, ..self }.connect(&remote)
    }

    /// The terms of this queue pair for a connection that the connection managers make.
    pub(crate) fn terms(&self, dialect: Option<Dialect>) -> Result<Terms, ConnectionError> {
        let plain = self.attr.wire_mode == WireMode::Plain;
        let dialect = match dialect {
            Some(Dialect::Require) if plain => return Err(ConnectionError::PlainPair),
            _ if plain => Dialect::Off,
            other => other.unwrap_or_default(),
        };
        let endpoint = self.endpoint();
        Ok(Terms {
            qpn: endpoint.qpn,
            // Connection managers name the PSN that the other end starts at (protocol.md 1.12).
            rq_psn: endpoint.psn,
            path_mtu: endpoint.path_mtu,
            takes_1408: true,
            responder_resources: endpoint.rd_atomic,
            initiator_depth: self.attr.max_rd_atomic,
            retry_count: self.attr.retry_cnt,
            rnr_retry_count: self.attr.rnr_retry,
            ack_timeout: self.attr.timeout,
            src_port: None,
            srq: self.owned.has_srq(),
            window: endpoint.window,
            strict_placement: endpoint.strict_placement,
            dialect,
        })
    }

    /// The device that it is of.
    pub(crate) fn device(&self) -> &Device {
        self.owned.device()
    }

    /// The number of this queue pair.
    #[must_use]
    pub fn qpn(&self) -> u32 {
        self.owned.life.qpn()
    }

    /// Takes the queue pair to RTR and RTS.
    fn start(&self, attr: &QpAttr) -> Result<(), Error> {
        let qp_type = self.owned.send.service();
        let step = |from, to| (QpAttr { state: to, ..*attr }, TransitionRule::attributes(qp_type, from, to));
        let (rtr, path) = step(QpState::Init, QpState::Rtr);
        let (rts, start) = step(QpState::Rtr, QpState::Rts);
        resolved(self.owned.device(), || self.owned.life.modify_in_turn([(&rtr, path), (&rts, start)]))
    }
}
