//! The first bytes of packets, copied out of the shared memory: what is decided about a packet is
//! decided by bytes that the peer cannot change any more.

use crate::queue::BURST;
use std::cell::{Cell, UnsafeCell};
use std::sync::atomic::{AtomicU8, Ordering};

/// Bytes that are copied of each packet.
pub const HEAD_LEN: usize = 128;

const _: () = assert!(BURST <= u32::BITS as usize, "a bit for each");

/// A copy.
#[derive(Debug)]
#[repr(align(64))]
struct Head([u8; HEAD_LEN]);

/// Those of a burst. Each is copied when it is asked for first: a packet that is fetched meanwhile
/// has come by then.
#[derive(Debug)]
pub(crate) struct Heads {
    /// One bit for each that was copied.
    copied: Cell<u32>,
    heads: Box<[UnsafeCell<Head>; BURST]>,
}

impl Heads {
    pub(crate) fn new() -> Self {
        let heads = Box::new([const { UnsafeCell::new(Head([0; HEAD_LEN])) }; BURST]);
        Self { copied: Cell::new(0), heads }
    }

    /// Head `index`: a copy of `room` bytes at `at`, [`HEAD_LEN`] at most, as they were when it was
    /// asked for first since [`Heads::clear`]; what is behind them is anything.
    ///
    /// # Safety
    /// `room` bytes at `at` can be read. Other processes may write them meanwhile.
    #[inline]
    pub(crate) unsafe fn get(&self, index: usize, at: *const u8, room: usize) -> &[u8; HEAD_LEN] {
        let (head, bit) = (&self.heads[index], 1 << index);
        if self.copied.get() & bit == 0 {
            // SAFETY: nobody has a reference to it: one is given below only, after its bit was set,
            // and `clear`, which takes the bit away, needs all of `self`. No other thread is here,
            // as a `Cell` is not shared. The source is as the caller says.
            unsafe { copy(&mut *head.get(), at, room) };
            self.copied.set(self.copied.get() | bit);
        }
        // SAFETY: its bit is set, so that nobody writes it until `clear`.
        unsafe { &(*head.get()).0 }
    }

    /// The next burst has others.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.copied.set(0);
    }
}

/// Copies `room` bytes at `at`, [`HEAD_LEN`] at most, which other processes may write meanwhile.
///
/// # Safety
/// They can be read.
#[inline]
unsafe fn copy(head: &mut Head, at: *const u8, room: usize) {
    #[cfg(target_arch = "x86_64")]
    if room >= HEAD_LEN {
        // SAFETY: it reads as many bytes as there are, and writes as many as the head has, which is
        // aligned. To the compiler it is a call of which it knows nothing but what is written: that
        // another process writes the source meanwhile is nothing it could build upon.
        unsafe {
            core::arch::asm!(
                "movups {a}, [{from}]",
                "movups {b}, [{from} + 16]",
                "movups {c}, [{from} + 32]",
                "movups {d}, [{from} + 48]",
                "movaps [{to}], {a}",
                "movaps [{to} + 16], {b}",
                "movaps [{to} + 32], {c}",
                "movaps [{to} + 48], {d}",
                "movups {a}, [{from} + 64]",
                "movups {b}, [{from} + 80]",
                "movups {c}, [{from} + 96]",
                "movups {d}, [{from} + 112]",
                "movaps [{to} + 64], {a}",
                "movaps [{to} + 80], {b}",
                "movaps [{to} + 96], {c}",
                "movaps [{to} + 112], {d}",
                from = in(reg) at,
                to = in(reg) head.0.as_mut_ptr(),
                a = out(xmm_reg) _,
                b = out(xmm_reg) _,
                c = out(xmm_reg) _,
                d = out(xmm_reg) _,
                options(nostack, preserves_flags),
            );
        }
        return;
    }
    for (index, byte) in head.0.iter_mut().enumerate().take(room) {
        // SAFETY: within what can be read. An atomic byte may be written by others meanwhile.
        *byte = unsafe { &*at.add(index).cast::<AtomicU8>() }.load(Ordering::Relaxed);
    }
}
