//! Which operations are sampled.

/// Which operations are sampled, and which of them are slow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LatencyConfig {
    /// One in so many send requests of a queue pair; a power of two, at most 2^16.
    pub one_in: u32,
    /// Operations that take longer, in nanoseconds, are kept with the state of their queue pair.
    pub slow_ns: u64,
}

impl LatencyConfig {
    /// Largest [`LatencyConfig::one_in`].
    pub const ONE_IN_MAX: u32 = 1 << 16;
}

impl Default for LatencyConfig {
    /// One in 64; none is called slow.
    fn default() -> Self {
        Self { one_in: 64, slow_ns: u64::MAX }
    }
}
