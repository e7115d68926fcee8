//! Waiting, the only way there is here: running the engine.

use crate::channel::Channel;
use crate::error::{Error, Result};
use crate::interrupt;
use std::thread::yield_now;
use std::time::{Duration, Instant};
use verbs_api::{Completion, CompletionQueue, Device, WcStatus};

/// How long the peer may take for what it does at once when it is there.
pub const PEER_WAIT: Duration = Duration::from_secs(60);
/// Polls without a completion before the processor is offered to others: the peer may need this very one.
const IDLE_POLLS: u32 = 64;
/// Polls between two looks at the side channel.
const CHANNEL_INTERVAL: u32 = 1024;

/// Runs the device's engine until `ready` gives a value; `what` does not happen if that takes longer than
/// [`PEER_WAIT`].
pub fn wait_for<T>(
    device: &Device,
    what: &'static str,
    mut ready: impl FnMut() -> Result<Option<T>>,
) -> Result<T> {
    let deadline = Instant::now() + PEER_WAIT;
    loop {
        device.progress();
        interrupt::check()?;
        if let Some(value) = ready()? {
            return Ok(value);
        }
        if Instant::now() > deadline {
            return Err(Error::Late(what, PEER_WAIT.as_secs()));
        }
        yield_now();
    }
}

/// Completions of a queue, and what else must be seen while waiting for them.
pub struct Completions<'a> {
    cq: CompletionQueue,
    channel: &'a mut Channel,
    /// Polls so far.
    polls: u32,
    /// Polls since the last completion.
    idle: u32,
}

impl<'a> Completions<'a> {
    /// Polls `cq`, and looks at `channel` in between for a peer that failed or left.
    pub fn new(cq: CompletionQueue, channel: &'a mut Channel) -> Self {
        Self { cq, channel, polls: 0, idle: 0 }
    }

    /// The next completion, which must be a success; `what` names the request in the error.
    pub fn next(&mut self, what: &'static str) -> Result<Completion> {
        loop {
            if let Some(completion) = self.cq.poll() {
                self.idle = 0;
                return match completion.status {
                    WcStatus::Success => Ok(completion),
                    status => Err(Error::Completion { what, status }),
                };
            }
            self.idle += 1;
            self.polls = self.polls.wrapping_add(1);
            if self.polls.is_multiple_of(CHANNEL_INTERVAL) {
                interrupt::check()?;
                self.channel.check()?;
            }
            if self.idle > IDLE_POLLS {
                yield_now();
            }
        }
    }
}
