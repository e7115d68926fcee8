//! What travels: the fields of protocol.md 2.2 that the rules look at. A packet carries at most one
//! cell.

use wire::serial::{Msn, Psn, Ssn};

/// The unit of memory and of payload; one cell stands for one PMTU.
pub type Cell = u64;

/// Which of a connection's two packet streams in a direction of posting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// Requests, in the sPSN space.
    Request,
    /// READ responses and atomic results, in the rPSN space.
    Response,
}

/// A packet on its way to queue pair `qp` of the other host.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    /// Index of the queue pair, the same on both hosts.
    pub qp: usize,
    /// BTH.PSN; its meaning in an acknowledgement is that of protocol.md 2.2.
    pub psn: Psn,
    /// The rest.
    pub body: Body,
}

/// The kinds of packet.
#[derive(Clone, Copy, Debug)]
pub enum Body {
    /// Part of a message.
    Request(Request),
    /// Part of the answer to a READ, or to an atomic.
    Response(Response),
    /// Any packet of opcode Acknowledge.
    Ack(Ack),
}

/// A packet of a request message.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// META.MSN.
    pub msn: Msn,
    /// META.PSN_OFFSET.
    pub offset: u32,
    /// LAST or ONLY.
    pub end: bool,
    /// BTH.AckReq.
    pub ack_req: bool,
    /// The key does not allow what this packet asks for.
    pub bad_key: bool,
    /// Payload.
    pub cell: Option<Cell>,
    /// The operation.
    pub verb: Verb,
}

/// The operation of a request packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verb {
    /// Any SEND.
    Send {
        /// Number of the receive WQE.
        ssn: Ssn,
    },
    /// Any WRITE; `imm` is the SSN of the LAST or ONLY with immediate data.
    Write {
        /// Address of this packet's cell.
        addr: usize,
        /// SSN, where this packet consumes a receive WQE.
        imm: Option<Ssn>,
    },
    /// READ request.
    Read {
        /// First cell.
        addr: usize,
        /// Number of responses.
        n: u32,
        /// Where its answer lives.
        answer: Answer,
    },
    /// FETCH_ADD of one.
    FetchAdd {
        /// The cell.
        addr: usize,
        /// Where its answer lives.
        answer: Answer,
    },
}

impl Verb {
    /// The remote address that the packet names, if any.
    #[must_use]
    pub fn address(&self) -> Option<usize> {
        match *self {
            Self::Send { .. } => None,
            Self::Write { addr, .. } | Self::Read { addr, .. } | Self::FetchAdd { addr, .. } => Some(addr),
        }
    }

    /// Number of the receive WQE that the packet needs, if any.
    #[must_use]
    pub fn ssn(&self) -> Option<Ssn> {
        match *self {
            Self::Send { ssn } => Some(ssn),
            Self::Write { imm, .. } => imm,
            Self::Read { .. } | Self::FetchAdd { .. } => None,
        }
    }
}

/// RDW: responder slot and first PSN of the responses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answer {
    /// RSLOT.
    pub rslot: usize,
    /// RPSN_START.
    pub start: Psn,
}

/// A packet of a READ response, or an atomic's result.
#[derive(Clone, Copy, Debug)]
pub struct Response {
    /// MSN of the request.
    pub msn: Msn,
    /// RSLOT of the request.
    pub rslot: usize,
    /// Packet index in the response.
    pub offset: u32,
    /// BTH.AckReq.
    pub ack_req: bool,
    /// Payload.
    pub cell: Option<Cell>,
}

/// ACK, NACK, RNR NAK or error NAK.
#[derive(Clone, Copy, Debug)]
pub struct Ack {
    /// The stream that it acknowledges (flag 0).
    pub side: Side,
    /// Syndrome.
    pub kind: AckKind,
    /// SACK_PSN, if valid (flag 1).
    pub sack: Option<Psn>,
    /// SACKB: bit i is PSN cum + 2 + i (flag 2).
    pub bitmap: u64,
    /// The PSN that the META echo leads to, if the trigger was a duplicate (flags 3 and 4).
    pub duplicate: Option<Psn>,
}

/// The syndromes in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AckKind {
    /// Cumulative; BTH.PSN is the last PSN in order.
    Ack,
    /// PSN sequence error; BTH.PSN is epsn, as in the two below.
    Nack,
    /// Receiver not ready.
    Rnr,
    /// The packet at epsn cannot be executed.
    Error(NakCode),
}

/// Why a request is refused for good.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NakCode {
    /// 0x61.
    InvalidRequest,
    /// 0x62.
    RemoteAccess,
}

impl Ack {
    /// The last PSN that an acknowledgement with BTH.PSN `psn` covers.
    #[must_use]
    pub fn cumulative(&self, psn: Psn) -> Psn {
        if self.kind == AckKind::Ack { psn } else { psn.prev() }
    }
}
