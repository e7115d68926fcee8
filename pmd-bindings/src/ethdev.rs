//! An Ethernet port of DPDK's, with one receive and one transmit queue.

use std::cell::Cell;
use std::ffi::{CString, c_char};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::burst::Burst;
use crate::device::Device;
use crate::door::Door;
use crate::eal::Eal;
use crate::error::{Errno, PortError, check};
use crate::gate::Pass;
use crate::log::{self, Caught};
use crate::memif::{MemifConfig, MemifRole};
use crate::mempool::Mempool;
use crate::quiescent::Quiescent;
use crate::{ffi, lcore};

/// Descriptors of each ring, where the driver lets us choose.
const DESCRIPTORS: u16 = 1024;
/// The one queue of each direction.
const QUEUE: u16 = 0;

/// Counters of the driver. A driver may reset them when its link goes down (memif does).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EthStats {
    /// Frames received.
    pub rx_frames: u64,
    /// Bytes of those.
    pub rx_bytes: u64,
    /// Frames that found the receive ring full.
    pub rx_missed: u64,
    /// Frames received damaged.
    pub rx_errors: u64,
    /// Times that no buffer was free for a frame.
    pub rx_no_mbuf: u64,
    /// Frames sent.
    pub tx_frames: u64,
    /// Bytes of those.
    pub tx_bytes: u64,
    /// Frames that could not be sent.
    pub tx_errors: u64,
}

/// A port; removed when dropped. One thread at a time uses it: `Send`, but not `Sync`, because the gate on EAL's
/// interrupt thread has one place for each port.
#[derive(Debug)]
pub struct EthPort {
    /// Of a memif server: clients come in here.
    door: Option<Door>,
    id: u16,
    name: CString,
    device: Device,
    quiescent: Option<&'static Quiescent>,
    started: bool,
    /// As last seen.
    link_up: Cell<bool>,
    /// The receive ring takes its buffers here.
    pool: Mempool,
}

/// Attaching and removing is for one thread at a time.
static CONTROL: Mutex<()> = Mutex::new(());

/// Holds off other threads that attach or remove, and EAL's interrupt thread where that matters.
struct ControlGuard {
    _pass: Option<Pass<'static>>,
    _lock: MutexGuard<'static, ()>,
}

impl ControlGuard {
    fn enter(quiescent: Option<&'static Quiescent>) -> Self {
        let lock = CONTROL.lock().unwrap_or_else(PoisonError::into_inner);
        Self { _pass: quiescent.map(Quiescent::pass_control), _lock: lock }
    }
}

impl EthPort {
    /// Attaches `device` and gives it buffers of `pool` to receive into. It starts stopped.
    ///
    /// # Errors
    /// [`PortError`] says what DPDK refused and what to do.
    pub fn attach(_eal: &Eal, device: Device, pool: &Mempool) -> Result<Self, PortError> {
        let quiescent = if device.needs_quiescence() { Some(Quiescent::hold()?) } else { None };
        let as_c = |text: &str| CString::new(text).map_err(|_| PortError::Name(text.into()));
        let name = as_c(&device.new_name())?;
        let arguments = as_c(device.arguments())?;
        let control = ControlGuard::enter(quiescent);
        let mut log = Caught::new();
        // SAFETY: EAL runs (`_eal`); the strings are terminated and DPDK copies them; the log is writable.
        let ret = log::with_errors(|| unsafe {
            ffi::pmd_attach(device.bus().as_ptr(), name.as_ptr(), arguments.as_ptr(), log.target())
        });
        check(ret).map_err(|errno| attach_error(&device, &name, errno, log.text()))?;
        let mut id = 0;
        // SAFETY: as above, and `id` is writable.
        let found = check(unsafe { ffi::rte_eth_dev_get_port_by_name(name.as_ptr(), &raw mut id) });
        // From here on dropping the port removes the device.
        let port = Self {
            door: None,
            id,
            name,
            device,
            quiescent,
            started: false,
            link_up: Cell::new(false),
            pool: pool.clone(),
        };
        let ready = found.and_then(|_| {
            // SAFETY: a port that was just made and is not started; its pool lives as long as `port`.
            check(unsafe { ffi::pmd_port_configure(id, DESCRIPTORS, DESCRIPTORS, pool.raw()) })
        });
        drop(control);
        ready.map_err(|errno| port.error("configure", errno))?;
        Ok(port)
    }

