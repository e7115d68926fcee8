//! Packet sockets of Linux: an interface's frames through memory that is shared with the kernel.
//!
//! DPDK's driver copies each frame from that memory into a buffer of its own, and back. Here the
//! shared memory itself is lent: a received frame is read where the kernel put it, and a frame to
//! send is built where the kernel reads it (docs/adr/0078). It needs no DPDK, and no privilege but
//! `CAP_NET_RAW`.
//!
//! | type | is |
//! |---|---|
//! | [`PacketSocket`] | an interface that is open: a queue of frames each way |
//! | [`Sender`], [`Receiver`] | those queues |
//! | [`Frames`] | which of the interface's frames come |
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
mod interface;
mod layout;
mod receiver;
mod ring;
mod sender;
mod socket;

pub use error::{Error, NoLink};
pub use filter::Frames;
pub use interface::{Interface, mtu_within};
pub use receiver::Receiver;
pub use sender::{Flushed, Sender};

use layout::{Layout, RECEIVED_AT, RESERVE, SENT_AT};
use ring::Ring;
use socket::Socket;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

/// Frames that may wait to be received. With more of them, the memory that each burst goes through
/// is in no cache.
const RX_SLOTS: usize = 512;
/// Frames that may wait to be sent. A slot is free again when its frame has left, which is soon.
const TX_SLOTS: usize = 64;
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
}

/// An interface that is open.
#[derive(Debug)]
pub struct PacketSocket {
    /// Frames from the interface.
    pub rx: Receiver,
    /// Frames to it.
    pub tx: Sender,
    interface: Interface,
    socket: Arc<Socket>,
}

impl PacketSocket {
    /// Opens an interface.
    ///
    /// # Errors
    /// [`Error::Permission`]; [`Error::Refused`] says what the kernel has not.
    pub fn open(interface: Interface, config: &Config) -> Result<Self, Error> {
        let name = interface.name().to_owned();
        let refused = |what| {
            let name = name.clone();
            move |source| Error::Refused { name, what, source }
        };
        let socket = Socket::open(libc::SOCK_RAW).map_err(|source| match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => Error::Permission,
            _ => refused("the opening")(source),
        })?;
        // A block of version 3 is handed over when it is full, or after a millisecond at least: too
        // late for who waits for an answer. Version 2 hands each frame over.
        let version = libc::tpacket_versions::TPACKET_V2 as i32;
        socket.set_number(libc::PACKET_VERSION, version).map_err(refused("version 2"))?;
        let reserve = RESERVE.try_into().unwrap_or_default();
        socket.set_number(libc::PACKET_RESERVE, reserve).map_err(refused("room before frames"))?;
        socket
            .set_number(libc::PACKET_TX_HAS_OFF, 1)
            .map_err(refused("frames that begin on a cache line"))?;
        let rx = Layout::new(RX_SLOTS, RECEIVED_AT, config.max_frame);
        let tx = Layout::new(TX_SLOTS, SENT_AT, config.max_frame);
        for (option, layout) in [(libc::PACKET_RX_RING, rx), (libc::PACKET_TX_RING, tx)] {
            socket.make_ring(option, &layout.request()).map_err(refused("the memory of the rings"))?;
        }
        let map = Arc::new(socket.map(rx.len() + tx.len()).map_err(refused("the mapping"))?);
        // What the system does not allow, it does not take.
        let _ = socket.set_send_room(SEND_ROOM);
        choose(&socket, config.frames).map_err(refused("the filter"))?;
        if config.promiscuous {
            let all = socket.join(interface.index(), libc::PACKET_MR_PROMISC, [0; 6]);
            all.map_err(refused("frames for every address"))?;
        }
        socket.bind(interface.index()).map_err(refused("the interface"))?;
        let socket = Arc::new(socket);
        Ok(Self {
            rx: Receiver::new(Ring::new(&map, 0, rx), config.max_frame),
            tx: Sender::new(Arc::clone(&socket), Ring::new(&map, rx.len(), tx), config.max_frame),
            interface,
            socket,
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

/// Chooses the frames that come in, and never those that this host sends.
fn choose(socket: &Socket, frames: Frames) -> io::Result<()> {
    // Since Linux 4.20.
    let sees_sent = socket.set_number(libc::PACKET_IGNORE_OUTGOING, 1).is_err();
    match filter::program(frames, sees_sent) {
        Some(mut program) => socket.attach(&mut program),
        None => Ok(()),
    }
}
