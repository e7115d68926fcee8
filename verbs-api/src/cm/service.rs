//! The connection manager of a device: the state machine of `rdma-cm` on queue pair 1, and what its
//! users are told.
//!
//! Whoever drives the engine calls it after a turn in which a MAD came, or when a timer is due
//! ([`Attendant`]); calls of the program do its work at once. The lock of its state comes before
//! that of the engine.

use super::error::Obstacle;
use super::gsi::Gsi;
use crate::device::Device;
use crate::driver::{Driver, PollBackoff};
use crate::error::Error;
use crate::shared::{Attendant, Shared};
use crate::trace;
use crate::wakers::{Place, Wakers, thread_waker};
use core::net::IpAddr;
use core::task::Waker;
use core::time::Duration;
use datapath::engine::ModifyError;
use datapath::qp::attr::{QpAttr, QpAttrMask};
use datapath::qp::state::QpState;
use datapath::time::Time;
use rdma_cm::{Agreed, CmError, CommId, Config, Event, Failure, Manager, Question, Request, Stats, Terms};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

/// The counters of a device's connection manager.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct ConnectionStats {
    /// The counters of its messages and connections.
    pub manager: Stats,
    /// Connections in any state now, those that have just ended included.
    pub connections: usize,
    /// Messages dropped because nobody has the address that they go to, or too many waited.
    pub unsent: u64,
}

/// Nanoseconds after which a MAD that waits for an Ethernet address is tried again.
const RESOLVING: u64 = 1_000_000;
/// How long who waits sleeps at most. Longer than this only what does not say so would have it
/// wait, such as a link that goes down.
const NAP: Duration = Duration::from_millis(100);

/// How far a connection that a program holds has come.
pub(super) enum Phase {
    /// Nothing has happened yet.
    Begun,
    /// Active: the peer grants it.
    Replied(Agreed, Vec<u8>),
    /// The connection is established.
    Established,
    /// The connection could not be made.
    Failed(Failure),
    /// The connection is over.
    Disconnected,
}

/// A connection that a program holds.
struct Held {
    phase: Phase,
    /// The number of the connection's queue pair, which goes to ERR at the end.
    qpn: Option<u32>,
    /// The queue pair was in ERR when the end came: a failure was first, or this end has ended it.
    was_in_err: bool,
    /// Tasks and threads that wait for what happens next.
    wakers: Wakers,
}

/// What a thread waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Awaited {
    /// Something that happens to a connection.
    Connection(CommId),
    /// A request at a port.
    Port(u16),
}

/// Who is told of what happens to a connection, instead of its being held (`raw::Connections`).
/// Calls come with the manager's lock held: they note what has happened, and call nothing.
pub trait ConnectionSink: Send + Sync {
    /// A peer asks for a connection with the port. Returns who is told of that one.
    fn requested(&self, id: CommId, request: &Request) -> Arc<dyn ConnectionSink>;

    /// A peer asks for the service of datagrams at the port. Returns who is told of that question:
    /// without this method nobody.
    fn asked(&self, _id: CommId, _question: &Question) -> Arc<dyn ConnectionSink> {
        Arc::new(Nobody)
    }

    /// Something has happened to the connection, or the question; never [`Event::Requested`] or
    /// [`Event::Asked`].
    fn happened(&self, event: &Event);
}

/// Who listens to nothing.
struct Nobody;

impl ConnectionSink for Nobody {
    fn requested(&self, _id: CommId, _request: &Request) -> Arc<dyn ConnectionSink> {
        Arc::new(Self)
    }

    fn happened(&self, _event: &Event) {}
}

/// A port's requests that the program has not taken yet.
#[derive(Default)]
struct Port {
    /// Who is told of requests, which do not wait here then.
    sink: Option<Arc<dyn ConnectionSink>>,
    requests: VecDeque<CommId>,
    /// Tasks and threads that wait for one.
    wakers: Wakers,
}

