//! The queue-pair state machine (protocol.md 1.9): which transition needs and takes which
//! attributes.

mod table;
#[cfg(test)]
mod tests;

pub use table::{TRANSITIONS, TransitionRule};

use super::attr::QpAttrMask;
use crate::qp_state::{QpState, QpType};
use core::fmt;

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

/// Checks that a queue pair of type `qp_type` may go from `from` to `to` with the attributes that
/// `mask` names: all that are required, none that is not allowed. Where `from` equals `to`,
/// attributes change within a state.
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
