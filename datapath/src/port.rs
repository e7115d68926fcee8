//! The boundary between the engine and whatever moves frames: shared memory, an interface of the
//! kernel's, a DPDK port, a virtual wire, a wrapper around any of these.
//!
//! A port *lends* transmit slots and receive views; it never gives buffers away. A receive view
//! lives until [`Port::rx_release`], a transmit slot until [`Port::tx_commit`] or
//! [`Port::tx_cancel`].

#[cfg(feature = "dpdk")]
pub mod dpdk;
pub mod fault;
pub mod memif;
pub mod options;
pub mod packet;
pub mod pcap_tap;
pub mod rest;
pub mod sim;
pub mod steer;

mod delegate;
mod link_down;
mod mac;
#[cfg(test)]
mod test_frames;
#[cfg(test)]
mod test_pair;
#[cfg(test)]
mod test_port;

use crate::time::Time;
use delegate::delegate;
pub use link_down::LinkDown;
pub(crate) use mac::Mac;
pub use rest::{Interrupt, Rest};
pub use wire::RxFrame;

/// Most frames in one receive burst.
pub const RX_BURST: usize = 32;

/// The capabilities of a port. They do not change while the port lives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PortCaps {
    /// The port's own Ethernet address.
    pub mac: [u8; 6],
    /// Longest frame, in bytes, from the Ethernet header to the ICRC, without the FCS.
    pub max_frame: usize,
}

/// Counters of a port. A frame counted as dropped reached neither the engine nor the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PortStats {
    /// Frames handed to the engine.
    pub rx_frames: u64,
    /// Bytes of those frames.
    pub rx_bytes: u64,
    /// Received frames that the port could not show as one contiguous view.
    pub rx_dropped: u64,
    /// Frames that the driver, or another engine of the device, had no room for: a full ring, or no
    /// free buffer.
    pub rx_missed: u64,
    /// Received frames that were for another engine of the device, and are there now.
    pub rx_steered: u64,
    /// Frames that arrived damaged, by the driver's account.
    pub rx_errors: u64,
    /// Frames handed to the wire.
    pub tx_frames: u64,
    /// Bytes of those frames.
    pub tx_bytes: u64,
    /// Committed frames that the port gave up on.
    pub tx_dropped: u64,
    /// Frames that the driver took for the wire and then could not send.
    pub tx_errors: u64,
    /// Frames that are missing from the record of the port's frames: it could not be written any
    /// more.
    pub unrecorded: u64,
}

/// A source and sink of Ethernet frames, driven by one thread.
///
/// One engine turn calls `rx_burst`, reads each frame, calls `rx_release`, and again as long as
/// bursts are full and have fewer than [`RX_BURST`] frames together; then, for each frame to send,
/// `tx_slot` and `tx_commit`; then `tx_flush` once.
pub trait Port {
    /// What the port can do.
    fn caps(&self) -> PortCaps;

    /// Returns `true` if frames can pass now.
    fn link_up(&self) -> bool;

    /// Why frames cannot pass; `None` if they can. A port over another one has that one's reason.
    fn link_down(&self) -> Option<LinkDown> {
        (!self.link_up()).then_some(LinkDown::Unknown)
    }

    /// Frames that the next burst has at most, 1 to [`RX_BURST`]: few where long frames, taken all
    /// at once, would have left the processor's first cache before they are looked at. Each burst
    /// may change it. A port over another one that does not pass its bursts through as they are has
    /// a limit of its own.
    fn rx_limit(&self) -> usize {
        RX_BURST
    }

    /// Receives up to [`Port::rx_limit`] frames and returns how many. The burst before must have
    /// been released.
    fn rx_burst(&mut self) -> usize;

    /// Frame `index` of the burst, from the Ethernet header on, without the FCS. Of memory that
    /// somebody else may write meanwhile it says so ([`RxFrame::shared`]).
    ///
    /// # Panics
    /// If `index` is not below what [`Port::rx_burst`] returned.
    fn rx_frame(&self, index: usize) -> RxFrame<'_>;

    /// Gives all frames of the burst back.
    fn rx_release(&mut self);

    /// Frames that have arrived and that no burst has taken yet; too many rather than too few. The
    /// engine asks where bursts do not empty the port. `None`: the port does not know.
    fn rx_waiting(&self) -> Option<usize> {
        None
    }

    /// Lends a slot of at least `caps().max_frame` writable bytes, or `None` when the transmit ring
    /// is full. Its old content is undefined. A port that can begins it on a 64-byte boundary:
    /// drivers that copy frames are fastest then.
    fn tx_slot(&mut self) -> Option<&mut [u8]>;

    /// Queues the first `len` bytes of the slot lent last.
    ///
    /// # Panics
    /// If no slot is lent, or `len` is longer than the slot.
    fn tx_commit(&mut self, len: usize);

