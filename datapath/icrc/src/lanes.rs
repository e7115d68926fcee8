//! Lanes of 16 bytes, and the ways into the kernels whose headers are lanes: [`super::pclmul`] and
//! [`super::wide`]. The masked headers come first, filled from their end, then the payload, which
//! is stored as it passes.

pub(super) use super::ICRC_LEN;
pub(super) use super::masks::{HEADERS_MAX, Masks};
use super::polynomial::{FOLD_128, POLYNOMIAL, QUOTIENT};
use core::arch::asm;
use core::arch::x86_64::*;
pub(super) use core::ptr::NonNull;

/// Bytes of one.
pub(super) const LANE: usize = 16;
/// Lanes of headers.
pub(super) const CHAINS: usize = 4;
/// Bytes of those.
pub(super) const BLOCK: usize = CHAINS * LANE;

/// Indices of bytes, between some that name none. [`behind`] has the picture.
static SHUFFLES: [u8; 3 * LANE] = {
    let mut all = [0x80; 3 * LANE];
    let mut i = 0_u8;
    while (i as usize) < LANE {
        all[LANE + i as usize] = i;
        i += 1;
    }
    all
};

/// Makes the ways into a kernel, for processors with `$features`, in a module that sees all that
/// this one sees. It has `fold<const COPY: bool>(chains, source, target, len)`, which folds whole
/// lanes into the headers' lanes, and those to one, and copies them if so.
macro_rules! entries {
    ($features:literal) => {
        /// The ICRC of `frame_from_l3`, or `None` if it has none that this kernel can compute.
        ///
        /// # Safety
        /// [`is_supported`].
        #[target_feature(enable = $features)]
        pub(crate) unsafe fn compute(frame_from_l3: &[u8]) -> Option<u32> {
            let (masks, masked) = Masks::of(frame_from_l3)?;
            let odd = frame_from_l3.len() % LANE;
            if !odd.is_multiple_of(4) || frame_from_l3.len() < masked {
                return None;
            }
            // What is left of whole lanes is headers, as long as those that are masked are among
            // it.
            let most = odd + masked.next_multiple_of(LANE);
            let headers = if most > frame_from_l3.len() { most - LANE } else { most };
            let (headers, body) = frame_from_l3.split_at_checked(headers)?;
            // SAFETY: `headers` are at least as long as those that are masked; `body` is readable,
            // and not written.
            unsafe {
                let chains = begin(headers, masks);
                Some(reduce(fold::<false>(chains, body.as_ptr(), core::ptr::null_mut(), body.len())))
            }
        }

        /// Copies `len` bytes from `source` to `frame` from byte `at` on, zeroes the rest of it
        /// (the pad, at most three bytes), and returns the ICRC of it all; `None` if the headers
        /// are none that this kernel knows, and nothing was written then.
        ///
        /// # Safety
        /// [`is_supported`]; `source` is valid for reads of `len` bytes outside of `frame`.
        ///
        /// # Panics
        /// If `at` and `len` are not within `frame`.
        #[target_feature(enable = $features)]
        pub(crate) unsafe fn copy(
            frame: &mut [u8],
            at: usize,
            source: NonNull<u8>,
            len: usize,
        ) -> Option<u32> {
            let (masks, masked) = Masks::of(&frame[..at])?;
            let rest = frame.len() - at;
            let pad = rest - len;
            if at < masked || at > HEADERS_MAX || !at.is_multiple_of(4) || pad > 3 || !rest.is_multiple_of(4)
            {
                return None;
            }
            let (headers, body) = frame.split_at_mut(at);
            let whole = len - len % LANE;
            // SAFETY: `headers` are at least as long as those that are masked; `body` is as long as
            // `len` and the pad, fewer than a lane of which are behind `whole`.
            unsafe {
                let acc = fold::<true>(begin(headers, masks), source.as_ptr(), body.as_mut_ptr(), whole);
                if whole == body.len() {
                    return Some(reduce(acc));
                }
                Some(finish_odd(acc, &mut body[whole..], source.as_ptr().add(whole), len - whole))
            }
        }

        /// The ICRC of `frame_from_l3`, whose bytes from byte `at` on it copies to `target`; `None`
        /// if the headers before them, or how many they are, are none for this kernel, and nothing
        /// was written then.
        ///
        /// # Safety
        /// [`is_supported`]; `target` is writable for what is behind `at`, and not in
        /// `frame_from_l3`.
        #[target_feature(enable = $features)]
        pub(crate) unsafe fn place(frame_from_l3: &[u8], at: usize, target: NonNull<u8>) -> Option<u32> {
            let (masks, masked) = Masks::of(frame_from_l3)?;
            let (headers, body) = frame_from_l3.split_at_checked(at)?;
            if at < masked || at > HEADERS_MAX || !at.is_multiple_of(4) || !body.len().is_multiple_of(LANE) {
                return None;
            }
            // SAFETY: `headers` are at least as long as those that are masked; `body` is readable,
            // and `target` as the caller promises.
            unsafe {
                let chains = begin(headers, masks);
                Some(reduce(fold::<true>(chains, body.as_ptr(), target.as_ptr(), body.len())))
            }
        }

        /// Writes a packet from its IP header on: the headers, the payload, its pad and the ICRC.
        /// The headers are the last bytes of the block of the lanes `a` to `d`, as many as the rest
        /// leaves of `frame`. They are not read again after they were stored, which would wait for
        /// the stores.
        ///
        /// # Safety
        /// [`is_supported`]; `source` is valid for reads and not in `frame`. `frame` has headers,
        /// fewer than a block and all of an IPv4 packet's that are masked, as many bytes as
        /// `source`, a pad to a multiple of four, and the ICRC.
        #[target_feature(enable = $features)]
        pub(crate) unsafe fn emit(
            a: __m128i,
            b: __m128i,
            c: __m128i,
            d: __m128i,
            frame: &mut [u8],
            source: NonNull<[u8]>,
        ) {
            let (len, whole) = (source.len(), source.len() - source.len() % LANE);
            let body = len.next_multiple_of(4);
            let headers = frame.len() - body - ICRC_LEN;
            let missing = BLOCK - headers;
            // SAFETY: the lanes behind the first are headers, and `part` stores what of the first
            // is; the masks have a block before the headers; `body` is `len` and the pad, fewer
            // than a lane of which are behind `whole`.
            unsafe {
                let start = frame.as_mut_ptr();
                let first = LANE - missing;
                for (index, lane) in [b, c, d].into_iter().enumerate() {
                    _mm_storeu_si128(start.add(first + index * LANE).cast(), lane);
                }
                part(start, a, first);
                let ones = |index: usize| load(Masks::V4.headers().sub(missing).add(index * LANE));
                let chains = [
                    _mm_or_si128(a, ones(0)),
                    _mm_or_si128(b, ones(1)),
                    _mm_or_si128(c, ones(2)),
                    _mm_or_si128(d, ones(3)),
                ];
                let (source, target) = (source.cast::<u8>().as_ptr().cast_const(), start.add(headers));
                let acc = fold::<true>(chains, source, target, whole);
                let icrc = if whole == body {
                    reduce(acc)
                } else {
                    let rest = core::slice::from_raw_parts_mut(target.add(whole), body - whole);
                    finish_odd(acc, rest, source.add(whole), len - whole)
                };
                start.add(headers + body).cast::<[u8; ICRC_LEN]>().write(icrc.to_le_bytes());
            }
        }
    };
}
pub(super) use entries;

