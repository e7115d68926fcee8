//! An Ethernet port of DPDK's, with one receive and one transmit queue, or several for as many
//! threads.

mod facts;
mod plug;
mod queue;

pub use facts::{EthCapabilities, EthStats};
pub use queue::{EthQueue, QUEUES_MAX};

use std::cell::Cell;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use crate::burst::Burst;
use crate::device::Device;
use crate::eal::Eal;
use crate::error::{Errno, PortError, check};
use crate::gate::Pass;
use crate::handshake_proxy::HandshakeProxy;
use crate::memif::{MemifConfig, MemifRole};
use crate::mempool::Mempool;
use crate::no_link::NoLink;
use crate::quiescent::Quiescent;
use crate::reconnect::Reconnect;
use crate::removal::Removal;
use crate::socket_path;
use crate::{ffi, lcore};
use ::memif::socket::{Presence, presence};
use ::packet::Interface;
use plug::Plug;

/// That of the port itself, of each direction.
const QUEUE: u16 = 0;

/// What a port is made of.
#[derive(Debug)]
pub(crate) struct Wiring {
    pub device: Device,
    /// How DPDK's name of the port begins.
    pub prefix: String,
    /// Queues each way, 1 to [`QUEUES_MAX`].
    pub queues: u8,
    /// Longest IP packet, for a driver that needs to know; 0: the driver's default.
    pub mtu: u16,
    /// For a device whose driver connects when it is attached, and never again: where its server
    /// listens.
    pub server: Option<PathBuf>,
    /// For the back end of vhost-user: its socket.
    pub listens_at: Option<PathBuf>,
    /// The kernel's interface below, which knows the state of the link.
    pub carrier: Option<Interface>,
    /// Gives the path in the device's arguments its meaning.
    pub _directory: Option<OwnedFd>,
}

impl Wiring {
    /// The wiring of a device whose arguments name `socket`, by a path that is short enough for
    /// DPDK.
    ///
    /// # Errors
    /// [`PortError::Socket`] if there is none.
    pub(crate) fn of_socket(
        socket: &str,
        prefix: String,
        device: impl Fn(&str) -> Device,
    ) -> Result<Self, PortError> {
        let (path, directory) = socket_path::within(socket, device("").room(&prefix))?;
        Ok(Self { prefix, _directory: directory, ..device(&path).into() })
    }
}

impl From<Device> for Wiring {
    fn from(device: Device) -> Self {
        let prefix = device.driver().to_owned();
        Self {
            device,
            prefix,
            queues: 1,
            mtu: 0,
            server: None,
            listens_at: None,
            carrier: None,
            _directory: None,
        }
    }
}

/// A port; removed when dropped. One thread at a time uses it: `Send`, but not `Sync`, because the
/// gate on EAL's interrupt thread has one place for each port.
#[derive(Debug)]
pub struct EthPort {
    /// Of a memif server: clients come in here.
    proxy: Option<HandshakeProxy>,
    wiring: Wiring,
    quiescent: Option<&'static Quiescent>,
    /// `None` while the device is not attached.
    plug: Option<Plug>,
    /// Of a NIC.
    removal: Option<Removal>,
    /// Of the plug; its old value, or 0, without one.
    id: u16,
    started: bool,
    /// As last seen.
    link_up: Cell<bool>,
    /// Of a port with several queues.
    shared: Option<Arc<queue::Shared>>,
    /// The receive rings take their buffers here.
    pool: Mempool,
}

impl EthPort {
    /// Attaches `device` and gives it buffers of `pool` to receive into. It starts stopped.
    ///
    /// # Errors
    /// [`PortError`] says what DPDK refused and what to do.
    pub fn attach(eal: &Eal, device: Device, pool: &Mempool) -> Result<Self, PortError> {
        Self::wire(eal, device.into(), pool)
    }