    /// Takes the slot lent last back unsent. Does nothing if none is lent.
    fn tx_cancel(&mut self);

    /// Hands all queued frames to the wire; what the wire does not take now stays queued for the
    /// next flush.
    fn tx_flush(&mut self);

    /// Frames committed that have not left yet: they wait for the next flush, or for the peer to
    /// take them out of memory that both share. A port that is dropped before takes them along. Of
    /// most ports what is flushed has left.
    ///
    /// `None`: there may be such, and the driver does not tell. A port says so for as long after it
    /// sent as that is likely, and then `Some(0)`.
    fn tx_waiting(&self) -> Option<usize> {
        Some(0)
    }

    /// Frames in the transmit ring that the wire, or the peer, has not taken yet: what is sent now
    /// waits for them. `None`: the port does not know.
    fn tx_ahead(&self) -> Option<usize> {
        None
    }

    /// Called by a thread that found nothing in its last turn and is going to sleep: what wakes it,
    /// and how long it may sleep. A port without interrupts is looked at each millisecond.
    fn rest(&mut self) -> Rest {
        Rest::default()
    }

    /// When a frame that the port itself holds back can move on; `None` if it holds none.
    fn next_due(&self) -> Option<Time> {
        None
    }

    /// Tells the port the time. The engine calls this once a turn, before it receives; only ports
    /// that delay or stamp frames care.
    fn set_now(&mut self, _now: Time) {}

    /// Of a port that several engines share: takes a frame of this engine's own that is for another
    /// one of them. False: it is not.
    fn pass_on(&mut self, _frame: &[u8]) -> bool {
        false
    }

    /// Frames for other engines that receive bursts found since the last call: they were work, too.
    fn take_passed_on(&mut self) -> usize {
        0
    }

    /// Lets frames for these Ethernet addresses of multicast groups through, besides those for the
    /// port's own and for everybody, and for no other groups if it can tell. A port without a
    /// filter lets everything through.
    ///
    /// # Errors
    /// [`FilterError`]; the addresses of the call before are let through then.
    fn set_groups(&mut self, _macs: &[[u8; 6]]) -> Result<(), FilterError> {
        Ok(())
    }

    /// Counters since the port was made.
    fn stats(&self) -> PortStats;
}

/// A port does not let multicast frames through.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the port does not take in frames of multicast groups: {why}")]
pub struct FilterError {
    /// What refused it.
    pub why: String,
}

/// The receive bursts of one turn: as long as they are full, until they have as many frames as the
/// longest.
pub(crate) struct Bursts {
    taken: usize,
    goes_on: bool,
    is_empty: bool,
}

impl Bursts {
    /// Frames of one turn at most.
    pub const MOST: usize = 2 * RX_BURST - 1;

    pub const fn new() -> Self {
        Self { taken: 0, goes_on: true, is_empty: false }
    }

    /// Receives the next burst: its frames, which must be released before the one after; `None` if
    /// there is none.
    #[inline]
    pub fn next(&mut self, port: &mut impl Port) -> Option<usize> {
        if !self.goes_on {
            return None;
        }
        let limit = port.rx_limit();
        let burst = port.rx_burst();
        self.taken += burst;
        self.is_empty = burst < limit;
        self.goes_on = !self.is_empty && self.taken < RX_BURST;
        (burst > 0).then_some(burst)
    }

    /// Whether the port has no more: the last burst was smaller than it may be.
    pub const fn found_empty(&self) -> bool {
        self.is_empty
    }

    /// Frames received so far.
    pub const fn taken(&self) -> usize {
        self.taken
    }
}

/// A port whose kind is known only at run time, at the price of a dynamic call for each method.
impl<P: Port + ?Sized> Port for Box<P> {
    delegate! {
        to (**self);
        fn caps(&self) -> PortCaps;
        fn link_up(&self) -> bool;
        fn link_down(&self) -> Option<LinkDown>;
        fn rx_limit(&self) -> usize;
        fn rx_burst(&mut self) -> usize;
        fn rx_frame(&self, index: usize) -> RxFrame<'_>;
        fn rx_release(&mut self);
        fn rx_waiting(&self) -> Option<usize>;
        fn tx_slot(&mut self) -> Option<&mut [u8]>;
        fn tx_commit(&mut self, len: usize);
        fn tx_cancel(&mut self);
        fn tx_flush(&mut self);
        fn tx_waiting(&self) -> Option<usize>;
        fn tx_ahead(&self) -> Option<usize>;
        fn rest(&mut self) -> Rest;
        fn next_due(&self) -> Option<Time>;
        fn set_now(&mut self, now: Time);
        fn pass_on(&mut self, frame: &[u8]) -> bool;
        fn take_passed_on(&mut self) -> usize;
        fn set_groups(&mut self, macs: &[[u8; 6]]) -> Result<(), FilterError>;
        fn stats(&self) -> PortStats;
    }
}
