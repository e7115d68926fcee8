//! DPDK, 22.11 to 25.11: generated bindings and a small safe layer.
//!
//! The only crate of the project with FFI. The workspace knows it as `dpdk-sys`
//! (docs/adr/0002-pmd-bindings.md).
//!
//! | type | is |
//! |---|---|
//! | [`Eal`] | DPDK's environment, started once a process |
//! | [`Mempool`], [`Mbuf`], [`Burst`] | packet buffers: a pool, one, and several at once |
//! | [`MemifConfig`], [`VhostConfig`], [`InterfaceConfig`], [`NicConfig`] | a kind of port, and how it is opened |
//! | [`Device`] | any other device of DPDK's |
//! | [`Reconnect`] | connects a client of memif or vhost-user again when its server comes back |
//! | [`NoLink`] | why a port has no link |
//! | [`EthPort`] | an attached port: start, stop, link, counters, bursts in and out |
//!
//! Only whole bursts cross the border to C, through `shim/shim.c`; the fields of an mbuf are read
//! from Rust. DPDK is linked dynamically, and its drivers are plugins that EAL loads from DPDK's
//! own directory when it starts.

mod burst;
mod device;
mod eal;
mod epoll;
mod error;
mod ethdev;
mod ffi;
mod gate;
mod handshake_proxy;
mod hugepages;
mod lcore;
mod listener;
mod log;
mod mbuf;
mod memif;
mod mempool;
mod netdev;
mod nic;
mod no_link;
mod open;
mod quiescent;
mod reconnect;
mod removal;
mod socket_path;
mod unix;
mod vhost;

pub use self::memif::{MEMIF_MAX_FRAME, MEMIF_RING_SIZE_LOG2, MemifConfig, MemifRole};
pub use burst::Burst;
pub use device::Device;
pub use eal::{Eal, EalConfig, Memory};
pub use error::{EalError, Errno, PortError};
pub use ethdev::{EthCapabilities, EthPort, EthQueue, EthStats};
pub use mbuf::{HEADROOM, Mbuf};
pub use mempool::Mempool;
pub use netdev::{InterfaceConfig, SocketKind};
pub use nic::NicConfig;
pub use no_link::NoLink;
pub use open::OpenPort;
pub use reconnect::Reconnect;
pub use vhost::VhostConfig;
