//! Where packets for a peer that is far away are built: they go on from here past the caches.
//!
//! A line that the peer has read lies in its caches, and whoever writes it next waits for it. From
//! another die or socket that takes so long that memory is faster (docs/adr/0089).

use crate::prefetch;

/// Shortest packet that is worth it, in bytes.
const FROM: usize = 1024;
// A sender expects `EXPECTED` bytes at most.
const _: () = assert!(FROM <= prefetch::EXPECTED);
const LINE: usize = 64;

/// What a cache line holds.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Line(#[expect(dead_code, reason = "read as bytes")] [u8; LINE]);

/// One packet's place, and what is done with it.
#[derive(Debug)]
pub(crate) struct Stage {
    lines: Box<[Line]>,
    /// Packets that are expected to have as many bytes are built here; `usize::MAX`: none is.
    from: usize,
    /// The buffer of the packet that is built here; null: none is.
    target: *mut u8,
}

// SAFETY: `target` points into memory that the `Sender` keeps mapped which this is part of, and
// goes where that goes.
unsafe impl Send for Stage {}

impl Stage {
    /// For packets of up to `max_len` bytes. None is built here yet.
    pub(crate) fn new(max_len: usize) -> Self {
        let lines = vec![Line([0; LINE]); max_len.div_ceil(LINE)].into();
        Self { lines, from: usize::MAX, target: std::ptr::null_mut() }
    }

    /// Long packets are built here from the next one on, or none is.
    pub(crate) fn set_far(&mut self, is_far: bool) {
        self.from = if is_far { FROM } else { usize::MAX };
        self.target = std::ptr::null_mut();
    }

    /// Returns `true` if a packet that is expected to have so many bytes is better built here.
    #[inline]
    pub(crate) const fn is_for(&self, expected: usize) -> bool {
        expected >= self.from
    }

    /// The place for a packet that goes to `target`; `None` if that does not begin a line.
    pub(crate) fn lend(&mut self, target: *mut u8) -> Option<*mut u8> {
        let is_fit = target.cast::<Line>().is_aligned();
        self.target = if is_fit { target } else { std::ptr::null_mut() };
        is_fit.then_some(self.lines.as_mut_ptr().cast())
    }

    /// Returns `true` if a packet was built here that has not left.
    #[inline]
    pub(crate) const fn has_packet(&self) -> bool {
        !self.target.is_null()
    }

    /// The packet's `len` bytes leave for its own buffer, and become visible there before whatever
    /// is stored next.
    ///
    /// # Safety
    /// There is a packet, of `max_len` bytes at most, and nobody else has as many bytes at its
    /// target.
    pub(crate) unsafe fn leave(&mut self, len: usize) {
        let target = std::mem::replace(&mut self.target, std::ptr::null_mut());
        let source = self.lines.as_ptr();
        let lines = if len >= FROM { len / LINE } else { 0 };
        let (done, rest) = (lines * LINE, len - lines * LINE);
        // SAFETY: within both, by the caller; `lend` saw to it that `target` is aligned.
        unsafe {
            past_the_caches(source, target.cast(), lines);
            std::ptr::copy_nonoverlapping(source.cast::<u8>().add(done), target.add(done), rest);
        }
    }
}

/// Copies lines past the caches, where there is a way.
///
/// # Safety
/// As of `copy_nonoverlapping`.
unsafe fn past_the_caches(source: *const Line, target: *mut Line, lines: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{__m128i, _mm_load_si128, _mm_sfence, _mm_stream_si128};
        let words = lines * (LINE / size_of::<__m128i>());
        let (source, target) = (source.cast::<__m128i>(), target.cast::<__m128i>());
        for at in 0..words {
            // SAFETY: within both, by the caller, and aligned, as lines are.
            unsafe { _mm_stream_si128(target.add(at), _mm_load_si128(source.add(at))) };
        }
        // Here, as it counts for the stores of one processor only, and the caller may be another
        // thread by the time it hands the packet over.
        // SAFETY: every processor of this kind has it.
        unsafe { _mm_sfence() };
    }
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: the caller's.
    unsafe {
        std::ptr::copy_nonoverlapping(source, target, lines);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_of_any_length_arrive_whole_and_write_nothing_else() {
        const MAX: usize = 5000;
        let mut stage = Stage::new(MAX);
        for len in [0, 1, 1023, 1024, 1025, 4166, MAX] {
            let mut memory = vec![0xee_u8; LINE + MAX + LINE];
            let start = memory.as_ptr().align_offset(LINE);
            let at = stage.lend(memory[start..].as_mut_ptr()).expect("the start of a line");
            assert!(stage.has_packet());
            // SAFETY: the stage's own bytes, which nobody else uses now.
            let place = unsafe { std::slice::from_raw_parts_mut(at, MAX) };
            place.iter_mut().zip((0..251).cycle()).for_each(|(byte, value)| *byte = value);
            // SAFETY: `memory` has as many bytes behind `start`.
            unsafe { stage.leave(len) };
            assert!(!stage.has_packet());
            let (before, rest) = memory.split_at(start);
            let (packet, behind) = rest.split_at(len);
            assert!(packet.iter().copied().eq((0..251).cycle().take(len)), "{len}");
            assert!(before.iter().chain(behind).all(|byte| *byte == 0xee), "{len}");
        }
    }

    #[test]
    fn only_long_packets_are_built_here_and_only_while_the_peer_is_far() {
        let mut stage = Stage::new(5000);
        assert!(!stage.is_for(5000));
        stage.set_far(true);
        assert_eq!((stage.is_for(FROM), stage.is_for(FROM - 1)), (true, false));
        stage.set_far(false);
        assert!(!stage.is_for(5000));
    }

    #[test]
    fn none_is_built_here_for_a_buffer_that_begins_within_a_line() {
        let mut stage = Stage::new(5000);
        stage.set_far(true);
        let mut memory = [Line([0; LINE]); 2];
        let start: *mut u8 = memory.as_mut_ptr().cast();
        assert!(stage.lend(start).is_some() && stage.has_packet());
        assert!(stage.lend(start.wrapping_add(16)).is_none() && !stage.has_packet());
    }
}
