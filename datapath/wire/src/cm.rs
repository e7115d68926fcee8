//! Messages of the InfiniBand connection manager, as rdma_cm exchanges them between the queue pairs
//! 1 of two hosts (protocol.md 1.12).
//!
//! Each is one MAD of [`MAD_LEN`] bytes in a UD SEND. [`Mad::parse`] checks its header; behind that
//! any bytes are a message. Fields of automatic path migration and of other transports are not
//! kept: they are sent as zeros.
//!
//! ```
//! use wire::cm::{Mad, Message, Rtu};
//!
//! let rtu = Rtu { local_comm_id: 1, remote_comm_id: 2, private_data: [0; Rtu::PRIVATE_DATA] };
//! let mad = Mad { tid: 7, attr_mod: 0, message: Message::Rtu(Box::new(rtu)) };
//! assert_eq!(Mad::parse(&mad.emit()), Ok(mad));
//! ```

mod fields;
mod ip;
mod rej;
mod rep;
mod req;
mod short;
mod sidr;

pub use ip::{IpCmError, IpCmHeader, TcpPort, UdpPort};
pub use rej::{Rej, RejReason};
pub use rep::Rep;
pub use req::Req;
pub use short::{Drep, Dreq, Mra, Refers, Rtu};
pub use sidr::{SidrRep, SidrReq, SidrStatus};

use fields::{get, put};

/// Bytes of a management datagram.
pub const MAD_LEN: usize = 256;
/// Bytes of its header, before the message.
pub const MAD_HEADER_LEN: usize = 24;
/// Bytes of a message.
const BODY_LEN: usize = MAD_LEN - MAD_HEADER_LEN;
/// The number of the queue pair that takes MADs.
pub const GSI_QPN: u32 = 1;
/// The Q_Key of queue pair 1.
pub const GSI_QKEY: u32 = 0x8001_0000;

const BASE_VERSION: u8 = 1;
const CLASS: u8 = 0x07;
const CLASS_VERSION: u8 = 2;
const METHOD_SEND: u8 = 3;

const REQ: u16 = 0x10;
const MRA: u16 = 0x11;
const REJ: u16 = 0x12;
const REP: u16 = 0x13;
const RTU: u16 = 0x14;
const DREQ: u16 = 0x15;
const DREP: u16 = 0x16;
const SIDR_REQ: u16 = 0x17;
const SIDR_REP: u16 = 0x18;

/// A message's bytes, without the header.
type Body = [u8; BODY_LEN];

/// A management datagram of the connection manager.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mad {
    /// Transaction: an answer has its request's.
    pub tid: u64,
    /// Attribute modifier: 0, or in REQ and REP the vendor's options (ECE, protocol.md 2.3).
    pub attr_mod: u32,
    /// The message.
    pub message: Message,
}

/// The messages that reliable connections need, and services of datagrams.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Message {
    /// Request for a connection.
    Req(Box<Req>),
    /// The receipt of a message, whose answer takes longer.
    Mra(Box<Mra>),
    /// Rejection.
    Rej(Box<Rej>),
    /// Reply: the connection is granted.
    Rep(Box<Rep>),
    /// Ready to use.
    Rtu(Box<Rtu>),
    /// Request to disconnect.
    Dreq(Box<Dreq>),
    /// Reply to it.
    Drep(Box<Drep>),
    /// Question for a service of datagrams.
    SidrReq(Box<SidrReq>),
    /// Reply to it.
    SidrRep(Box<SidrRep>),
}

/// Why bytes are no message that is known here.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MadError {
    /// Not [`MAD_LEN`] bytes.
    #[error("a MAD has {MAD_LEN} bytes, not {0}")]
    Length(usize),
    /// Another class, version or method.
    #[error(
        "base version {base}, class {class:#04x} version {version}, method {method} is no message of a connection manager"
    )]
    Header {
        /// Base version, 1.
        base: u8,
        /// Management class, 7.
        class: u8,
        /// Its version, 2.
        version: u8,
        /// Method, 3.
        method: u8,
    },
    /// A message that is not needed here, such as LAP.
    #[error("attribute {0:#06x} of the connection manager is not supported")]
    Attribute(u16),
}

