//! Leaving: what others still wait for goes out before a device closes (protocol.md 1.14).

use super::{Device, Inner, thread_devices};
use crate::cm::Service;
use crate::driver::PollBackoff;
use crate::shared::Shared;
use core::time::Duration;
use datapath::engine::Turn;
use std::sync::{Arc, PoisonError};
use std::thread;
use std::time::Instant;

/// Between two looks at an engine that a thread drives, at least. A look keeps the engine from its
/// work.
const LOOK_AGAIN: Duration = Duration::from_micros(100);
/// The rest after a look is as many times as long as the look took: with many queue pairs that is
/// long.
const LOOK_SHARE: u32 = 10;

/// How a call of [`Device::drain`] ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Drained {
    /// Nobody waits for anything from this device any more.
    Everything,
    /// The link is down: nobody is there to take anything.
    LinkDown,
    /// The time was over before.
    Late(Owed),
}

/// What a device still owes to its peers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Owed {
    /// Connections by address whose end the peer may not know: it has not answered a disconnect, or
    /// may ask again because our answer was lost.
    pub connections: usize,
    /// Requests that are to be sent, acknowledgements and responses.
    pub engine: bool,
    /// Frames that the port, or the peer's end of a shared ring, has not taken.
    pub frames: usize,
}

impl Owed {
    /// Returns `true` if nothing is owed.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

impl Device {
    /// The longest time that the last object of a device takes to go while others wait for what it
    /// sends: see [`Device::drain`]. The end of a connection by address goes on answering its peer
    /// for this long after its last answer.
    pub const DRAIN_LIMIT: Duration = Duration::from_millis(250);

    /// Waits, `limit` at most, until a process that ends would leave nobody behind who waits for
    /// it: what was posted and may be sent is sent, acknowledgements are, the responses to READs
    /// and atomics have arrived, and the peer has taken all frames out of memory that both share.
    /// If connections by address have ended, their peers know; until then each repeated disconnect
    /// is answered. A peer that does not say that it knows (one that is not SRNIC) is waited for
    /// [`Device::DRAIN_LIMIT`].
    ///
    /// The last object of a device to go does so, too, with [`Device::DRAIN_LIMIT`]: mostly this
    /// takes a round trip, and no time if nothing is owed or the link is down. It runs the other
    /// devices without a thread that this thread has opened, too: nobody else could, and they may
    /// be whom it waits for. Call it before [`std::process::exit`], which drops nothing, or for
    /// another limit.
    ///
    /// It does not wait for acknowledgements of what this end has sent: completions tell of those.
    ///
    /// ```
    /// use std::time::Duration;
    /// use verbs_api::{Device, Drained};
    ///
    /// # fn main() -> Result<(), verbs_api::Error> {
    /// let device = Device::open("sim:drain")?;
    /// assert_eq!(device.drain(Duration::from_secs(1)), Drained::Everything);
    /// # Ok(()) }
    /// ```
    pub fn drain(&self, limit: Duration) -> Drained {
        let service = self.inner.connections.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let is_polled = self.inner.driver.is_polled();
        let turn = || is_polled.then(|| is_busy(self.progress()));
        drain(&self.inner.shared, service.as_deref(), limit, turn)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if self.shared.is_forked() {
            return self.abandon();
        }
        let died = self.thread.take().is_some_and(|thread| !thread.end());
        // A second panic would abort the process, and an engine that died in the middle of a turn
        // may bring one.
        if !died && !thread::panicking() {
            let service = self.connections.get_mut().unwrap_or_else(PoisonError::into_inner).take();
            let shared = &self.shared;
            let turn = || Some(is_busy(shared.try_turn()) | thread_devices::turn_others(shared));
            drain(shared, service.as_deref(), Device::DRAIN_LIMIT, turn);
        }
        crate::trace::closed(self.ip);
    }
}

impl Inner {
    /// Leaves all to the process that opened it: its threads, its sockets, and the engine with its
    /// port.
    fn abandon(&mut self) {
        core::mem::forget((self.thread.take(), self.stat.take(), Arc::clone(&self.shared)));
    }
}

fn is_busy(turn: Turn) -> bool {
    turn.received + turn.sent > 0
}

/// Waits until nothing is owed. `turn` makes one turn, and says whether anything came or went;
/// `None`: the engine's thread does.
fn drain(
    shared: &Shared,
    service: Option<&Service>,
    limit: Duration,
    mut turn: impl FnMut() -> Option<bool>,
) -> Drained {
    let start = Instant::now();
    let mut backoff = PollBackoff::new();
    loop {
        let turn = turn();
        let looked = Instant::now();
        let Some(owed) = owed(shared, service) else { return Drained::LinkDown };
        if owed.is_nothing() {
            return Drained::Everything;
        }
        let left = limit.saturating_sub(start.elapsed());
        if left.is_zero() {
            return Drained::Late(owed);
        }
        match turn {
            Some(busy) => backoff.wait_after_poll(shared, busy, left),
            None => thread::sleep(LOOK_AGAIN.max(looked.elapsed() * LOOK_SHARE).min(left)),
        }
    }
}

/// What the device owes now; `None` if there is no link.
fn owed(shared: &Shared, service: Option<&Service>) -> Option<Owed> {
    let connections = service.map_or(0, |service| service.owes(shared));
    // Acknowledgements that are owed go out with it.
    let mut nic = shared.call()?;
    if !nic.link_up() {
        return None;
    }
    // One may be there if the driver does not tell.
    let frames = nic.tx_waiting().unwrap_or(1);
    Some(Owed { connections, engine: nic.owes(), frames })
}
