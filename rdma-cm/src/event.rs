//! The events and messages that a manager hands out.

use crate::dialect::Options;
use crate::lookup::Service;
use crate::manager::CommId;
use crate::terms::{Agreed, Disagreement};
use core::net::{IpAddr, SocketAddr};
use wire::Pmtu;
use wire::cm::{IpCmHeader, MAD_LEN, Rej, RejReason, Rep, SidrRep, SidrStatus};

/// Something that the program is to know.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// A peer asks for a connection with this port; [`Manager::request`](crate::Manager::request)
    /// has the request.
    Requested {
        /// The connection.
        id: CommId,
        /// The port.
        port: u16,
    },
    /// Active: the peer grants the connection. Take the queue pair to RTS, and call
    /// [`Manager::established`](crate::Manager::established).
    Replied {
        /// The connection.
        id: CommId,
        /// What the queue pair is to be given.
        agreed: Agreed,
        /// What the peer's program has to say.
        private_data: Box<[u8; Rep::PRIVATE_DATA]>,
    },
    /// Passive: the peer has taken what was granted.
    Established {
        /// The connection.
        id: CommId,
    },
    /// There will be no connection, or the service was not found; it is forgotten here.
    Failed {
        /// The connection.
        id: CommId,
        /// Why.
        failure: Failure,
    },
    /// A peer asks for the service of datagrams at this port;
    /// [`Manager::question`](crate::Manager::question) has the question.
    Asked {
        /// The question.
        id: CommId,
        /// The port.
        port: u16,
    },
    /// The peer has the service that was asked for.
    Found {
        /// The question.
        id: CommId,
        /// Where it is.
        service: Service,
        /// What the peer's program has to say.
        private_data: Box<[u8; SidrRep::PRIVATE_DATA]>,
    },
    /// An established connection is over; its queue pair is to go to ERR.
    Disconnected {
        /// The connection.
        id: CommId,
    },
}

/// Why a connection was not established.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Failure {
    /// The peer rejected it, or took its request back.
    Rejected {
        /// Why.
        reason: RejReason,
        /// What the peer's program has to say.
        private_data: Box<[u8; Rej::PRIVATE_DATA]>,
    },
    /// The peer did not answer.
    TimedOut,
    /// Nobody has the peer's address.
    Unreachable,
    /// The peer's terms are none for us; it was told so.
    Disagreed(Disagreement),
    /// A request that nobody accepted while the peer still wanted it.
    Expired,
    /// The peer has no such service of datagrams, or does not want to say where.
    NotServed {
        /// How it says so.
        status: SidrStatus,
    },
}

/// A peer's wish to connect.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// The peer: the address that its MADs come from, and the port that it says it has.
    pub peer: SocketAddr,
    /// The Ethernet address that it sent from, if that is known.
    pub mac: Option<[u8; 6]>,
    /// The port that it wants.
    pub port: u16,
    /// The number of the peer's queue pair.
    pub qpn: u32,
    /// First PSN that we are to send.
    pub psn: u32,
    /// The path MTU that it wants.
    pub path_mtu: Pmtu,
    /// READs and atomics that it takes at once.
    pub responder_resources: u8,
    /// READs and atomics that it wants to have outstanding.
    pub initiator_depth: u8,
    /// Tries without a sign of life, 0 to 7, that it makes and asks for.
    pub retry_count: u8,
    /// Waits for a receive, 0 to 7, that it asks for; 7: for ever.
    pub rnr_retry_count: u8,
    /// Code of the time that a try lasts, 0 to 31.
    pub ack_timeout: u8,
    /// True if its receives come from a shared queue.
    pub srq: bool,
    /// The options of the SRNIC dialect that the peer offers; `None`: it speaks plain RoCEv2.
    pub offer: Option<Options>,
    /// The private data of the peer's program.
    pub private_data: [u8; IpCmHeader::PRIVATE_DATA],
}

/// Where a MAD came from, or goes to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Host {
    /// Its address.
    pub ip: IpAddr,
    /// The Ethernet address that it sent from. `None`: it is to be looked for.
    pub mac: Option<[u8; 6]>,
}

impl From<IpAddr> for Host {
    fn from(ip: IpAddr) -> Self {
        Self { ip, mac: None }
    }
}

/// A MAD to be sent, from queue pair 1 to queue pair 1.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Transmit {
    /// The host. Who has no connection with us yet is answered where it sent from, however long
    /// the program took.
    pub to: Host,
    /// The bytes of the MAD.
    pub mad: Box<[u8; MAD_LEN]>,
}
