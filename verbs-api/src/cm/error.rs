//! Why there is no connection.

use crate::device::Device;
use core::net::IpAddr;
use core::time::Duration;
use datapath::engine::ModifyError;
use datapath::port::LinkDown;
use rdma_cm::{CmError, Disagreement, Failure};
use wire::cm::RejReason;

/// Why a connection by address was not made.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectionError {
    /// The peer rejected it. Of [`RejReason::CONSUMER`] its program did, and may have said more,
    /// which the error's text shows if it is text.
    #[error("the peer rejected the connection: {reason}{}", words(private_data))]
    Rejected {
        /// Why.
        reason: RejReason,
        /// The private data of the peer's program, without the zeros at its end.
        private_data: Vec<u8>,
    },
    /// The peer's host is there, and its connection manager does not answer.
    #[error(
        "the peer does not answer; is a program running there that listens, and does its device make progress?"
    )]
    TimedOut,
    /// No host has the peer's address.
    #[error("nobody answers for {0}: is it on the same link, and up?")]
    Unreachable(IpAddr),
    /// No request for a connection came, or the peer did not say that it is ready, within the time
    /// that the caller gave.
    #[error(
        "nothing came within {0:?}; does one end listen and the other connect, and does somebody drive both devices?"
    )]
    Deadline(Duration),
    /// There was no connection within the time that the peer was asked for, and this is the likely
    /// reason.
    #[error("no connection within {limit:?}: {why}")]
    Late {
        /// The time that is over.
        limit: Duration,
        /// The most likely obstacle when the time was over.
        why: Obstacle,
    },
    /// The peer has taken back its request, or does not take what it was granted.
    #[error("the peer has given up; the next request may be another")]
    Withdrawn,
    /// The two ends do not go together; the peer was told so.
    #[error(transparent)]
    Disagreement(#[from] Disagreement),
    /// The queue pair speaks plain RoCEv2, and the SRNIC dialect is required.
    #[error(
        "the queue pair was built for WireMode::Plain, and Dialect::Require asks for the SRNIC dialect: build it without wire_mode, or take another Dialect"
    )]
    PlainPair,
    /// The call itself cannot be.
    #[error(transparent)]
    Call(#[from] CmError),
}

/// What keeps a connection from being made.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Obstacle {
    /// The link is down.
    #[error("the link is down: {0}")]
    Link(LinkDown),
    /// The device's own address is another host's.
    #[error("{0}")]
    Address(ModifyError),
    /// No host answers for the peer's address.
    #[error(
        "no host answers for {0}: is a device with this ip= open on the same link, and does its program drive it?"
    )]
    Neighbor(IpAddr),
    /// The host of this address is there, and its connection manager or the program behind it does
    /// not answer.
    #[error("{0} is there and does not answer: does its program listen and accept, and drive its device?")]
    Silence(IpAddr),
}

impl ConnectionError {
    /// Nothing came in time from somebody who is not known: perhaps because the link is down.
    pub(super) fn late(limit: Duration, device: &Device) -> Self {
        match device.link_down() {
            Some(why) => Self::Late { limit, why: Obstacle::Link(why) },
            None => Self::Deadline(limit),
        }
    }

    /// The error for a connection with the host `peer`.
    pub(super) fn of(failure: Failure, peer: IpAddr) -> Self {
        match failure {
            Failure::Rejected { reason: RejReason::TIMEOUT, .. } => Self::Withdrawn,
            Failure::Rejected { reason, private_data } => {
                Self::Rejected { reason, private_data: without_padding(&private_data[..]) }
            }
            Failure::TimedOut => Self::TimedOut,
            Failure::Unreachable => Self::Unreachable(peer),
            Failure::Disagreed(disagreement) => Self::Disagreement(disagreement),
            // Connections are never answered so.
            Failure::Expired | Failure::NotServed { .. } => Self::Withdrawn,
        }
    }
}

/// What the peer's program says, if it is text without control characters; quoted, as it is the
/// peer's.
fn words(private_data: &[u8]) -> String {
    match core::str::from_utf8(private_data) {
        Ok(text) if !text.is_empty() && !text.contains(char::is_control) => format!(": {text:?}"),
        _ => String::new(),
    }
}

/// Private data are as long as their message has room; what the peer's program did not fill is
/// zeros.
pub(super) fn without_padding(data: &[u8]) -> Vec<u8> {
    let len = data.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    data[..len].to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_peers_program_says_is_shown_if_it_is_text() {
        let said = |private_data: &[u8]| {
            let reason = RejReason::CONSUMER;
            let text = ConnectionError::Rejected { reason, private_data: private_data.to_vec() }.to_string();
            text.strip_prefix("the peer rejected the connection: its program does not want it")
                .map(str::to_owned)
        };
        for (private_data, shown) in [
            (&b"no room for you"[..], ": \"no room for you\""),
            ("zu spät".as_bytes(), ": \"zu spät\""),
            (b"", ""),
            (&[0xFF, 0xFE], ""),
            (&[7, 0, 9], ""),
            (b"\x1b[31mred", ""),
        ] {
            assert_eq!(said(private_data).as_deref(), Some(shown), "{private_data:?}");
        }
    }
}
