//! A port without an engine.

use super::frame::{ETHERTYPE, FRAME_MIN, HEADER};
use super::payload::Payload;
use crate::channel::Channel;
use crate::error::{Error, Result};
use crate::link::wait_for_port;
use crate::perf::cli::{Basics, RawDeviceArg};
use crate::pump::{Drive, Nothing};
use datapath::port::Port;
use datapath::port::dpdk::DpdkPort;
use datapath::port::memif::MemifPort;
use datapath::port::packet::PacketPort;
use std::fmt::Write as _;
use std::time::Instant;
use verbs_api::{DeviceSpec, PortDriver, Role, Time, Transport, open_memif, open_packet, open_port};

/// Frames that are handed to the driver at once.
pub const BURST: usize = 32;

/// What to do with a link, whatever moves its frames: over each kind of port it is compiled for
/// that one, as the engine is.
pub trait Work {
    /// Does it.
    ///
    /// # Errors
    /// Its own.
    fn run<P: Port>(self, link: &mut Link<P>, channel: &mut Channel) -> Result<()>;
}

/// A link over whatever moves the frames of a device.
pub enum AnyLink {
    Memif(Box<Link<MemifPort>>),
    Packet(Box<Link<PacketPort>>),
    Dpdk(Box<Link<DpdkPort>>),
}

impl AnyLink {
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
        if matches!(spec.transport, Transport::Pool { .. }) {
            let text = "raw frames have no addresses, which a pool is for; give a port of the switch's own, as in memif:/tmp/a.sock";
            return Err(Error::Options(text.to_owned()));
        }
        Ok(match spec.transport {
            Transport::Memif { driver: PortDriver::Native, .. } => {
                Self::Memif(Box::new(Link::over(open_memif(&spec)?, spec)))
            }
            Transport::AfPacket { driver: PortDriver::Native, .. } => {
                Self::Packet(Box::new(Link::over(open_packet(&spec)?, spec)))
            }
            _ => Self::Dpdk(Box::new(Link::over(DpdkPort::over(open_port(&spec)?), spec))),
        })
    }

    /// Does it over this link.
    pub fn run(&mut self, work: impl Work, channel: &mut Channel) -> Result<()> {
        match self {
            Self::Memif(link) => work.run(&mut **link, channel),
            Self::Packet(link) => work.run(&mut **link, channel),
            Self::Dpdk(link) => work.run(&mut **link, channel),
        }
    }
}

impl Drive for AnyLink {
    fn drive(&self) -> bool {
        false
    }

    fn link_down(&self) -> Option<String> {
        match self {
            Self::Memif(link) => link.link_down(),
            Self::Packet(link) => link.link_down(),
            Self::Dpdk(link) => link.link_down(),
        }
    }
}

/// A port, and the header of every frame that it sends.
pub struct Link<P> {
    pub port: P,
    /// Longest frame.
    pub frame_max: usize,
    /// Whether frames of others can come, too: an operating system speaks on its interfaces.
    pub others: bool,
    /// What the command line calls it.
    spec: DeviceSpec,
    header: [u8; HEADER],
    opened: Instant,
}

impl<P: Port> Link<P> {
    fn over(port: P, spec: DeviceSpec) -> Self {
        let caps = port.caps();
        let mut header = [0; HEADER];
        header[6..12].copy_from_slice(&caps.mac);
        header[12..].copy_from_slice(&ETHERTYPE);
        let others = matches!(
            spec.transport,
            Transport::AfPacket { .. } | Transport::AfXdp { .. } | Transport::Pci { .. }
        );
        Self { port, frame_max: caps.max_frame, others, spec, header, opened: Instant::now() }
    }

    fn link_down(&self) -> Option<String> {
        self.port.link_down().map(|why| why.to_string())
    }

    /// Tells the port the time, by which it looks after its link.
    pub fn tend(&mut self) {
        let now = u64::try_from(self.opened.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.port.set_now(Time(now));
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
        let spec = self.spec.clone();
        wait_for_port(&Nothing, &spec, || {
            channel.check()?;
            self.tend();
            // A port looks after its link when it receives.
            if self.port.rx_burst() > 0 {
                self.port.rx_release();
            }
            Ok(self.link_down())
        })
    }

    /// Queues a frame of `size` bytes for the next flush; false if the port has no room.
    #[inline]
    pub fn queue(&mut self, size: usize, payload: &Payload) -> bool {
        let Some(slot) = self.port.tx_slot() else { return false };
        let (header, data) = slot[..size].split_at_mut(HEADER);
        header.copy_from_slice(&self.header);
        payload.send(data);
        self.port.tx_commit(size);
        true
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
