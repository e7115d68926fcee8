//! The engine of a device, its lock and its clock, as the application's threads and the engine's
//! share them.

use crate::biased_lock::{self, BiasedLock};
use crate::clock::{Clock, Machine, Source as _};
use crate::nic::{Nic, Turned};
use crate::process::Process;
use crate::wake_deadline::WakeDeadline;
#[cfg(feature = "async")]
use crate::wakers::{Place, Wakers};
use core::ops::{Deref, DerefMut};
#[cfg(feature = "async")]
use core::task::Waker;
use core::time::Duration;
use datapath::engine::{AckTiming, EngineConfig, Turn};
use datapath::latency::Probe;
use datapath::port::Interrupt;
use datapath::queue::{Doorbells, HandOver, Handed, SendQueue, SendRequest};
use datapath::time::Time;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
#[cfg(feature = "async")]
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{sleep, yield_now};

/// The longest rest at a port without interrupts.
const REST_MAX: Duration = Duration::from_millis(1);

/// The lock, held. Who drives the engine alone takes it and lets go of it with plain stores.
pub(crate) type Held<'a> = biased_lock::Held<'a, Clocked>;

/// An engine, and its clock. Both are used under the lock, so that no turn's time is before that of
/// an earlier turn.
pub(crate) struct Clocked {
    pub nic: Box<dyn Nic>,
    pub clock: Clock,
}

/// Where stamps of sampled operations go, and the clock that they are of.
struct Stamps {
    probe: Arc<Probe>,
    clock: Machine,
}

impl Stamps {
    fn now(&self) -> Time {
        Time(self.clock.ns())
    }
}

/// Work beside the engine's turns. The driver calls it after a turn once its wake deadline is
/// reached.
pub(crate) trait Attendant: Send + Sync {
    /// Does what is to be done, or nothing if another thread does so now. The engine is not locked.
    fn attend(&self, shared: &Shared);
}

/// An engine that several threads use.
///
/// A call of the control path takes the lock for itself. The engine's thread, if there is one,
/// holds it from turn to turn, and gives way when a caller has shown itself; so does who drives an
/// engine without a thread.
pub(crate) struct Shared {
    clocked: BiasedLock<Clocked>,
    /// The process that the engine is in.
    process: Process,
    /// What the engine was made with.
    config: EngineConfig,
    doorbells: Doorbells,
    /// Callers of the control path that wait for the lock or hold it.
    callers: AtomicU32,
    /// Calls of the control path done, modulo 2^32, and turns of a program's while the thread of a
    /// hybrid device sleeps.
    served: AtomicU32,
    /// Takes the stamps of who posts and polls, if operations are sampled.
    stamps: Option<Stamps>,
    /// When acknowledgements go out.
    acks: AckTiming,
    /// Some wait for the next call. Written under the lock.
    owes_acks: AtomicBool,
    stop: AtomicBool,
    /// Of a hybrid device.
    hand_over: Option<HandOver>,
    /// The time at which the driver must call the attendant.
    wake_deadline: Arc<WakeDeadline>,
    attendant: OnceLock<Arc<dyn Attendant>>,
    /// Tasks that wait for the link. This lock comes before that of the engine.
    #[cfg(feature = "async")]
    awaiting_link: Mutex<Wakers>,
}

impl Shared {
    /// Each call made of the device sends the acknowledgements that the engine held back before.
    pub fn new(nic: Box<dyn Nic>, acks: AckTiming, hand_over: Option<HandOver>) -> Self {
        let clock = Clock::new();
        Self {
            stamps: nic.core().probe().map(|probe| Stamps { probe, clock: clock.machine() }),
            doorbells: nic.core().doorbells().clone(),
            process: Process::this(),
            config: *nic.core().config(),
            clocked: BiasedLock::new(Clocked { nic, clock }),
            callers: AtomicU32::new(0),
            served: AtomicU32::new(0),
            acks,
            owes_acks: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            hand_over,
            wake_deadline: Arc::new(WakeDeadline::never()),
            attendant: OnceLock::new(),
            #[cfg(feature = "async")]
            awaiting_link: Mutex::default(),
        }
    }

    /// When the attendant is to be called.
    pub const fn wake_deadline(&self) -> &Arc<WakeDeadline> {
        &self.wake_deadline
    }

    /// Has `attendant` called from now on; there is one at most.
    pub fn set_attendant(&self, attendant: Arc<dyn Attendant>) {
        // A device has one connection manager, made once.
        let _ = self.attendant.set(attendant);
    }

    /// Calls the attendant, and whoever waits for the link if it is up.
    #[cold]
    pub fn attend(&self) {
        match self.attendant.get() {
            Some(attendant) => attendant.attend(self),
            None => self.wake_deadline.clear(),
        }
        #[cfg(feature = "async")]
        self.wake_if_up();
    }

