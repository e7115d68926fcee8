//! What goes into a TxStream with an acknowledgement, and what comes out.

use crate::stream::Watchdog;
use crate::time::Time;
use sr_recovery::Record;
use wire::{Meta, Psn};

/// PSN_OFFSET in the META of a keepalive probe, by which its answer is known. Packets of a message
/// shorter than 65,536 packets have others; what is sent twice of a longer one may be taken for a
/// probe, and teaches nothing then.
pub(crate) const KEEPALIVE_OFFSET: u16 = u16::MAX;

/// What an acknowledgement says about a stream.
#[derive(Clone, Copy, Debug)]
pub struct AckInfo {
    /// Everything below is acknowledged (one past the cumulative PSN).
    pub next: Psn,
    /// A packet that arrived out of order.
    pub sack: Option<Psn>,
    /// More of them: bit i stands for `bitmap_base + i`.
    pub bitmap: u64,
    /// PSN of the bitmap's bit 0.
    pub bitmap_base: Psn,
    /// NACK without SACK: resend everything from `next`.
    pub resend_all: bool,
    /// The packet that triggered it was a duplicate.
    pub duplicate: bool,
    /// META of the packet that triggered it, if it says so.
    pub echo: Option<Meta>,
}

impl AckInfo {
    /// It says more than how far everything arrived.
    #[inline]
    #[must_use]
    pub const fn is_special(&self) -> bool {
        self.sack.is_some() || self.resend_all || self.duplicate
    }

    /// It answers a keepalive probe, which is a duplicate by design.
    pub(super) fn answers_keepalive(&self) -> bool {
        self.echo.is_some_and(|meta| meta.offset == KEEPALIVE_OFFSET)
    }

    /// Tells the stream's timers what it says about them.
    #[cold]
    #[inline(never)]
    pub fn teach(self, watchdog: &mut Watchdog) {
        if self.sack.is_some() || self.resend_all {
            watchdog.something_is_missing();
        } else if !self.answers_keepalive() {
            watchdog.received_twice();
        }
    }
}

/// What an acknowledgement did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AckEffect {
    /// Packets newly acknowledged.
    pub acked: u32,
    /// A round trip ended: when its packet was sent.
    pub rtt_sent: Option<Time>,
    /// No probe was sent meanwhile that the end may be the answer to: the time is that of the path.
    pub rtt_exact: bool,
    /// For the slow path.
    pub record: Option<Record>,
    /// Go-back-N learned of a loss. (Selective repeat learns of it from the slow path.)
    pub loss: bool,
}

/// An acknowledgement that cannot be of this stream's present.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AckRefused {
    /// It acknowledges less than an earlier one did.
    Stale,
    /// It acknowledges what was never sent.
    Beyond,
}
