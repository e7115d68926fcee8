//! Atomics and threads of the standard library, or loom's where the rings and the bell are model-checked.

#[cfg(loom)]
pub(crate) use loom::{
    sync::Arc,
    sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence},
    thread::{Thread, current, park},
};
#[cfg(not(loom))]
pub(crate) use std::{
    sync::Arc,
    sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence},
    thread::{Thread, current, park},
};

/// A value on cache lines of its own, so that one side's stores do not slow the other side's.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct OwnLine<T>(pub(crate) T);
