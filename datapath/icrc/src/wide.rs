//! CRC-32 by folding 32 bytes at a time, for processors that multiply so many without AVX-512. Each
//! block of a payload is moved to the place of the last at once, so that no multiplication waits
//! for another.

use super::lanes::*;
use super::polynomial::{FOLD_128, distances};
use core::arch::asm;
use core::arch::x86_64::*;

/// Bytes of a vector.
const PAIR: usize = 2 * LANE;
/// Longest run of blocks that is folded at once: the payload of the longest packet.
const RUN: usize = 4096 / PAIR;
/// Multipliers that move ahead by as many blocks.
static BLOCKS: [[i64; 2]; RUN + 2] = distances(PAIR);

/// Returns `true` if the processor has what the functions here need.
pub(super) fn is_supported() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("vpclmulqdq")
}

entries!("avx2,vpclmulqdq,avx,pclmulqdq,sse4.1");

/// Folds `len` bytes at `source`, whole lanes, into `chains`, and those to one; copies them to
/// `target` if `COPY`.
///
/// # Safety
/// [`is_supported`]; `source` is readable for `len` bytes, `target` writable if `COPY`; they do not
/// overlap.
#[inline]
#[target_feature(enable = "avx2,vpclmulqdq,avx,pclmulqdq,sse4.1")]
unsafe fn fold<const COPY: bool>(
    [a, b, c, d]: [__m128i; CHAINS],
    source: *const u8,
    target: *mut u8,
    len: usize,
) -> __m128i {
    let (mut first, mut acc) = (_mm256_set_m128i(b, a), _mm256_set_m128i(d, c));
    let mut at = 0;
    loop {
        let count = ((len - at) / PAIR).min(RUN);
        // SAFETY: as many blocks are within `len`.
        let block = |index: usize| unsafe {
            let at = at + index * PAIR;
            pass::<COPY>(source.add(at), target.wrapping_add(at))
        };
        acc = gather([first, acc], count, block);
        first = _mm256_setzero_si256();
        at += count * PAIR;
        if len - at < PAIR {
            break;
        }
    }
    let acc = then(_mm256_castsi256_si128(acc), FOLD_128, _mm256_extracti128_si256::<1>(acc));
    if at == len {
        return acc;
    }
    // SAFETY: a lane is left of `len`.
    then(acc, FOLD_128, unsafe { take::<COPY>(source.add(at), target.wrapping_add(at)) })
}

/// The two blocks `before` and `count` behind them, [`RUN`] at most, as one in the place of the
/// last.
#[inline]
#[target_feature(enable = "avx2,vpclmulqdq,avx,pclmulqdq,sse4.1")]
fn gather(before: [__m256i; 2], count: usize, block: impl Fn(usize) -> __m256i) -> __m256i {
    let acc = moved_by(before[0], &BLOCKS[count + 1]);
    let Some(last) = count.checked_sub(1) else { return xor(acc, before[1]) };
    let mut acc = xor(acc, moved_by(before[1], &BLOCKS[count]));
    let mut other = block(last);
    let pairs = BLOCKS[1..count].rchunks_exact(2);
    let nearest = pairs.remainder();
    let mut index = 0;
    for pair in pairs {
        acc = xor(acc, moved_by(block(index), &pair[1]));
        other = xor(other, moved_by(block(index + 1), &pair[0]));
        index += 2;
    }
    if let [one] = nearest {
        acc = xor(acc, moved_by(block(index), one));
    }
    xor(acc, other)
}

/// `block` moved ahead by the distance of `multipliers`.
#[inline]
#[target_feature(enable = "avx2,vpclmulqdq,avx,pclmulqdq,sse4.1")]
fn moved_by(block: __m256i, multipliers: &[i64; 2]) -> __m256i {
    // SAFETY: as long as a lane.
    let multipliers = unsafe { _mm256_broadcastsi128_si256(_mm_loadu_si128(multipliers.as_ptr().cast())) };
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

/// Reads the block at `source`, and copies it to `target` if `COPY`: what is stored is what was
/// read, as [`super::avx512`] has it.
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
