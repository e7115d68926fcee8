//! The end of a time that a program gives.

use core::time::Duration;
use std::time::Instant;

/// Longer than any program runs.
const FAR: Duration = Duration::from_secs(30 * 365 * 24 * 3600);

/// When this time will have passed, or longer than any program runs from now, if that is sooner.
pub fn after(limit: Duration) -> Instant {
    from(Instant::now(), limit)
}

/// As [`after`], from `begun` on.
pub fn from(begun: Instant, limit: Duration) -> Instant {
    begun + limit.min(FAR)
}
