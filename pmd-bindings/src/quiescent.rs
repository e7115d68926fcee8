//! Keeps EAL's interrupt thread away from a port while somebody uses it.
//!
//! # Why
//! memif's driver serves its control socket in EAL's interrupt thread: a peer that connects, closes
//! or dies makes that thread map or unmap the rings, and the driver does not wait for a thread that
//! is in the middle of a burst. The reader of an unmapped ring takes the process down.
//!
//! # How
//! The interrupt thread is *held*: it sits in a callback of ours, hooked to an eventfd that it
//! watches like any other interrupt source, and there waits until another of its sources has
//! something to say (an epoll instance is itself a file that can be polled). Only then is it let
//! go, and only while no poller is inside the [`Gate`]:
//!
//! ```text
//!              another source is ready               every poller is out
//!   Held ───────────────────────────────▶ Closing ───────────────────────▶ Serving
//!    ▲   gate open, thread in poll(2)        gate closed, thread yields       │  gate closed, thread back in EAL's
//!    │                                                                        │  loop: connect, disconnect, accept
//!    └──────────────── our eventfd comes round, no other source is ready ─────┘
//! ```
//!
//! - **Held**: pollers come and go. The thread touches no port.
//! - **Closing**: no poller gets in; those inside finish their burst, which takes microseconds.
//! - **Serving**: nobody is inside, so the thread may do to the rings what it likes. Before it was
//!   let go, it has raised our eventfd again, so that EAL calls us back: after the sources that
//!   were ready, or between two of them. Each call looks again whether another source is ready, and
//!   stays in Serving if so.
//!
//! The interrupt thread is the only one that changes the state, so no transition can race with
//! another. Whatever it does to a port happens in Serving, which excludes the pollers, and whatever
//! *they* do, including starting, stopping and removing ports, happens while it is held or waits
//! for them: two threads are never in memif's driver at once. Nobody waits for the clock, and an
//! idle port costs nothing.
//!
//! EAL does not hand out its epoll instance, so it is found through `/proc/self/fdinfo`: the one
//! that watches our eventfd. EAL makes a new one whenever a source comes or goes, hence the search
//! at every return to Held. Should it not be found, the thread is let go every [`epoll::BLIND_MS`]
//! milliseconds instead, for one round. And should a source stay ready whatever EAL does (a
//! listener without descriptors to accept with), the pollers still get their turn: after
//! [`ROUNDS_MAX`] rounds the gate opens for that time.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

use crate::epoll::{self, Readiness};
use crate::error::{EalError, check};
use crate::ethdev::QUEUES_MAX;
use crate::gate::{Gate, Pass};
use crate::{ffi, unix};

/// Rounds in a row for which the thread is let go. A connection needs six.
const ROUNDS_MAX: u32 = 64;
/// Pollers: one for each queue of each port there can be, and one for what concerns no port.
const POLLERS: usize = ffi::PMD_MAX_PORTS as usize * QUEUES_MAX + 1;
/// The poller index of those who make and remove ports.
const CONTROL: usize = POLLERS - 1;

/// The hold on EAL's interrupt thread. One for the process, because there is one interrupt thread.
#[derive(Debug)]
pub(crate) struct Quiescent {
    gate: Gate<POLLERS>,
    /// Readable when EAL is to call us back.
    recall: OwnedFd,
    /// Where EAL's epoll instance was found last. This and the next belong to the interrupt thread.
    epoll_hint: AtomicI32,
    /// Rounds served since the thread was held last.
    rounds: AtomicU32,
}

static QUIESCENT: OnceLock<Result<Quiescent, EalError>> = OnceLock::new();

impl Quiescent {
    /// Takes hold of the interrupt thread, or returns the hold there is. EAL must run.
    pub(crate) fn hold() -> Result<&'static Self, EalError> {
        let held = QUIESCENT.get_or_init(Self::new).as_ref().map_err(Clone::clone)?;
        static REGISTERED: OnceLock<Result<(), EalError>> = OnceLock::new();
        // Only now, because the callback reads the static.
        REGISTERED.get_or_init(|| held.register()).clone().map(|()| held)
    }

    fn new() -> Result<Self, EalError> {
        let recall = unix::eventfd().map_err(|error| EalError::Quiescent(format!("eventfd: {error}")))?;
        Ok(Self { gate: Gate::closed(), recall, epoll_hint: AtomicI32::new(-1), rounds: AtomicU32::new(0) })
    }

    fn register(&self) -> Result<(), EalError> {
        unix::raise(&self.recall);
        // SAFETY: the descriptor and the callback live as long as the process; the callback takes
        // no argument.
        let ret = unsafe {
            ffi::pmd_interrupt_register(self.recall.as_raw_fd(), Some(on_interrupt), std::ptr::null_mut())
        };
        check(ret)
            .map_err(|errno| EalError::Quiescent(format!("registering an interrupt source: {errno}")))?;
        Ok(())
    }

    /// Lets the poller of queue `queue` of port `port` in, unless the interrupt thread is at work.
    /// One thread at a time for each queue, of which a port has at most [`QUEUES_MAX`].
    #[inline]
    pub(crate) fn try_pass(&self, port: u16, queue: u16) -> Option<Pass<'_>> {
        self.gate.try_pass(usize::from(port) * QUEUES_MAX + usize::from(queue))
    }

    /// Lets the owner of port `port`, and of its first queue, in, when the interrupt thread has
    /// done its work.
    pub(crate) fn pass(&self, port: u16) -> Pass<'_> {
        self.wait(usize::from(port) * QUEUES_MAX)
    }

    /// Lets in who makes or removes a port. One thread at a time.
    pub(crate) fn pass_control(&self) -> Pass<'_> {
        self.wait(CONTROL)
    }

    fn wait(&self, index: usize) -> Pass<'_> {
        loop {
            if let Some(pass) = self.gate.try_pass(index) {
                return pass;
            }
            std::thread::yield_now();
        }
    }

    /// The callback: EAL's interrupt thread is here from the time we hold it until the time we let
    /// it go.
    fn on_interrupt(&self) {
        unix::lower(&self.recall);
        let others = Readiness::find(&self.recall, self.epoll_hint.load(Ordering::Relaxed));
        self.epoll_hint.store(others.descriptor(), Ordering::Relaxed);
        let rounds = self.rounds.load(Ordering::Relaxed);
        if !others.now() {
            others.close_on_exec();
            self.hold_while(|| others.wait());
        } else if rounds >= ROUNDS_MAX {
            self.hold_while(epoll::pause);
        } else {
            self.rounds.store(rounds + 1, Ordering::Relaxed);
        }
        unix::raise(&self.recall);
    }

    fn hold_while(&self, wait: impl FnOnce()) {
        self.rounds.store(0, Ordering::Relaxed);
        self.gate.open();
        wait();
        self.gate.close();
    }
}

extern "C" fn on_interrupt(_: *mut libc::c_void) {
    if let Some(Ok(held)) = QUIESCENT.get() {
        held.on_interrupt();
    }
}
