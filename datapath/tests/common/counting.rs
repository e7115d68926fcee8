//! The system's allocator, with a count for each thread. A test binary makes it its
//! `#[global_allocator]`.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    /// Of this thread alone: the test harness has others.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// Counts what it passes on.
pub struct Counting;

// SAFETY: every call is passed to `System` unchanged; a `const` thread-local without `Drop`
// allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: our caller keeps the contract of `alloc`, which is that of `System`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: `ptr` came from `System`, by `alloc`, with this layout.
        unsafe { System.dealloc(ptr, layout) }
    }
}

/// Allocations of this thread while `run` runs.
pub fn allocations(run: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    run();
    ALLOCATIONS.get() - before
}
