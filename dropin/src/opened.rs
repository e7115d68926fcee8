//! Engines: a device that a process opens several times has one.

#[cfg(test)]
mod tests;

use crate::config::{DeviceConfig, Source, late_end};
use crate::errno::{Errno, Result, explain};
use crate::events::{EventPump, Listeners, tell_link_down};
use crate::ucma;
use core::mem::MaybeUninit;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, Once, PoisonError, TryLockError, Weak};
use std::time::{Duration, Instant};
use verbs_api::{Device, DeviceSpec, Driver, Pmtu, WireMode};

const QPS: u32 = 4096;
const CQS: usize = 4096;
const MRS: usize = 65_536;
/// How long an engine that ends stays for peers of reliable connections, unless their link is down.
/// Verbs programs end without a word to their peers; whose last acknowledgement was lost asks again
/// meanwhile, and on a machine with more processes than processors it may take its time.
const LINGER: Duration = Duration::from_millis(250);
/// How often it looks whether the peer has gone.
const LOOK: Duration = Duration::from_millis(2);

/// An engine that runs.
pub struct Opened {
    pub device: Device,
    pub config: DeviceConfig,
    /// Those who hear of its events.
    pub listeners: Arc<Listeners>,
    /// When it is no longer to be feared that a peer asks again.
    linger_until: Mutex<Option<Instant>>,
    /// Ends before the device is gone.
    _pump: EventPump,
    /// The process that opened it: children that it forks have none of its threads.
    process: u32,
}

/// All engines of this process.
static ENGINES: Mutex<Vec<Weak<Opened>>> = Mutex::new(Vec::new());

/// The engine of a device, which starts with the first who opens it.
pub fn open(config: &DeviceConfig) -> Result<Arc<Opened>> {
    let mut engines = ENGINES.lock().unwrap_or_else(PoisonError::into_inner);
    engines.retain(|engine| engine.strong_count() > 0);
    let here = std::process::id();
    let known = engines.iter().filter_map(Weak::upgrade);
    if let Some(engine) = known.into_iter().find(|engine| engine.process == here && engine.config == *config)
    {
        return Ok(engine);
    }
    let engine = Arc::new(without_signals(|| start(config))?);
    engines.push(Arc::downgrade(&engine));
    drain_at_exit();
    Ok(engine)
}

fn start(config: &DeviceConfig) -> Result<Opened> {
    let device = match &config.source {
        Source::Spec(spec) => run(spec),
        Source::EitherEnd(spec) => run(spec).or_else(|error| run(&late_end(spec).ok_or(error)?)),
    };
    let device = device.map_err(|error| explain(&config.name, error))?;
    let listeners = Arc::new(Listeners::default());
    let pump = EventPump::start(&device, &config.name, &listeners)?;
    let linger_until = Mutex::new(None);
    let config = config.clone();
    Ok(Opened { device, config, listeners, linger_until, _pump: pump, process: std::process::id() })
}

/// An engine over a port.
fn run(spec: &DeviceSpec) -> core::result::Result<Device, verbs_api::Error> {
    Device::builder().driver(Driver::Hybrid).max_qps(QPS).max_cqs(CQS).max_mrs(MRS).open_spec(spec)
}

/// The address of a device, if it is known by now.
pub fn ip_of(config: &DeviceConfig) -> Option<IpAddr> {
    let engines = ENGINES.lock().unwrap_or_else(PoisonError::into_inner);
    let mut open = engines.iter().filter_map(Weak::upgrade);
    let found = open.find(|engine| engine.config == *config);
    drop(engines);
    found.map(|engine| engine.device.ip()).or_else(|| config.ip())
}

/// Each open device of this process has an event IBV_EVENT_DEVICE_FATAL.
pub fn tell_fatal() {
    let engines: Vec<_> = match ENGINES.try_lock() {
        Ok(engines) => engines.iter().filter_map(Weak::upgrade).collect(),
        Err(TryLockError::Poisoned(engines)) => {
            engines.into_inner().iter().filter_map(Weak::upgrade).collect()
        }
        // Somebody opens a device.
        Err(TryLockError::WouldBlock) => return,
    };
    for engine in engines {
        engine.listeners.tell_fatal();
    }
}

/// Whether connections may have a path MTU of 1408, which programs of verbs cannot name.
pub const TAKES_1408: bool = false;

impl Opened {
    /// The largest path MTU that a program can name whose packets fit the port.
    pub fn path_mtu_max(&self) -> Pmtu {
        self.device.path_mtu_max().in_dialect(WireMode::Plain)
    }

    /// Tells the user why a call failed that named another host, and why this one has no link, if
    /// it has none.
    pub fn explain_way(&self, call: &str, error: verbs_api::Error) -> Errno {
        let errno = explain(call, error);
        if errno == Errno(libc::ETIMEDOUT) {
            tell_link_down(&self.device, &self.config.name);
        }
        errno
    }

    /// A reliable connection is over, or is now with the process.
    pub fn note_end(&self) {
        *self.linger_until.lock().unwrap_or_else(PoisonError::into_inner) =
            Instant::now().checked_add(LINGER);
    }

    /// Answers peers that ask again.
    fn linger(&self) {
        let until = *self.linger_until.lock().unwrap_or_else(PoisonError::into_inner);
        while until.is_some_and(|until| Instant::now() < until) && self.device.link_up() {
            std::thread::sleep(LOOK);
        }
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        if self.process == std::process::id() {
            self.linger();
        }
    }
}

/// Runs `start` with all signals blocked, so that its threads take none of the program's.
fn without_signals<T>(start: impl FnOnce() -> T) -> T {
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: each set is written before it is read.
    let blocked = unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr()) == 0
    };
    let result = start();
    if blocked {
        // SAFETY: the call above has written it.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), core::ptr::null_mut()) };
    }
    result
}

/// A program may end without closing anything: its peers are not to wait for what it owes them.
fn drain_at_exit() {
    extern "C" fn drain() {
        ucma::leave();
        let engines: Vec<_> = match ENGINES.try_lock() {
            Ok(engines) => engines.iter().filter_map(Weak::upgrade).collect(),
            Err(_) => return,
        };
        for engine in engines.iter().filter(|engine| engine.process == std::process::id()) {
            engine.note_end();
            engine.device.drain(LINGER);
            engine.linger();
        }
        // The process ends with them, whoever had them last.
        core::mem::forget(engines);
    }
    static ONCE: Once = Once::new();
    // SAFETY: the function may be called at any time, and the library is never unloaded (-z
    // nodelete).
    ONCE.call_once(|| unsafe {
        libc::atexit(drain);
    });
}

impl From<std::io::Error> for Errno {
    fn from(error: std::io::Error) -> Self {
        Self(error.raw_os_error().unwrap_or(libc::EIO))
    }
}
