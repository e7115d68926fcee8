//! REQ: a request for a connection.

use super::Body;
use super::fields::{get, get_u24, get_u32, put, put_u24};
use crate::Pmtu;

/// A request for a connection. Numbers that are narrower than their type are cut to their width
/// when they are sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Req {
    /// The sender's number of the connection.
    pub local_comm_id: u32,
    /// The vendor whose options are in the header's modifier (ECE), 24 bits; 0: none.
    pub vendor_id: u32,
    /// The service that is asked for: see [`TcpPort`](super::TcpPort).
    pub service_id: u64,
    /// GUID of the sender's device.
    pub ca_guid: u64,
    /// The sender's queue pair, 24 bits.
    pub qpn: u32,
    /// READs and atomics that the sender takes at once.
    pub responder_resources: u8,
    /// READs and atomics that the sender will have outstanding.
    pub initiator_depth: u8,
    /// Code of the time in which the sender expects an answer, 4.096 us x 2^code, 5 bits.
    pub remote_response_timeout: u8,
    /// Transport service, 2 bits: 0 is RC.
    pub transport: u8,
    /// First PSN that the receiver of this message is to send, 24 bits.
    pub starting_psn: u32,
    /// Code of the time in which the sender answers, 5 bits.
    pub local_response_timeout: u8,
    /// Tries of the queue pair without a sign of life, 3 bits.
    pub retry_count: u8,
    /// Partition key.
    pub pkey: u16,
    /// Code of the path MTU, 4 bits; what it means is [`Req::path_mtu`].
    pub mtu: u8,
    /// Waits for a receive, 3 bits; 7: for ever.
    pub rnr_retry_count: u8,
    /// Tries of each message of the connection manager, 4 bits.
    pub max_cm_retries: u8,
    /// The sender's queue pair takes its receives from a shared queue.
    pub srq: bool,
    /// LIDs of both ports; 0xFFFF for RoCE.
    pub lids: [u16; 2],
    /// The sender's GID, its IP address; IPv4 mapped to IPv6.
    pub local_gid: [u8; 16],
    /// The receiver's GID.
    pub remote_gid: [u8; 16],
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Code of the packet rate, 6 bits; 0: that of the port.
    pub packet_rate: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Code of the time in which the sender's queue pair expects acknowledgements, 5 bits.
    pub ack_timeout: u8,
    /// The private data of the program; with rdma_cm it begins with an
    /// [`IpCmHeader`](super::IpCmHeader).
    pub private_data: [u8; Self::PRIVATE_DATA],
}

impl Req {
    /// Bytes of private data.
    pub const PRIVATE_DATA: usize = 92;

    /// The path MTU of plain RoCEv2, if there is one of that code.
    #[must_use]
    pub fn path_mtu(&self) -> Option<Pmtu> {
        Pmtu::from_code(self.mtu).filter(|pmtu| Pmtu::PLAIN.contains(pmtu))
    }

    pub(super) fn parse(body: &Body) -> Self {
        let (qpn, responder_resources) = get_u24(body, 32);
        let (_, initiator_depth) = get_u24(body, 36);
        let (_, answer) = get_u24(body, 40);
        let (starting_psn, tries) = get_u24(body, 44);
        let flow = get_u32(body, 88);
        let rate = flow.to_be_bytes()[3] & 0x3F;
        Self {
            local_comm_id: get_u32(body, 0),
            vendor_id: get_u32(body, 4) & 0xFF_FFFF,
            service_id: u64::from_be_bytes(get(body, 8)),
            ca_guid: u64::from_be_bytes(get(body, 16)),
            qpn,
            responder_resources,
            initiator_depth,
            remote_response_timeout: answer >> 3,
            transport: answer >> 1 & 3,
            starting_psn,
            local_response_timeout: tries >> 3,
            retry_count: tries & 7,
            pkey: u16::from_be_bytes(get(body, 48)),
            mtu: body[50] >> 4,
            rnr_retry_count: body[50] & 7,
            max_cm_retries: body[51] >> 4,
            srq: body[51] & 8 != 0,
            lids: [u16::from_be_bytes(get(body, 52)), u16::from_be_bytes(get(body, 54))],
            local_gid: get(body, 56),
            remote_gid: get(body, 72),
            flow_label: flow >> 12,
            packet_rate: rate,
            traffic_class: body[92],
            hop_limit: body[93],
            ack_timeout: body[95] >> 3,
            private_data: get(body, 140),
        }
    }

    pub(super) fn emit(&self, body: &mut Body) {
        put(body, 0, self.local_comm_id.to_be_bytes());
        put(body, 4, (self.vendor_id & 0xFF_FFFF).to_be_bytes());
        put(body, 8, self.service_id.to_be_bytes());
        put(body, 16, self.ca_guid.to_be_bytes());
        put_u24(body, 32, self.qpn, self.responder_resources);
        put_u24(body, 36, 0, self.initiator_depth);
        put_u24(body, 40, 0, self.remote_response_timeout << 3 | (self.transport & 3) << 1);
        put_u24(body, 44, self.starting_psn, self.local_response_timeout << 3 | self.retry_count & 7);
        put(body, 48, self.pkey.to_be_bytes());
        body[50] = self.mtu << 4 | self.rnr_retry_count & 7;
        body[51] = self.max_cm_retries << 4 | u8::from(self.srq) << 3;
        put(body, 52, self.lids[0].to_be_bytes());
        put(body, 54, self.lids[1].to_be_bytes());
        put(body, 56, self.local_gid);
        put(body, 72, self.remote_gid);
        put(body, 88, (self.flow_label << 12 | u32::from(self.packet_rate & 0x3F)).to_be_bytes());
        body[92] = self.traffic_class;
        body[93] = self.hop_limit;
        body[95] = self.ack_timeout << 3;
        put(body, 140, self.private_data);
    }
}
