//! memif: shared memory between two processes, without a NIC, hugepages or privileges.

use std::path::{Path, PathBuf};

use memif::Told;
use memif::socket::Listener;

use crate::device::Device;
use crate::eal::Eal;
use crate::error::PortError;
use crate::ethdev::{EthPort, QUEUES_MAX, Wiring};
use crate::handshake_proxy::{HandshakeProxy, Terms};
use crate::listener;
use crate::mempool::Mempool;
use crate::open::{BUFFERS, OpenPort, check_range};
use crate::reconnect::Reconnect;
use crate::socket_path::{self, is_special};

/// The two ends of a pair: the server makes the socket, and the client connects to it. Nothing else
/// differs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemifRole {
    /// Makes the socket and waits.
    Server,
    /// Connects.
    Client,
}

/// The configuration of one end of a memif pair.
///
/// The peer maps the rings: a memif trusts its peer with shared memory. Keep the socket in a
/// directory that only trusted users can enter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemifConfig {
    /// The socket, a file. At most 107 bytes, without `,`, `=`, `[`, `]` and `"`, which DPDK's
    /// arguments give a meaning.
    pub socket_path: PathBuf,
    /// The end that is opened.
    pub role: MemifRole,
    /// The port's address; DPDK draws one if `None`.
    pub mac: Option<[u8; 6]>,
    /// Longest frame in bytes. **Both ends must agree**: DPDK's memif spreads a longer frame over
    /// several buffers and then corrupts later frames. A server lets no client of this crate in
    /// whose own is another.
    pub max_frame: u16,
    /// Queues each way, 1 to 8. **Both ends must agree**: DPDK's memif takes the first ring for
    /// that of a queue that has none. A server lets no client in that has fewer, and no client of
    /// this crate with another number.
    pub queues: u8,
    /// Binary logarithm of the slots of each ring, 1 to 14.
    pub ring_size_log2: u8,
    /// The secret that the client must send to be accepted; at most 23 bytes.
    pub secret: Option<String>,
}

/// Longest frame by default: a 4 KB path MTU with every header there is.
pub const MEMIF_MAX_FRAME: u16 = 4608;
/// Binary logarithm of the ring by default. Smaller flatters ratios, larger loses 15 % (cache).
pub const MEMIF_RING_SIZE_LOG2: u8 = 10;

/// What the driver takes if it is told nothing.
const DRIVERS_RING_SIZE_LOG2: u8 = 10;

/// DPDK's secret holds 24 bytes with the terminating NUL.
const SECRET_MAX: usize = 23;

impl MemifConfig {
    /// The configuration of one end of a pair at `socket_path`, with the defaults.
    #[must_use]
    pub fn new(socket_path: impl Into<PathBuf>, role: MemifRole) -> Self {
        Self {
            socket_path: socket_path.into(),
            role,
            mac: None,
            max_frame: MEMIF_MAX_FRAME,
            queues: 1,
            ring_size_log2: MEMIF_RING_SIZE_LOG2,
            secret: None,
        }
    }

    /// Opens it. It has no link until its peer is there; a client keeps looking for its server.
    ///
    /// # Errors
    /// What [`EthPort::memif`] finds.
    pub fn open(&self, eal: &Eal) -> Result<OpenPort, PortError> {
        let pool = Mempool::new(eal, BUFFERS * u32::from(self.queues.max(1)), self.max_frame)?;
        let mut eth = EthPort::memif(eal, self, &pool)?;
        let queues = if self.queues > 1 { eth.take_queues() } else { Vec::new() };
        let reconnect = match self.role {
            // Nobody may be listening yet: the first attempt is one like all others.
            MemifRole::Client => Some(Reconnect::memif(self.socket_path.clone(), self.told())),
            MemifRole::Server => {
                eth.start()?;
                None
            }
        };
        // The driver has no use for an address: it filters nothing.
        let mac = self.mac.map_or_else(|| eth.mac(), Ok)?;
        let (max_frame, short_bursts) = (self.max_frame, queues.is_empty());
        Ok(OpenPort { eth, queues, max_frame, mac, short_bursts, reconnect })
    }

    /// The wiring of the device, whose driver has the socket at `socket`, with `more` arguments.
    ///
    /// # Errors
    /// [`PortError::OutOfRange`] and [`PortError::Socket`], before DPDK fails without a reason.
    fn wiring(&self, socket: &Path, more: &str) -> Result<Wiring, PortError> {
        self.check()?;
        let socket = socket_path::checked(socket)?;
        let device = |path: &str| Device::virtual_device("net_memif", &self.arguments(path, more));
        let wiring = Wiring::of_socket(socket, self.told().prefix(), device)?;
        Ok(Wiring { queues: self.queues, ..wiring })
    }

    fn check(&self) -> Result<(), PortError> {
        check_range("max_frame", self.max_frame.into(), 64, u64::from(u16::MAX - crate::HEADROOM))?;
        check_range("queues", self.queues.into(), 1, QUEUES_MAX as u64)?;
        check_range("ring_size_log2", self.ring_size_log2.into(), 1, 14)?;
        let Some(secret) = &self.secret else { return Ok(()) };
        check_range("the length of the secret", secret.len() as u64, 1, SECRET_MAX as u64)?;
        if secret.contains(is_special) {
            return Err(self.socket_error("its secret holds a character that DPDK's arguments cannot carry"));
        }
        Ok(())
    }

    /// The arguments of the driver. What it has by default is left out: DPDK takes few bytes.
    fn arguments(&self, socket: &str, more: &str) -> String {
        let mut arguments = format!("socket={socket},socket-abstract=no,bsize={}", self.max_frame);
        if self.role == MemifRole::Server {
            arguments += ",role=server";
        }
        if self.ring_size_log2 != DRIVERS_RING_SIZE_LOG2 {
            arguments += &format!(",rsize={}", self.ring_size_log2);
        }
        if let Some(secret) = &self.secret {
            arguments += &format!(",secret={secret}");
        }
        arguments + more
    }

    /// Attaches a client, whose driver connects to the socket itself.
    pub(crate) fn attach_client(&self, eal: &Eal, pool: &Mempool) -> Result<EthPort, PortError> {
        EthPort::wire(eal, self.wiring(&self.socket_path, "")?, pool)
    }

    /// Attaches a server behind a [`HandshakeProxy`] at the socket.
    pub(crate) fn attach_server(
        &self,
        eal: &Eal,
        pool: &Mempool,
    ) -> Result<(EthPort, HandshakeProxy), PortError> {
        socket_path::checked(&self.socket_path)?;
        let (driver, interface) = listener::place(eal)?;
        let wiring = self.wiring(driver.path(), &format!(",id={interface}"))?;
        let fails = |error: std::io::Error| self.socket_error(&error.to_string());
        let listener = Listener::bind(&self.socket_path)?;
        let port = EthPort::wire(eal, wiring, pool)?;
        let proxy = HandshakeProxy::install(listener, driver, Terms { interface, told: self.told() });
        Ok((port, proxy.map_err(fails)?))
    }

    fn told(&self) -> Told {
        Told { max_frame: self.max_frame, queues: self.queues }
    }

    fn socket_error(&self, problem: &str) -> PortError {
        socket_path::error(&self.socket_path, problem)
    }
}

#[cfg(test)]
#[path = "memif_tests.rs"]
mod tests;
