//! A queue pair of any of the services that the stock tools use, before and after it is connected.

use super::cli::{Args, Connection};
use super::link::RD_ATOMIC;
use super::messages::Keys;
use crate::error::Result;
use crate::pump::Drive as _;
use verbs_api::{
    Access, AddressHandle, AddressVector, CompletionQueue, Datagram, Device, Endpoint, Error as VerbsError,
    Grh, ManualQueuePair, PreparedQueuePair, ProtectionDomain, QpAttr, QpAttrMask, QpState, QpType,
    QueueCaps, QueuePair, RecvRequest, SendData, SendRequest, UdQueuePair, WireMode,
};

/// What all stock tools use.
const QKEY: u32 = 0x1111_1111;

/// Before the peer is known.
pub enum Prepared {
    Reliable(PreparedQueuePair),
    Unreliable { pair: ManualQueuePair, attr: QpAttr },
    Datagram(UdQueuePair),
}

/// Afterwards.
pub enum Pair {
    Reliable(QueuePair),
    Unreliable(ManualQueuePair),
    Datagram { pair: UdQueuePair, to: AddressHandle, qpn: u32 },
}

impl Prepared {
    pub fn new(
        pd: &ProtectionDomain,
        cq: &CompletionQueue,
        caps: QueueCaps,
        access: Access,
        args: &Args,
    ) -> Result<Self> {
        let builder = pd.queue_pair(cq, cq).caps(caps).path_mtu(args.mtu).access(access);
        Ok(match args.connection {
            Connection::Rc => {
                let builder =
                    builder.wire_mode(WireMode::Plain).max_rd_atomic(RD_ATOMIC).max_dest_rd_atomic(RD_ATOMIC);
                Self::Reliable(builder.timeout(args.qp_timeout).build()?)
            }
            Connection::Uc => {
                let mut pair = builder.create_of(QpType::Uc)?;
                let attr = QpAttr {
                    state: QpState::Init,
                    access_flags: access,
                    path_mtu: args.mtu,
                    ..QpAttr::default()
                };
                let mask = QpAttrMask::PKEY_INDEX | QpAttrMask::PORT | QpAttrMask::ACCESS_FLAGS;
                pair.modify(&attr, mask | QpAttrMask::STATE)?;
                Self::Unreliable { pair, attr }
            }
            Connection::Ud => Self::Datagram(pd.ud_queue_pair(cq, cq).caps(caps).qkey(QKEY).build()?),
        })
    }

    /// Its number and its first PSN.
    pub fn numbers(&self) -> (u32, u32) {
        match self {
            Self::Reliable(pair) => (pair.endpoint().qpn, pair.endpoint().psn),
            Self::Unreliable { pair, attr } => (pair.qpn(), attr.sq_psn),
            // Nobody asks for the PSN of a datagram.
            Self::Datagram(pair) => (pair.qpn(), 0),
        }
    }

    pub fn post_recv(&mut self, request: &RecvRequest<'_>) -> Result<()> {
        Ok(match self {
            Self::Reliable(pair) => pair.post_recv(request),
            Self::Unreliable { pair, .. } => pair.post_recv(request),
            Self::Datagram(pair) => pair.post_recv(request),
        }?)
    }

    /// Connects; runs the engine until the peer's Ethernet address is known.
    pub fn connect(self, device: &Device, pd: &ProtectionDomain, args: &Args, keys: &Keys) -> Result<Pair> {
        let remote: Endpoint = keys.endpoint(args.mtu);
        Ok(match self {
            Self::Reliable(pair) => Pair::Reliable(pair.connect(&remote)?),
            Self::Unreliable { mut pair, attr } => {
                let av = AddressVector { src_ip: device.ip(), dst_ip: remote.ip, ..AddressVector::default() };
                let attr = QpAttr { av, dest_qpn: remote.qpn, rq_psn: remote.psn, ..attr };
                let rtr = QpAttrMask::AV | QpAttrMask::PATH_MTU | QpAttrMask::DEST_QPN | QpAttrMask::RQ_PSN;
                go_to(device, &mut pair, &QpAttr { state: QpState::Rtr, ..attr }, rtr)?;
                go_to(device, &mut pair, &QpAttr { state: QpState::Rts, ..attr }, QpAttrMask::SQ_PSN)?;
                Pair::Unreliable(pair)
            }
            Self::Datagram(pair) => Pair::Datagram { pair, to: pd.create_ah_to(remote.ip)?, qpn: remote.qpn },
        })
    }
}

fn go_to(device: &Device, pair: &mut ManualQueuePair, attr: &QpAttr, mask: QpAttrMask) -> Result<()> {
    loop {
        match pair.modify(attr, mask | QpAttrMask::STATE) {
            // Ends as known or unreachable: the engine counts its questions.
            Err(VerbsError::Connect(error)) if error.is_resolving() => {
                device.drive();
            }
            result => return Ok(result?),
        }
    }
}

impl Pair {
    /// Posts a signaled SEND.
    pub fn send(&mut self, data: SendData<'_>) -> Result<()> {
        match self {
            Self::Datagram { pair, to, qpn } => {
                Ok(pair.post_send(&Datagram::new(data, to, *qpn, QKEY).signaled())?)
            }
            _ => self.post(&SendRequest::send(data).signaled()),
        }
    }

    /// Posts any request, which a datagram's queue pair refuses.
    pub fn post(&mut self, request: &SendRequest<'_>) -> Result<()> {
        Ok(match self {
            Self::Reliable(pair) => pair.post_send(request),
            Self::Unreliable(pair) => pair.post_send(request),
            Self::Datagram { .. } => {
                Err(VerbsError::WrongService { what: "requests without an address", qp_type: QpType::Ud })
            }
        }?)
    }

    pub fn post_recv(&mut self, request: &RecvRequest<'_>) -> Result<()> {
        Ok(match self {
            Self::Reliable(pair) => pair.post_recv(request),
            Self::Unreliable(pair) => pair.post_recv(request),
            Self::Datagram { pair, .. } => pair.post_recv(request),
        }?)
    }
}

/// Bytes that a receive has before its message.
pub const fn ahead_of_message(connection: Connection) -> usize {
    match connection {
        Connection::Ud => Grh::LEN,
        Connection::Rc | Connection::Uc => 0,
    }
}
