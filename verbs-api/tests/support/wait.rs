//! Waiting for what engines do.

use std::time::{Duration, Instant};
use verbs_api::{Completion, CompletionQueue, Device};

/// Far longer than anything here takes, on a busy machine too.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// What `look` finds in the end; it drives who must run meanwhile.
#[track_caller]
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "{what}: not within a minute");
    }
}

/// The next completion; the other end is driven meanwhile.
#[track_caller]
pub fn completion(cq: &mut CompletionQueue, other: &Device) -> Completion {
    until("a completion", || {
        let found = cq.poll();
        if found.is_none() {
            other.progress();
        }
        found
    })
}
