//! The one error type of this crate.

use crate::cm::ConnectionError;
use crate::endpoint::EndpointError;
use crate::spec::SpecError;
use core::time::Duration;
use datapath::engine::{ConfigError, CreateError, GroupError, ModifyError};
use datapath::memory::RegisterError;
use datapath::port::LinkDown;
use datapath::qp::state::QpType;
use datapath::queue::PostError;
use std::io;
use std::path::PathBuf;
use wire::WireMode;

/// A work request of a batch was not accepted: it and those behind it are not posted, those before
/// it are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("work request {posted} of the batch: {source}")]
pub struct BatchError {
    /// Requests that were posted, so the index of the first that was not.
    pub posted: usize,
    /// Why the request was refused.
    pub source: PostError,
}

/// Why a call failed. Nothing has changed then, unless the variant says otherwise.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The device string makes no sense.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The device cannot be had in this build, or not yet.
    #[error("{0}")]
    Unsupported(&'static str),
    /// A device string with several engines where one device is to be opened.
    #[error(
        "the device string has engines={engines}, and one device runs one of them: leave that out, or open a device for each by \
         Device::open_engines"
    )]
    Engines {
        /// The number of engines that the string asks for.
        engines: u8,
    },
    /// Another process opened the device, and forked this one. A device works only where it was
    /// opened.
    #[error("the device was opened by the process that forked this one, and works only there; open one here")]
    Forked,
    /// DPDK did not start.
    #[cfg(feature = "dpdk")]
    #[error("DPDK did not start: {0}")]
    Eal(#[from] datapath::port::dpdk::EalError),
    /// DPDK refused the port.
    #[cfg(feature = "dpdk")]
    #[error("the port cannot be opened: {0}")]
    Port(#[from] datapath::port::dpdk::PortError),
    /// A memif cannot be opened by its native driver.
    #[error(transparent)]
    Memif(#[from] datapath::port::memif::Error),
    /// An interface of the kernel's cannot be opened by its native driver.
    #[error("the port cannot be opened: {0}")]
    Packet(#[from] datapath::port::packet::Error),
    /// The port does not let the multicast frames through that IPv6 needs.
    #[error(transparent)]
    Filter(#[from] datapath::port::FilterError),
    /// A `sim:` device finds no place on its segment.
    #[error(transparent)]
    Sim(#[from] datapath::port::sim::SimError),
    /// The engine refused its sizes or its port.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The queue pair was dropped while an operation of it was awaited.
    #[cfg(feature = "async")]
    #[error("the queue pair was dropped while the operation was under way")]
    QueuePairGone,
    /// The connection was ended in order, by the peer or by this end, before the operation was
    /// done.
    #[cfg(feature = "async")]
    #[error(
        "the connection was ended, by the peer or by `disconnect` here, and the operation with it; connect again to go on"
    )]
    Disconnected,
    /// The endpoint of `stat=` could not be opened.
    #[error("what the device tells cannot be had at {address}: {source}")]
    Stat {
        /// The place.
        address: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The file of `costs=` could not be read, or has no costs.
    #[error("the costs of operations cannot be had from {}: {why}; `srnic calibrate` writes such a file", path.display())]
    Costs {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// A pool gave no port.
    #[error("the pool at {} gives no port: {why}", socket.display())]
    Pool {
        /// The socket of the switch.
        socket: PathBuf,
        /// Why.
        why: String,
    },
    /// The operating system gave no random numbers.
    #[error("the operating system gives no random numbers: {0}")]
    Random(getrandom::Error),
    /// The thread of [`Driver::Thread`](crate::Driver::Thread) does not run.
    #[error("the engine's thread cannot {doing}: {source}")]
    Thread {
        /// What the process cannot do.
        doing: &'static str,
        /// What the operating system said.
        source: io::Error,
    },
    /// A queue was not created.
    #[error("{0}{remedy}", remedy = remedy(.0))]
    Create(CreateError),
    /// Memory was not registered.
    #[error(transparent)]
    Register(#[from] RegisterError),
    /// Memory of the caller's is not there, or not to be written.
    #[error(
        "{len} bytes at {addr:#x} cannot be {}: {source}; register memory that is mapped and that no device is behind",
        if *written { "written" } else { "read" }
    )]
    Inaccessible {
        /// The first address.
        addr: u64,
        /// Length in bytes.
        len: usize,
        /// Whether they are to be written.
        written: bool,
        /// What the operating system said.
        source: io::Error,
    },
    /// A queue pair was not connected.
    #[error(transparent)]
    Connect(#[from] ModifyError),
    /// A queue pair did not join a multicast group, or leave it.
    #[error(transparent)]
    Group(#[from] GroupError),
    /// The link of a device did not come up within the time that the caller gave.
    #[error("the link did not come up within {limit:?}: {why}")]
    LinkDown {
        /// The time that is over.
        limit: Duration,
        /// Why, as of its end.
        why: LinkDown,
    },
    /// A connection by address was not made.
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    /// A work request was not accepted.
    #[error(transparent)]
    Post(#[from] PostError),
    /// A work request of a batch was not accepted.
    #[error(transparent)]
    Batch(#[from] BatchError),
    /// An endpoint's text or bytes make no sense.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// The two ends of a connection do not go together.
    #[error("{what} is {ours} here and {theirs} at the peer: {remedy}")]
    Incompatible {
        /// The property that differs.
        what: &'static str,
        /// Its value here.
        ours: u32,
        /// Its value at the peer.
        theirs: u32,
        /// What the user can do.
        remedy: &'static str,
    },
    /// The two ends of a connection speak different dialects.
    #[error(
        "this end speaks {ours:?} and the peer {theirs:?}: build both queue pairs with the same wire_mode"
    )]
    WireMode {
        /// The wire mode of this end.
        ours: WireMode,
        /// The wire mode of the peer.
        theirs: WireMode,
    },
    /// One end is a reliable connection and the other an unreliable one.
    #[error(
        "this end is {} connection and the peer's is not: build both with `unreliable()`, or none",
        if *reliable { "a reliable" } else { "an unreliable" }
    )]
    Service {
        /// True if this end is the reliable one.
        reliable: bool,
    },
    /// The system has no hugepages for a region.
    #[error(
        "no hugepages for a region of {len} bytes: {source}; reserve some with `sysctl vm.nr_hugepages=N`, or take HugepagePolicy::Prefer"
    )]
    Hugepages {
        /// The length of the region in bytes.
        len: usize,
        /// What the operating system said.
        source: io::Error,
    },
    /// A range that is not inside its region.
    #[error("bytes {start}..{end} are not inside a region of {len} bytes")]
    OutOfBounds {
        /// First byte.
        start: u64,
        /// The offset behind the last byte.
        end: u64,
        /// Length of the region.
        len: u64,
    },
    /// A word's offset that is not a multiple of its size in memory.
    #[error("offset {offset} is not aligned to {align} bytes in memory")]
    Misaligned {
        /// The offset.
        offset: usize,
        /// The number that the address must be a multiple of.
        align: usize,
    },
    /// A range longer than one work request can name, 2^32 - 1 bytes.
    #[error("a slice of {len} bytes; one scatter-gather element holds at most 2^32 - 1")]
    SliceTooLong {
        /// Its length in bytes.
        len: u64,
    },
    /// The completion queue was created without a channel.
    #[error(
        "the completion queue has no channel to tell of completions; create it with Device::create_cq_on"
    )]
    NoChannel,
    /// A completion channel cannot be had or waited for.
    #[error("completion channel: {0}")]
    Channel(#[source] io::Error),
    /// Asynchronous events cannot be waited for.
    #[error("the descriptor of asynchronous events: {0}")]
    Events(#[source] io::Error),
    /// A datagram to a queue pair that cannot be, or to one of a multicast group.
    #[error(
        "a datagram to queue pair {qpn:#x}; numbers of queue pairs are 0x1 to 0xfffffe, and of a multicast group's members 0xffffff"
    )]
    DatagramTo {
        /// The number of the queue pair.
        qpn: u32,
    },
    /// The queue pair completes elsewhere, so that what is awaited would never end.
    #[cfg(feature = "async")]
    #[error("the queue pair has other completion queues; begin it by `queue_pair` of these Completions")]
    ForeignQueuePair,
    /// Two objects of different devices.
    #[error("the {what} belongs to another device; make both of the same one")]
    OtherDevice {
        /// The kind of object.
        what: &'static str,
    },
    /// A region cannot change while others name it.
    #[error("the region has clones, or windows on it; drop those first")]
    RegionShared,
    /// A request of another service than the queue pair's.
    #[error("a queue pair of type {qp_type} takes no {what}; create one of the other type")]
    WrongService {
        /// Requests of that kind.
        what: &'static str,
        /// The queue pair's type.
        qp_type: QpType,
    },
    /// A file could not be used: as memory, or for what a device records.
    #[error("cannot {doing} {path}: {source}")]
    File {
        /// What was tried with the file.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
}

// The text has the cause's, so that the cause is not a source of its own.
impl From<CreateError> for Error {
    fn from(error: CreateError) -> Self {
        Self::Create(error)
    }
}

/// What to do about a size that a program may have chosen elsewhere.
fn remedy(error: &CreateError) -> &'static str {
    match error {
        CreateError::OutOfRange { what: "window", given, max, .. } if *given > *max => {
            "; DeviceBuilder::window_max allows larger ones"
        }
        _ => "",
    }
}