impl Mad {
    /// Reads a datagram's payload.
    ///
    /// # Errors
    /// [`MadError`].
    pub fn parse(bytes: &[u8]) -> Result<Self, MadError> {
        let mad: &[u8; MAD_LEN] = bytes.try_into().map_err(|_| MadError::Length(bytes.len()))?;
        let [base, class, version, method] = get(mad, 0);
        if (base, class, version, method) != (BASE_VERSION, CLASS, CLASS_VERSION, METHOD_SEND) {
            return Err(MadError::Header { base, class, version, method });
        }
        let body: &Body = &get(mad, MAD_HEADER_LEN);
        let attribute = u16::from_be_bytes(get(mad, 16));
        let message = match attribute {
            REQ => Message::Req(Box::new(Req::parse(body))),
            MRA => Message::Mra(Box::new(Mra::parse(body))),
            REJ => Message::Rej(Box::new(Rej::parse(body))),
            REP => Message::Rep(Box::new(Rep::parse(body))),
            RTU => Message::Rtu(Box::new(Rtu::parse(body))),
            DREQ => Message::Dreq(Box::new(Dreq::parse(body))),
            DREP => Message::Drep(Box::new(Drep::parse(body))),
            SIDR_REQ => Message::SidrReq(Box::new(SidrReq::parse(body))),
            SIDR_REP => Message::SidrRep(Box::new(SidrRep::parse(body))),
            other => return Err(MadError::Attribute(other)),
        };
        let (tid, attr_mod) = (u64::from_be_bytes(get(mad, 8)), u32::from_be_bytes(get(mad, 20)));
        Ok(Self { tid, attr_mod, message })
    }

    /// The datagram's payload.
    #[must_use]
    pub fn emit(&self) -> [u8; MAD_LEN] {
        let mut body = [0; BODY_LEN];
        match &self.message {
            Message::Req(req) => req.emit(&mut body),
            Message::Mra(mra) => mra.emit(&mut body),
            Message::Rej(rej) => rej.emit(&mut body),
            Message::Rep(rep) => rep.emit(&mut body),
            Message::Rtu(rtu) => rtu.emit(&mut body),
            Message::Dreq(dreq) => dreq.emit(&mut body),
            Message::Drep(drep) => drep.emit(&mut body),
            Message::SidrReq(req) => req.emit(&mut body),
            Message::SidrRep(rep) => rep.emit(&mut body),
        }
        let mut mad = [0; MAD_LEN];
        put(&mut mad, 0, [BASE_VERSION, CLASS, CLASS_VERSION, METHOD_SEND]);
        put(&mut mad, 8, self.tid.to_be_bytes());
        put(&mut mad, 16, self.message.attribute().to_be_bytes());
        put(&mut mad, 20, self.attr_mod.to_be_bytes());
        put(&mut mad, MAD_HEADER_LEN, body);
        mad
    }
}

impl Message {
    /// Its number in the header.
    const fn attribute(&self) -> u16 {
        match self {
            Self::Req(_) => REQ,
            Self::Mra(_) => MRA,
            Self::Rej(_) => REJ,
            Self::Rep(_) => REP,
            Self::Rtu(_) => RTU,
            Self::Dreq(_) => DREQ,
            Self::Drep(_) => DREP,
            Self::SidrReq(_) => SIDR_REQ,
            Self::SidrRep(_) => SIDR_REP,
        }
    }

    /// The name of the message in documents of InfiniBand.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Req(_) => "REQ",
            Self::Mra(_) => "MRA",
            Self::Rej(_) => "REJ",
            Self::Rep(_) => "REP",
            Self::Rtu(_) => "RTU",
            Self::Dreq(_) => "DREQ",
            Self::Drep(_) => "DREP",
            Self::SidrReq(_) => "SIDR_REQ",
            Self::SidrRep(_) => "SIDR_REP",
        }
    }
}
