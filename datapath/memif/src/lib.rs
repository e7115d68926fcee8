//! memif 2.0: packets between two processes through shared memory, without a copy on either side.
//!
//! DPDK's own driver copies each packet twice, from its buffers into the shared ones and back. Here
//! the shared buffers themselves are lent: a packet is built in the ring of the sender, and read in
//! the ring of the receiver. Only long packets to a peer on another die or socket are built beside
//! the ring, and copied into it past the caches (docs/adr/0089). The protocol is the same, so
//! either end may be DPDK's, libmemif's or VPP's.
//!
//! | type | is |
//! |---|---|
//! | [`Endpoint`] | one end, or one of its queues: waits for its peer or looks for it, and has a [`Link`] while it is there |
//! | [`Link`] | what it has of a connection: a queue of packets each way |
//! | [`NoLink`] | why it has none |
//! | [`Told`] | what an end of ours says by its name |
//! | [`Probe`] | asks a server whether a client may come, for DPDK's driver, which does not tell |
//! | [`Sender`], [`Receiver`] | those queues |
//! | [`Interrupt`] | wakes whoever sleeps until packets come |
//!
//! Nothing here blocks, and nothing allocates while a link is up.
//!
//! # Trust
//! The peer has the same memory mapped. Whatever it writes, and when, no access of ours leaves the
//! shared memory: indices and descriptors are atomic words, read once and checked, and the first
//! bytes of a packet ([`Receiver::head`]) are a copy. The bytes behind them the peer may go on
//! writing: the reader may see any mixture. So they are for copying and summing up only, and
//! nothing must depend on them (docs/adr/0047).

mod buffers;
mod client;
mod control;
mod distance;
mod endpoint;
mod error;
mod heads;
mod interrupt;
mod link;
pub mod message;
mod name;
pub mod prefetch;
mod probe;
mod queue;
mod region;
mod ring;
mod server;
pub mod socket;
mod stage;
#[cfg(test)]
mod tests;

pub use endpoint::{Config, Endpoint, QUEUES_MAX, Role};
pub use error::{Error, NoLink, Refusal};
pub use heads::HEAD_LEN;
pub use interrupt::Interrupt;
pub use link::Link;
pub use name::{Difference, FRAME_OVERHEAD, OTHER_QUEUES, Told, mtu};
pub use probe::Probe;
pub use queue::{Receiver, Sender};
pub use region::can_be_mapped;
pub use ring::{SIZE_LOG2_MAX, ring_len};
