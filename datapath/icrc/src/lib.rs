//! The ICRC (protocol.md 1.7) at the speed of memory: computed while the payload is copied, with
//! the widest carry-less multiplication that the processor has, or with products of bit matrices
//! where those are faster.
//!
//! `wire::icrc` says what the ICRC is, and is what every other processor runs.

#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod columns;
#[cfg(target_arch = "x86_64")]
mod lanes;
#[cfg(target_arch = "x86_64")]
mod masks;
#[cfg(target_arch = "x86_64")]
mod pclmul;
#[cfg(target_arch = "x86_64")]
mod polynomial;
#[cfg(target_arch = "x86_64")]
mod wide;

#[cfg(test)]
mod tests;

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU8, Ordering};
use wire::Head;
use wire::emit::ICRC_LEN;

/// Bytes of a packet from its IP header on, without the ICRC, below which 128 bits are faster than
/// 512, if not by themselves then among everything else that a packet takes (docs/adr/0012).
#[cfg(target_arch = "x86_64")]
const WIDE_MIN: usize = 384;

/// A way to compute the ICRC. A value exists only where the processor supports it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kernel(Kind);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
enum Kind {
    Portable = 1,
    /// By 128 bits.
    #[cfg(target_arch = "x86_64")]
    Pclmul = 2,
    /// By 128 bits, and long payloads by 256 bits.
    #[cfg(target_arch = "x86_64")]
    Wide = 3,
    /// By 512 bits.
    #[cfg(target_arch = "x86_64")]
    Avx512 = 4,
    /// By 512 bits, and by matrix products where they are faster.
    #[cfg(target_arch = "x86_64")]
    Gfni = 5,
}

impl Kind {
    /// Each is faster than those before it, where it [is worth it](Self::is_worth_it).
    const ALL: &[Self] = &[
        Self::Portable,
        #[cfg(target_arch = "x86_64")]
        Self::Pclmul,
        #[cfg(target_arch = "x86_64")]
        Self::Wide,
        #[cfg(target_arch = "x86_64")]
        Self::Avx512,
        #[cfg(target_arch = "x86_64")]
        Self::Gfni,
    ];

    fn is_supported(self) -> bool {
        match self {
            Self::Portable => true,
            #[cfg(target_arch = "x86_64")]
            Self::Pclmul => pclmul::is_supported(),
            #[cfg(target_arch = "x86_64")]
            Self::Wide => wide::is_supported() && pclmul::is_supported(),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => avx512::is_supported() && pclmul::is_supported(),
            #[cfg(target_arch = "x86_64")]
            Self::Gfni => Self::Avx512.is_supported() && columns::is_supported(),
        }
    }

    /// The one that it is for a packet of `len` bytes: wherever the wide ones are supported, the
    /// narrow one is.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    const fn for_len(self, len: usize) -> Self {
        match self {
            Self::Wide | Self::Avx512 | Self::Gfni if len < WIDE_MIN => Self::Pclmul,
            kind => kind,
        }
    }

    fn is_worth_it(self) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Gfni => columns::is_faster(),
            _ => true,
        }
    }
}

impl Kernel {
    /// Computes the ICRC with `crc32fast`, after the copy. It runs everywhere.
    pub const PORTABLE: Self = Self(Kind::Portable);

    /// The best that this processor can run; found out once. On x86-64 with carry-less
    /// multiplication, of 512, 256 or 128 bits: with that, together with the copy.
    #[inline]
    #[must_use]
    pub fn detected() -> Self {
        static FOUND: AtomicU8 = AtomicU8::new(0);
        match FOUND.load(Ordering::Relaxed) {
            1 => Self::PORTABLE,
            #[cfg(target_arch = "x86_64")]
            2 => Self(Kind::Pclmul),
            #[cfg(target_arch = "x86_64")]
            3 => Self(Kind::Wide),
            #[cfg(target_arch = "x86_64")]
            4 => Self(Kind::Avx512),
            #[cfg(target_arch = "x86_64")]
            5 => Self(Kind::Gfni),
            _ => {
                let kernel = Self::detect();
                FOUND.store(kernel.0 as u8, Ordering::Relaxed);
                kernel
            }
        }
    }

