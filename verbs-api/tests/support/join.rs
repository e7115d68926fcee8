//! Two prepared queue pairs become one connection.

use verbs_api::{PreparedQueuePair, QueuePair};

/// Each is told where the other is.
#[track_caller]
pub fn join([a, b]: [PreparedQueuePair; 2]) -> [QueuePair; 2] {
    let (to_a, to_b) = (a.endpoint(), b.endpoint());
    [a.connect(&to_b).expect("connected"), b.connect(&to_a).expect("connected")]
}
