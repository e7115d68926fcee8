//! The scheduling attributes of a queue pair.

/// Priorities of [`SchedulerConfig::StrictPriority`](super::SchedulerConfig::StrictPriority).
pub const PRIORITIES: usize = PRIORITY_MAX as usize + 1;
/// The highest of them.
pub const PRIORITY_MAX: u8 = 7;
/// Largest weight: so many turns, or quanta of bytes, are the longest that others wait for one
/// queue pair.
pub const WEIGHT_LIMIT: u8 = 64;

/// Attributes of a queue pair; each policy looks at those that it knows.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SchedAttributes {
    /// The share of the queue pair beside others, 1..=64. For the weighted policies.
    pub weight: u8,
    /// 0..=7; 0, the lowest, is the default. For strict priority.
    pub priority: u8,
}

impl Default for SchedAttributes {
    fn default() -> Self {
        Self { weight: 1, priority: 0 }
    }
}
