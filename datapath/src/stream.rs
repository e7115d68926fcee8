//! The reliable packet streams of protocol.md 2.4: one [`TxStream`] and one [`RxStream`] type,
//! whatever they carry.

mod recovery_policy;
mod retry_queue;
mod rtt;
mod rx;
mod sequence;
mod slots;
mod tx;
mod watchdog;

pub use recovery_policy::RecoveryPolicy;
pub use retry_queue::RetryQueue;
pub use rtt::{RtoConfig, RttEstimator};
pub use rx::{Advanced, Arrival, RxStream};
pub use sequence::{SEQUENCE_LIMIT, sequence_window};
pub use slots::{
    CompletionSlot, CompletionSlots, Deferred, Operation, PARKED_BYTES_MAX, ParkedWrite, ResponseRequest,
    SlotKind, offset_is,
};
pub(crate) use tx::KEEPALIVE_OFFSET;
pub use tx::{AckEffect, AckInfo, AckRefused, TxRecovery, TxStream};
pub use watchdog::{Verdict, Watchdog, WatchdogConfig};

#[cfg(test)]
mod tests;
