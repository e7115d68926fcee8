//! DPDK, 22.11 to 24.11: generated bindings and a small safe layer.
//!
//! The only crate of the project with FFI. The workspace knows it as `dpdk-sys` (docs/adr/0002-pmd-bindings.md).
//!
//! | type | is |
//! |---|---|
//! | [`Eal`] | DPDK's environment, started once a process |
//! | [`Mempool`], [`Mbuf`], [`Burst`] | packet buffers: a pool, one, and several at once |
//! | [`Device`], [`MemifConfig`] | what to attach |
//! | [`Reconnect`] | keeps a memif client at the door |
//! | [`EthPort`] | an attached port: start, stop, link, counters, bursts in and out |
//!
//! Only whole bursts cross the border to C, through `shim/shim.c`; the fields of an mbuf are read from Rust. DPDK is
//! linked dynamically, and its drivers are plugins that EAL loads from DPDK's own directory when it starts.

mod burst;
mod device;
mod door;
mod eal;
mod epoll;
mod error;
mod ethdev;
mod ffi;
mod gate;
mod lcore;
mod log;
mod mbuf;
mod memif;
mod mempool;
mod quiescent;
mod reconnect;
mod unix;

pub use burst::Burst;
pub use device::Device;
pub use eal::{Eal, EalConfig, Memory};
pub use error::{EalError, Errno, PortError};
pub use ethdev::{EthPort, EthStats};
pub use mbuf::{HEADROOM, Mbuf};
pub use memif::{MEMIF_MAX_FRAME, MEMIF_RING_SIZE_LOG2, MemifConfig, MemifRole};
pub use mempool::Mempool;
pub use reconnect::Reconnect;
