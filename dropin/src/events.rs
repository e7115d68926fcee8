//! Asynchronous events: a thread takes them from the engine, and hands each to the open device that
//! it concerns.

use crate::abi::{self, event};
use crate::acks::Acks;
use crate::argument::{Argument, In, Out};
use crate::context::Context;
use crate::cq::Cq;
use crate::ece;
use crate::errno::{Errno, Result};
use crate::export::Step;
use crate::qp::Qp;
use crate::srq::Srq;
use core::ffi::{c_int, c_void};
use core::ptr::without_provenance_mut;
use std::collections::{HashMap, VecDeque};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use verbs_api::{AsyncEvent, Device, ModifyError, raw};

/// What an event may concern.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub enum Target {
    Qp(u32),
    Cq(u32),
    Srq(u32),
}

/// The address of an object of the program's, which this side never follows.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Element(*mut c_void);

// SAFETY: it is handed on and compared only.
unsafe impl Send for Element {}

/// The events of one open device that the program has not got. A counter that can be read while
/// there are any lets the program wait by whatever waits for descriptors; both change under the
/// lock.
pub struct EventQueue {
    counter: OwnedFd,
    events: Mutex<VecDeque<(Element, u32)>>,
}

/// The open devices of one engine, and which object of which of them an event concerns.
#[derive(Default)]
pub struct Listeners {
    queues: Mutex<Vec<Weak<EventQueue>>>,
    targets: Mutex<HashMap<Target, (Weak<EventQueue>, Element)>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn counter(flags: c_int) -> Result<OwnedFd> {
    // SAFETY: it takes no pointer.
    let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | flags) };
    // SAFETY: the descriptor is new, and nobody else's.
    if fd < 0 { Err(Errno::last()) } else { Ok(unsafe { OwnedFd::from_raw_fd(fd) }) }
}

/// Adds one to a counter.
fn add_one(counter: &OwnedFd) {
    let one = 1_u64;
    // SAFETY: eight bytes are read of `one`. It fails only near 2^64.
    unsafe { libc::write(counter.as_raw_fd(), (&raw const one).cast(), size_of::<u64>()) };
}

impl EventQueue {
    pub fn new(listeners: &Listeners) -> Result<Arc<Self>> {
        let queue = Arc::new(Self { counter: counter(0)?, events: Mutex::default() });
        let mut queues = locked(&listeners.queues);
        queues.retain(|queue| queue.strong_count() > 0);
        queues.push(Arc::downgrade(&queue));
        Ok(queue)
    }

    fn push(&self, element: Element, event_type: u32) {
        let mut events = locked(&self.events);
        events.push_back((element, event_type));
        if events.len() == 1 {
            add_one(&self.counter);
        }
    }

    /// The oldest one, or what to wait for, unless the program has made the descriptor
    /// non-blocking.
    fn pop(&self) -> Result<Step<(Element, u32)>> {
        let mut events = locked(&self.events);
        if let Some(event) = events.pop_front() {
            self.silence(&events);
            return Ok(Step::Done(event));
        }
        let fd = self.counter.as_raw_fd();
        // SAFETY: it takes no pointer.
        let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
        if flags & libc::O_NONBLOCK != 0 { Err(Errno::AGAIN) } else { Ok(Step::Once(fd)) }
    }

    /// Takes out those that concern an object.
    fn remove(&self, element: Element) {
        let mut events = locked(&self.events);
        let had = !events.is_empty();
        events.retain(|(of, _)| *of != element);
        if had {
            self.silence(&events);
        }
    }

    /// The counter cannot be read any more if there was an event and is none.
    fn silence(&self, events: &VecDeque<(Element, u32)>) {
        if events.is_empty() {
            let mut count = 0_u64;
            // SAFETY: eight bytes are written to `count`. It does not wait: the counter is one.
            unsafe { libc::read(self.counter.as_raw_fd(), (&raw mut count).cast(), size_of::<u64>()) };
        }
    }
}

impl AsRawFd for EventQueue {
    fn as_raw_fd(&self) -> RawFd {
        self.counter.as_raw_fd()
    }
}

impl Listeners {
    /// Events of `target` concern the object at `address`, and go to `queue`.
    pub fn add<T>(&self, target: Target, queue: &Arc<EventQueue>, address: *mut T) {
        locked(&self.targets).insert(target, (Arc::downgrade(queue), Element(address.cast())));
    }

    /// The object is about to go: the program gets no event of it any more.
    pub fn remove(&self, target: Target) {
        let Some((queue, element)) = locked(&self.targets).remove(&target) else { return };
        if let Some(queue) = queue.upgrade() {
            queue.remove(element);
        }
    }

    fn tell(&self, event: AsyncEvent) {
        let (target, event_type) = match event {
            AsyncEvent::QpFatal { qpn } => (Target::Qp(qpn), event::QP_FATAL),
            AsyncEvent::QpRequestError { qpn } => (Target::Qp(qpn), event::QP_REQ_ERR),
            AsyncEvent::QpAccessError { qpn } => (Target::Qp(qpn), event::QP_ACCESS_ERR),
            AsyncEvent::CommEstablished { qpn } => (Target::Qp(qpn), event::COMM_EST),
            AsyncEvent::SqDrained { qpn } => (Target::Qp(qpn), event::SQ_DRAINED),
            AsyncEvent::LastWqeReached { qpn } => (Target::Qp(qpn), event::QP_LAST_WQE_REACHED),
            AsyncEvent::SrqLimit { srq } => (Target::Srq(srq), event::SRQ_LIMIT_REACHED),
            AsyncEvent::CqOverrun { cq, .. } => (Target::Cq(cq), event::CQ_ERR),
            AsyncEvent::PortActive => return self.tell_all(1, event::PORT_ACTIVE),
            AsyncEvent::PortError => return self.tell_all(1, event::PORT_ERR),
            AsyncEvent::DeviceFatal => return self.tell_fatal(),
            // Verbs have no name for the others.
            other => return eprintln!("srnic: {other:?}"),
        };
        let heard = locked(&self.targets).get(&target).cloned();
        if let Some((Some(queue), element)) = heard.map(|(queue, element)| (queue.upgrade(), element)) {
            queue.push(element, event_type);
        }
    }

