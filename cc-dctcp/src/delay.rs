//! Delays in 16 bits.

/// log2 of a tick in nanoseconds: 64 ns, the unit of ACK_DELAY on the wire.
pub(crate) const TICK_NS_LOG2: u32 = 6;
/// Longest round trip that fair growth tells apart, in nanoseconds: 4.19 ms.
pub const RTT_NS_MAX: u32 = (u16::MAX as u32) << TICK_NS_LOG2;

/// A time in ticks of 64 ns, rounded up, at most 4.19 ms.
pub(crate) fn ticks(ns: u32) -> u16 {
    u16::try_from(ns.div_ceil(1 << TICK_NS_LOG2)).unwrap_or(u16::MAX)
}
