//! What WRITEs promise about their order in memory.

bitflags::bitflags! {
    /// Promises beyond those of protocol.md 2.4, where a WRITE of more than 64 bytes is placed as
    /// its packets come, so that two that overlap may land in either order. Each costs what it
    /// waits for; WRITEs of at most 64 bytes are in order without them.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    pub struct WriteOrder: u8 {
        /// Our WRITEs of more than 64 bytes wait until those before them that they overlap are
        /// acknowledged, so that the last one posted stands. Ranges are compared by their remote
        /// addresses, whatever the keys: two addresses of the same byte are not seen to overlap.
        const ORDERED_OVERLAP = 1;
        /// The peer's requests are placed here strictly in the order in which they were posted:
        /// what comes out of order is dropped and asked for again, as go-back-N does. Nothing is
        /// placed before its ICRC was verified; without this, bytes of a packet that was damaged on
        /// the way may lie for a while in a message that is not complete (docs/adr/0024).
        const STRICT_PLACEMENT = 2;
    }
}
