//! The socket that DPDK's memif driver listens at: one for all servers of the process, without a
//! name, and for ever.
//!
//! A listening socket of the driver's cannot be had back: when the last of its devices is removed,
//! the driver forgets it, but leaves its descriptor open, and EAL goes on watching it. So it never
//! comes to that: a device that is never removed holds the socket, and each server is another
//! interface on it, told apart by its number.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::device::Device;
use crate::eal::Eal;
use crate::error::PortError;
use crate::ethdev::EthPort;
use crate::handshake_proxy::{PrivateSocketPath, UnnamedListener};
use crate::mempool::Mempool;

/// The socket, once there is one.
static SOCKET: Mutex<Option<Arc<UnnamedListener>>> = Mutex::new(None);

/// The driver's socket, and a number for one more interface on it.
pub(crate) fn place(eal: &Eal) -> Result<(Arc<UnnamedListener>, u32), PortError> {
    /// 0 is the device that holds the socket.
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let mut socket = SOCKET.lock().unwrap_or_else(PoisonError::into_inner);
    let hidden = match socket.take() {
        Some(hidden) => hidden,
        None => Arc::new(listen(eal)?),
    };
    *socket = Some(Arc::clone(&hidden));
    Ok((hidden, NEXT.fetch_add(1, Ordering::Relaxed)))
}

fn listen(eal: &Eal) -> Result<UnnamedListener, PortError> {
    let fails = |cause: std::io::Error| PortError::Socket {
        path: std::env::temp_dir().display().to_string(),
        problem: format!("no private socket there: {cause}"),
    };
    let path = PrivateSocketPath::new().map_err(fails)?;
    // As small as can be: it never starts.
    let arguments =
        format!("role=server,id=0,socket={},socket-abstract=no,rsize=1,bsize=64", path.socket().display());
    let pool = Mempool::new(eal, 512, 64)?;
    let holder = EthPort::attach(eal, Device::virtual_device("net_memif", &arguments), &pool)?;
    let hidden = path.hide().map_err(fails)?;
    std::mem::forget(holder);
    Ok(hidden)
}