    /// Attaches one end of a memif pair. It starts stopped, and without a link until its peer comes.
    ///
    /// # Errors
    /// [`PortError::OutOfRange`] and [`PortError::Socket`] for a configuration that cannot be, and what
    /// [`EthPort::attach`] finds.
    pub fn memif(eal: &Eal, config: &MemifConfig, pool: &Mempool) -> Result<Self, PortError> {
        match config.role {
            MemifRole::Client => config.attach_client(eal, pool),
            MemifRole::Server => {
                let (mut port, door) = config.attach_server(eal, pool)?;
                port.door = Some(door);
                Ok(port)
            }
        }
    }

    /// DPDK's name of the port.
    #[must_use]
    pub fn name(&self) -> &str {
        self.name.to_str().unwrap_or_default()
    }

    /// The device that was attached.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The pool that the port receives into.
    #[must_use]
    pub fn pool(&self) -> &Mempool {
        &self.pool
    }

    /// Whether the port is started. A memif client's is not while there is no server.
    #[must_use]
    pub fn is_started(&self) -> bool {
        self.started
    }

    /// Starts the port, or does nothing if it is started. A memif client connects to its server here: the handshake
    /// goes on behind the scenes until the link is up, and fails here if nobody listens.
    ///
    /// # Errors
    /// [`PortError::Operation`]; the port stays stopped and can be started again.
    pub fn start(&mut self) -> Result<(), PortError> {
        if self.started {
            return Ok(());
        }
        let pass = self.pass();
        // SAFETY: the port is configured and stopped; no thread is in its driver.
        let result = check(unsafe { ffi::rte_eth_dev_start(self.id) });
        drop(pass);
        result.map_err(|errno| self.error("start", errno))?;
        self.started = true;
        if let Some(door) = &self.door {
            door.set_open(true);
        }
        Ok(())
    }

    /// Stops the port, or does nothing if it is stopped. memif disconnects from its peer.
    ///
    /// # Errors
    /// [`PortError::Operation`].
    pub fn stop(&mut self) -> Result<(), PortError> {
        if !self.started {
            return Ok(());
        }
        if let Some(door) = &self.door {
            door.set_open(false);
        }
        let pass = self.pass();
        // SAFETY: the port is started; `&mut self` and the pass keep all others out of its driver.
        let result = check(unsafe { ffi::rte_eth_dev_stop(self.id) });
        drop(pass);
        result.map_err(|errno| self.error("stop", errno))?;
        self.started = false;
        Ok(())
    }

    /// Whether frames can pass. While the driver is at work on the link: whether they could before.
    #[must_use]
    pub fn link_up(&self) -> bool {
        if !self.started {
            return false;
        }
        if let Some(_pass) = self.try_pass() {
            // SAFETY: the port lives, and the pass keeps all others out of its driver.
            self.link_up.set(unsafe { ffi::pmd_port_link_up(self.id) == 1 });
        }
        self.link_up.get()
    }

    /// The port's Ethernet address.
    ///
    /// # Errors
    /// [`PortError::Operation`].
    pub fn mac(&self) -> Result<[u8; 6], PortError> {
        let mut mac = [0; 6];
        // SAFETY: the port lives, and `mac` is six bytes.
        check(unsafe { ffi::pmd_port_mac(self.id, mac.as_mut_ptr()) })
            .map_err(|errno| self.error("read the address", errno))?;
        Ok(mac)
    }

