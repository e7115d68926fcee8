//! The system's allocator, which counts what each thread holds. A test binary makes it its
//! `#[global_allocator]`.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    /// Of this thread alone: the test harness has others.
    static HELD: Cell<usize> = const { Cell::new(0) };
}

/// Counts what it passes on.
pub struct Counting;

// SAFETY: every call is passed to `System` unchanged; a `const` thread-local without `Drop`
// allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HELD.set(HELD.get().wrapping_add(layout.size()));
        // SAFETY: our caller keeps the contract of `alloc`, which is that of `System`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        HELD.set(HELD.get().wrapping_sub(layout.size()));
        // SAFETY: `ptr` came from `System`, by `alloc`, with this layout.
        unsafe { System.dealloc(ptr, layout) }
    }
}

/// Bytes that this thread allocated less those that it freed, modulo 2^64: only differences mean
/// something.
pub fn held() -> usize {
    HELD.get()
}
