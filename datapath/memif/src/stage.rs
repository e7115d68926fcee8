//! Where packets for a peer that is far away are built: they go on from here past the caches.
//!
//! A line that the peer has read lies in its caches, and whoever writes it next waits for it. From
//! another die or socket that takes so long that memory is faster (docs/adr/0089).

/// Shortest packet that is worth it, in bytes.
const FROM: usize = 1024;
const LINE: usize = 64;

/// What a cache line holds.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Line(#[expect(dead_code, reason = "read as bytes")] [u8; LINE]);

/// One packet's place, and what is done with it.
#[derive(Debug)]
pub(crate) struct Stage {
    lines: Box<[Line]>,
    /// Packets from this length on are built here; `usize::MAX`: none is.
    from: usize,
    /// The buffer of the packet that is built here; null: none is.
    target: *mut u8,
    /// Packets have left whose bytes may become visible later than what is written next.
    is_under_way: bool,
}

// SAFETY: `target` points into memory that the `Sender` keeps mapped which this is part of, and
// goes where that goes.
unsafe impl Send for Stage {}

impl Stage {
    /// For packets of up to `max_len` bytes. None is built here yet.
    pub(crate) fn new(max_len: usize) -> Self {
        Self {
            lines: vec![Line([0; LINE]); max_len.div_ceil(LINE)].into(),
            from: usize::MAX,
            target: std::ptr::null_mut(),
            is_under_way: false,
        }
    }

    /// Long packets are built here from the next one on, or none is.
    pub(crate) fn set_far(&mut self, is_far: bool) {
        // Elsewhere there is no store past the caches that is the language's.
        self.from = if is_far && cfg!(target_arch = "x86_64") { FROM } else { usize::MAX };
        self.target = std::ptr::null_mut();
    }

    /// Returns `true` if a packet that may have `expected` bytes is to be built here.
    #[inline]
    pub(crate) const fn is_for(&self, expected: usize) -> bool {
        expected >= self.from
    }

    /// The place, of as many bytes as the longest packet has, for one that goes to `target`.
    ///
    /// # Safety
    /// As many bytes at `target` are the caller's until [`leave`](Self::leave).
    pub(crate) unsafe fn lend(&mut self, target: *mut u8) -> (*mut u8, usize) {
        self.target = target;
        (self.lines.as_mut_ptr().cast(), self.lines.len() * LINE)
    }

    /// Returns `true` if a packet was built here that has not left.
    #[inline]
    pub(crate) const fn has_packet(&self) -> bool {
        !self.target.is_null()
    }

    /// The first `len` bytes leave for the packet's own buffer.
    pub(crate) fn leave(&mut self, len: usize) {
        debug_assert!(len <= self.lines.len() * LINE);
        let target = std::mem::replace(&mut self.target, std::ptr::null_mut());
        let source = self.lines.as_ptr();
        let lines = if len >= FROM { len / LINE } else { 0 };
        // SAFETY: the caller of `lend` gave as many bytes as the longest packet has at `target`,
        // which is not here.
        unsafe {
            past_the_caches(source, target, lines);
            let (done, rest) = (lines * LINE, len - lines * LINE);
            std::ptr::copy_nonoverlapping(source.cast::<u8>().add(done), target.add(done), rest);
        }
        self.is_under_way = true;
    }

    /// What is written from now on becomes visible after all that has left.
    #[inline]
    pub(crate) fn arrive(&mut self) {
        if self.is_under_way {
            self.is_under_way = false;
            #[cfg(target_arch = "x86_64")]
            // SAFETY: every processor of this kind has it.
            unsafe {
                core::arch::x86_64::_mm_sfence();
            }
        }
    }
}

/// Copies lines, past the caches if `target` is aligned.
///
/// # Safety
/// As of `copy_nonoverlapping`. What is written becomes visible in any order until a store fence.
unsafe fn past_the_caches(source: *const Line, target: *mut u8, lines: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{__m128i, _mm_load_si128, _mm_stream_si128};
        const WORDS: usize = LINE / size_of::<__m128i>();
        let (source, words) = (source.cast::<__m128i>(), target.cast::<__m128i>());
        if words.is_aligned() {
            for at in 0..lines * WORDS {
                // SAFETY: within both, and aligned: a line is, and `words` was looked at.
                unsafe { _mm_stream_si128(words.add(at), _mm_load_si128(source.add(at))) };
            }
            return;
        }
    }
    // SAFETY: the caller's.
    unsafe { std::ptr::copy_nonoverlapping(source.cast::<u8>(), target, lines * LINE) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_of_any_length_and_place_arrive_whole_and_write_nothing_else() {
        const MAX: usize = 5000;
        let mut stage = Stage::new(MAX);
        stage.set_far(true);
        for (offset, len) in
            [(0, 0), (0, 1), (0, 1023), (0, 1024), (16, 1025), (0, 4166), (64, MAX), (3, MAX)]
        {
            let mut memory = vec![0xee_u8; 64 + MAX + 64 + 64];
            let start = memory.as_ptr().align_offset(64) + offset;
            // SAFETY: so many bytes are left behind `start`.
            let (at, room) = unsafe { stage.lend(memory.as_mut_ptr().add(start)) };
            assert!(room >= MAX && stage.has_packet());
            // SAFETY: the stage's own bytes, which nobody else uses now.
            let place = unsafe { std::slice::from_raw_parts_mut(at, room) };
            place.iter_mut().zip((0..251).cycle()).for_each(|(byte, value)| *byte = value);
            stage.leave(len);
            stage.arrive();
            assert!(!stage.has_packet());
            let (before, rest) = memory.split_at(start);
            let (packet, behind) = rest.split_at(len);
            assert!(packet.iter().copied().eq((0..251).cycle().take(len)), "{len}");
            assert!(before.iter().chain(behind).all(|byte| *byte == 0xee), "{offset}, {len}");
        }
    }

    #[test]
    fn only_long_packets_are_built_here_and_only_while_the_peer_is_far() {
        let mut stage = Stage::new(5000);
        assert!(!stage.is_for(5000));
        stage.set_far(true);
        let can = cfg!(target_arch = "x86_64");
        assert_eq!((stage.is_for(FROM), stage.is_for(FROM - 1)), (can, false));
        stage.set_far(false);
        assert!(!stage.is_for(5000));
    }
}
