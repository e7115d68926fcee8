//! The thread that runs an engine.

use super::idle::{Backoff, Idle};
use crate::error::Error;
use crate::shared::{Held, Shared};
use datapath::engine::Turn;
use datapath::time::Time;
use std::io;
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};

/// A running thread; it ends when this is dropped.
pub(crate) struct EngineThread {
    shared: Arc<Shared>,
    handle: Option<JoinHandle<()>>,
}

impl EngineThread {
    /// Starts a thread that runs `drive`, on `cpu` if that is given.
    pub fn start(shared: &Arc<Shared>, cpu: Option<usize>, drive: fn(&Shared)) -> Result<Self, Error> {
        let fails = |doing| move |source| Error::Thread { doing, source };
        shared.doorbells().sleep().enable().map_err(fails("sleep"))?;
        let (ready, started) = mpsc::sync_channel(1);
        let handle = thread::Builder::new().name("srnic-engine".to_owned());
        let mine = Arc::clone(shared);
        let run = move || {
            let pinned = cpu.map_or(Ok(()), pin);
            let runs = pinned.is_ok();
            let heard = ready.send(pinned).is_ok();
            if runs && heard {
                let ending = Ending(&mine);
                drive(&mine);
                drop(ending);
            }
        };
        let handle = handle.spawn(run).map_err(fails("be started"))?;
        let thread = Self { shared: Arc::clone(shared), handle: Some(handle) };
        let pinned = started.recv().unwrap_or_else(|_| Err(io::Error::other("it ended at once")));
        pinned.map_err(fails("run on the processor asked for"))?;
        Ok(thread)
    }

    /// Ends its wait for the next look, if it drives the engine now and then only.
    pub fn unpark(&self) {
        if let Some(handle) = &self.handle {
            handle.thread().unpark();
        }
    }

    /// Ends it, and waits until it has; false if it had ended by a panic.
    pub fn end(mut self) -> bool {
        self.stop()
    }

    fn stop(&mut self) -> bool {
        self.shared.stop();
        self.unpark();
        match self.handle.take() {
            // What a waker drops may be the last of the device: then this is the thread itself,
            // which ends by itself.
            Some(handle) if handle.thread().id() != thread::current().id() => handle.join().is_ok(),
            _ => true,
        }
    }
}

impl Drop for EngineThread {
    fn drop(&mut self) {
        // A panic of it has shown itself; there is nothing to add.
        self.stop();
    }
}

/// Tells the application when the thread ends by a panic.
struct Ending<'a>(&'a Shared);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.engine_died();
        }
    }
}

/// Binds the calling thread to one processor.
fn pin(cpu: usize) -> io::Result<()> {
    use rustix::thread::{CpuSet, sched_setaffinity};
    if cpu >= CpuSet::MAX_CPU {
        return Err(io::Error::other(format!("there is no processor {cpu}")));
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    Ok(sched_setaffinity(None, &set)?)
}

/// Turn after turn, until told to stop. The engine stays locked meanwhile, but for calls of the
/// control path and sleep.
pub(crate) fn drive(shared: &Shared) {
    let mut held = shared.hold();
    let mut idle = Idle::new(held.clock.now());
    while !shared.stopping() {
        (held, _) = step(shared, held, &mut idle);
    }
}

/// One turn, and what else is due.
#[inline]
pub(super) fn turn<'a>(shared: &'a Shared, mut held: Held<'a>) -> (Held<'a>, Turn, Time) {
    if shared.is_wanted() {
        held = shared.give_way(held);
    }
    let now = held.clock.now();
    let turn = held.nic.turn(now).turn;
    if shared.wake_deadline().is_due(now) {
        held = shared.attend_without(held);
    }
    (held, turn, now)
}

/// When there is something to do though nothing comes.
#[inline]
pub(super) fn next_deadline(shared: &Shared, held: &Held<'_>) -> Option<Time> {
    [held.nic.next_deadline(), shared.wake_deadline().get()].into_iter().flatten().min()
}

/// One turn; with nothing to do, what is to be done then.
#[inline]
pub(super) fn step<'a>(shared: &'a Shared, held: Held<'a>, idle: &mut Idle) -> (Held<'a>, Turn) {
    let (held, turn, now) = turn(shared, held);
    if turn.received > 0 || turn.sent > 0 {
        idle.busy(now);
        return (held, turn);
    }
    let deadline = next_deadline(shared, &held);
    match idle.backoff(now, deadline) {
        Backoff::Spin => core::hint::spin_loop(),
        Backoff::Yield => idle.yield_now(),
        Backoff::Sleep(usual) => return (shared.sleep(held, usual, deadline), turn),
    }
    (held, turn)
}
