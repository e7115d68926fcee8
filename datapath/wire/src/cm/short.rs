//! Messages of little more than two numbers and private data.

use super::Body;
use super::fields::{get, get_u24, get_u32, put, put_u24};

/// The message that a MRA or REJ is about, 2 bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Refers(pub u8);

impl Refers {
    /// A REQ.
    pub const REQ: Self = Self(0);
    /// A REP.
    pub const REP: Self = Self(1);
    /// Another one, or none.
    pub const OTHER: Self = Self(2);
}

/// "Your message is here; the answer takes longer."
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mra {
    /// The sender's number of the connection.
    pub local_comm_id: u32,
    /// The receiver's.
    pub remote_comm_id: u32,
    /// The message.
    pub refers: Refers,
    /// Code of the time that the answer takes, 4.096 us x 2^code, 5 bits.
    pub service_timeout: u8,
    /// The private data of the program.
    pub private_data: [u8; Self::PRIVATE_DATA],
}

impl Mra {
    /// Bytes of private data.
    pub const PRIVATE_DATA: usize = 222;

    pub(super) fn parse(body: &Body) -> Self {
        Self {
            local_comm_id: get_u32(body, 0),
            remote_comm_id: get_u32(body, 4),
            refers: Refers(body[8] >> 6),
            service_timeout: body[9] >> 3,
            private_data: get(body, 10),
        }
    }

    pub(super) fn emit(&self, body: &mut Body) {
        put(body, 0, self.local_comm_id.to_be_bytes());
        put(body, 4, self.remote_comm_id.to_be_bytes());
        body[8] = self.refers.0 << 6;
        body[9] = self.service_timeout << 3;
        put(body, 10, self.private_data);
    }
}

/// A request to disconnect.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Dreq {
    /// The sender's number of the connection.
    pub local_comm_id: u32,
    /// The receiver's.
    pub remote_comm_id: u32,
    /// The receiver's queue pair, 24 bits.
    pub remote_qpn: u32,
    /// What the program has to say.
    pub private_data: [u8; Self::PRIVATE_DATA],
}

impl Dreq {
    /// Bytes of private data.
    pub const PRIVATE_DATA: usize = 220;

    pub(super) fn parse(body: &Body) -> Self {
        Self {
            local_comm_id: get_u32(body, 0),
            remote_comm_id: get_u32(body, 4),
            remote_qpn: get_u24(body, 8).0,
            private_data: get(body, 12),
        }
    }

    pub(super) fn emit(&self, body: &mut Body) {
        put(body, 0, self.local_comm_id.to_be_bytes());
        put(body, 4, self.remote_comm_id.to_be_bytes());
        put_u24(body, 8, self.remote_qpn, 0);
        put(body, 12, self.private_data);
    }
}

/// Messages of two numbers and private data.
macro_rules! pairs {
    ($($(#[doc = $doc:literal])+ $name:ident;)+) => {
        $($(#[doc = $doc])+
        #[derive(Clone, PartialEq, Eq, Debug)]
        pub struct $name {
            /// The sender's number of the connection.
            pub local_comm_id: u32,
            /// The receiver's.
            pub remote_comm_id: u32,
            /// What the program has to say.
            pub private_data: [u8; Self::PRIVATE_DATA],
        }

        impl $name {
            /// Bytes of private data.
            pub const PRIVATE_DATA: usize = 224;

            pub(super) fn parse(body: &Body) -> Self {
                Self {
                    local_comm_id: get_u32(body, 0),
                    remote_comm_id: get_u32(body, 4),
                    private_data: get(body, 8),
                }
            }

            pub(super) fn emit(&self, body: &mut Body) {
                put(body, 0, self.local_comm_id.to_be_bytes());
                put(body, 4, self.remote_comm_id.to_be_bytes());
                put(body, 8, self.private_data);
            }
        })+
    };
}

pairs! {
    /// "Ready to use": the answer to a REP.
    Rtu;
    /// The answer to a DREQ.
    Drep;
}