/// The state behind the lock.
pub(super) struct State {
    pub manager: Manager,
    gsi: Gsi,
    held: BTreeMap<CommId, Held>,
    /// Who is told of connections that are not held.
    sinks: BTreeMap<CommId, Arc<dyn ConnectionSink>>,
    ports: BTreeMap<u16, Port>,
    /// Who is told of questions for services of datagrams, by port.
    services: BTreeMap<u16, Arc<dyn ConnectionSink>>,
    /// Connections of which a task waits for the peer's answer to its end, which a link that is
    /// down never brings.
    leaving: BTreeSet<CommId>,
}

/// The connection manager of a device.
pub(crate) struct Service {
    state: Mutex<State>,
}

impl Service {
    /// Takes queue pair 1.
    pub fn start(device: &Device) -> Result<Arc<Self>, Error> {
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(Error::Random)?;
        let config = Config {
            // A drain may not end before an end has lingered.
            linger: Device::DRAIN_LIMIT,
            ..Config::new(device.ip(), device.query().node_guid, seed)
        };
        let state = State {
            manager: Manager::new(config),
            gsi: Gsi::new(device.shared(), device.ip())?,
            held: BTreeMap::new(),
            sinks: BTreeMap::new(),
            ports: BTreeMap::new(),
            services: BTreeMap::new(),
            leaving: BTreeSet::new(),
        };
        let service = Arc::new(Self { state: Mutex::new(state) });
        device.shared().set_attendant(Arc::clone(&service) as Arc<dyn Attendant>);
        Ok(service)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A call of the program's, and what follows from it.
    pub(super) fn call<R>(&self, device: &Device, call: impl FnOnce(&mut State, Duration) -> R) -> R {
        let shared = device.shared();
        let mut state = self.lock();
        let result = call(&mut state, now(shared));
        self.work(state, shared);
        result
    }

    /// Does all that is to be done, and lets go of the lock.
    fn work(&self, mut state: MutexGuard<'_, State>, shared: &Shared) {
        let wakers = state.work(shared);
        drop(state);
        wakers.into_iter().flatten().for_each(Waker::wake);
    }

    /// Waits until `look` finds something of what is `awaited`, or until `end`.
    pub(super) fn wait<R>(
        &self,
        device: &Device,
        end: Option<Instant>,
        awaited: Awaited,
        mut look: impl FnMut(&mut State) -> Option<R>,
    ) -> Option<R> {
        let mut backoff = PollBackoff::new();
        let mut place = Place::new();
        loop {
            let turn = device.progress();
            let mut state = self.lock();
            let found = look(&mut state);
            let left = end.map_or(Duration::MAX, |end| end.saturating_duration_since(Instant::now()));
            if found.is_some() || left.is_zero() {
                // It goes without the lock.
                let _own = state.wait_no_more(awaited, place);
                drop(state);
                return found;
            }
            if device.driver() == Driver::Inline {
                drop(state);
                backoff.wait_after_poll(device.shared(), turn.received + turn.sent > 0, left);
            } else {
                // Each thread is woken by what it waits for alone: of a thousand that connect, one.
                let _before = state.wait_for(awaited, &mut place, &thread_waker());
                drop(state);
                device.stop_polling();
                thread::park_timeout(left.min(NAP));
            }
        }
    }

    /// The most likely reason why the connection manager of `peer` does not answer.
    pub(super) fn obstacle(&self, device: &Device, peer: IpAddr) -> Obstacle {
        if let Some(why) = device.link_down() {
            return Obstacle::Link(why);
        }
        if let Some(mac) = device.address_holder() {
            return Obstacle::Address(ModifyError::AddressTaken { ip: device.ip(), mac });
        }
        let is_known = self.look(|state| state.gsi.knows(peer));
        if is_known { Obstacle::Silence(peer) } else { Obstacle::Neighbor(peer) }
    }

    /// The counters so far.
    pub fn stats(&self) -> ConnectionStats {
        self.look(|state| ConnectionStats {
            manager: *state.manager.stats(),
            connections: state.manager.connections(),
            unsent: state.gsi.dropped(),
        })
    }

    /// Connections whose peers may wait for us, and MADs that wait to be sent.
    pub fn owes(&self, shared: &Shared) -> usize {
        self.look(|state| state.manager.owes(now(shared)) + state.gsi.waiting())
    }

    /// Passive: what the queue pair is to be given for a request that waits. The engine then knows
    /// where the request came from, however long it has waited, and need not look for its host.
    pub(super) fn agree(&self, device: &Device, id: CommId, terms: &Terms) -> Result<Agreed, CmError> {
        self.look(|state| {
            let agreed = state.manager.agree(id, terms)?;
            let request = state.manager.request(id);
            if let Some((ip, mac)) = request.and_then(|request| Some((request.peer.ip(), request.mac?)))
                && let Some(mut nic) = device.shared().call()
            {
                nic.core_mut().note_heard(ip, mac);
            }
            Ok(agreed)
        })
    }

    /// Looks once.
    pub(super) fn look<R>(&self, look: impl FnOnce(&mut State) -> R) -> R {
        look(&mut self.lock())
    }
}

impl Attendant for Service {
    fn attend(&self, shared: &Shared) {
        // Who has the lock does what is to be done before it lets go; what it misses keeps asking
        // for wake_deadline.
        let state = match self.state.try_lock() {
            Ok(state) => state,
            Err(std::sync::TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(std::sync::TryLockError::WouldBlock) => return,
        };
        self.work(state, shared);
    }
}

/// The engine's time, as the manager has it.
pub(super) fn now(shared: &Shared) -> Duration {
    let now = shared.call().map_or(Time::ZERO, |mut nic| nic.now());
    Duration::from_nanos(now.0)
}

impl State {
    /// Takes in what came, lets timers fire, sends. Who is to be told, if something has happened.
    fn work(&mut self, shared: &Shared) -> Option<Vec<Waker>> {
        shared.wake_deadline().clear();
        let now = now(shared);
        let Self { manager, gsi, .. } = self;
        gsi.receive(shared, |from, mad| manager.handle_mad(now, from, mad));
        manager.handle_timeouts(now);
        while let Some(transmit) = manager.poll_transmit() {
            gsi.queue(transmit);
        }
        let unreachable = gsi.transmit(shared, now);
        // What its own address keeps from being sent says nothing of a host.
        let is_sender =
            unreachable.is_empty() || shared.call().is_none_or(|nic| nic.core().address_holder().is_none());
        for host in unreachable {
            if is_sender {
                manager.handle_unreachable(now, host);
            } else {
                manager.handle_unsent(now, host);
            }
        }
        let mut told = None;
        while let Some(event) = self.manager.poll_event() {
            told.get_or_insert_with(Vec::new).extend(self.tell(shared, now, event));
        }
        if !self.leaving.is_empty() && !shared.call().is_some_and(|mut nic| nic.link_up()) {
            for id in core::mem::take(&mut self.leaving) {
                let wakers = self.held.get_mut(&id).map(|held| held.wakers.take());
                told.get_or_insert_with(Vec::new).extend(wakers.into_iter().flatten());
            }
        }
        let nanos = |time: Duration| Time(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        if let Some(deadline) = self.manager.next_deadline() {
            shared.wake_deadline().wake_by(nanos(deadline));
        }
        if self.gsi.waiting() > 0 {
            shared.wake_deadline().wake_by(nanos(now).after(RESOLVING));
        }
        told
    }

    /// Puts an event where its program finds it; returns who waits for it.
    fn tell(&mut self, shared: &Shared, now: Duration, event: Event) -> Vec<Waker> {
        trace::connection(&event);
        if self.tell_sink(now, &event) {
            return Vec::new();
        }
        let (id, phase) = match event {
            Event::Requested { id, port } => {
                let Some(port) = self.ports.get_mut(&port) else {
                    self.manager.close(now, id);
                    return Vec::new();
                };
                port.requests.push_back(id);
                return port.wakers.take();
            }
            Event::Replied { id, agreed, private_data } => {
                (id, Phase::Replied(agreed, super::error::without_padding(&private_data[..])))
            }
            Event::Established { id } => (id, Phase::Established),
            Event::Failed { id, failure } => {
                self.ports.values_mut().for_each(|port| port.requests.retain(|request| *request != id));
                (id, Phase::Failed(failure))
            }
            Event::Disconnected { id } => (id, Phase::Disconnected),
            // Who was told of it is gone.
            Event::Asked { id, .. } => {
                self.manager.close(now, id);
                return Vec::new();
            }
            Event::Found { .. } => return Vec::new(),
        };
        let Some(held) = self.held.get_mut(&id) else { return Vec::new() };
        if matches!(phase, Phase::Failed(_) | Phase::Disconnected)
            && let Some(qpn) = held.qpn
            && let Some(mut nic) = shared.call()
        {
            let attr = QpAttr { state: QpState::Err, ..QpAttr::default() };
            held.was_in_err = nic.core().query_qp(qpn).is_some_and(|before| before.state == QpState::Err);
            let result = nic.core_mut().modify_qp(qpn, &attr, QpAttrMask::STATE);
            drop(nic);
            trace::modified(qpn, &attr, QpAttrMask::STATE, &result);
        }
        held.phase = phase;
        self.leaving.remove(&id);
        held.wakers.take()
    }

    /// Tells the sink that the event is for, if there is one.
    fn tell_sink(&mut self, now: Duration, event: &Event) -> bool {
        let id = match event {
            Event::Requested { id, port } => {
                let Some(sink) = self.ports.get(port).and_then(|port| port.sink.as_ref()) else {
                    return false;
                };
                match self.manager.request(*id) {
                    Some(request) => _ = self.sinks.insert(*id, sink.requested(*id, request)),
                    None => self.manager.close(now, *id),
                }
                return true;
            }
            Event::Asked { id, port } => {
                let (sink, question) = (self.services.get(port), self.manager.question(*id));
                let Some((sink, question)) = sink.zip(question) else { return false };
                self.sinks.insert(*id, sink.asked(*id, question));
                return true;
            }
            Event::Replied { id, .. }
            | Event::Found { id, .. }
            | Event::Established { id }
            | Event::Failed { id, .. }
            | Event::Disconnected { id } => id,
        };
        let Some(sink) = self.sinks.get(id) else { return false };
        sink.happened(event);
        true
    }

    /// A sink is told of what happens to a connection from now on.
    pub fn watch(&mut self, id: CommId, sink: Arc<dyn ConnectionSink>) {
        self.sinks.insert(id, sink);
    }

    /// No sink is told of the connection any more; it is ended.
    pub fn unwatch(&mut self, now: Duration, id: CommId) {
        self.sinks.remove(&id);
        self.manager.close(now, id);
    }

    /// A program begins to hold a connection.
    pub fn hold(&mut self, id: CommId, qpn: Option<u32>) {
        self.held.insert(id, Held { phase: Phase::Begun, qpn, was_in_err: false, wakers: Wakers::default() });
    }

    /// How far the connection has come.
    pub fn phase(&mut self, id: CommId) -> Option<&mut Phase> {
        self.held.get_mut(&id).map(|held| &mut held.phase)
    }

    /// Returns `true` if the connection was there and is no more, or will never be; also if no
    /// program holds it.
    pub fn is_over(&mut self, id: CommId) -> bool {
        matches!(self.phase(id), None | Some(Phase::Disconnected | Phase::Failed(_)))
    }

    /// Returns `true` if the peer has ended the connection, and that took its queue pair to ERR.
    #[cfg(feature = "async")]
    pub fn was_ended_by_peer(&mut self, id: CommId) -> bool {
        self.is_over(id) && self.held.get(&id).is_some_and(|held| !held.was_in_err)
    }

    /// A thread learns of what happens next. Returns the waker that it had, to be dropped without
    /// the lock.
    #[must_use]
    fn wait_for(&mut self, awaited: Awaited, place: &mut Place, waker: &Waker) -> Option<Waker> {
        match awaited {
            Awaited::Connection(id) => self.wake_for(id, place, waker),
            Awaited::Port(port) => self.wake_for_request(port, place, waker),
        }
    }

    /// A thread waits no more. Returns its waker, to be dropped without the lock.
    #[must_use]
    fn wait_no_more(&mut self, awaited: Awaited, place: Place) -> Option<Waker> {
        match awaited {
            Awaited::Connection(id) => self.forget(id, place),
            Awaited::Port(port) => self.forget_request(port, place),
        }
    }

    /// Who waits learns of the next thing that happens to it. Returns the waker that it had, to be
    /// dropped without the lock.
    pub fn wake_for(&mut self, id: CommId, place: &mut Place, waker: &Waker) -> Option<Waker> {
        self.held.get_mut(&id)?.wakers.insert(place, waker)
    }

    /// A future learns of the peer's answer to its end, or that the link is down. Else as
    /// [`wake_for`](Self::wake_for).
    #[cfg(feature = "async")]
    pub fn wake_for_end(&mut self, id: CommId, place: &mut Place, waker: &Waker) -> Option<Waker> {
        self.leaving.insert(id);
        self.wake_for(id, place, waker)
    }

    /// Who waited for it does so no more. Returns its waker, to be dropped without the lock.
    pub fn forget(&mut self, id: CommId, place: Place) -> Option<Waker> {
        self.held.get_mut(&id)?.wakers.remove(place)
    }

    /// The program holds it no more: it is ended, and nothing of it concerns a queue pair. Who
    /// waits for it is to be woken without the lock.
    pub fn release(&mut self, now: Duration, id: CommId) -> Vec<Waker> {
        let held = self.held.remove(&id);
        self.leaving.remove(&id);
        self.manager.close(now, id);
        held.map(|mut held| held.wakers.take()).unwrap_or_default()
    }

    /// A listener begins.
    pub fn open_port(&mut self, port: u16) {
        self.ports.insert(port, Port::default());
    }

    /// A listener begins whose requests a sink is told of.
    pub fn open_port_to(&mut self, port: u16, sink: Arc<dyn ConnectionSink>) {
        self.ports.insert(port, Port { sink: Some(sink), ..Port::default() });
    }

    /// A service of datagrams begins, of whose questions a sink is told.
    pub fn open_service(&mut self, port: u16, sink: Arc<dyn ConnectionSink>) {
        self.services.insert(port, sink);
    }

    /// It takes no more questions.
    pub fn close_service(&mut self, port: u16) {
        self.manager.unlisten_for_datagrams(port);
        self.services.remove(&port);
    }

    /// A listener ends; who waits is rejected. The wakers are to be dropped without the lock, which
    /// their tasks may take.
    pub fn close_port(&mut self, now: Duration, port: u16) -> Vec<Waker> {
        self.manager.unlisten(port);
        let Some(Port { requests, mut wakers, .. }) = self.ports.remove(&port) else { return Vec::new() };
        for id in requests {
            self.manager.close(now, id);
        }
        wakers.take()
    }

    /// The oldest request that waits.
    pub fn next_request(&mut self, port: u16) -> Option<CommId> {
        self.ports.get_mut(&port)?.requests.pop_front()
    }

    /// Who waits learns of the listener's next request. Returns the waker that it had, to be
    /// dropped without the lock.
    pub fn wake_for_request(&mut self, port: u16, place: &mut Place, waker: &Waker) -> Option<Waker> {
        self.ports.get_mut(&port)?.wakers.insert(place, waker)
    }

    /// Who waited for a request does so no more. Returns its waker, to be dropped without the lock.
    pub fn forget_request(&mut self, port: u16, place: Place) -> Option<Waker> {
        self.ports.get_mut(&port)?.wakers.remove(place)
    }
}