    #[cold]
    fn detect() -> Self {
        Self::supported().filter(|kernel| kernel.0.is_worth_it()).last().unwrap_or(Self::PORTABLE)
    }

    /// All kernels that this processor can run.
    pub fn supported() -> impl Iterator<Item = Self> {
        Kind::ALL.iter().copied().filter(|kind| kind.is_supported()).map(Self)
    }

    /// The ICRC by vectors, or `None` if these headers are none for them.
    #[cfg(target_arch = "x86_64")]
    #[inline]
    fn compute(self, frame_from_l3: &[u8]) -> Option<u32> {
        // SAFETY: such a kernel exists only where the processor supports it.
        unsafe {
            match self.0.for_len(frame_from_l3.len()) {
                Kind::Portable => None,
                Kind::Pclmul => pclmul::compute(frame_from_l3),
                Kind::Wide => wide::compute(frame_from_l3),
                Kind::Avx512 => avx512::compute::<false>(frame_from_l3),
                Kind::Gfni => avx512::compute::<true>(frame_from_l3),
            }
        }
    }

    /// Computes the ICRC of a frame whose payload it copies, and pads.
    ///
    /// # Safety
    /// `source` must be valid for reads of `len` bytes, none of which is part of `frame`.
    #[cfg(target_arch = "x86_64")]
    #[inline]
    unsafe fn copy(self, frame: &mut [u8], at: usize, source: NonNull<u8>, len: usize) -> Option<u32> {
        // SAFETY: the processor supports it; `source` as the caller promises.
        unsafe {
            match self.0.for_len(frame.len()) {
                Kind::Portable => None,
                Kind::Pclmul => pclmul::copy(frame, at, source, len),
                Kind::Wide => wide::copy(frame, at, source, len),
                Kind::Avx512 => avx512::copy::<false>(frame, at, source, len),
                Kind::Gfni => avx512::copy::<true>(frame, at, source, len),
            }
        }
    }

    /// True if the last four bytes of `frame_from_l3` are the ICRC of those before.
    #[inline]
    #[must_use]
    pub fn verify(self, frame_from_l3: &[u8]) -> bool {
        #[cfg(target_arch = "x86_64")]
        if self.0 != Kind::Portable
            && let Some((frame, found)) = frame_from_l3.split_last_chunk::<ICRC_LEN>()
            && let Some(icrc) = self.compute(frame)
        {
            return icrc == u32::from_le_bytes(*found);
        }
        wire::icrc::verify(frame_from_l3)
    }

    /// Verifies a frame's ICRC and in the same pass copies `payload`, which ends where the ICRC
    /// begins, to `target`. `None` if this kernel does not do both at once with such a packet:
    /// nothing was copied then. The payload is copied even if the ICRC is wrong.
    ///
    /// # Safety
    /// `target` must be valid for writes of as many bytes as `payload` has, and neither is part of
    /// the other.
    #[inline]
    #[must_use]
    pub unsafe fn verify_and_place(
        self,
        frame_from_l3: &[u8],
        payload: &[u8],
        target: NonNull<u8>,
    ) -> Option<bool> {
        #[cfg(target_arch = "x86_64")]
        {
            let (frame, found) = frame_from_l3.split_last_chunk::<ICRC_LEN>()?;
            let at = frame.len().checked_sub(payload.len())?;
            if !core::ptr::eq(&raw const frame[at..], payload) {
                return None;
            }
            // SAFETY: such a kernel exists only where the processor supports it; `target` is as the
            // caller promises.
            let icrc = unsafe {
                match self.0.for_len(frame.len()) {
                    Kind::Portable => None,
                    Kind::Pclmul => pclmul::place(frame, at, target),
                    Kind::Wide => wide::place(frame, at, target),
                    Kind::Avx512 => avx512::place::<false>(frame, at, target),
                    Kind::Gfni => avx512::place::<true>(frame, at, target),
                }
            }?;
            Some(icrc == u32::from_le_bytes(*found))
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            let _ = (frame_from_l3, payload, target);
            None
        }
    }

