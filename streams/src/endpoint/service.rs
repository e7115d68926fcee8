//! Who drives an endpoint: whoever waits for a stream, and a thread while nobody does.

use super::moving;
use super::patience::Patience;
use super::state::State;
use super::waiters::{On, thread_waker};
use crate::config::Config;
use crate::error::Setup;
use crate::protocol::Hello;
use core::time::Duration;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::Instant;
use verbs_api::{CompletionChannel, Device};

/// How long who waits polls before it offers the processor to others between two polls: an answer
/// that comes at once is not waited for.
const SPINNING: Duration = Duration::from_micros(4);
/// Polls between two looks at the clock: some 0.1 us each where nothing comes.
const CLOCK: u32 = 8;
/// Threads that poll at once. More would wait for each other's lock.
const POLLERS: usize = 2;
/// How long the thread leaves the endpoint to those who poll, at most.
const LEAVE: Duration = Duration::from_millis(1);
/// How long it leaves it at first to a thread that has polled since the last look: that will poll
/// again when it has to wait.
const HANDOVER: Duration = Duration::from_micros(50);
/// How long the endpoint's thread sleeps at once; it also looks whether it is to end.
const NAP: Duration = Duration::from_millis(50);
/// How often somebody looks for streams in want of another carrier.
const LOOK: Duration = Duration::from_millis(20);
/// How long memory that nobody uses is kept for whoever may want it next.
const KEEP: Duration = Duration::from_secs(1);
/// How long the last of an endpoint waits for its last bytes to arrive.
const LINGER: Duration = Duration::from_secs(5);

/// What the threads that use an endpoint share.
pub(crate) struct Shared {
    state: Mutex<State>,
    /// Nobody polls any more, or the thread is to end.
    unattended: Condvar,
    /// A stream may be in want of another carrier.
    moves: Condvar,
    channel: CompletionChannel,
}

impl Shared {
    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A call that does not wait.
    pub fn call<T>(&self, call: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.lock();
        let result = call(&mut state);
        wake_without(state);
        result
    }

    /// Waits until a stream may be in want of another carrier.
    pub fn wait_for_moves(&self) {
        let state = self.lock();
        if !state.stopping {
            drop(self.moves.wait_timeout(state, LOOK));
        }
    }

    fn serve(&self) {
        let mut state = self.lock();
        let mut trimmed = Instant::now();
        let (mut polls, mut leave) = (state.polls, HANDOVER);
        while !state.stopping {
            if trimmed.elapsed() >= KEEP {
                trimmed = Instant::now();
                state.pool.trim();
            }
            let is_busy = state.polling > 0 || state.polls != polls && !state.has_dependants();
            polls = state.polls;
            if is_busy {
                leave = if state.polling > 0 { LEAVE } else { leave };
                let waited = self.unattended.wait_timeout(state, leave);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
                leave = LEAVE.min(leave * 2);
                continue;
            }
            leave = HANDOVER;
            // The queue has a channel. What comes after the arming makes an event.
            let _ = state.cq.arm(false);
            state.process();
            wake_without(state);
            // Fails if the system cannot wait; then it is asked again.
            let _ = self.channel.wait(NAP);
            state = self.lock();
        }
    }
}

/// Lets go of the lock, and wakes whom that was held for.
fn wake_without(mut state: MutexGuard<'_, State>) {
    state.feed();
    let wakers = core::mem::take(&mut state.wakers);
    drop(state);
    wakers.into_iter().for_each(core::task::Waker::wake);
}

/// An endpoint that is served. Ends when the last stream, listener or endpoint has gone.
pub(crate) struct Service {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    /// Sees to streams that may go on over another carrier, if there have been some.
    keeper: Mutex<Option<JoinHandle<()>>>,
    device: Device,
    config: Config,
}

impl Service {
    pub fn start(device: &Device, config: &Config) -> Result<Arc<Self>, Setup> {
        let channel = device.create_channel()?;
        let state = Mutex::new(State::new(device, &channel, config)?);
        let (unattended, moves) = (Condvar::new(), Condvar::new());
        let shared = Arc::new(Shared { state, unattended, moves, channel });
        let source: Weak<Shared> = Arc::downgrade(&shared);
        device.add_metrics(source);
        let served = Arc::clone(&shared);
        let thread = thread::Builder::new().name("srnic-streams".to_owned());
        let thread = Some(thread.spawn(move || served.serve())?);
        let keeper = Mutex::new(None);
        Ok(Arc::new(Self { shared, thread, keeper, device: device.clone(), config: *config }))
    }