/// Stores the last `count` bytes of a lane: none, or 8 to 16.
///
/// # Safety
/// `to` is writable for `count` bytes.
#[inline]
#[target_feature(enable = "avx,pclmulqdq,sse4.1")]
pub(super) unsafe fn part(to: *mut u8, lane: __m128i, count: usize) {
    if count < 8 {
        debug_assert_eq!(count, 0, "a few bytes of headers in a lane of their own");
        return;
    }
    // The first of them at the begin, and the last at the end; they overlap in the middle.
    // SAFETY: the table has as many bytes from there on; both stores are within `count` bytes.
    unsafe {
        let front = _mm_shuffle_epi8(lane, load(SHUFFLES[LANE + LANE - count..].as_ptr()));
        _mm_storel_epi64(to.cast(), front);
        _mm_storel_epi64(to.add(count - 8).cast(), _mm_srli_si128::<8>(lane));
    }
}

/// `acc` moved ahead, and `next` behind it.
#[inline]
#[target_feature(enable = "avx,pclmulqdq,sse4.1")]
pub(super) fn then(acc: __m128i, constants: (i64, i64), next: __m128i) -> __m128i {
    _mm_xor_si128(next, moved(acc, constants))
}

/// `acc` moved ahead.
#[inline]
#[target_feature(enable = "avx,pclmulqdq,sse4.1")]
pub(super) fn moved(acc: __m128i, (first, last): (i64, i64)) -> __m128i {
    let constants = _mm_set_epi64x(last, first);
    _mm_xor_si128(_mm_clmulepi64_si128::<0x00>(acc, constants), _mm_clmulepi64_si128::<0x11>(acc, constants))
}

/// The masked headers: the last 64 bytes, and in the first of them what was before.
///
/// # Safety
/// `headers` are at least two lanes, at most [`HEADERS_MAX`] and a multiple of four bytes.
#[inline]
#[target_feature(enable = "avx,pclmulqdq,sse4.1")]
pub(super) unsafe fn begin(headers: &[u8], masks: &Masks) -> [__m128i; CHAINS] {
    let (odd, lanes) = (headers.len() % LANE, headers.len() / LANE);
    // SAFETY: each of the `lanes` behind `odd` bytes is in the headers, and the masks are as long.
    let lane = |index: usize| unsafe {
        let at = odd + index * LANE;
        _mm_or_si128(load(headers.as_ptr().add(at)), load(masks.headers().add(at)))
    };
    // SAFETY: there is a lane, and there are masks before the headers, of which the last four bytes
    // are ones. With `odd` a multiple of four at most twelve bytes of headers are behind them.
    let first = unsafe {
        let bytes = at_end(load(headers.as_ptr()), odd);
        _mm_or_si128(bytes, load(masks.headers().add(odd).sub(LANE)))
    };
    match lanes {
        2 => [_mm_setzero_si128(), first, lane(0), lane(1)],
        3 => [first, lane(0), lane(1), lane(2)],
        _ => {
            let before = lanes - 3;
            let acc = (0..before).fold(first, |acc, index| then(acc, FOLD_128, lane(index)));
            [acc, lane(before), lane(before + 1), lane(before + 2)]
        }
    }
}

