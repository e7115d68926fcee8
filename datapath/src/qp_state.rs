//! Types and states of queue pairs (protocol.md 1.9), and what each state permits.

use core::fmt;

/// Transport service of a queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum QpType {
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
    /// Unreliable datagram.
    Ud,
}

impl QpType {
    /// Every type.
    pub const ALL: [Self; 3] = [Self::Rc, Self::Uc, Self::Ud];
}

impl fmt::Display for QpType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Rc => "RC",
            Self::Uc => "UC",
            Self::Ud => "UD",
        })
    }
}

/// State of a queue pair. The order is that of `ibv_qp_state`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum QpState {
    /// Fresh, or emptied: nothing works.
    #[default]
    Reset,
    /// Receives may be posted, packets are not taken.
    Init,
    /// Ready to receive: the responder runs.
    Rtr,
    /// Ready to send: everything runs.
    Rts,
    /// Send queue drains: started WQEs finish, none starts.
    Sqd,
    /// Send queue error (UC and UD): sends flush, receives go on.
    Sqe,
    /// Error: everything flushes.
    Err,
}

impl fmt::Display for QpState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Reset => "RESET",
            Self::Init => "INIT",
            Self::Rtr => "RTR",
            Self::Rts => "RTS",
            Self::Sqd => "SQD",
            Self::Sqe => "SQE",
            Self::Err => "ERR",
        })
    }
}

/// What happens to a work request that is posted now.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PostVerdict {
    /// The post call fails.
    Refused,
    /// The request is queued, and runs now or when the state allows it.
    Queued,
    /// The request is queued, and completes in its turn with WR_FLUSH_ERR.
    Flushed,
}

impl QpState {
    /// Every state.
    pub const ALL: [Self; 7] =
        [Self::Reset, Self::Init, Self::Rtr, Self::Rts, Self::Sqd, Self::Sqe, Self::Err];

    /// What happens to a send request that is posted now.
    #[must_use]
    pub const fn post_send(self) -> PostVerdict {
        match self {
            Self::Reset | Self::Init | Self::Rtr => PostVerdict::Refused,
            Self::Rts | Self::Sqd => PostVerdict::Queued,
            Self::Sqe | Self::Err => PostVerdict::Flushed,
        }
    }

    /// What happens to a receive request that is posted now.
    #[must_use]
    pub const fn post_recv(self) -> PostVerdict {
        match self {
            Self::Reset => PostVerdict::Refused,
            Self::Init | Self::Rtr | Self::Rts | Self::Sqd | Self::Sqe => PostVerdict::Queued,
            Self::Err => PostVerdict::Flushed,
        }
    }

    /// Whether packets of the peer are processed and answered; else they are dropped silently.
    /// (After an error NAK the SRNIC responder keeps answering in ERR: protocol.md 2.4.)
    #[must_use]
    pub const fn receives(self) -> bool {
        matches!(self, Self::Rtr | Self::Rts | Self::Sqd | Self::Sqe)
    }

    /// Whether packets of the peer are processed, and nobody waits for the first of them to come.
    #[must_use]
    pub(crate) const fn is_established(self) -> bool {
        matches!(self, Self::Rts | Self::Sqd | Self::Sqe)
    }

    /// Whether a send request that has not begun may begin.
    #[must_use]
    pub const fn starts_sends(self) -> bool {
        matches!(self, Self::Rts)
    }

    /// Whether a send request that has begun goes on: new packets of it, retransmissions, timers.
    #[must_use]
    pub const fn continues_sends(self) -> bool {
        matches!(self, Self::Rts | Self::Sqd)
    }

    /// Whether queued send requests complete with WR_FLUSH_ERR.
    #[must_use]
    pub const fn flushes_sends(self) -> bool {
        matches!(self, Self::Sqe | Self::Err)
    }

    /// Whether queued receive requests complete with WR_FLUSH_ERR.
    #[must_use]
    pub const fn flushes_recvs(self) -> bool {
        matches!(self, Self::Err)
    }
}
