//! CRC-32 by folding 16 bytes at a time, in four chains, because a multiplication takes longer than
//! four of them take to start.

use super::lanes::*;
use super::polynomial::{FOLD_128, FOLD_256, FOLD_384, FOLD_512};
use core::arch::x86_64::*;

/// Returns `true` if the processor has what the functions here need.
pub(super) fn is_supported() -> bool {
    is_x86_feature_detected!("avx")
        && is_x86_feature_detected!("pclmulqdq")
        && is_x86_feature_detected!("sse4.1")
}

entries!("avx,pclmulqdq,sse4.1");

/// Folds `len` bytes at `source`, whole lanes, into `chains`, and those to one; copies them to
/// `target` if `COPY`.
///
/// # Safety
/// [`is_supported`]; `source` is readable for `len` bytes, `target` writable if `COPY`; they do not
/// overlap.
#[inline]
#[target_feature(enable = "avx,pclmulqdq,sse4.1")]
unsafe fn fold<const COPY: bool>(
    mut chains: [__m128i; CHAINS],
    source: *const u8,
    target: *mut u8,
    len: usize,
) -> __m128i {
    // SAFETY: below, `at` stays a lane below `len`.
    let take = |at: usize| unsafe { take::<COPY>(source.add(at), target.wrapping_add(at)) };
    let mut at = 0;
    while len - at >= BLOCK {
        for (index, chain) in chains.iter_mut().enumerate() {
            *chain = then(*chain, FOLD_512, take(at + index * LANE));
        }
        at += BLOCK;
    }
    let [a, b, c, d] = chains;
    // Each to the place of the last at once: none waits for another.
    let mut acc = _mm_xor_si128(then(a, FOLD_384, then(b, FOLD_256, d)), moved(c, FOLD_128));
    while at < len {
        acc = then(acc, FOLD_128, take(at));
        at += LANE;
    }
    acc
}
