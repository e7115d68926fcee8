//! REJ: a connection is refused, or given up.

use super::Body;
use super::fields::{get, get_u32, put};
use super::short::Refers;
use core::fmt;

/// The refusal of a message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rej {
    /// The sender's number of the connection; 0: it has none.
    pub local_comm_id: u32,
    /// The receiver's; 0: the sender does not know it.
    pub remote_comm_id: u32,
    /// The message that is refused.
    pub refers: Refers,
    /// Bytes of `info` that count, 7 bits.
    pub info_len: u8,
    /// Why.
    pub reason: RejReason,
    /// More about it; of a timeout the GUID of the sender's device.
    pub info: [u8; Self::INFO],
    /// The private data of the program.
    pub private_data: [u8; Self::PRIVATE_DATA],
}

/// Why a connection is refused. Any number is a reason; these have names.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RejReason(pub u16);

impl RejReason {
    /// There is no queue pair to spare.
    pub const NO_QP: Self = Self(1);
    /// Something else is used up.
    pub const NO_RESOURCES: Self = Self(3);
    /// An answer did not come, or is awaited no more.
    pub const TIMEOUT: Self = Self(4);
    /// The request makes no sense to the receiver.
    pub const UNSUPPORTED: Self = Self(5);
    /// No connection has the number that a message names.
    pub const INVALID_COMM_ID: Self = Self(6);
    /// No program listens at that port.
    pub const INVALID_SERVICE_ID: Self = Self(8);
    /// Another transport than that of the listener.
    pub const INVALID_TRANSPORT: Self = Self(9);
    /// The receiver still has a connection with that queue pair.
    pub const STALE_CONNECTION: Self = Self(10);
    /// The address is not the receiver's.
    pub const INVALID_GID: Self = Self(12);
    /// The path MTU is none, or larger than the receiver's.
    pub const INVALID_MTU: Self = Self(26);
    /// The program refused.
    pub const CONSUMER: Self = Self(28);
    /// The vendor's options are not those that the sender insists on.
    pub const VENDOR_OPTION_NOT_SUPPORTED: Self = Self(35);
}

impl fmt::Display for RejReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match *self {
            Self::NO_QP => "it has no queue pair to spare",
            Self::NO_RESOURCES => "its resources are used up",
            Self::TIMEOUT => "it waits no longer",
            Self::UNSUPPORTED => "it does not understand the request",
            Self::INVALID_COMM_ID => "it knows of no such connection",
            Self::INVALID_SERVICE_ID => "nobody listens to that port",
            Self::INVALID_TRANSPORT => "it wants another transport than RC",
            Self::STALE_CONNECTION => {
                "it had an old connection with that queue pair, which is over now: try again"
            }
            Self::INVALID_GID => "the address is not its own",
            Self::INVALID_MTU => {
                "the path MTU is too large for it: build the queue pair with a smaller path_mtu"
            }
            Self::CONSUMER => "its program does not want it",
            Self::VENDOR_OPTION_NOT_SUPPORTED => "the two ends do not speak the same dialect",
            Self(other) => return write!(f, "reason {other}"),
        })
    }
}

impl Rej {
    /// Bytes of additional information.
    pub const INFO: usize = 72;
    /// Bytes of private data.
    pub const PRIVATE_DATA: usize = 148;

    pub(super) fn parse(body: &Body) -> Self {
        Self {
            local_comm_id: get_u32(body, 0),
            remote_comm_id: get_u32(body, 4),
            refers: Refers(body[8] >> 6),
            info_len: body[9] >> 1,
            reason: RejReason(u16::from_be_bytes(get(body, 10))),
            info: get(body, 12),
            private_data: get(body, 84),
        }
    }

    pub(super) fn emit(&self, body: &mut Body) {
        put(body, 0, self.local_comm_id.to_be_bytes());
        put(body, 4, self.remote_comm_id.to_be_bytes());
        body[8] = self.refers.0 << 6;
        body[9] = self.info_len << 1;
        put(body, 10, self.reason.0.to_be_bytes());
        put(body, 12, self.info);
        put(body, 84, self.private_data);
    }
}
