//! The counters of injected faults.

/// Counters of one direction, in frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LaneStats {
    /// Frames that came in.
    pub frames: u64,
    /// Frames that went out, duplicates too.
    pub passed: u64,
    /// Bytes of those.
    pub passed_bytes: u64,
    /// Lost, independently.
    pub lost: u64,
    /// Lost in bursts.
    pub burst_lost: u64,
    /// Lost because a rule picked them.
    pub picked: u64,
    /// Lost in a black hole.
    pub hole_lost: u64,
    /// Sent twice.
    pub duplicated: u64,
    /// Held back.
    pub reordered: u64,
    /// Corrupted by one bit.
    pub corrupted: u64,
    /// Marked CE.
    pub marked: u64,
    /// Dropped, frames or their duplicates, because the queue was full.
    pub queue_full: u64,
    /// Dropped because they were longer than the port's `max_frame`.
    pub oversize: u64,
}

impl LaneStats {
    /// All frames that did not get through.
    #[must_use]
    pub const fn dropped(&self) -> u64 {
        self.lost + self.burst_lost + self.picked + self.hole_lost + self.queue_full + self.oversize
    }
}

/// Counters of both directions. A direction without faults counts nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FaultStats {
    /// Frames that the engine sends.
    pub tx: LaneStats,
    /// Frames that the engine receives.
    pub rx: LaneStats,
}
