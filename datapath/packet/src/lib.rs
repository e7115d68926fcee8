//! Packet sockets of Linux: an interface's frames through memory that is shared with the kernel.
//!
//! DPDK's driver copies each frame from that memory into a buffer of its own, and back. Here the
//! shared memory itself is lent: a received frame is read where the kernel put it, and a frame to
//! send is built where the kernel reads it (docs/adr/0078). It needs no DPDK, and no privilege but
//! `CAP_NET_RAW`. With more, it spares the kernel the packets of its host (docs/adr/0088).
//!
//! | type | is |
//! |---|---|
//! | [`PacketSocket`] | an interface that is open: a queue of frames each way |
//! | [`Sender`], [`Receiver`] | those queues |
//! | [`Frames`] | which of the interface's frames come |
//! | [`Host`] | whose packets are for the socket alone |
//! | [`Interface`] | an interface: its address, its MTU, its link |
//! | [`NoLink`] | why frames cannot pass it |
//!
//! Nothing here blocks, and nothing allocates while frames pass. A burst of frames to send costs
//! one system call, received frames cost none.
//!
//! # Trust
//! The other side of the rings is the kernel, which keeps to the states of slots: a slot that is
//! ours it does not write. So frames are borrowed where they are, headers included.

mod error;
mod filter;
mod ingress;
mod interface;
mod layout;
mod receiver;
mod ring;
mod sender;
mod socket;

pub use error::{Error, NoLink};
pub use filter::Frames;
pub use ingress::Host;
pub use interface::{Interface, mtu_within};
pub use receiver::Receiver;
pub use sender::{Flushed, Sender};

use ingress::Ingress;
use layout::{Layout, RECEIVED_AT, RESERVE, SENT_AT};
use ring::Ring;
use socket::Socket;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// Frames that may wait to be received. With more of them, the memory that each burst goes through
/// is in no cache.
const RX_SLOTS: usize = 512;
/// Frames that may wait to be sent. A slot is free again when its frame has left, which is soon.
const TX_SLOTS: usize = 128;
/// Bytes of frames that may be on their way out in the kernel: what the system allows by default
/// (`net.core.wmem_max`), or less.
const SEND_ROOM: i32 = 1 << 20;

/// The configuration of a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// Longest frame each way, in bytes, with its VLAN tag.
    pub max_frame: u16,
    /// Frames that are received.
    pub frames: Frames,
    /// The interface takes in frames for every address, and not for its own only.
    pub promiscuous: bool,
    /// The host whose `RoCEv2` packets are for this socket alone: the kernel's own IP stack does
    /// not get them, where the system allows that (`CAP_BPF` and `CAP_NET_ADMIN`, Linux 6.6).
    pub host: Option<Host>,
}

/// An interface that is open.
#[derive(Debug)]
pub struct PacketSocket {
    /// Frames from the interface.
    pub rx: Receiver,
    /// Frames to it.
    pub tx: Sender,
    interface: Interface,
    /// The one that receives; `tx` has another one.
    socket: Socket,
    /// What keeps the host's packets from the kernel's stack, or why that gets them, too.
    ingress: Option<io::Result<Ingress>>,
}

impl PacketSocket {
    /// Opens an interface.
    ///
    /// # Errors
    /// [`Error::Permission`]; [`Error::Refused`] says what the kernel has not.
    pub fn open(interface: Interface, config: &Config) -> Result<Self, Error> {
        let kernel = Kernel { name: interface.name() };
        let (tx, sender) = kernel.open_sender(config.max_frame)?;
        let (rx, receiver) = kernel.open_receiver(config)?;
        if config.promiscuous {
            let all = receiver.join(interface.index(), libc::PACKET_MR_PROMISC, [0; 6]);
            kernel.may("frames for every address", all)?;
        }
        // One of no protocol receives nothing.
        kernel.may("the interface", sender.bind(interface.index(), 0))?;
        kernel.may("the interface", receiver.bind(interface.index(), libc::ETH_P_ALL))?;
        let ingress = config.host.map(|host| Ingress::attach(interface.index(), host));
        Ok(Self {
            rx: Receiver::new(rx, config.max_frame),
            tx: Sender::new(sender, tx, config.max_frame),
            interface,
            socket: receiver,
            ingress,
        })
    }

