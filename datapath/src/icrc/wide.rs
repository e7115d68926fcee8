//! Long payloads by 256 bits, for processors that multiply so many without AVX-512. Headers and what is behind the last whole
//! block are [`super::pclmul`]'s.

use super::pclmul::then;
use super::polynomial::{FOLD_128, distances};
use core::arch::asm;
use core::arch::x86_64::*;

/// Bytes of a vector.
const BLOCK: usize = 32;
/// Longest run of blocks that is folded at once: the payload of the longest packet.
const RUN: usize = 4096 / BLOCK;
/// Multipliers that move ahead by as many blocks.
static BLOCKS: [[i64; 2]; RUN + 2] = distances(BLOCK);

/// Whether the processor has what the functions here need.
pub(super) fn is_supported() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("vpclmulqdq")
}

/// Folds `len` bytes at `source`, whole blocks and at least one, into the two `before` them, and all that to one; copies
/// them to `target` if `COPY`.
///
/// # Safety
/// [`is_supported`]; `source` is readable for `len` bytes, `target` writable if `COPY`; they do not overlap.
#[target_feature(enable = "avx2,vpclmulqdq,avx,pclmulqdq,sse4.1")]
pub(super) unsafe fn fold<const COPY: bool>(
    before: &[__m256i; 2],
    source: *const u8,
    target: *mut u8,
    len: usize,
) -> __m128i {
    let mut acc = *before;
    let mut at = 0;
    while at < len {
        let count = ((len - at) / BLOCK).min(RUN);
        // SAFETY: `at` and `count` blocks are within `len`.
        let take = |index: usize| unsafe {
            let at = at + index * BLOCK;
            pass::<COPY>(source.add(at), target.wrapping_add(at))
        };
        acc = [_mm256_setzero_si256(), gather(acc, count, take)];
        at += count * BLOCK;
    }
    then(_mm256_castsi256_si128(acc[1]), FOLD_128, _mm256_extracti128_si256::<1>(acc[1]))
}

/// `before` and `count` blocks behind it, from one to [`RUN`], as one block: each is moved to the place of the last at once, so
/// that no multiplication waits for another.
#[inline]
#[target_feature(enable = "avx2,vpclmulqdq,avx,pclmulqdq,sse4.1")]
fn gather(before: [__m256i; 2], count: usize, take: impl Fn(usize) -> __m256i) -> __m256i {
    let last = count - 1;
    let (ahead, [next, first]) = (&BLOCKS[1..count], [BLOCKS[count], BLOCKS[count + 1]]);
    let (mut even, mut odd) = (moved(before[0], first), moved(before[1], next));
    let pairs = ahead.rchunks_exact(2);
    let left = pairs.remainder();
    for (index, pair) in pairs.enumerate() {
        even = xor(even, moved(take(2 * index), pair[1]));
        odd = xor(odd, moved(take(2 * index + 1), pair[0]));
    }
    if let [one] = left {
        even = xor(even, moved(take(last - 1), *one));
    }
    xor(take(last), xor(even, odd))
}

/// `block` moved ahead by the distance of `multipliers`.
#[inline]
#[target_feature(enable = "avx2,vpclmulqdq,avx,pclmulqdq,sse4.1")]
fn moved(block: __m256i, multipliers: [i64; 2]) -> __m256i {
    let [first, last] = multipliers;
    let multipliers = _mm256_broadcastsi128_si256(_mm_set_epi64x(last, first));
    xor(
        _mm256_clmulepi64_epi128::<0x00>(block, multipliers),
        _mm256_clmulepi64_epi128::<0x11>(block, multipliers),
    )
}

#[inline]
#[target_feature(enable = "avx2")]
fn xor(a: __m256i, b: __m256i) -> __m256i {
    _mm256_xor_si256(a, b)
}

/// Reads the block at `source`, and copies it to `target` if `COPY`: what is stored is what was read, as
/// [`super::avx512`] has it.
///
/// # Safety
/// `source` is readable for a block, `target` writable for one if `COPY`.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn pass<const COPY: bool>(source: *const u8, target: *mut u8) -> __m256i {
    // SAFETY: the caller's promise; the assembly is no instruction at all.
    unsafe {
        let mut block = _mm256_loadu_si256(source.cast());
        if COPY {
            asm!("/* {0} */", inout(ymm_reg) block, options(nomem, nostack, preserves_flags));
            _mm256_storeu_si256(target.cast(), block);
        }
        block
    }
}