    #[cfg(feature = "async")]
    fn awaiting_link(&self) -> MutexGuard<'_, Wakers> {
        self.awaiting_link.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns `true` if the link is up; else the future of this place is woken when it is.
    #[cfg(feature = "async")]
    pub fn wake_when_up(&self, place: &mut Place, waker: &Waker) -> bool {
        let mut awaiting = self.awaiting_link();
        let Some(mut nic) = self.call() else { return false };
        if nic.link_up() {
            return true;
        }
        let before = awaiting.insert(place, waker);
        nic.wake_when_link_up(&self.wake_deadline);
        drop(nic);
        // Its task may take either lock.
        drop(awaiting);
        drop(before);
        false
    }

    /// A future that waited for the link is gone.
    #[cfg(feature = "async")]
    pub fn forget_link_waiter(&self, place: Place) {
        let waker = self.awaiting_link().remove(place);
        drop(waker);
    }

    #[cfg(feature = "async")]
    fn wake_if_up(&self) {
        let mut awaiting = self.awaiting_link();
        if awaiting.is_empty() {
            return;
        }
        let Some(mut nic) = self.call() else { return };
        if !nic.link_up() {
            nic.wake_when_link_up(&self.wake_deadline);
            return;
        }
        drop(nic);
        let wakers = awaiting.take();
        // Their tasks may take either lock.
        drop(awaiting);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Attends on the engine's thread, which has the engine and gives it away meanwhile.
    #[cold]
    pub fn attend_without<'a>(&'a self, held: Held<'a>) -> Held<'a> {
        drop(held);
        self.attend();
        self.hold()
    }

    pub const fn doorbells(&self) -> &Doorbells {
        &self.doorbells
    }

    /// Who drives a hybrid device.
    pub const fn hand_over(&self) -> Option<&HandOver> {
        self.hand_over.as_ref()
    }

    /// One turn, if no other thread has the engine or waits for it.
    #[inline]
    pub fn try_turn(&self) -> Turn {
        if let Some(hand_over) = &self.hand_over {
            hand_over.note_poll();
        }
        let Some((turn, now)) = self.attempt(|nic, now| nic.turn(now)) else { return Turn::default() };
        if self.wake_deadline.is_due(now) {
            self.attend();
        }
        turn
    }

    /// The sending half of one, with what `hand_over` posts; false if that was not called.
    #[inline]
    pub fn try_push(&self, hand_over: impl FnOnce() -> Option<Handed>) -> bool {
        self.attempt(|nic, now| nic.push(hand_over(), now)).is_some()
    }

    /// Sends the acknowledgements that a turn left, unless they may wait for a post: who finds a
    /// completion may go away with it.
    #[inline]
    pub fn settle_at_once(&self) {
        if self.acks == AckTiming::AtOnce {
            self.settle();
        }
    }

    /// Sends the acknowledgements that a turn held back.
    #[inline]
    pub fn settle(&self) {
        if self.owes_acks.load(Ordering::Relaxed) {
            self.try_push(|| None);
        }
    }

    #[inline]
    fn attempt(&self, turn: impl FnOnce(&mut dyn Nic, Time) -> Turned) -> Option<(Turn, Time)> {
        if self.is_wanted() || self.is_forked() {
            return None;
        }
        let mut held = self.clocked.try_lock()?;
        let now = held.clock.now();
        let Turned { turn, owes_acks } = turn(&mut *held.nic, now);
        self.owes_acks.store(owes_acks, Ordering::Relaxed);
        let thread_sleeps = self.hand_over.as_ref().is_some_and(HandOver::is_taken);
        drop(held);
        if thread_sleeps {
            self.wake_thread();
        }
        Some((turn, now))
    }

    /// The thread of a hybrid device sleeps while somebody else drives: it is to look what is due
    /// when, and whether to step back.
    #[cold]
    pub fn wake_thread(&self) {
        self.served.fetch_add(1, Ordering::Relaxed);
        self.doorbells.sleep().wake();
    }

    /// A request was staged behind the last one of `queue`; if it is sampled, it was posted now.
    #[inline]
    pub fn note_post(&self, queue: &SendQueue, request: &SendRequest<'_>) {
        if let Some(stamps) = &self.stamps {
            stamps.probe.note_post(queue, request, || stamps.now());
        }
    }

    /// Completions before `head` were taken from a completion queue.
    #[inline]
    pub fn note_poll(&self, cq: u32, head: u32) {
        if let Some(stamps) = &self.stamps {
            stamps.probe.note_poll(cq, head, || stamps.now());
        }
    }

    /// What the engine was made with.
    pub const fn config(&self) -> &EngineConfig {
        &self.config
    }

    /// The engine, for a call of the control path. `None` in a process that was forked: its memory
    /// is a copy there that was made in the middle of anything, and its port belongs to the parent.
    ///
    /// Whatever the call is about to change, peers have had their acknowledgements.
    pub fn call(&self) -> Option<Call<'_>> {
        if self.is_forked() {
            return None;
        }
        self.callers.fetch_add(1, Ordering::Relaxed);
        let mut clocked = self.hold();
        let now = clocked.clock.now();
        clocked.nic.settle(now);
        self.owes_acks.store(false, Ordering::Relaxed);
        Some(Call { clocked, _done: Done(self) })
    }

