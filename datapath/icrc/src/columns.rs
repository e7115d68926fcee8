//! Most of a long payload without multiplications: a bit that is in front can be replaced by bits
//! of the bytes 256, 384, 448 and 512 bytes behind it, because those 32 bits span all remainders of
//! the polynomial. What each bit of a byte turns into is the same for every byte: four matrices of
//! 8 by 8 bits, and one instruction (GFNI) multiplies 64 bytes by one of them. So each block of 64
//! bytes takes in what the blocks 4, 6, 7 and 8 before it left, and only the last eight remain to
//! be folded.
//!
//! AMD's processors start one 512-bit carry-less multiplication in two cycles, and a block needs
//! two; of the matrix products they start two a cycle, and a block needs four. Two hardware threads
//! of a core share both.

use super::avx512::{Ends, joined, moved, pass};
use super::masks::LINE;
use super::polynomial::times_power;
use core::arch::x86_64::*;

/// The blocks that a block takes in, counted backwards from it. Most choices do not span all
/// remainders; the nearest should be far, so that it is there in time.
const BEFORE: [usize; 4] = [4, 6, 7, 8];
/// Blocks that are kept.
pub(super) const HISTORY: usize = BEFORE[3];

/// For each of [`BEFORE`].
const MATRICES: [i64; 4] = matrices();

/// The remainder of bit `bit` (the first is 0) of the byte that stands `blocks` blocks behind the
/// one to replace.
const fn remainder(blocks: usize, bit: usize) -> u64 {
    times_power(1, (HISTORY - blocks) * LINE * 8 + 7 - bit)
}

/// Solves the 32 equations for each of 8 bits (Gauss and Jordan).
const fn matrices() -> [i64; 4] {
    // Row r: bit r of the remainders, one column for each bit of the four bytes; above, the unit
    // matrix.
    let mut rows = [0_u64; 32];
    let mut column = 0;
    while column < 32 {
        let value = remainder(BEFORE[column / 8], column % 8);
        let mut row = 0;
        while row < 32 {
            rows[row] |= (value >> row & 1) << column;
            row += 1;
        }
        rows[column] |= 1 << (32 + column);
        column += 1;
    }
    column = 0;
    while column < 32 {
        let mut pivot = column;
        while rows[pivot] >> column & 1 == 0 {
            // Beyond the last row there is none: the 32 remainders would not span all.
            pivot += 1;
        }
        rows.swap(column, pivot);
        let mut row = 0;
        while row < 32 {
            if row != column && rows[row] >> column & 1 != 0 {
                rows[row] ^= rows[column];
            }
            row += 1;
        }
        column += 1;
    }
    let mut matrices = [0; 4];
    column = 0;
    while column < 32 {
        // The instruction wants the row of the first bit in the last byte.
        let (matrix, row) = (column / 8, 7 - column % 8);
        let mut bit = 0;
        while bit < 8 {
            let replaced = (rows[column] >> 32) & remainder(0, bit);
            let parity = (replaced.count_ones() & 1) as u64;
            matrices[matrix] |= (parity << (8 * row + bit)).cast_signed();
            bit += 1;
        }
        column += 1;
    }
    matrices
}

/// Returns `true` if the processor has the instruction.
pub(super) fn is_supported() -> bool {
    is_x86_feature_detected!("gfni")
}

/// Returns `true` if a processor that has the instructions gains by them: AMD's do.
pub(super) fn is_faster() -> bool {
    let leaf = __cpuid(0);
    (leaf.ebx, leaf.edx, leaf.ecx) == (0x6874_7541, 0x6974_6E65, 0x444D_4163)
}

/// Moves the lanes of `blocks` blocks at `source`, at least [`HISTORY`], and of `before`, which
/// stands where the last of them does, to where `ends` tells: the sum of the lanes is theirs.
/// Copies the blocks to `target` if `COPY`.
///
/// # Safety
/// The processor supports what [`super::avx512`] needs, and GFNI. `source` is readable for the
/// blocks, `target` writable for them if `COPY`; they do not overlap.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,vpclmulqdq,pclmulqdq,sse4.1,gfni")]
pub(super) unsafe fn fold<const COPY: bool>(
    source: *const u8,
    target: *mut u8,
    blocks: usize,
    before: (__m512i, __m512i),
    ends: &Ends,
) -> __m512i {
    let take = |index: usize| {
        // SAFETY: the callers below stay within `blocks`.
        unsafe { pass::<COPY>(source.add(index * LINE), target.wrapping_add(index * LINE)) }
    };
    let matrices = MATRICES.map(|matrix| _mm512_set1_epi64(matrix));
    let mut at = blocks % HISTORY;
    let mut history = match at {
        0 => begin::<0>(matrices, take),
        1 => begin::<1>(matrices, take),
        2 => begin::<2>(matrices, take),
        3 => begin::<3>(matrices, take),
        4 => begin::<4>(matrices, take),
        5 => begin::<5>(matrices, take),
        6 => begin::<6>(matrices, take),
        _ => begin::<7>(matrices, take),
    };
    while at < blocks - HISTORY {
        history = round::<false>(history, matrices, |index| take(at + index));
        at += HISTORY;
    }
    let history = round::<true>(history, matrices, |index| {
        let block = take(at + index);
        // Here nobody waits for it: the block's own way through the round is longer.
        if index + 1 == HISTORY { joined(block, before) } else { block }
    });
    let end = |index: usize| moved(history[index], ends.of(index));
    let two = |index: usize| {
        let (first, last) = end(index);
        joined(_mm512_xor_si512(first, last), end(index + 1))
    };
    // Those that are there last come in last.
    _mm512_xor_si512(xor(two(0), two(2), two(4)), two(6))
}

/// The next blocks take in those before. A block is gone once all four of [`BEFORE`] have taken it
/// in: so the `LAST` blocks, which stay, take in none of each other.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,vpclmulqdq,pclmulqdq,sse4.1,gfni")]
fn round<const LAST: bool>(
    mut history: [__m512i; HISTORY],
    matrices: [__m512i; 4],
    take: impl Fn(usize) -> __m512i,
) -> [__m512i; HISTORY] {
    for index in 0..HISTORY {
        let left = |which: usize| {
            if LAST && BEFORE[which] <= index {
                return _mm512_setzero_si512();
            }
            let block = history[(index + HISTORY - BEFORE[which]) % HISTORY];
            _mm512_gf2p8affine_epi64_epi8::<0>(block, matrices[which])
        };
        // The one that was made last comes in last.
        history[index] = xor(xor(take(index), left(3), left(2)), left(1), left(0));
    }
    history
}

/// The first `ODD` blocks, fewer than [`HISTORY`], behind nothing.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,vpclmulqdq,pclmulqdq,sse4.1,gfni")]
fn begin<const ODD: usize>(matrices: [__m512i; 4], take: impl Fn(usize) -> __m512i) -> [__m512i; HISTORY] {
    let mut history = [_mm512_setzero_si512(); HISTORY];
    for index in 0..ODD {
        let mut block = take(index);
        for (before, matrix) in BEFORE.into_iter().zip(matrices) {
            if index >= before {
                let left =
                    _mm512_gf2p8affine_epi64_epi8::<0>(history[HISTORY - ODD + index - before], matrix);
                block = _mm512_xor_si512(block, left);
            }
        }
        history[HISTORY - ODD + index] = block;
    }
    history
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn xor(a: __m512i, b: __m512i, c: __m512i) -> __m512i {
    const XOR3: i32 = 0x96;
    _mm512_ternarylogic_epi64::<XOR3>(a, b, c)
}