/// Reads the lane at `source`, and copies it to `target` if `COPY`.
///
/// # Safety
/// `source` is readable for a lane, `target` writable for one if `COPY`.
#[inline]
#[target_feature(enable = "avx,pclmulqdq,sse4.1")]
pub(super) unsafe fn take<const COPY: bool>(source: *const u8, target: *mut u8) -> __m128i {
    // SAFETY: the caller's promise.
    unsafe {
        let lane = load(source);
        if !COPY {
            return lane;
        }
        let lane = read_once(lane);
        _mm_storeu_si128(target.cast(), lane);
        lane
    }
}

/// `lane`, of which the compiler does not know that it can be read again, as [`super::avx512`] has
/// it.
#[inline]
#[target_feature(enable = "avx,pclmulqdq,sse4.1")]
pub(super) fn read_once(mut lane: __m128i) -> __m128i {
    // SAFETY: no instruction at all.
    unsafe { asm!("/* {0} */", inout(xmm_reg) lane, options(nomem, nostack, preserves_flags)) };
    lane
}

/// Copies `len` bytes, fewer than a lane, from `source` to `target`, and zeroes the rest of it.
/// Returns the ICRC with that behind `acc`.
///
/// # Safety
/// `source` is readable for `len` bytes outside of `target`, which is as long, and not longer than
/// a lane.
#[inline(never)]
#[target_feature(enable = "avx,pclmulqdq,sse4.1")]
pub(super) unsafe fn finish_odd(acc: __m128i, target: &mut [u8], source: *const u8, len: usize) -> u32 {
    // Read once: the application may write to it meanwhile.
    let mut last = [0; LANE];
    // SAFETY: `source` as the caller promises; `last` is longer than `len`, and a lane.
    let lane = unsafe {
        source.copy_to_nonoverlapping(last.as_mut_ptr(), len);
        load(last.as_ptr())
    };
    target.copy_from_slice(&last[..target.len()]);
    reduce(behind(acc, lane, target.len()))
}

/// The first `count` bytes of `last`, 1 to 16, behind `acc`: the two are one run of bytes, which is
/// cut anew so that its last lane is full. With the shuffles "none, 0 to 15, none" the 16 from
/// `count` on move the first `count` bytes of a lane to its end, and those from 16 + `count` on
/// move the others to its begin.
#[inline]
#[target_feature(enable = "avx,pclmulqdq,sse4.1")]
pub(super) fn behind(acc: __m128i, last: __m128i, count: usize) -> __m128i {
    // SAFETY: 32 and 48 bytes are in the table, because count <= 16.
    let others = unsafe { load(SHUFFLES[LANE + count..].as_ptr()) };
    let end = _mm_or_si128(_mm_shuffle_epi8(acc, others), at_end(last, count));
    then(at_end(acc, count), FOLD_128, end)
}

/// The first `count` bytes of `lane`, at most 16, at the end of one, behind zeros.
#[inline]
#[target_feature(enable = "avx,pclmulqdq,sse4.1")]
pub(super) fn at_end(lane: __m128i, count: usize) -> __m128i {
    // SAFETY: the table has as many bytes from there on, because count <= 16.
    _mm_shuffle_epi8(lane, unsafe { load(SHUFFLES[count..].as_ptr()) })
}

/// # Safety
/// `from` is readable for 16 bytes.
#[inline]
#[target_feature(enable = "avx,pclmulqdq,sse4.1")]
pub(super) unsafe fn load(from: *const u8) -> __m128i {
    // SAFETY: the caller's promise.
    unsafe { _mm_loadu_si128(from.cast()) }
}

/// The ICRC of what was folded: 128 bits to 96, and those by [`barrett`].
#[inline]
#[target_feature(enable = "pclmulqdq,sse4.1")]
pub(super) fn reduce(x: __m128i) -> u32 {
    let constants = _mm_set_epi64x(FOLD_128.1, 0);
    barrett(_mm_xor_si128(_mm_clmulepi64_si128::<0x10>(x, constants), _mm_srli_si128::<8>(x)))
}

/// The ICRC of what was moved to 64 bits behind the end of the message: 96 bits to 32 (Barrett),
/// inverted.
#[inline]
#[target_feature(enable = "pclmulqdq,sse4.1")]
pub(super) fn barrett(x: __m128i) -> u32 {
    let quotient = _mm_clmulepi64_si128::<0x00>(x, _mm_set_epi64x(0, QUOTIENT));
    let t = _mm_clmulepi64_si128::<0x00>(quotient, _mm_set_epi64x(0, POLYNOMIAL));
    !_mm_extract_epi32::<2>(_mm_xor_si128(x, t)).cast_unsigned()
}