    /// Returns `true` if the engine is in another process, which forked this one: its lock may be
    /// held here for ever.
    #[inline]
    pub fn is_forked(&self) -> bool {
        !self.process.is_this()
    }

    /// The engine, for its thread.
    ///
    /// A panic in a turn has shown itself in the thread that ran it, and leaves nothing unsafe
    /// behind: the next has it.
    pub fn hold(&self) -> Held<'_> {
        self.clocked.lock()
    }

    /// Returns `true` if a caller waits for the engine.
    #[inline]
    pub fn is_wanted(&self) -> bool {
        self.callers.load(Ordering::Relaxed) > 0
    }

    /// Lets one caller have the engine. The lock alone would not: who lets it go and takes it again
    /// is mostly faster than who waits.
    pub fn give_way<'a>(&'a self, held: Held<'a>) -> Held<'a> {
        let served = self.served.load(Ordering::Relaxed);
        drop(held);
        while self.is_wanted() && self.served.load(Ordering::Relaxed) == served {
            yield_now();
        }
        self.hold()
    }

    /// Lets go of the engine and sleeps until there is work or frames come: for the `usual` time at
    /// most, or until `deadline` where the port has interrupts.
    pub fn sleep<'a>(&'a self, mut held: Held<'a>, usual: Duration, deadline: Option<Time>) -> Held<'a> {
        // Read under the lock: what is done after it may have made work for the engine.
        let served = self.served.load(Ordering::Relaxed);
        let now = held.clock.now();
        let Some(rest) = held.nic.rest() else { return held };
        drop(held);
        let limit = rest.sleep(usual, now, deadline);
        self.doorbells.sleep().sleep(limit, rest.interrupt.as_ref(), || {
            self.doorbells.is_empty() && self.served.load(Ordering::Relaxed) == served && !self.stopping()
        });
        self.hold()
    }

    /// Sleeps until frames come or the engine has something to do, `limit` at most: for who drives
    /// an engine without a thread. A port without interrupts is looked at each millisecond.
    pub fn rest(&self, limit: Duration) {
        if self.is_forked() || self.doorbells.sleep().is_enabled() {
            // The interrupt is for the thread, or for another process.
            return sleep(limit);
        }
        let mut held = self.hold();
        let (now, deadline) = (held.clock.now(), held.nic.next_deadline());
        let limit = deadline.map_or(limit, |at| limit.min(Duration::from_nanos(at.since(now))));
        let rest = held.nic.rest();
        drop(held);
        match rest.and_then(|rest| rest.interrupt) {
            Some(interrupt) => Interrupt::wait_any(&[&interrupt], limit),
            None => sleep(limit.min(REST_MAX)),
        }
    }

    /// Tells the engine's thread to end.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.doorbells.sleep().wake();
    }

    #[inline]
    pub fn stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// The engine's thread has ended by a panic.
    pub fn engine_died(&self) {
        if let Some(mut nic) = self.call() {
            nic.note_death();
        }
    }
}

/// The engine, as a call of the control path has it. When it goes, who hears of it is told what the
/// call brought about, and the engine's thread learns that there may be work.
pub(crate) struct Call<'a> {
    // Dropped in this order: the lock is free before the thread is told.
    clocked: Held<'a>,
    _done: Done<'a>,
}

impl Call<'_> {
    /// The engine's time.
    pub fn now(&mut self) -> Time {
        self.clocked.clock.now()
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.clocked.nic.tell();
    }
}

struct Done<'a>(&'a Shared);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.served.fetch_add(1, Ordering::Relaxed);
        self.0.callers.fetch_sub(1, Ordering::Relaxed);
        self.0.doorbells.sleep().wake();
    }
}

impl Deref for Call<'_> {
    type Target = dyn Nic;

    fn deref(&self) -> &Self::Target {
        &*self.clocked.nic
    }
}

impl DerefMut for Call<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut *self.clocked.nic
    }
}
