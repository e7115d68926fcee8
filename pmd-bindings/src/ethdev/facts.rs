//! The facts that a driver reports of its port.

use std::ffi::CStr;
use std::ops::RangeInclusive;

use crate::error::{Errno, check};
use crate::ffi;

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

impl EthStats {
    /// Of a port that lives, with its driver to ourselves.
    pub(super) fn of(port: u16) -> Result<Self, Errno> {
        let mut raw = ffi::pmd_stats::default();
        // SAFETY: `raw` is writable; DPDK refuses a number that is no port's.
        check(unsafe { ffi::pmd_port_stats(port, &raw mut raw) })?;
        Ok(Self {
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
}

/// The capabilities that a driver reports. memif and `af_packet` report less than they can do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EthCapabilities {
    /// The name of the driver.
    pub driver: String,
    /// Longest frame that it receives, in bytes.
    pub max_rx_frame: u32,
    /// Longest IP packets that it can be set to, in bytes.
    pub mtu: RangeInclusive<u16>,
    /// True if the driver checks IPv4, UDP and TCP checksums of received packets.
    pub rx_checksum: bool,
    /// True if the driver fills in IPv4 and UDP checksums of sent packets.
    pub tx_checksum: bool,
    /// True if the driver can spread a long frame over several buffers.
    pub rx_scatter: bool,
    /// True if the driver frees sent buffers in bulk, if all are of one pool.
    pub tx_fast_free: bool,
}

impl EthCapabilities {
    /// Of a port that lives, with its driver to ourselves.
    pub(super) fn of(port: u16) -> Result<Self, Errno> {
        let mut raw = ffi::pmd_capabilities::default();
        // SAFETY: `raw` is writable; DPDK refuses a number that is no port's.
        check(unsafe { ffi::pmd_port_capabilities(port, &raw mut raw) })?;
        // SAFETY: a constant string of the driver's, or null.
        let driver = unsafe { raw.driver.as_ref().map(|first| CStr::from_ptr(first)) };
        let can = |offload| raw.offloads & offload != 0;
        Ok(Self {
            driver: driver.unwrap_or_default().to_string_lossy().into_owned(),
            max_rx_frame: raw.max_rx_frame,
            mtu: raw.min_mtu..=raw.max_mtu,
            rx_checksum: can(ffi::PMD_RX_CHECKSUM),
            tx_checksum: can(ffi::PMD_TX_CHECKSUM),
            rx_scatter: can(ffi::PMD_RX_SCATTER),
            tx_fast_free: can(ffi::PMD_TX_FAST_FREE),
        })
    }
}