    /// Writes the ICRC to the last four bytes of `frame_from_l3`, as `wire::icrc::seal` does.
    #[inline]
    pub fn seal(self, frame_from_l3: &mut [u8]) {
        #[cfg(target_arch = "x86_64")]
        if self.0 != Kind::Portable
            && let Some((frame, icrc)) = frame_from_l3.split_last_chunk_mut::<ICRC_LEN>()
            && let Some(computed) = self.compute(frame)
        {
            *icrc = computed.to_le_bytes();
            return;
        }
        wire::icrc::seal(frame_from_l3);
    }

    /// Writes a packet of IPv4 from its IP header on: the headers, the payload from `source`, its
    /// pad, and the ICRC.
    ///
    /// # Safety
    /// `source` must be valid for reads, and no part of `frame_from_l3`.
    ///
    /// # Panics
    /// If `frame_from_l3` has another length than those have together, or `head` one that no
    /// packet's has.
    #[inline(always)]
    pub unsafe fn emit(self, head: Head, frame_from_l3: &mut [u8], source: NonNull<[u8]>) {
        assert!(matches!(head.len, Head::WRITE_LEN | Head::SEND_LEN), "{} bytes of headers", head.len);
        let body = source.len().next_multiple_of(4);
        assert!(
            frame_from_l3.len() == head.len + body + ICRC_LEN,
            "{} bytes of a frame",
            frame_from_l3.len()
        );
        #[cfg(target_arch = "x86_64")]
        {
            let [a, b, c, d] = head.lanes.map(in_register);
            let frame = &mut *frame_from_l3;
            // SAFETY: such a kernel exists only where the processor supports it; the lengths were
            // asserted, and `source` is as the caller promises.
            unsafe {
                match self.0.for_len(frame.len() - ICRC_LEN) {
                    Kind::Portable => {}
                    Kind::Pclmul => return pclmul::emit(a, b, c, d, frame, source),
                    Kind::Wide => return wide::emit(a, b, c, d, frame, source),
                    Kind::Avx512 => return avx512::emit::<false>(a, b, c, d, frame, source),
                    Kind::Gfni => return avx512::emit::<true>(a, b, c, d, frame, source),
                }
            }
        }
        frame_from_l3[..head.len].copy_from_slice(&head.to_bytes()[wire::head::BLOCK - head.len..]);
        // SAFETY: the caller's promise.
        unsafe { self.copy_and_seal(frame_from_l3, head.len, source.cast(), source.len()) };
    }

    /// Copies the `len` bytes at `source` to `frame_from_l3` from byte `at` on, behind the headers;
    /// zeroes the pad behind them, and writes the ICRC to the last four bytes.
    ///
    /// # Safety
    /// `source` must be valid for reads of `len` bytes, none of which is part of `frame_from_l3`.
    ///
    /// # Panics
    /// If the payload does not fit between the headers and the ICRC.
    #[inline]
    pub unsafe fn copy_and_seal(self, frame_from_l3: &mut [u8], at: usize, source: NonNull<u8>, len: usize) {
        let Some((frame, icrc)) = frame_from_l3.split_last_chunk_mut::<ICRC_LEN>() else {
            panic!("a frame without an ICRC")
        };
        let room = frame.len().saturating_sub(at);
        assert!(len <= room, "{len} bytes of payload in {room}");
        #[cfg(target_arch = "x86_64")]
        if self.0 != Kind::Portable
            // SAFETY: `source` as the caller promises.
            && let Some(computed) = unsafe { self.copy(frame, at, source, len) }
        {
            *icrc = computed.to_le_bytes();
            return;
        }
        let (payload, pad) = frame[at..].split_at_mut(len);
        // SAFETY: `payload` is `len` bytes long, and `source` as the caller promises.
        unsafe { payload.as_mut_ptr().copy_from_nonoverlapping(source.as_ptr(), len) };
        // Mostly there is none, and a call to find that out.
        if !pad.is_empty() {
            pad.fill(0);
        }
        wire::icrc::seal(frame_from_l3);
    }
}

/// A lane where vectors live.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn in_register(lane: u128) -> core::arch::x86_64::__m128i {
    #[expect(clippy::cast_possible_truncation, reason = "the halves are what is wanted")]
    let [low, high] = [lane as i64, (lane >> 64) as i64];
    // SAFETY: every processor of this architecture has it.
    unsafe { core::arch::x86_64::_mm_set_epi64x(high, low) }
}