    /// The driver's counters.
    ///
    /// # Errors
    /// [`PortError::Operation`].
    pub fn stats(&self) -> Result<EthStats, PortError> {
        let mut raw = ffi::pmd_stats::default();
        let _pass = self.pass();
        // SAFETY: the port lives, and `raw` is writable.
        check(unsafe { ffi::pmd_port_stats(self.id, &raw mut raw) })
            .map_err(|errno| self.error("read the counters", errno))?;
        Ok(EthStats {
            rx_frames: raw.rx_frames,
            rx_bytes: raw.rx_bytes,
            rx_missed: raw.rx_missed,
            rx_errors: raw.rx_errors,
            rx_no_mbuf: raw.rx_no_mbuf,
            tx_frames: raw.tx_frames,
            tx_bytes: raw.tx_bytes,
            tx_errors: raw.tx_errors,
        })
    }

    /// Frees what `burst` holds and receives into it. Returns how many frames; 0 too while the port is stopped or
    /// its driver is at work on the link.
    #[inline]
    pub fn rx_burst<const N: usize>(&mut self, burst: &mut Burst<N>) -> usize {
        lcore::enter();
        let (id, started) = (self.id, self.started);
        let Some(_pass) = self.try_pass().filter(|_| started) else {
            burst.clear();
            return 0;
        };
        // SAFETY: the port is started; `&mut self` and the pass keep all others out. The driver writes at most `n`
        // live mbufs and returns how many.
        unsafe { burst.receive(|mbufs, n| ffi::pmd_rx_burst(id, QUEUE, mbufs, n)) }
    }

    /// Sends from the front of `burst` what the ring takes; the rest stays in it, in order. Returns how many were
    /// taken; 0 too while the port is stopped or its driver is at work on the link.
    #[inline]
    pub fn tx_burst<const N: usize>(&mut self, burst: &mut Burst<N>) -> usize {
        lcore::enter();
        let (id, started) = (self.id, self.started);
        let Some(_pass) = self.try_pass().filter(|_| started) else { return 0 };
        // SAFETY: as for rx_burst. The driver takes over the first mbufs and returns how many.
        unsafe { burst.transmit(|mbufs, n| ffi::pmd_tx_burst(id, QUEUE, mbufs, n)) }
    }

    /// `None`: not now. `Some(None)`: this port needs no pass.
    #[inline]
    #[expect(clippy::option_option, reason = "the outer says whether, the inner is the guard")]
    fn try_pass(&self) -> Option<Option<Pass<'static>>> {
        match self.quiescent {
            Some(quiescent) => quiescent.try_pass(self.id).map(Some),
            None => Some(None),
        }
    }

    fn pass(&self) -> Option<Pass<'static>> {
        self.quiescent.map(|quiescent| quiescent.pass(self.id))
    }

    fn error(&self, operation: &'static str, errno: Errno) -> PortError {
        PortError::Operation { port: self.name().into(), operation, errno }
    }
}

impl Drop for EthPort {
    fn drop(&mut self) {
        // Before the driver's listener goes.
        self.door = None;
        // A driver that refuses to stop is removed all the same.
        let _ = self.stop();
        let _control = ControlGuard::enter(self.quiescent);
        // SAFETY: the device was attached under this name; nobody else is in its driver. Removing closes the port.
        unsafe {
            ffi::rte_eal_hotplug_remove(self.device.bus().as_ptr(), self.name.as_ptr().cast::<c_char>());
        }
    }
}

fn attach_error(device: &Device, name: &CString, errno: Errno, log: String) -> PortError {
    let hint = match device {
        _ if log.contains("failed to parse device") || log.contains("no driver found") => {
            "The driver's plugin, librte_net_*.so, is missing from DPDK's driver directory"
        }
        Device::Virtual { .. } => "The driver refused its arguments",
        Device::Pci { .. } => "Is it bound to vfio-pci, and did EAL start with EalConfig::pci?",
    };
    let device = format!("{},{}", name.to_string_lossy(), device.arguments());
    PortError::Attach { device, errno, hint, log }
}
