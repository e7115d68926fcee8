//! Atomics of the standard library, or loom's where the rings are model-checked.

#[cfg(loom)]
mod stand_in;

#[cfg(not(loom))]
pub use crossbeam_queue::ArrayQueue;
#[cfg(not(loom))]
pub use crossbeam_utils::CachePadded;
#[cfg(loom)]
pub use loom::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering, fence};
#[cfg(loom)]
pub use loom::sync::{Condvar, Mutex};
#[cfg(loom)]
pub use stand_in::{ArrayQueue, CachePadded};
#[cfg(not(loom))]
pub use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering, fence};
#[cfg(not(loom))]
pub use std::sync::{Condvar, Mutex};