    pub const fn device(&self) -> &Device {
        &self.device
    }

    /// What an end says of itself.
    pub const fn hello(&self, token: [u8; 16]) -> Hello {
        let Config { receives, chunk_bytes: receive_bytes, .. } = self.config;
        Hello { receives, receive_bytes, features: self.config.features(), token }
    }

    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.lock()
    }

    /// A call of a stream that does not wait.
    pub fn call<T>(&self, call: impl FnOnce(&mut State) -> T) -> T {
        self.shared.call(call)
    }

    /// Has somebody see to streams that may go on over another carrier.
    ///
    /// # Errors
    /// The system has no thread for it.
    pub fn keep(&self) -> Result<(), Setup> {
        let mut keeper = self.keeper.lock().unwrap_or_else(PoisonError::into_inner);
        if keeper.is_none() {
            let (shared, device, config) = (Arc::clone(&self.shared), self.device.clone(), self.config);
            let keeps = move || moving::keep(&shared, &device, &config);
            *keeper = Some(thread::Builder::new().name("srnic-streams-keep".to_owned()).spawn(keeps)?);
        }
        Ok(())
    }

    pub const fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// Calls `ready` until it returns something or `end` is reached, each time that something has
    /// happened to what it waits `on`. Drives the endpoint meanwhile: polls for a short time, then
    /// sleeps.
    pub fn wait<T>(
        &self,
        end: Option<Instant>,
        on: On,
        mut ready: impl FnMut(&mut State) -> Option<T>,
    ) -> Option<T> {
        let mut state = self.lock();
        if let Some(found) = ready(&mut state) {
            wake_without(state);
            return Some(found);
        }
        if state.polling >= POLLERS {
            return sleep(&self.shared, state, end, on, ready);
        }
        state.polling += 1;
        let begun = Instant::now();
        let (mut polls, mut polled, mut late) = (0_u32, Duration::ZERO, false);
        let mut patience = Patience::new();
        loop {
            state.process();
            state.polls = state.polls.wrapping_add(1);
            let found = ready(&mut state);
            polls = polls.wrapping_add(1);
            // Where others have the processor in turn, each turn of theirs takes long.
            if polled >= SPINNING || polls.is_multiple_of(CLOCK) {
                let now = Instant::now();
                (polled, late) = (now.duration_since(begun), end.is_some_and(|end| now >= end));
            }
            let is_over = found.is_some() || late;
            if is_over || patience.is_over(polled, || self.device.counters().rx_packets) {
                state.polling -= 1;
                if is_over {
                    wake_without(state);
                    return found;
                }
                break;
            }
            wake_without(state);
            if polled >= SPINNING {
                thread::yield_now();
            }
            state = self.lock();
        }
        self.shared.unattended.notify_one();
        sleep(&self.shared, state, end, on, ready)
    }
}

/// Sleeps until `ready` returns something or `end` is reached. Only what happens to that which it
/// waits `on` wakes it: of a thousand that sleep, one.
fn sleep<'a, T>(
    shared: &'a Shared,
    mut state: MutexGuard<'a, State>,
    end: Option<Instant>,
    on: On,
    mut ready: impl FnMut(&mut State) -> Option<T>,
) -> Option<T> {
    let waker = thread_waker();
    loop {
        state.wait(on, &waker);
        state.sleeping += 1;
        wake_without(state);
        match end.map(|end| end.saturating_duration_since(Instant::now())) {
            None => thread::park(),
            Some(left) => thread::park_timeout(left),
        }
        state = shared.lock();
        state.sleeping -= 1;
        let found = ready(&mut state);
        if found.is_some() || end.is_some_and(|end| Instant::now() >= end) {
            wake_without(state);
            return found;
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let end = Instant::now() + LINGER;
        self.wait(Some(end), On::Empty, |state| state.is_empty().then_some(()));
        let keeper = self.keeper.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        let mut state = self.shared.lock();
        state.clear();
        state.stopping = true;
        drop(state);
        self.shared.unattended.notify_one();
        self.shared.moves.notify_one();
        // What a waker drops may be the last of an endpoint: then this is the thread itself.
        let own = self.thread.take().into_iter().chain(keeper);
        for thread in own.filter(|own| own.thread().id() != thread::current().id()) {
            // A panic of it has shown itself.
            let _ = thread.join();
        }
    }
}
