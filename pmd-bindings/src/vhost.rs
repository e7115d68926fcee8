//! vhost-user: the other shared memory between two processes, and the one that virtual machines
//! speak.
//!
//! The back end (`net_vhost`) makes the socket. The front end (`net_virtio_user`) connects and
//! shares the memory that its buffers are in, so a back end trusts its front end to leave the
//! memory there, and the front end trusts the back end with all of its packet buffers.

use std::path::PathBuf;

use crate::device::Device;
use crate::eal::Eal;
use crate::error::PortError;
use crate::ethdev::{EthPort, Wiring};
use crate::mempool::Mempool;
use crate::open::{BUFFERS, OpenPort, check_range, mac_argument};
use crate::reconnect::Reconnect;
use crate::socket_path;

/// Slots of each ring.
const RING_SIZE: u16 = 1024;

/// The front end takes no smaller buffers, whatever frames are to come, with its own header before
/// each.
const STANDARD_FRAME: u16 = 1518;
const VIRTIO_HEADER: u16 = 12;

/// The configuration of one end of a vhost-user pair.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VhostConfig {
    /// The socket, a file. At most 107 bytes, without `,`, `=`, `[`, `]` and `"`, which DPDK's
    /// arguments give a meaning.
    pub socket_path: PathBuf,
    /// The port's address.
    pub mac: [u8; 6],
    /// Longest frame in bytes. A longer one is dropped by the end that cannot take it.
    pub max_frame: u16,
}

impl VhostConfig {
    /// Opens the back end, which makes the socket and waits for a front end.
    ///
    /// # Errors
    /// [`PortError::Socket`] for a path that cannot be, or where somebody listens; else what DPDK
    /// refused.
    pub fn open_back_end(&self, eal: &Eal) -> Result<OpenPort, PortError> {
        let path = self.checked()?;
        socket_path::remove_stale(&self.socket_path)?;
        let pool = self.pool(eal)?;
        let device = |path: &str| Device::virtual_device("net_vhost", &format!("iface={path},queues=1"));
        let mut wiring = Wiring::of_socket(path, "net_vhost".into(), device)?;
        wiring.listens_at = Some(self.socket_path.clone());
        let mut eth = EthPort::wire(eal, wiring, &pool)?;
        eth.start()?;
        // The driver takes in every frame, whatever address it has made up for itself.
        Ok(self.over(eth, None))
    }

    /// Opens the front end, which connects whenever there is a back end.
    ///
    /// # Errors
    /// [`PortError::Socket`] for a path that cannot be; [`PortError::NoDriver`].
    pub fn open_front_end(&self, eal: &Eal) -> Result<OpenPort, PortError> {
        let path = self.checked()?;
        let pool = self.pool(eal)?;
        let arguments = |path: &str| {
            format!("path={path},queues=1,queue_size={RING_SIZE},mac={}", mac_argument(self.mac))
        };
        let device = |path: &str| Device::virtual_device("net_virtio_user", &arguments(path));
        let mut wiring = Wiring::of_socket(path, "net_virtio_user".into(), device)?;
        wiring.server = Some(self.socket_path.clone());
        let mut eth = EthPort::wire(eal, wiring, &pool)?;
        if let Err(missing @ PortError::NoDriver { .. }) = eth.plug_in() {
            return Err(missing);
        }
        // Nobody may be listening yet: the first attempt is one like all others.
        Ok(self.over(eth, Some(Reconnect::default())))
    }

    fn over(&self, eth: EthPort, reconnect: Option<Reconnect>) -> OpenPort {
        let (max_frame, mac) = (self.max_frame, self.mac);
        OpenPort { eth, queues: Vec::new(), max_frame, mac, short_bursts: false, reconnect }
    }

    fn pool(&self, eal: &Eal) -> Result<Mempool, PortError> {
        Mempool::new(eal, BUFFERS, self.max_frame.max(STANDARD_FRAME) + VIRTIO_HEADER)
    }

    fn checked(&self) -> Result<&str, PortError> {
        let most = u16::MAX - crate::HEADROOM - VIRTIO_HEADER;
        check_range("max_frame", self.max_frame.into(), 64, most.into())?;
        socket_path::checked(&self.socket_path)
    }
}
