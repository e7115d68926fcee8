//! Waiting, the only way there is here: running the engine, where there is one.

use crate::error::{Error, Result};
use crate::interrupt;
use std::thread::yield_now;
use std::time::{Duration, Instant};
use verbs_api::Device;

/// How long the peer may take for what it does at once when it is there.
pub const PEER_WAIT: Duration = Duration::from_secs(60);
/// Polls in a row that did nothing before the processor is offered to others: the peer may need this very one. Long enough
/// (some 30 us) that no round trip pays for it.
const IDLE_POLLS: u32 = 1024;
/// Turns of the engine between two looks at what is waited for: most looks are system calls.
const LOOK_INTERVAL: u32 = 64;

/// How long an end stays after it is over: its answer to the peer's leave may not have been taken out of shared memory yet, and
/// without it the peer asks again for many seconds.
const LINGER: Duration = Duration::from_millis(200);

/// Runs the engine a while longer, for a peer that still asks.
pub fn linger(engine: &impl Drive) {
    let since = Instant::now();
    while since.elapsed() < LINGER {
        engine.drive();
        yield_now();
    }
}

/// Spins while something happens, and for a while after; then offers the processor to others.
#[derive(Debug, Default)]
pub struct Patience {
    /// Polls in a row that did nothing.
    idle: u32,
}

impl Patience {
    /// After a poll.
    pub fn polled(&mut self, did_something: bool) {
        self.idle = if did_something { 0 } else { self.idle.saturating_add(1) };
        if self.idle > IDLE_POLLS {
            yield_now();
        }
    }
}

/// What must go on while a tool waits.
pub trait Drive {
    /// Goes on a little; true if there was something to do.
    fn drive(&self) -> bool;
}

impl Drive for Device {
    fn drive(&self) -> bool {
        let turn = self.progress();
        turn.received + turn.sent > 0
    }
}

/// Nothing goes on: frames wait in their ring, bytes in their socket.
#[derive(Clone, Copy, Debug)]
pub struct Nothing;

impl Drive for Nothing {
    fn drive(&self) -> bool {
        false
    }
}

/// Drives the engine until `ready` gives a value; `what` does not happen if that takes longer than [`PEER_WAIT`].
///
/// # Errors
/// [`Error::Late`], [`Error::Interrupted`], and those of `ready`.
pub fn wait_for<T>(
    engine: &impl Drive,
    what: &'static str,
    ready: impl FnMut() -> Result<Option<T>>,
) -> Result<T> {
    wait_until(engine, what, Some(PEER_WAIT), ready)
}

/// The same with another limit, or none.
///
/// # Errors
/// As [`wait_for`].
pub fn wait_until<T>(
    engine: &impl Drive,
    what: &'static str,
    limit: Option<Duration>,
    mut ready: impl FnMut() -> Result<Option<T>>,
) -> Result<T> {
    let start = Instant::now();
    let mut patience = Patience::default();
    loop {
        interrupt::check()?;
        if let Some(value) = ready()? {
            return Ok(value);
        }
        if let Some(limit) = limit.filter(|limit| start.elapsed() > *limit) {
            return Err(Error::Late(what, limit.as_secs()));
        }
        for _ in 0..LOOK_INTERVAL {
            patience.polled(engine.drive());
        }
    }
}
