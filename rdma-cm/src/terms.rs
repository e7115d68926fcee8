//! The terms that two ends bring to a connection, and what they agree on.

use crate::dialect::{Dialect, Options};
use crate::event::Request;
use wire::cm::{RejReason, Rep};
use wire::{Pmtu, WireMode};

/// The terms of one end: the attributes of its queue pair, and what it wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Terms {
    /// Number of the queue pair, 1 to 0xFF_FFFE.
    pub qpn: u32,
    /// First PSN that it takes, 24 bits: the peer is told to start there.
    pub rq_psn: u32,
    /// Largest path MTU that it takes.
    pub path_mtu: Pmtu,
    /// Takes a path MTU of 1408 where it is the smaller of both ends', in the SRNIC dialect.
    pub takes_1408: bool,
    /// READs and atomics that it takes at once.
    pub responder_resources: u8,
    /// READs and atomics that it wants to have outstanding.
    pub initiator_depth: u8,
    /// Tries without a sign of life, 0 to 7.
    pub retry_count: u8,
    /// Waits for a receive, 0 to 7; 7: for ever.
    pub rnr_retry_count: u8,
    /// Code of the time that a try lasts, 0 to 31.
    pub ack_timeout: u8,
    /// The port that a peer is told that this end has, of who connects; `None`: one that the
    /// connection's number makes.
    pub src_port: Option<u16>,
    /// True if its receives come from a shared queue.
    pub srq: bool,
    /// Largest window, in packets, in the SRNIC dialect.
    pub window: u16,
    /// Wants strict placement, in the SRNIC dialect.
    pub strict_placement: bool,
    /// Whether to speak the SRNIC dialect.
    pub dialect: Dialect,
}

/// The attributes that both ends agree on for their queue pairs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Agreed {
    /// The peer's queue pair.
    pub remote_qpn: u32,
    /// First PSN to send, as the peer says.
    pub sq_psn: u32,
    /// The path MTU.
    pub path_mtu: Pmtu,
    /// READs and atomics that we may have outstanding.
    pub initiator_depth: u8,
    /// READs and atomics that the peer may have outstanding.
    pub responder_resources: u8,
    /// Tries without a sign of life: the active end's.
    pub retry_count: u8,
    /// Waits for a receive, as the peer asks for.
    pub rnr_retry_count: u8,
    /// Code of the time that a try lasts: the active end's.
    pub ack_timeout: u8,
    /// The dialect.
    pub wire_mode: WireMode,
    /// The peer's largest window, in packets; `None` if the dialect is plain.
    pub window: Option<u16>,
    /// True if both ends place strictly in order.
    pub strict_placement: bool,
}

/// Why two ends cannot be connected.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Disagreement {
    /// One end requires the SRNIC dialect, which the other does not speak.
    #[error(
        "the peer does not speak the SRNIC dialect, which this end requires; take Dialect::Prefer to speak plain RoCEv2 with it"
    )]
    Dialect,
    /// The active end's path MTU is too large for the passive end, and plain RoCEv2 has no way to
    /// say so in a reply.
    #[error(
        "the peer asks for a path MTU of {theirs} bytes, and this end takes {ours}; give the peer's queue pair that path MTU"
    )]
    PathMtu {
        /// The passive end's largest.
        ours: u32,
        /// The active end's.
        theirs: u32,
    },
}

impl Disagreement {
    /// The reason that the peer is told.
    #[must_use]
    pub const fn reason(self) -> RejReason {
        match self {
            Self::Dialect => RejReason::VENDOR_OPTION_NOT_SUPPORTED,
            Self::PathMtu { .. } => RejReason::INVALID_MTU,
        }
    }
}

impl Terms {
    /// What a request offers or a reply takes of the SRNIC dialect; `None`: nothing.
    pub(crate) fn offer(&self) -> Option<Options> {
        (self.dialect != Dialect::Off).then_some(Options {
            window: self.window,
            strict_placement: self.strict_placement,
            path_mtu: self.path_mtu,
            takes_1408: self.takes_1408,
        })
    }

    /// The two words of a message that say so.
    pub(crate) fn ece(offer: Option<Options>) -> (u32, u32) {
        offer.map_or((0, 0), Options::to_ece)
    }

    /// What the passive end of a request agrees to.
    pub(crate) fn for_request(&self, request: &Request) -> Result<(Agreed, Option<Options>), Disagreement> {
        let options = self.offer().zip(request.offer).map(|(ours, theirs)| ours.with(theirs));
        if options.is_none() && self.dialect == Dialect::Require {
            return Err(Disagreement::Dialect);
        }
        let own = self.path_mtu.in_dialect(WireMode::Plain);
        if options.is_none() && request.path_mtu > own {
            let [ours, theirs] = [own, request.path_mtu].map(Pmtu::bytes);
            return Err(Disagreement::PathMtu { ours, theirs });
        }
        let agreed = self.agreed(options, request.path_mtu);
        Ok((
            Agreed {
                remote_qpn: request.qpn,
                sq_psn: request.psn,
                initiator_depth: self.initiator_depth.min(request.responder_resources),
                responder_resources: self.responder_resources.min(request.initiator_depth),
                retry_count: request.retry_count,
                rnr_retry_count: request.rnr_retry_count,
                ack_timeout: request.ack_timeout,
                ..agreed
            },
            options,
        ))
    }

    /// What the active end agrees to when it is granted what it asked for.
    pub(crate) fn for_reply(&self, rep: &Rep, attr_mod: u32) -> Result<Agreed, Disagreement> {
        let theirs = Options::from_ece(rep.vendor_id, attr_mod);
        let options = self.offer().zip(theirs).map(|(ours, theirs)| ours.with(theirs));
        if options.is_none() && self.dialect == Dialect::Require {
            return Err(Disagreement::Dialect);
        }
        Ok(Agreed {
            remote_qpn: rep.qpn,
            sq_psn: rep.starting_psn,
            initiator_depth: self.initiator_depth.min(rep.responder_resources),
            rnr_retry_count: rep.rnr_retry_count,
            ..self.agreed(options, self.path_mtu.in_dialect(WireMode::Plain))
        })
    }

    /// What follows from the dialect.
    fn agreed(&self, options: Option<Options>, asked: Pmtu) -> Agreed {
        Agreed {
            remote_qpn: 0,
            sq_psn: 0,
            path_mtu: options.map_or(asked, |options| options.path_mtu),
            initiator_depth: self.initiator_depth,
            responder_resources: self.responder_resources,
            retry_count: self.retry_count,
            rnr_retry_count: self.rnr_retry_count,
            ack_timeout: self.ack_timeout,
            wire_mode: if options.is_some() { WireMode::Srnic } else { WireMode::Plain },
            window: options.map(|options| options.window),
            strict_placement: options.is_some_and(|options| options.strict_placement),
        }
    }
}
