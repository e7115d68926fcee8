//! Atomics of the standard library, or loom's where the rings are model-checked.

#[cfg(not(loom))]
mod alarm;
#[cfg(loom)]
mod stand_in;

#[cfg(not(loom))]
pub use alarm::Alarm;
#[cfg(not(loom))]
pub use crossbeam_queue::ArrayQueue;
#[cfg(not(loom))]
pub use crossbeam_utils::CachePadded;
#[cfg(loom)]
pub use loom::sync::Mutex;
#[cfg(loom)]
pub use loom::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering, fence};
#[cfg(loom)]
pub use stand_in::{Alarm, ArrayQueue, CachePadded};
#[cfg(not(loom))]
pub use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering, fence};
