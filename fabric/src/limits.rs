//! What a run may have at most, from files and from command lines alike. All that is measured lies
//! far below, and sums of what lies within cannot wrap.

use cc_dctcp::RTT_NS_MAX;
use core::ops::RangeInclusive;

/// Microseconds in which flows begin.
pub const TIME_US: RangeInclusive<u64> = 1..=10_000_000;
/// Microseconds of a part of a run, such as its warm-up.
pub const PART_US: RangeInclusive<u64> = 0..=10_000_000;
/// Least microseconds between two notifications, or two cuts, of DCQCN.
pub const GAP_US: RangeInclusive<u64> = 0..=1_000_000;
/// Nanoseconds of a link, or between two turns of a host.
pub const DELAY_NS: RangeInclusive<u64> = 0..=1_000_000_000;
/// Nanoseconds of a round trip whose window grows as DCTCP's does.
pub const RTT_REFERENCE_NS: RangeInclusive<u64> = 0..=RTT_NS_MAX as u64;
/// Bytes of a switch's memory: from a few frames on.
pub const BUFFER_BYTES: RangeInclusive<u64> = 10_000..=1 << 30;
/// Bytes of a marking threshold.
pub const MARK_BYTES: RangeInclusive<u64> = 0..=1 << 30;
/// Messages of a flow that are posted at once.
pub const MESSAGES: RangeInclusive<u64> = 1..=16_384;
/// Recovery contexts of a host.
pub const RECOVERY_CONTEXTS: RangeInclusive<u64> = 1..=65_536;
/// Hosts of a network, and its switches.
pub const NODES: RangeInclusive<u64> = 0..=8_192;
