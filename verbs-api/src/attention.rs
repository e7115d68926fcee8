//! When somebody is to be called who has work beside the engine's turns.

use datapath::time::Time;
use std::sync::atomic::{AtomicU64, Ordering};

/// A time of the engine's clock from which on somebody wants to be called. Asking costs one relaxed load.
///
/// What there is to do is published before it is wanted, and looked for after it was taken: either it is seen, or it is wanted
/// again.
pub(crate) struct Attention(AtomicU64);

impl Attention {
    /// Nobody does.
    pub const fn never() -> Self {
        Self(AtomicU64::new(Time::NEVER.0))
    }

    /// At once.
    pub fn want_now(&self) {
        self.0.store(0, Ordering::Release);
    }

    /// At `time`, if not before.
    pub fn want_by(&self, time: Time) {
        self.0.fetch_min(time.0, Ordering::Relaxed);
    }

    /// What was wanted is about to be done. To be called before looking for work: what comes later is wanted again.
    pub fn take(&self) {
        self.0.swap(Time::NEVER.0, Ordering::AcqRel);
    }

    /// Whether the time has come.
    #[inline]
    pub fn is_due(&self, now: Time) -> bool {
        now.0 >= self.0.load(Ordering::Relaxed)
    }

    /// The time, if there is one.
    pub fn when(&self) -> Option<Time> {
        let time = Time(self.0.load(Ordering::Relaxed));
        (time != Time::NEVER).then_some(time)
    }
}