    /// Attaches a device with everything that its driver must be told. A device with a server is
    /// attached when it is started.
    pub(crate) fn wire(_eal: &Eal, wiring: Wiring, pool: &Mempool) -> Result<Self, PortError> {
        let quiescent = if wiring.device.needs_quiescence() { Some(Quiescent::hold()?) } else { None };
        let mut port = Self {
            proxy: None,
            wiring,
            quiescent,
            plug: None,
            removal: None,
            id: 0,
            started: false,
            link_up: Cell::new(false),
            shared: None,
            pool: pool.clone(),
        };
        if port.wiring.server.is_none() {
            port.plug_in()?;
        }
        Ok(port)
    }

    /// Attaches the device, if it is not.
    pub(crate) fn plug_in(&mut self) -> Result<(), PortError> {
        if self.plug.is_none() {
            let plug = Plug::new(&self.wiring, &self.pool, self.quiescent)?;
            self.id = plug.id();
            self.removal = plug.removal().cloned();
            self.plug = Some(plug);
        }
        Ok(())
    }

    /// Attaches one end of a memif pair. It starts stopped, and without a link until its peer
    /// comes.
    ///
    /// # Errors
    /// [`PortError::OutOfRange`] and [`PortError::Socket`] for a configuration that cannot be, and
    /// what [`EthPort::attach`] finds.
    pub fn memif(eal: &Eal, config: &MemifConfig, pool: &Mempool) -> Result<Self, PortError> {
        match config.role {
            MemifRole::Client => config.attach_client(eal, pool),
            MemifRole::Server => {
                let (mut port, proxy) = config.attach_server(eal, pool)?;
                port.proxy = Some(proxy);
                Ok(port)
            }
        }
    }

    /// Handles of its further queues, for threads of their own; none but the first time. The port
    /// must be stopped.
    pub(crate) fn take_queues(&mut self) -> Vec<EthQueue> {
        if self.shared.is_some() || self.started {
            return Vec::new();
        }
        let shared = self.shared.insert(Arc::new(queue::Shared::new(self.quiescent)));
        (1..self.wiring.queues.into()).map(|queue| EthQueue::new(shared, queue, &self.pool)).collect()
    }

    /// DPDK's name of the port; without its number while the device is not attached.
    #[must_use]
    pub fn name(&self) -> &str {
        self.plug.as_ref().map_or(&self.wiring.prefix, Plug::name)
    }

