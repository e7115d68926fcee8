//! Where a service of datagrams is: its queue pair and Q_Key, by the port (SIDR).

use super::fields::{get, get_u24, get_u32, put, put_u24};
use super::{Body, IpCmHeader};

/// "Which queue pair has this service?"
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SidrReq {
    /// The sender's number of the question.
    pub request_id: u32,
    /// Partition key.
    pub pkey: u16,
    /// The service.
    pub service_id: u64,
    /// An [`IpCmHeader`], and the private data of the program.
    pub private_data: [u8; Self::PRIVATE_DATA],
}

impl SidrReq {
    /// Bytes of private data.
    pub const PRIVATE_DATA: usize = 216;
    /// Bytes of them that are left for the program.
    pub const PROGRAM_DATA: usize = Self::PRIVATE_DATA - IpCmHeader::LEN;

    pub(super) fn parse(body: &Body) -> Self {
        Self {
            request_id: get_u32(body, 0),
            pkey: u16::from_be_bytes(get(body, 4)),
            service_id: u64::from_be_bytes(get(body, 8)),
            private_data: get(body, 16),
        }
    }

    pub(super) fn emit(&self, body: &mut Body) {
        put(body, 0, self.request_id.to_be_bytes());
        put(body, 4, self.pkey.to_be_bytes());
        put(body, 8, self.service_id.to_be_bytes());
        put(body, 16, self.private_data);
    }
}

/// How a question was answered.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SidrStatus(pub u8);

impl SidrStatus {
    /// Here it is.
    pub const VALID: Self = Self(0);
    /// Nobody has this service.
    pub const UNSUPPORTED: Self = Self(1);
    /// The program does not want to.
    pub const REJECTED: Self = Self(2);
}

/// The answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SidrRep {
    /// The number of the question.
    pub request_id: u32,
    /// Whether the rest says anything.
    pub status: SidrStatus,
    /// The queue pair, 24 bits.
    pub qpn: u32,
    /// The service.
    pub service_id: u64,
    /// The Q_Key of the queue pair.
    pub qkey: u32,
    /// The private data of the program.
    pub private_data: [u8; Self::PRIVATE_DATA],
}

impl SidrRep {
    /// Bytes of private data.
    pub const PRIVATE_DATA: usize = 136;

    pub(super) fn parse(body: &Body) -> Self {
        Self {
            request_id: get_u32(body, 0),
            status: SidrStatus(body[4]),
            qpn: get_u24(body, 8).0,
            service_id: u64::from_be_bytes(get(body, 12)),
            qkey: get_u32(body, 20),
            private_data: get(body, 96),
        }
    }

    pub(super) fn emit(&self, body: &mut Body) {
        put(body, 0, self.request_id.to_be_bytes());
        body[4] = self.status.0;
        put_u24(body, 8, self.qpn, 0);
        put(body, 12, self.service_id.to_be_bytes());
        put(body, 20, self.qkey.to_be_bytes());
        put(body, 96, self.private_data);
    }
}
