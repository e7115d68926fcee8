//! An open port of any kind, and how it is used.

use crate::eal::Eal;
use crate::error::PortError;
use crate::ethdev::{EthPort, EthQueue, Wiring};
use crate::mempool::Mempool;
use crate::reconnect::Reconnect;

/// Buffers of a port: both rings of a NIC and the caches of a few threads full at once, and as many
/// again.
pub(crate) const BUFFERS: u32 = 4096;

/// A port that is open: it has a link, or gets one when its peer comes.
#[derive(Debug)]
pub struct OpenPort {
    /// The port; started, unless `reconnect` does so.
    pub eth: EthPort,
    /// The further queues of the port, if it was opened with any.
    pub queues: Vec<EthQueue>,
    /// Longest frame, in bytes, from the Ethernet header on, without the FCS.
    pub max_frame: u16,
    /// The Ethernet address of the port.
    pub mac: [u8; 6],
    /// Whether bursts of a few long frames are better than of many: the driver copies each, and the
    /// first cache then has them when they are looked at. Only a driver that takes as few as it is
    /// asked for may say so: others take none where they are asked for fewer than they look at
    /// together. Not with further queues, whose bursts are sorted by engine first.
    pub short_bursts: bool,
    /// For the client of a shared-memory pair: starts the port whenever its server is there.
    pub reconnect: Option<Reconnect>,
}

impl OpenPort {
    /// A port that can be started at once. It takes in frames for `mac` if that is not what the
    /// driver has.
    pub(crate) fn start(
        eal: &Eal,
        wiring: Wiring,
        pool: &Mempool,
        max_frame: u16,
        mac: Option<[u8; 6]>,
    ) -> Result<Self, PortError> {
        let mut eth = EthPort::wire(eal, wiring, pool)?;
        eth.start()?;
        let own = eth.mac()?;
        if mac.is_some_and(|mac| mac != own) {
            eth.set_promiscuous()?;
        }
        let (mac, queues) = (mac.unwrap_or(own), Vec::new());
        Ok(Self { eth, queues, max_frame, mac, short_bursts: false, reconnect: None })
    }
}

pub(crate) fn check_range(what: &'static str, value: u64, min: u64, max: u64) -> Result<(), PortError> {
    if (min..=max).contains(&value) { Ok(()) } else { Err(PortError::OutOfRange { what, value, min, max }) }
}

/// The six bytes as DPDK's arguments have them.
pub(crate) fn mac_argument([a, b, c, d, e, f]: [u8; 6]) -> String {
    format!("{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}")
}
