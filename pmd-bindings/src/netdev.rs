//! Ports over an interface of the kernel's: through a packet socket, or through an XDP socket.

use std::os::fd::{FromRawFd, OwnedFd};

use ::packet::{Interface, mtu_within};
use memif::FRAME_OVERHEAD;

use crate::device::Device;
use crate::eal::Eal;
use crate::error::PortError;
use crate::ethdev::Wiring;
use crate::mempool::Mempool;
use crate::open::{BUFFERS, OpenPort};
use crate::socket_path::is_special;
use crate::unix::check;

/// How frames pass between an interface and this process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SocketKind {
    /// `AF_PACKET`, with rings shared with the kernel: works on every interface.
    Packet,
    /// `AF_XDP`, ahead of the kernel's stack: frames do not reach it any more.
    Xdp,
}

/// A port over an interface. No address of the kernel's on it may be ours, or both answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InterfaceConfig {
    /// Through which socket.
    pub kind: SocketKind,
    /// The interface.
    pub name: String,
    /// The port's address; the interface's if `None`.
    pub mac: Option<[u8; 6]>,
    /// Longest IP packet, in bytes; the interface's if `None`, as far as the socket takes it.
    pub mtu: Option<u16>,
}

/// Longest IP packet that is asked for, in bytes: jumbo frames.
const MTU_MAX: u16 = 9216;

impl SocketKind {
    const fn driver(self) -> &'static str {
        match self {
            Self::Packet => "net_af_packet",
            Self::Xdp => "net_af_xdp",
        }
    }

    /// Longest IP packet that it takes, in bytes.
    const fn mtu_max(self) -> u16 {
        match self {
            Self::Packet => MTU_MAX,
            Self::Xdp => xdp::MAX_FRAME - FRAME_OVERHEAD,
        }
    }
}

impl InterfaceConfig {
    /// Opens the port.
    ///
    /// # Errors
    /// [`PortError::Interface`] if there is none, or it cannot be; [`PortError::Permission`]; else
    /// what DPDK refused.
    pub fn open(&self, eal: &Eal) -> Result<OpenPort, PortError> {
        if self.name.contains(is_special) {
            return Err(self.error("DPDK takes no name with one of , = [ ] \" in it".to_owned()));
        }
        let interface = Interface::find(&self.name)?;
        let mac = self.mac.map_or_else(|| interface.mac(), Ok)?;
        let max_frame = self.mtu(interface.mtu()?)? + FRAME_OVERHEAD;
        check_permission()?;
        let (arguments, buffers, room) = match self.kind {
            SocketKind::Packet => packet::layout(max_frame),
            SocketKind::Xdp => xdp::layout(),
        };
        let arguments = format!("iface={},{arguments}", self.name);
        let pool = Mempool::new(eal, buffers, room)?;
        let mut wiring = Wiring::from(Device::virtual_device(self.kind.driver(), &arguments));
        wiring.carrier = Some(interface);
        OpenPort::start(eal, wiring, &pool, max_frame, Some(mac))
    }

    /// The MTU of the port over an interface with an MTU of `theirs`.
    fn mtu(&self, theirs: u32) -> Result<u16, PortError> {
        if self.kind == SocketKind::Xdp && theirs > self.kind.mtu_max().into() {
            return Err(self.error(format!(
                "its mtu, {theirs}, is more than XDP takes; `ip link set {} mtu {}`, and the same for its peer if it is a veth",
                self.name,
                self.kind.mtu_max()
            )));
        }
        Ok(mtu_within(&self.name, self.mtu, theirs, self.kind.mtu_max())?)
    }

    fn error(&self, problem: String) -> PortError {
        PortError::Interface { name: self.name.clone(), problem }
    }
}

/// Fails if this user may not open a packet socket, which both kinds take: DPDK would say less.
fn check_permission() -> Result<(), PortError> {
    // SAFETY: no pointers.
    match check(unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) }) {
        Ok(fd) => {
            // SAFETY: just made, and nobody else's. Closed at once.
            drop(unsafe { OwnedFd::from_raw_fd(fd) });
            Ok(())
        }
        Err(_) => Err(PortError::Permission {
            what: "an interface's frames",
            remedy: "give the program the capability (setcap cap_net_raw,cap_net_admin,cap_bpf+ep PROGRAM)",
        }),
    }
}

