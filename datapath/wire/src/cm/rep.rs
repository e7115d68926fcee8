//! REP: a connection is granted.

use super::Body;
use super::fields::{get, get_u24, get_u32, put, put_u24};

/// The answer to a REQ that grants the connection. Numbers that are narrower than their type are
/// cut to their width when they are sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rep {
    /// The sender's number of the connection.
    pub local_comm_id: u32,
    /// The receiver's.
    pub remote_comm_id: u32,
    /// The sender's queue pair, 24 bits.
    pub qpn: u32,
    /// The vendor whose options are in the header's modifier (ECE), 24 bits; 0: none.
    pub vendor_id: u32,
    /// First PSN that the receiver of this message is to send, 24 bits.
    pub starting_psn: u32,
    /// READs and atomics that the sender takes at once.
    pub responder_resources: u8,
    /// READs and atomics that the sender will have outstanding.
    pub initiator_depth: u8,
    /// Code of the sender's delay before it acknowledges, 5 bits.
    pub target_ack_delay: u8,
    /// Waits for a receive, 3 bits; 7: for ever.
    pub rnr_retry_count: u8,
    /// The sender's queue pair takes its receives from a shared queue.
    pub srq: bool,
    /// GUID of the sender's device.
    pub ca_guid: u64,
    /// The private data of the program.
    pub private_data: [u8; Self::PRIVATE_DATA],
}

impl Rep {
    /// Bytes of private data.
    pub const PRIVATE_DATA: usize = 196;

    pub(super) fn parse(body: &Body) -> Self {
        let (qpn, vendor_high) = get_u24(body, 12);
        let (_, vendor_middle) = get_u24(body, 16);
        let (starting_psn, vendor_low) = get_u24(body, 20);
        Self {
            local_comm_id: get_u32(body, 0),
            remote_comm_id: get_u32(body, 4),
            qpn,
            vendor_id: u32::from_be_bytes([0, vendor_high, vendor_middle, vendor_low]),
            starting_psn,
            responder_resources: body[24],
            initiator_depth: body[25],
            target_ack_delay: body[26] >> 3,
            rnr_retry_count: body[27] >> 5,
            srq: body[27] & 0x10 != 0,
            ca_guid: u64::from_be_bytes(get(body, 28)),
            private_data: get(body, 36),
        }
    }

    pub(super) fn emit(&self, body: &mut Body) {
        let [_, vendor_high, vendor_middle, vendor_low] = self.vendor_id.to_be_bytes();
        put(body, 0, self.local_comm_id.to_be_bytes());
        put(body, 4, self.remote_comm_id.to_be_bytes());
        put_u24(body, 12, self.qpn, vendor_high);
        put_u24(body, 16, 0, vendor_middle);
        put_u24(body, 20, self.starting_psn, vendor_low);
        body[24] = self.responder_resources;
        body[25] = self.initiator_depth;
        body[26] = self.target_ack_delay << 3;
        body[27] = self.rnr_retry_count << 5 | u8::from(self.srq) << 4;
        put(body, 28, self.ca_guid.to_be_bytes());
        put(body, 36, self.private_data);
    }
}
