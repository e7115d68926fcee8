//! Completions as a tool wants them: all successes, with an eye on the peer meanwhile.

use crate::channel::Channel;
use crate::error::{Error, Result};
use crate::interrupt;
use crate::pump::Patience;
use verbs_api::{Completion, CompletionQueue, WcStatus};

/// Polls for completions between two looks at the side channel.
const CHANNEL_INTERVAL: u32 = 1024;

/// Completions of a queue, and what else must be seen while waiting for them.
pub struct Completions<'a> {
    cq: &'a mut CompletionQueue,
    channel: &'a mut Channel,
    /// Polls so far.
    polls: u32,
    patience: Patience,
}

impl<'a> Completions<'a> {
    /// Polls `cq`, and looks at `channel` in between for a peer that failed or left.
    pub fn new(cq: &'a mut CompletionQueue, channel: &'a mut Channel) -> Self {
        Self { cq, channel, polls: 0, patience: Patience::default() }
    }

    /// The next completion, which must be a success; `what` names the request in the error.
    ///
    /// # Errors
    /// [`Error::Completion`]; [`Error::Interrupted`], and those of [`Channel::check`].
    pub fn next(&mut self, what: &'static str) -> Result<Completion> {
        let mut one = [None];
        loop {
            self.poll_into(what, &mut one)?;
            if let Some(completion) = one[0] {
                return Ok(completion);
            }
        }
    }

    /// Fills `out` from its start with completions, all of which must be successes, and returns how
    /// many. Does not wait, but lets others have the processor if there was nothing for a while.
    ///
    /// # Errors
    /// As [`Completions::next`].
    pub fn poll_into(&mut self, what: &'static str, out: &mut [Option<Completion>]) -> Result<usize> {
        let count = self.cq.poll_into(out);
        self.polls = self.polls.wrapping_add(1);
        if self.polls.is_multiple_of(CHANNEL_INTERVAL) {
            interrupt::check()?;
            self.channel.check()?;
        }
        if let Some(failed) = out[..count].iter().flatten().find(|done| done.status != WcStatus::Success) {
            let error = Error::Completion { what, status: failed.status };
            // A peer that fails may end our queue pair before it has said why.
            let ended = failed.status == WcStatus::WrFlushErr;
            return Err(if ended { self.channel.reason(error) } else { error });
        }
        self.patience.polled(count > 0);
        Ok(count)
    }

    /// Returns `true` if the peer said something, as of the last look at the side channel.
    #[must_use]
    pub fn peer_spoke(&self) -> bool {
        self.channel.has_line()
    }
}