/// The rings of a packet socket.
mod packet {
    use super::BUFFERS;

    /// What the kernel puts before a received frame (its header, addresses and alignment: 66 bytes)
    /// and a little more.
    const OVERHEAD: u16 = 96;
    /// Ring slots are a multiple of this, and 8 of them a multiple of the page.
    const STEP: u16 = 512;

    /// Arguments of the driver, buffers, and room in each, for frames of up to `max_frame` bytes.
    pub(super) fn layout(max_frame: u16) -> (String, u32, u16) {
        let slot = (max_frame + OVERHEAD).next_multiple_of(STEP);
        let block = u32::from(slot) * 8;
        // Through the queueing discipline, so that tcpdump and netem on the interface see what is
        // sent. The driver wants buffers as large as a slot.
        (format!("framesz={slot},blocksz={block},qdisc_bypass=0"), BUFFERS, slot)
    }
}

/// The memory that is shared with an XDP socket.
mod xdp {
    /// A chunk holds a whole buffer, with what DPDK puts before it. The kernel takes chunks up to a
    /// page, 4096 bytes; one cache line less makes an odd number of them, which DPDK's pool does
    /// not pad for the sake of memory channels.
    const CHUNK: u16 = 4096 - 64;
    /// The pool's header of a buffer, and the mbuf.
    const MBUF: u16 = 64 + 128;
    /// What the kernel keeps free for XDP programs.
    const PROGRAM_HEADROOM: u16 = 256;
    const ROOM: u16 = CHUNK - MBUF - crate::HEADROOM;
    /// Longest frame.
    pub(super) const MAX_FRAME: u16 = ROOM - PROGRAM_HEADROOM;
    /// The kernel holds up to 4096 to receive into; as many for what is under way.
    const BUFFERS: u32 = 8192;

    /// Arguments of the driver, buffers, and room in each.
    pub(super) fn layout() -> (String, u32, u16) {
        ("start_queue=0,queue_count=1".into(), BUFFERS, ROOM)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mtu(kind: SocketKind, asked: Option<u16>, theirs: u32) -> Result<u16, String> {
        let config = InterfaceConfig { kind, name: "eth1".into(), mac: None, mtu: asked };
        config.mtu(theirs).map_err(|error| error.to_string())
    }

    #[test]
    fn the_mtu_is_the_interfaces_as_far_as_the_socket_takes_it() {
        assert_eq!(mtu(SocketKind::Packet, None, 1500), Ok(1500));
        assert_eq!(mtu(SocketKind::Packet, None, 65_536), Ok(9216));
        assert_eq!(mtu(SocketKind::Xdp, None, 1500), Ok(1500));
        let jumbo = mtu(SocketKind::Xdp, None, 4200).expect_err("too long for a page");
        assert!(
            jumbo.contains("its mtu, 4200, is more than XDP takes; `ip link set eth1 mtu 3438`"),
            "{jumbo}"
        );
        let asked = mtu(SocketKind::Xdp, Some(4200), 1500).expect_err("too long for a page");
        assert!(
            asked.contains("mtu=4200 is more than the 3438 bytes that this kind of socket takes"),
            "{asked}"
        );
    }

    #[test]
    fn ring_slots_fill_whole_pages() {
        assert_eq!(packet::layout(4218).0, "framesz=4608,blocksz=36864,qdisc_bypass=0");
        for max_frame in 366..=9234 {
            let (_, _, slot) = packet::layout(max_frame);
            assert!(slot >= max_frame + 66 && u32::from(slot) * 8 % 4096 == 0, "{max_frame}");
        }
    }

    #[test]
    fn an_xdp_port_takes_a_path_mtu_of_2048() {
        const { assert!(xdp::MAX_FRAME - FRAME_OVERHEAD >= 2048 + 92) };
    }
}
