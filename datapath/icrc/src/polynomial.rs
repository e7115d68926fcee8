//! The polynomial of CRC-32 and the constants of folding by it, all computed by the compiler.
//!
//! Carry-less products of reversed bits come out one bit too low, which is why multipliers have 33
//! bits, the last of them empty: x^n is written as if it were shifted by one.

/// x^32 + x^26 + ... + 1 (IEEE 802.3), x^32 first.
const GENERATOR: u64 = 0x1_04C1_1DB7;

/// `rest` times x^n modulo the polynomial, x^31 first.
pub(super) const fn times_power(mut rest: u64, n: usize) -> u64 {
    let mut i = 0;
    while i < n {
        rest <<= 1;
        if rest >> 32 != 0 {
            rest ^= GENERATOR;
        }
        i += 1;
    }
    rest
}

/// `rest` divided by x^n modulo the polynomial, which has a last bit.
const fn divided_by_power(mut rest: u64, n: usize) -> u64 {
    let mut i = 0;
    while i < n {
        if rest & 1 != 0 {
            rest ^= GENERATOR;
        }
        rest >>= 1;
        i += 1;
    }
    rest
}

/// Bits reversed, as the multiplications want it.
const fn multiplier(rest: u64) -> i64 {
    (rest.reverse_bits() >> 31).cast_signed()
}

/// Multipliers that move 128 bits ahead by `bits`: of the first 64 and of the last 64.
pub(super) const fn fold_by(bits: usize) -> (i64, i64) {
    (multiplier(times_power(1, bits + 32)), multiplier(times_power(1, bits - 32)))
}

/// Multipliers of 128 bits that move ahead by 0, 1, 2, ... times `bytes`: of the first 64 and of
/// the last 64.
pub(super) const fn distances<const N: usize>(bytes: usize) -> [[i64; 2]; N] {
    let mut all = [[0; 2]; N];
    let (mut first, mut last) = (times_power(1, 32), divided_by_power(1, 32));
    let mut number = 0;
    while number < N {
        all[number] = [multiplier(first), multiplier(last)];
        (first, last) = (times_power(first, bytes * 8), times_power(last, bytes * 8));
        number += 1;
    }
    all
}

/// Multipliers that move lanes of 128 bits to 64 bits behind the end of a message, where
/// [`super::lanes::barrett`] finds 96 bits: of `LANES` lanes with `rest` bytes behind the last of
/// them. `ahead` has the [`distances`] of bytes.
pub(super) const fn ends<const LANES: usize>(ahead: &[[i64; 2]], rest: usize) -> [[i64; 2]; LANES] {
    const LANE: usize = 16;
    let mut all = [[0; 2]; LANES];
    let mut lane = 0;
    while lane < LANES {
        all[lane] = ahead[8 + rest + (LANES - 1 - lane) * LANE];
        lane += 1;
    }
    all
}

/// x^96 divided by the polynomial, without the remainder, and without the last of its 65 bits: for
/// the quotient of 96 bits no product of that counts.
const fn quotient() -> u64 {
    let (mut quotient, mut rest, mut i) = (0, 1_u64, 0);
    while i < 95 {
        (quotient, rest) = (quotient << 1, rest << 1);
        if rest >> 32 != 0 {
            quotient |= 1;
            rest ^= GENERATOR;
        }
        i += 1;
    }
    quotient
}

pub(super) const FOLD_512: (i64, i64) = fold_by(512);
pub(super) const FOLD_384: (i64, i64) = fold_by(384);
pub(super) const FOLD_256: (i64, i64) = fold_by(256);
pub(super) const FOLD_128: (i64, i64) = fold_by(128);
/// The polynomial and its Barrett quotient, bits reversed.
pub(super) const POLYNOMIAL: i64 = multiplier(GENERATOR);
pub(super) const QUOTIENT: i64 = quotient().reverse_bits().cast_signed();
// As the literature has them.
const _: () = assert!(POLYNOMIAL == 0x1_DB71_0641 && QUOTIENT.cast_unsigned() == 0xB4E5_B025_F701_1641);
