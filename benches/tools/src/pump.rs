//! Waiting, the only way there is here: running the engine, where there is one.

use crate::error::{Error, Result};
use crate::interrupt;
use crate::notice::Notice;
use std::thread::{sleep, yield_now};
use std::time::{Duration, Instant};
use verbs_api::{Device, LinkDown};

/// How long the peer may take for what it does at once when it is there.
pub const PEER_WAIT: Duration = Duration::from_secs(60);
/// Polls in a row that did nothing before the processor is offered to others: the peer may need
/// this very one. Long enough (some 30 us) that no round trip pays for it.
const IDLE_POLLS: u32 = 1024;
/// Turns of the engine between two looks at what is waited for: most looks are system calls.
const LOOK_INTERVAL: u32 = 64;

/// How long nothing has happened when a wait begins to rest between its looks: long enough that no
/// message of a running test ever finds it asleep.
const REST_AFTER: Duration = Duration::from_millis(100);
/// A rest, unless something comes before.
const REST: Duration = Duration::from_millis(5);
/// A rest of what cannot tell when something comes.
const BLIND_REST: Duration = Duration::from_millis(1);

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

    /// Sleeps until there may be something to do, some milliseconds at most.
    fn rest(&self) {
        sleep(BLIND_REST);
    }

    /// Why no frames can pass, if it moves any and they cannot.
    fn link_down(&self) -> Option<String> {
        None
    }

    /// An error once nothing can come of waiting any more.
    ///
    /// # Errors
    /// [`Error::Removed`].
    fn check(&self) -> Result<()> {
        Ok(())
    }
}

impl Drive for Device {
    fn drive(&self) -> bool {
        let turn = self.progress();
        turn.received + turn.sent > 0
    }

    fn rest(&self) {
        Self::rest(self, REST);
    }

    fn link_down(&self) -> Option<String> {
        Self::link_down(self).map(|why| why.to_string())
    }

    fn check(&self) -> Result<()> {
        match Self::link_down(self) {
            Some(LinkDown::Removed(why)) => Err(Error::Removed(why)),
            _ => Ok(()),
        }
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

/// Drives the engine until `ready` gives a value; `what` does not happen if that takes longer than
/// [`PEER_WAIT`].
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

/// Waits until `ready` gives something, for a limit or without one. What it waits for is said on
/// standard error if that takes long ([`Notice`]), and once nothing happens it rests between its
/// looks.
///
/// # Errors
/// As [`wait_for`].
pub fn wait_until<T>(
    engine: &impl Drive,
    what: &'static str,
    limit: Option<Duration>,
    ready: impl FnMut() -> Result<Option<T>>,
) -> Result<T> {
    wait_past(engine, what, limit, || engine.link_down(), ready)
}

/// Waits as [`wait_until`] does, where `obstacle` says what is in the way, if it is known.
///
/// # Errors
/// As [`wait_for`].
pub(crate) fn wait_past<T>(
    engine: &impl Drive,
    what: &'static str,
    limit: Option<Duration>,
    obstacle: impl Fn() -> Option<String>,
    mut ready: impl FnMut() -> Result<Option<T>>,
) -> Result<T> {
    let start = Instant::now();
    let (mut patience, mut notice, mut active_at) = (Patience::default(), Notice::new(), start);
    loop {
        interrupt::check()?;
        if let Some(value) = ready()? {
            return Ok(value);
        }
        if let Some(limit) = limit.filter(|limit| start.elapsed() > *limit) {
            return Err(Error::Late(what, limit.as_secs()));
        }
        engine.check()?;
        notice.look(what, &obstacle);
        let mut is_active = false;
        for _ in 0..LOOK_INTERVAL {
            let did_something = engine.drive();
            is_active |= did_something;
            patience.polled(did_something);
        }
        if is_active {
            active_at = Instant::now();
        } else if active_at.elapsed() > REST_AFTER {
            engine.rest();
        }
    }
}