    /// The device that was attached.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.wiring.device
    }

    /// The pool that the port receives into.
    #[must_use]
    pub fn pool(&self) -> &Mempool {
        &self.pool
    }

    /// Returns `true` if the port is started. That of a client of memif or vhost-user is not while
    /// there is no server.
    #[must_use]
    pub fn is_started(&self) -> bool {
        self.started
    }

    /// Starts the port, or does nothing if it is started. A client of memif or vhost-user connects
    /// to its server here, which fails if nobody listens. memif's handshake goes on behind the
    /// scenes until the link is up.
    ///
    /// # Errors
    /// [`PortError::Operation`], and for a client of vhost-user [`PortError::Socket`] and
    /// [`PortError::Attach`]; the port stays stopped and can be started again.
    pub fn start(&mut self) -> Result<(), PortError> {
        if self.started {
            return Ok(());
        }
        if let Some(server) = &self.wiring.server
            && !matches!(presence(server), Presence::Server)
        {
            return Err(socket_path::error(server, "nobody listens there; start the vhost: end"));
        }
        self.plug_in()?;
        let pass = self.pass();
        // SAFETY: the port is configured and stopped; no thread is in its driver.
        let result = check(unsafe { ffi::rte_eth_dev_start(self.id) });
        drop(pass);
        result.map_err(|errno| self.error("start", errno))?;
        self.started = true;
        if let Some(shared) = &self.shared {
            shared.open(self.id);
        }
        if let Some(proxy) = &self.proxy {
            proxy.open();
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
        if let Some(proxy) = &self.proxy {
            proxy.close();
        }
        if let Some(shared) = &self.shared {
            shared.close();
        }
        let pass = self.pass();
        // SAFETY: the port is started; `&mut self` and the pass keep all others out of its driver.
        let result = check(unsafe { ffi::rte_eth_dev_stop(self.id) });
        drop(pass);
        if let (Err(_), Some(shared)) = (&result, &self.shared) {
            shared.open(self.id);
        }
        result.map_err(|errno| self.error("stop", errno))?;
        self.started = false;
        if self.wiring.server.is_some() {
            self.plug = None;
        }
        Ok(())
    }

    /// Returns `true` if frames can pass. While the driver is at work on the link, it is what it
    /// was before.
    #[must_use]
    pub fn link_up(&self) -> bool {
        if !self.started || self.is_removed() {
            return false;
        }
        if let Some(_pass) = self.try_pass() {
            // SAFETY: the port lives, and the pass keeps all others out of its driver.
            self.link_up.set(unsafe { ffi::pmd_port_link_up(self.id) == 1 });
        }
        let up = self.link_up.get() && self.wiring.carrier.as_ref().is_none_or(Interface::is_running);
        if let Some(shared) = &self.shared {
            shared.note_link(up);
        }
        up
    }

    /// Gives a NIC back that is to leave the machine, for which the kernel may wait, or has left
    /// it. Nothing passes the port any more.
    pub fn release_removed(&mut self) {
        if self.plug.is_some() && self.is_removed() {
            // A NIC that is gone may refuse to stop; it is given back all the same.
            let _ = self.stop();
            self.started = false;
            self.plug = None;
        }
    }

    fn is_removed(&self) -> bool {
        self.removal.as_ref().is_some_and(Removal::is_due)
    }

    /// Why frames cannot pass, or `None` if they can. Of the client of a memif `reconnect` knows.
    #[must_use]
    pub fn no_link(&self, reconnect: Option<&Reconnect>) -> Option<NoLink> {
        if self.link_up() {
            return None;
        }
        if self.is_removed() {
            return Some(NoLink::Removed { address: self.wiring.device.driver().to_owned() });
        }
        if let Some(proxy) = &self.proxy {
            return Some(proxy.no_link().into());
        }
        if let Some(why) = reconnect.and_then(Reconnect::no_link) {
            return Some(why);
        }
        if let Some(path) = self.wiring.server.clone() {
            let is_there = matches!(presence(&path), Presence::Server);
            return Some(if is_there {
                NoLink::BackEndNotReady { path }
            } else {
                NoLink::NoBackEnd { path }
            });
        }
        if let Some(path) = self.wiring.listens_at.clone() {
            return Some(NoLink::NoFrontEnd { path });
        }
        let carrier = self.wiring.carrier.as_ref().and_then(Interface::no_link);
        let no_cable = || NoLink::NoCable { device: self.wiring.device.driver().to_owned() };
        Some(carrier.map_or_else(no_cable, NoLink::from))
    }

    /// Of a memif server: clients that were turned away because their frames have another length
    /// than ours, because they have another number of queues, or because they do not keep to
    /// memif's rules. They try again, so the number grows.
    #[must_use]
    pub fn refused_clients(&self) -> u64 {
        self.proxy.as_ref().map_or(0, HandshakeProxy::refused)
    }

    /// The Ethernet address that the driver has for the port, zero while the device is not
    /// attached.
    ///
    /// # Errors
    /// [`PortError::Operation`].
    pub fn mac(&self) -> Result<[u8; 6], PortError> {
        let mut mac = [0; 6];
        if self.plug.is_none() {
            return Ok(mac);
        }
        // SAFETY: the port lives, and `mac` is six bytes.
        check(unsafe { ffi::pmd_port_mac(self.id, mac.as_mut_ptr()) })
            .map_err(|errno| self.error("read the address", errno))?;
        Ok(mac)
    }

    /// Takes in frames for every address, not only the port's own.
    ///
    /// # Errors
    /// [`PortError::Operation`].
    pub fn set_promiscuous(&mut self) -> Result<(), PortError> {
        let _pass = self.pass();
        // SAFETY: the port lives; the call takes a number, and refuses one that is no port's.
        check(unsafe { ffi::rte_eth_promiscuous_enable(self.id) })
            .map_err(|errno| self.error("receive for every address", errno))?;
        Ok(())
    }

    /// Takes in frames for these multicast addresses, too, in place of those of the call before. A
    /// NIC then takes in those for every group from now on, or for every address if its driver
    /// knows no better; shared memory filters nothing in the first place.
    ///
    /// # Errors
    /// [`PortError::Operation`], [`PortError::Interface`].
    pub fn join(&mut self, groups: &[[u8; 6]]) -> Result<(), PortError> {
        if let Some(interface) = &mut self.wiring.carrier {
            return Ok(interface.join(groups)?);
        }
        if groups.is_empty() || !matches!(self.wiring.device, Device::Pci { .. }) {
            return Ok(());
        }
        let pass = self.pass();
        // SAFETY: as for promiscuous mode.
        let taken = check(unsafe { ffi::rte_eth_allmulticast_enable(self.id) });
        drop(pass);
        taken.map_or_else(|_| self.set_promiscuous(), |_| Ok(()))
    }

    /// The capabilities of the driver.
    ///
    /// # Errors
    /// [`PortError::Operation`], also while the device is not attached.
    pub fn capabilities(&self) -> Result<EthCapabilities, PortError> {
        let _pass = self.pass();
        EthCapabilities::of(self.id).map_err(|errno| self.error("read the capabilities", errno))
    }

    /// The driver's counters, zeros while the device is not attached.
    ///
    /// # Errors
    /// [`PortError::Operation`].
    pub fn stats(&self) -> Result<EthStats, PortError> {
        if self.plug.is_none() {
            return Ok(EthStats::default());
        }
        let _pass = self.pass();
        EthStats::of(self.id).map_err(|errno| self.error("read the counters", errno))
    }

    /// Frees what `burst` holds and receives into it. Returns how many frames; 0 too while the port
    /// is stopped or its driver is at work on the link.
    #[inline]
    pub fn rx_burst<const N: usize>(&mut self, burst: &mut Burst<N>) -> usize {
        self.rx_burst_of(N, burst)
    }

    /// Frees what `burst` holds and receives at most `most` frames into it. Returns how many; 0 too
    /// while the port is stopped or its driver is at work on the link.
    #[inline]
    pub fn rx_burst_of<const N: usize>(&mut self, most: usize, burst: &mut Burst<N>) -> usize {
        lcore::enter();
        let (id, started) = (self.id, self.started);
        let Some(_pass) = self.try_pass().filter(|_| started) else {
            burst.clear();
            return 0;
        };
        // SAFETY: the port is started; `&mut self` and the pass keep all others out. The driver
        // writes at most `n` live mbufs and returns how many.
        unsafe { burst.receive(most, |mbufs, n| ffi::pmd_rx_burst(id, QUEUE, mbufs, n)) }
    }

    /// Sends from the front of `burst` what the ring takes; the rest stays in it, in order. Returns
    /// how many were taken; 0 too while the port is stopped or its driver is at work on the link.
    #[inline]
    pub fn tx_burst<const N: usize>(&mut self, burst: &mut Burst<N>) -> usize {
        // The memif driver of DPDK 24.11 looks at the first mbuf before it looks at their number.
        if burst.is_empty() {
            return 0;
        }
        lcore::enter();
        let (id, started) = (self.id, self.started);
        let Some(_pass) = self.try_pass().filter(|_| started) else { return 0 };
        // SAFETY: as for rx_burst, and there is one mbuf at least. The driver takes over the first
        // ones and returns how many.
        unsafe { burst.transmit(|mbufs, n| ffi::pmd_tx_burst(id, QUEUE, mbufs, n)) }
    }

    /// `None`: not now. `Some(None)`: this port needs no pass.
    #[inline]
    #[expect(clippy::option_option, reason = "the outer says whether, the inner is the guard")]
    fn try_pass(&self) -> Option<Option<Pass<'static>>> {
        match self.quiescent {
            Some(quiescent) => quiescent.try_pass(self.id, QUEUE).map(Some),
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
        self.proxy = None;
        // A driver that refuses to stop is removed all the same, as the plug is dropped.
        let _ = self.stop();
        // Which lets the further queues in again if it fails.
        if let Some(shared) = &self.shared {
            shared.close();
        }
    }
}
