mod receiver;
mod retry_queue;
mod sender;
mod sender_losses;
mod slots;
mod timers;
mod trials;

use sr_recovery::{SlowPath, SlowPathConfig, StreamId};
use wire::Psn;

const STREAM: StreamId = StreamId { qp: 0, response: false };
/// First PSN: everything crosses the wrap.
const START: u32 = 0xFF_FFF0;

/// The PSN `offset` packets after the first.
fn psn(offset: u32) -> Psn {
    Psn::new(START).add(offset)
}

fn slow_path() -> SlowPath {
    SlowPath::new(SlowPathConfig { max_streams: 2, window_max: 512, contexts: 2 })
}
