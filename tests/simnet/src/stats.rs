//! Counters of a link.

use crate::frame::FrameKind;

/// Frames by kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct KindCounts {
    /// Requests and responses.
    pub data: u64,
    /// Positive acknowledgements.
    pub ack: u64,
    /// NAK 0x60.
    pub nack: u64,
    /// RNR NAKs.
    pub rnr: u64,
    /// Other NAKs.
    pub error_nak: u64,
    /// The rest.
    pub other: u64,
}

impl KindCounts {
    /// Counts one frame.
    pub const fn add(&mut self, kind: FrameKind) {
        let counter = match kind {
            FrameKind::Data => &mut self.data,
            FrameKind::Ack => &mut self.ack,
            FrameKind::Nack => &mut self.nack,
            FrameKind::Rnr => &mut self.rnr,
            FrameKind::ErrorNak => &mut self.error_nak,
            FrameKind::Other => &mut self.other,
        };
        *counter += 1;
    }

    /// All frames.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.data + self.ack + self.nack + self.rnr + self.error_nak + self.other
    }
}

/// What happened on a link. `sent + duplicated = delivered + dropped.total() + missed + in
/// flight + held back`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LinkStats {
    /// Frames that entered.
    pub sent: u64,
    /// Frames that left at the other end, spoiled or not.
    pub delivered: u64,
    /// Bytes of those.
    pub delivered_bytes: u64,
    /// Dropped by a filter.
    pub filtered: u64,
    /// Dropped at random, one by one.
    pub lost: u64,
    /// Dropped at random, in bursts.
    pub burst_lost: u64,
    /// Dropped while the link was a black hole.
    pub swallowed: u64,
    /// Dropped because the queue was full.
    pub overflowed: u64,
    /// Dropped at the other end, where the receive ring was full.
    pub missed: u64,
    /// Delivered twice.
    pub duplicated: u64,
    /// Delivered late, so that later ones overtook.
    pub reordered: u64,
    /// Delivered with flipped bits.
    pub corrupted: u64,
    /// Delivered shortened.
    pub truncated: u64,
    /// Marked CE.
    pub marked: u64,
    /// Held back by a filter.
    pub held: u64,
    /// Largest number of frames that stood in the queue.
    pub queue_max: usize,
    /// Entered, by kind.
    pub sent_by: KindCounts,
    /// Dropped for any reason, by kind.
    pub dropped_by: KindCounts,
    /// Corrupted or truncated, by kind: the receiver's engine loses them.
    pub spoiled_by: KindCounts,
}

impl LinkStats {
    /// Data frames that the receiver cannot use: dropped, corrupted or truncated.
    #[must_use]
    pub const fn data_lost(&self) -> u64 {
        self.dropped_by.data + self.spoiled_by.data
    }
}