    /// The device is not to be trusted any more.
    pub fn tell_fatal(&self) {
        self.tell_all(0, event::DEVICE_FATAL);
    }

    /// An event of the port of that number, or of the device.
    fn tell_all(&self, port: usize, event_type: u32) {
        let queues: Vec<_> = locked(&self.queues).iter().filter_map(Weak::upgrade).collect();
        for queue in queues {
            queue.push(Element(without_provenance_mut(port)), event_type);
        }
    }
}

/// A device that has no link for so long after it was opened says why.
const PATIENCE: Duration = Duration::from_secs(2);

/// The thread that takes events from the engine. It sleeps until there is one.
pub struct EventPump {
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl EventPump {
    /// `name` is what the program calls the device.
    pub fn start(device: &Device, name: &str, listeners: &Arc<Listeners>) -> Result<Self> {
        let stop = Arc::new(counter(0)?);
        device.event_fd()?;
        let (device, listeners, stopped) = (device.clone(), Arc::clone(listeners), Arc::clone(&stop));
        let name = name.to_owned();
        let thread = std::thread::Builder::new().name("srnic-events".to_owned());
        let thread = thread.spawn(move || pump(&device, &name, &listeners, &stopped))?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for EventPump {
    fn drop(&mut self) {
        add_one(&self.stop);
        if let Some(thread) = self.thread.take() {
            // If it has panicked, it has said so.
            let _ = thread.join();
        }
    }
}

/// Tells the user why the device has no link, if it has none.
pub fn tell_link_down(device: &Device, name: &str) {
    if let Some(why) = device.link_down() {
        eprintln!("srnic: {name} has no link: {why}");
    }
}

fn pump(device: &Device, name: &str, listeners: &Listeners, stop: &OwnedFd) {
    let Ok(bell) = device.event_fd() else { return };
    let mut link_by = Some(Instant::now() + PATIENCE);
    let watched = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    loop {
        let mut fds = [watched(stop.as_raw_fd()), watched(bell.as_raw_fd())];
        let left = link_by.map(|end| end.saturating_duration_since(Instant::now()));
        // Rounded up, so that the time is over then.
        let limit = left.map_or(-1, |left| c_int::try_from(left.as_millis() + 1).unwrap_or(c_int::MAX));
        // SAFETY: the array has two elements.
        unsafe { libc::poll(fds.as_mut_ptr(), 2, limit) };
        if link_by.is_some_and(|end| Instant::now() >= end) {
            link_by = None;
            tell_link_down(device, name);
        }
        while let Some(event) = device.poll_event() {
            match event {
                AsyncEvent::OtherDialect { qpn, peer, theirs, heard } => {
                    eprintln!("srnic: {}", ece::disagreement(qpn, peer, theirs));
                    // A program that waits for its peer would wait for ever.
                    if !heard && raw::fail(device, qpn).is_ok() {
                        listeners.tell(AsyncEvent::QpFatal { qpn });
                    }
                }
                AsyncEvent::AddressConflict { mac, .. } => {
                    eprintln!("srnic: {}", ModifyError::AddressTaken { ip: device.ip(), mac });
                }
                event => listeners.tell(event),
            }
        }
        if fds[0].revents != 0 {
            return;
        }
    }
}

/// The object that an event is of.
///
/// # Safety
/// The program has the event from `ibv_get_async_event`, and its object still.
unsafe fn acks_of<'a>(got: &abi::AsyncEvent) -> Option<&'a Acks> {
    // SAFETY: the caller's promise.
    unsafe {
        match got.event_type {
            event::CQ_ERR => <&Cq>::from_c(got.element.cast()).ok().map(Cq::async_acks),
            event::SRQ_LIMIT_REACHED => <&Srq>::from_c(got.element.cast()).ok().map(Srq::acks),
            event::DEVICE_FATAL | event::PORT_ACTIVE | event::PORT_ERR => None,
            _ => <&Qp>::from_c(got.element.cast()).ok().map(Qp::acks),
        }
    }
}

waiting_exports! {
    fn ibv_get_async_event(context: &Context, out: Out<abi::AsyncEvent>) -> c_int = count {
        Ok(context.state().events.pop()?.map(|(element, event_type)| {
            let got = abi::AsyncEvent { element: element.0, event_type };
            // SAFETY: an event of an object that is gone was taken back.
            if let Some(acks) = unsafe { acks_of(&got) } {
                acks.add();
            }
            out.set(got);
            0
        }))
    }
}

exports! {
    fn ibv_ack_async_event(got: In<abi::AsyncEvent>) -> () = nothing {
        // SAFETY: the program's contract.
        if let Some(acks) = unsafe { acks_of(&got.get()) } {
            acks.ack(1);
        }
        Ok(())
    }
}