    /// The interface.
    #[must_use]
    pub const fn interface(&self) -> &Interface {
        &self.interface
    }

    /// The interface, to join groups.
    pub const fn interface_mut(&mut self) -> &mut Interface {
        &mut self.interface
    }

    /// Why the kernel's IP stack gets the host's packets, too; `None` if it does not, or may.
    pub fn refusal(&self) -> Option<&io::Error> {
        self.ingress.as_ref().and_then(|ingress| ingress.as_ref().err())
    }

    /// Why frames cannot pass; `None` if they can. The kernel's IP stack has the host's packets
    /// again once the interface is gone: it may be another namespace's.
    pub fn no_link(&mut self) -> Option<NoLink> {
        let no_link = self.interface.no_link();
        if matches!(no_link, Some(NoLink::Gone { .. })) {
            self.ingress = None;
        }
        no_link
    }

    /// Frames that found the ring full since the last call.
    #[must_use]
    pub fn take_missed(&self) -> u64 {
        self.socket.take_drops()
    }
}

/// Readable while there is a frame that was not received and released. Reading from it takes
/// nothing but an error that the kernel has to tell, such as that the interface went down.
impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The kernel, asked for an interface of this name.
#[derive(Clone, Copy)]
struct Kernel<'a> {
    name: &'a str,
}

impl Kernel<'_> {
    /// What it answered when it was asked for `what`.
    fn may<T>(self, what: &'static str, answer: io::Result<T>) -> Result<T, Error> {
        answer.map_err(|source| Error::Refused { name: self.name.to_owned(), what, source })
    }

    fn open(self) -> Result<Socket, Error> {
        let socket = match Socket::open(libc::SOCK_RAW) {
            Err(source) if matches!(source.raw_os_error(), Some(libc::EPERM | libc::EACCES)) => {
                return Err(Error::Permission);
            }
            answer => self.may("the opening", answer)?,
        };
        // A block of version 3 is handed over when it is full, or after a millisecond at least: too
        // late for who waits for an answer. Version 2 hands each frame over.
        let version = libc::tpacket_versions::TPACKET_V2 as i32;
        self.may("version 2", socket.set_number(libc::PACKET_VERSION, version))?;
        Ok(socket)
    }

    /// A socket with a ring of frames to send. With one of its own, received frames have nothing
    /// before them that is of use for sent ones only.
    fn open_sender(self, max_frame: u16) -> Result<(Ring, Socket), Error> {
        let socket = self.open()?;
        self.may("frames that begin on a cache line", socket.set_number(libc::PACKET_TX_HAS_OFF, 1))?;
        self.may("frames that are copied whole", socket.set_number(libc::PACKET_VNET_HDR, 1))?;
        // What the system does not allow, it does not take.
        let _ = socket.set_send_room(SEND_ROOM);
        let layout = Layout::new(TX_SLOTS, SENT_AT, max_frame);
        Ok((self.ring(&socket, libc::PACKET_TX_RING, layout)?, socket))
    }

    /// A socket with a ring of frames that come.
    fn open_receiver(self, config: &Config) -> Result<(Ring, Socket), Error> {
        let socket = self.open()?;
        let reserve = RESERVE.try_into().unwrap_or_default();
        self.may("room before frames", socket.set_number(libc::PACKET_RESERVE, reserve))?;
        self.may("the filter", choose(&socket, config.frames))?;
        let layout = Layout::new(RX_SLOTS, RECEIVED_AT, config.max_frame);
        Ok((self.ring(&socket, libc::PACKET_RX_RING, layout)?, socket))
    }

    fn ring(self, socket: &Socket, option: libc::c_int, layout: Layout) -> Result<Ring, Error> {
        self.may("the memory of a ring", socket.make_ring(option, &layout.request()))?;
        Ok(Ring::new(self.may("the mapping of a ring", socket.map(layout.len()))?, layout))
    }
}

/// Chooses the frames that come in, and never those that this host sends.
fn choose(socket: &Socket, frames: Frames) -> io::Result<()> {
    // Since Linux 4.20.
    let sees_sent = socket.set_number(libc::PACKET_IGNORE_OUTGOING, 1).is_err();
    match filter::program(frames, sees_sent) {
        Some(mut program) => socket.attach(&mut program),
        None => Ok(()),
    }
}
