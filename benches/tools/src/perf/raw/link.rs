//! A port without an engine.

use super::frame::{ETHERTYPE, FRAME_MIN, HEADER};
use super::payload::Payload;
use crate::channel::Channel;
use crate::error::{Error, Result};
use crate::link::wait_for_port;
use crate::perf::cli::{Basics, RawDeviceArg};
use crate::pump::{Drive, Nothing};
use dpdk_sys::{EthPort, Mbuf, OpenPort, Reconnect};
use std::fmt::Write as _;
use std::time::Instant;
use verbs_api::{DeviceSpec, Error as VerbsError, Role, Transport, open_port};

/// Frames that cross the border to the driver at once.
pub const BURST: usize = 32;

/// A port, and the header of every frame that it sends.
pub struct Link {
    pub eth: EthPort,
    /// Longest frame.
    pub frame_max: usize,
    /// Whether frames of others can come, too: an operating system speaks on its interfaces.
    pub others: bool,
    /// What the command line calls it.
    spec: DeviceSpec,
    reconnect: Option<Reconnect>,
    header: [u8; HEADER],
}

/// What waits in the ring waits.
impl Drive for Link {
    fn drive(&self) -> bool {
        false
    }

    fn link_down(&self) -> Option<String> {
        self.eth.no_link(self.reconnect.as_ref()).map(|why| why.to_string())
    }
}

impl Link {
    /// Opens the port that the command line names.
    pub fn open(device: &RawDeviceArg, role: Role) -> Result<Self> {
        let spec = device.device.clone().or_role(role);
        if spec.faults.is_some() {
            let text = "raw frames pass no `fault:`; give the device behind it";
            return Err(Error::Options(text.to_owned()));
        }
        if spec.pcap.is_some() || spec.stat.is_some() {
            let text = "raw frames pass no engine, which `pcap=` and `stat=` look into; leave them out";
            return Err(Error::Options(text.to_owned()));
        }
        let OpenPort { eth, max_frame, mac, reconnect, .. } = open_port(&spec)?;
        let mut header = [0; HEADER];
        header[6..12].copy_from_slice(&mac);
        header[12..].copy_from_slice(&ETHERTYPE);
        let others = matches!(
            spec.transport,
            Transport::AfPacket { .. } | Transport::AfXdp { .. } | Transport::Pci { .. }
        );
        Ok(Self { eth, frame_max: max_frame.into(), others, spec, reconnect, header })
    }

    /// Waits until frames can pass, and learns the peer's address.
    pub fn connect(&mut self, channel: &mut Channel) -> Result<()> {
        let mut text = String::new();
        for byte in &self.header[6..12] {
            let _ = write!(text, "{byte:02x}");
        }
        channel.say("mac", text)?;
        let theirs: String = channel.hear(&Nothing, "mac")?;
        let peer = u64::from_str_radix(&theirs, 16).ok().filter(|_| theirs.len() == 12);
        let Some(peer) = peer else {
            return Err(Error::Unexpected { said: theirs, expected: "an Ethernet address" });
        };
        self.header[..6].copy_from_slice(&peer.to_be_bytes()[2..]);
        wait_for_port(&Nothing, &self.spec, || {
            channel.check()?;
            if let Some(reconnect) = &mut self.reconnect {
                reconnect.tend(&mut self.eth, Instant::now()).map_err(VerbsError::from)?;
            }
            Ok(self.eth.no_link(self.reconnect.as_ref()).map(|why| why.to_string()))
        })
    }

    /// Makes a fresh buffer a frame of `size` bytes.
    #[inline]
    pub fn stamp(&self, mbuf: &mut Mbuf, size: usize, payload: &Payload) {
        let (header, data) = mbuf.writable(payload.align_at())[..size].split_at_mut(HEADER);
        header.copy_from_slice(&self.header);
        payload.send(data);
        mbuf.set_len(size);
    }

    /// The sizes to measure, in order.
    pub fn sizes(&self, basics: &Basics) -> Result<Vec<usize>> {
        let possible = FRAME_MIN..=self.frame_max;
        let mut sizes = basics.sizes();
        if basics.all {
            sizes.retain(|size| possible.contains(size));
        }
        match sizes.iter().find(|size| !possible.contains(size)) {
            None => Ok(sizes),
            Some(size) => {
                let max = self.frame_max;
                let text =
                    format!("a frame of this device has {FRAME_MIN} to {max} bytes; {size} are asked for");
                Err(Error::Options(text))
            }
        }
    }
}
