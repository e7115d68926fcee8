//! The transitions, declared.
//!
//! Masks are those of verbs without alternate paths, which RoCE lacks. Two rows follow protocol.md
//! 1.9 rather than Linux: ERR is reached from RESET too, and RC, which never enters SQE, cannot
//! leave it for RTS. The attributes of our own (wire mode, recovery, order of WRITEs, congestion)
//! are fixed at INIT to RTR, where the responder's streams are made; only the scheduling attributes
//! and the keepalive may change later, as the rate limit of verbs does.

use crate::qp::attr::QpAttrMask;
use crate::qp_state::{QpState, QpType};
use QpState::{Err, Init, Reset, Rtr, Rts, Sqd, Sqe};
use QpType::{Rc, Uc, Ud};

/// One row of the state machine.
#[derive(Clone, Copy, Debug)]
pub struct TransitionRule {
    /// The types it holds for.
    pub types: &'static [QpType],
    /// The states it starts from.
    pub from: &'static [QpState],
    /// The state it leads to; if that is where it starts, attributes change within the state.
    pub to: QpState,
    /// Attributes that must be set, besides STATE.
    pub required: QpAttrMask,
    /// Attributes that may be set besides.
    pub optional: QpAttrMask,
}

impl TransitionRule {
    /// The row of that transition, if there is one.
    #[must_use]
    pub fn find(qp_type: QpType, from: QpState, to: QpState) -> Option<&'static Self> {
        TRANSITIONS
            .iter()
            .find(|rule| rule.to == to && rule.from.contains(&from) && rule.types.contains(&qp_type))
    }

    /// All attributes that a queue pair of that type may be given on its way from `from` to `to`,
    /// for a program that has decided all of them; STATE is among them. CUR_STATE is not: it states
    /// what the program believes. Just STATE if there is no such transition.
    #[must_use]
    pub fn attributes(qp_type: QpType, from: QpState, to: QpState) -> QpAttrMask {
        Self::find(qp_type, from, to)
            .map_or(QpAttrMask::STATE, |rule| rule.allowed().difference(QpAttrMask::CUR_STATE))
    }

    /// All attributes that must be set: a mask that changes the state holds STATE.
    #[must_use]
    pub fn required(&self, from: QpState, to: QpState) -> QpAttrMask {
        if from == to { self.required } else { self.required | QpAttrMask::STATE }
    }

    /// All attributes that may be set.
    #[must_use]
    pub const fn allowed(&self) -> QpAttrMask {
        self.required.union(self.optional).union(QpAttrMask::STATE)
    }
}

/// `mask!(AV | PATH_MTU)` is the mask of these attributes.
macro_rules! mask {
    ($($name:ident)|*) => { QpAttrMask::empty()$(.union(QpAttrMask::$name))* };
}

const fn row(
    types: &'static [QpType],
    from: &'static [QpState],
    to: QpState,
    required: QpAttrMask,
    optional: QpAttrMask,
) -> TransitionRule {
    TransitionRule { types, from, to, required, optional }
}

const ANY_TYPE: &[QpType] = &QpType::ALL;
const ANY_STATE: &[QpState] = &QpState::ALL;

/// Every transition there is. No two rows hold for one type, start and end.
pub const TRANSITIONS: &[TransitionRule] = &[
    row(ANY_TYPE, ANY_STATE, Reset, mask!(), mask!()),
    row(ANY_TYPE, ANY_STATE, Err, mask!(), mask!()),
    row(&[Rc, Uc], &[Reset], Init, mask!(PKEY_INDEX | PORT | ACCESS_FLAGS), mask!()),
    row(&[Ud], &[Reset], Init, mask!(PKEY_INDEX | PORT | QKEY), mask!()),
    row(&[Rc, Uc], &[Init], Init, mask!(), mask!(PKEY_INDEX | PORT | ACCESS_FLAGS)),
    row(&[Ud], &[Init], Init, mask!(), mask!(PKEY_INDEX | PORT | QKEY)),
    row(
        &[Rc],
        &[Init],
        Rtr,
        mask!(AV | PATH_MTU | DEST_QPN | RQ_PSN | MAX_DEST_RD_ATOMIC | MIN_RNR_TIMER),
        mask!(ACCESS_FLAGS | PKEY_INDEX | WIRE_MODE | RECOVERY | WRITE_ORDER | CONGESTION | SCHEDULING),
    ),
    row(&[Uc], &[Init], Rtr, mask!(AV | PATH_MTU | DEST_QPN | RQ_PSN), mask!(ACCESS_FLAGS | PKEY_INDEX)),
    row(&[Ud], &[Init], Rtr, mask!(), mask!(PKEY_INDEX | QKEY)),
    row(
        &[Rc],
        &[Rtr],
        Rts,
        mask!(TIMEOUT | RETRY_CNT | RNR_RETRY | SQ_PSN | MAX_QP_RD_ATOMIC),
        mask!(CUR_STATE | ACCESS_FLAGS | MIN_RNR_TIMER | SCHEDULING | KEEPALIVE),
    ),
    row(&[Uc], &[Rtr], Rts, mask!(SQ_PSN), mask!(CUR_STATE | ACCESS_FLAGS)),
    row(&[Ud], &[Rtr], Rts, mask!(SQ_PSN), mask!(CUR_STATE | QKEY)),
    row(
        &[Rc],
        &[Rts, Sqd],
        Rts,
        mask!(),
        mask!(CUR_STATE | ACCESS_FLAGS | MIN_RNR_TIMER | SCHEDULING | KEEPALIVE),
    ),
    row(&[Uc], &[Rts, Sqd, Sqe], Rts, mask!(), mask!(CUR_STATE | ACCESS_FLAGS)),
    row(&[Ud], &[Rts, Sqd, Sqe], Rts, mask!(), mask!(CUR_STATE | QKEY)),
    row(ANY_TYPE, &[Rts], Sqd, mask!(), mask!(EN_SQD_ASYNC_NOTIFY)),
    row(
        &[Rc],
        &[Sqd],
        Sqd,
        mask!(),
        mask!(
            PORT | AV
                | TIMEOUT
                | RETRY_CNT
                | RNR_RETRY
                | MAX_QP_RD_ATOMIC
                | MAX_DEST_RD_ATOMIC
                | ACCESS_FLAGS
                | PKEY_INDEX
                | MIN_RNR_TIMER
                | KEEPALIVE
        ),
    ),
    row(&[Uc], &[Sqd], Sqd, mask!(), mask!(AV | ACCESS_FLAGS | PKEY_INDEX)),
    row(&[Ud], &[Sqd], Sqd, mask!(), mask!(PKEY_INDEX | QKEY)),
];
