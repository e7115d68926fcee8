//! The queue-pair state machine (protocol.md 1.9): which transition needs and takes which attributes, and what each
//! state permits.

mod table;
#[cfg(test)]
mod tests;

pub use table::{TRANSITIONS, TransitionRule};

use super::attr::QpAttrMask;
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

    /// Whether packets of the peer are processed and answered; else they are dropped silently. (After an error NAK
    /// the SRNIC responder keeps answering in ERR: protocol.md 2.4.)
    #[must_use]
    pub const fn receives(self) -> bool {
        matches!(self, Self::Rtr | Self::Rts | Self::Sqd | Self::Sqe)
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

/// Why a queue pair may not make a transition; nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TransitionError {
    /// There is no such transition.
    #[error("{qp_type} QP cannot go from {from} to {to}; from {from} it can go to {}", Targets(*.qp_type, *.from))]
    NoSuchTransition {
        /// The queue pair's type.
        qp_type: QpType,
        /// Its state.
        from: QpState,
        /// The state it was to go to.
        to: QpState,
    },
    /// The mask does not fit the transition.
    #[error("{qp_type} QP {from} to {to}: {}", Remedy { missing: *.missing, disallowed: *.disallowed })]
    Attributes {
        /// The queue pair's type.
        qp_type: QpType,
        /// Its state.
        from: QpState,
        /// The state it was to go to.
        to: QpState,
        /// Required attributes that the mask lacks.
        missing: QpAttrMask,
        /// Attributes of the mask that this transition does not take.
        disallowed: QpAttrMask,
    },
}

/// Checks that a queue pair of type `qp_type` may go from `from` to `to` with the attributes that `mask` names: all
/// that are required, none that is not allowed. Where `from` equals `to`, attributes change within a state.
///
/// # Errors
/// [`TransitionError`] says what is missing, what is too much and what to do.
pub fn check_transition(
    qp_type: QpType,
    from: QpState,
    to: QpState,
    mask: QpAttrMask,
) -> Result<(), TransitionError> {
    let Some(rule) = TransitionRule::find(qp_type, from, to) else {
        return Err(TransitionError::NoSuchTransition { qp_type, from, to });
    };
    let missing = rule.required(from, to).difference(mask);
    let disallowed = mask.difference(rule.allowed());
    if missing.is_empty() && disallowed.is_empty() {
        Ok(())
    } else {
        Err(TransitionError::Attributes { qp_type, from, to, missing, disallowed })
    }
}

/// Writes the states that a queue pair can go to.
struct Targets(QpType, QpState);

impl fmt::Display for Targets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for to in QpState::ALL {
            if to != self.1 && TransitionRule::find(self.0, self.1, to).is_some() {
                write!(f, "{separator}{to}")?;
                separator = ", ";
            }
        }
        Ok(())
    }
}

/// Writes what to change about a mask.
struct Remedy {
    missing: QpAttrMask,
    disallowed: QpAttrMask,
}

impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.missing.is_empty() {
            write!(f, "missing {}: set them and add them to the mask", self.missing)?;
        }
        if !self.missing.is_empty() && !self.disallowed.is_empty() {
            f.write_str("; ")?;
        }
        if !self.disallowed.is_empty() {
            write!(f, "not allowed here {}: take them out of the mask", self.disallowed)?;
        }
        Ok(())
    }
}
