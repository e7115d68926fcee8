//! CRC-32 by folding 64 bytes at a time (Gopal et al., "Fast CRC Computation for Generic
//! Polynomials Using PCLMULQDQ Instruction"), each to the place of the last at once, with the
//! masked headers as the first block and the payload stored as it passes.
//!
//! Zeros in front of a message do not change a register that is clear. So blocks are filled from
//! their end: the ones that ICRC begins with and the headers stand at the end of one or two blocks,
//! and the payload begins a new one.

use super::masks::{HEADERS_MAX, LINE, Masks};
use super::polynomial::{FOLD_512, distances, ends};
use super::{ICRC_LEN, columns, lanes};
use core::arch::asm;
use core::arch::x86_64::*;
use core::ptr::NonNull;
use wire::icrc::ONES;

/// Lanes of a block.
const LANES: usize = LINE / lanes::LANE;
/// Blocks of payload from which on the columns are faster: those that are left of them cost as much
/// as half of this.
const COLUMNS_MIN: usize = 2 * columns::HISTORY;
/// Multipliers that move ahead by as many blocks, up to the longest payload of a packet.
static BLOCKS: [[i64; 2]; 65] = distances(LINE);
/// By as many bytes, less than a block.
static BYTES: [[i64; 2]; LINE] = distances(1);

/// How the last blocks of a message come to 64 bits behind its end.
#[repr(align(64))]
pub(super) struct Ends([[i64; 2]; columns::HISTORY * LANES]);
/// With so many bytes behind the last of them.
static ENDS: [Ends; LINE + 1] = {
    let ahead: [_; 1024] = distances(1);
    let mut all = [const { Ends([[0; 2]; columns::HISTORY * LANES]) }; LINE + 1];
    let mut rest = 0;
    while rest < all.len() {
        all[rest] = Ends(ends(&ahead, rest));
        rest += 1;
    }
    all
};

impl Ends {
    /// Multipliers of the block `index` of them.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,vpclmulqdq,pclmulqdq,sse4.1")]
    pub(super) fn of(&self, index: usize) -> __m512i {
        let lanes: &[[i64; 2]] = &self.0[index * LANES..][..LANES];
        // SAFETY: as long as a block.
        unsafe { _mm512_loadu_si512(lanes.as_ptr().cast()) }
    }

    /// Those of the last one.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,vpclmulqdq,pclmulqdq,sse4.1")]
    fn of_last(&self) -> __m512i {
        self.of(columns::HISTORY - 1)
    }
}

/// Returns `true` if the processor has what the functions here need.
pub(super) fn is_supported() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512vbmi")
        && is_x86_feature_detected!("vpclmulqdq")
        && is_x86_feature_detected!("pclmulqdq")
        && is_x86_feature_detected!("sse4.1")
}

/// The ICRC of `frame_from_l3`, or `None` if it has none that this kernel can compute.
///
/// # Safety
/// [`is_supported`], and GFNI if so.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,vpclmulqdq,pclmulqdq,sse4.1")]
pub(super) unsafe fn compute<const GFNI: bool>(frame_from_l3: &[u8]) -> Option<u32> {
    let (masks, masked) = Masks::of(frame_from_l3)?;
    // What is left of whole blocks is headers, as long as those that are masked are among it.
    let odd = (frame_from_l3.len() + ONES) % LINE;
    let first =
        if odd >= masked + ONES || odd + LINE > frame_from_l3.len() + ONES { odd } else { odd + LINE };
    let (headers, body) = frame_from_l3.split_at_checked(first.checked_sub(ONES)?)?;
    if headers.len() < masked {
        return None;
    }
    // SAFETY: `headers` hold at most two blocks with the ones; `body` is readable and not written.
    unsafe {
        let begun = begin(headers, masks);
        Some(fold::<GFNI, false>(begun, body.as_ptr(), core::ptr::null_mut(), body.len(), 0))
    }
}

/// Copies `len` bytes from `source` to `frame` from byte `at` on, zeroes the rest of it (the pad,
/// at most three bytes), and returns the ICRC of it all; `None` if the headers are none that this
/// kernel knows, and nothing was written then.
///
/// # Safety
/// [`is_supported`], and GFNI if so; `source` is valid for reads of `len` bytes outside of `frame`.
///
/// # Panics
/// If `at` and `len` are not within `frame`.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,vpclmulqdq,pclmulqdq,sse4.1")]
pub(super) unsafe fn copy<const GFNI: bool>(
    frame: &mut [u8],
    at: usize,
    source: NonNull<u8>,
    len: usize,
) -> Option<u32> {
    let (masks, masked) = Masks::of(&frame[..at])?;
    let rest = frame.len() - at;
    let pad = rest - len;
    if at < masked || at > HEADERS_MAX || pad > 3 || !rest.is_multiple_of(4) {
        return None;
    }
    let lead = lead(&frame[at..], at, len);
    let (headers, body) = frame.split_at_mut(at + lead);
    let mask = below(lead);
    // SAFETY: the lengths were checked; only bytes below `lead` are read, and written between the
    // headers and `body`, through a pointer to all that is in front of `body`, which is writable
    // for what is left of `len` and the pad; the processor has GFNI if so.
    unsafe {
        let bytes = _mm512_maskz_loadu_epi8(mask, source.as_ptr().cast());
        _mm512_mask_storeu_epi8(headers.as_mut_ptr().add(at).cast(), mask, bytes);
        let (source, target) = (source.as_ptr().add(lead), body.as_mut_ptr());
        Some(fold::<GFNI, true>(begin(headers, masks), source, target, len - lead, pad))
    }
}

/// The ICRC of `frame_from_l3`, whose bytes from byte `at` on it copies to `target`; `None` if the
/// headers before them are none that this kernel knows, and nothing was written then.
///
/// # Safety
/// [`is_supported`], and GFNI if so; `target` is writable for what is behind `at`, and not in
/// `frame_from_l3`.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,vpclmulqdq,pclmulqdq,sse4.1")]
pub(super) unsafe fn place<const GFNI: bool>(
    frame_from_l3: &[u8],
    at: usize,
    target: NonNull<u8>,
) -> Option<u32> {
    let (masks, masked) = Masks::of(frame_from_l3)?;
    let (headers, body) = frame_from_l3.split_at_checked(at)?;
    if at < masked || at > HEADERS_MAX {
        return None;
    }
    // SAFETY: `headers` hold at most two blocks with the ones; `body` is readable, and `target` as
    // the caller promises.
    unsafe {
        let begun = begin(headers, masks);
        Some(fold::<GFNI, true>(begun, body.as_ptr(), target.as_ptr(), body.len(), 0))
    }
}

/// Writes a packet from its IP header on: the headers, the payload, its pad and the ICRC. The
/// headers are the last bytes of the block of the lanes `a` to `d`, as many as the rest leaves of
/// `frame`. They are not read again after they were stored, which would wait for the stores.
///
/// # Safety
/// [`is_supported`], and GFNI if so; `source` is valid for reads and not in `frame`. `frame` has
/// headers, fewer than a block and all of an IPv4 packet's that are masked, as many bytes as
/// `source`, a pad to a multiple of four, and the ICRC.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,vpclmulqdq,pclmulqdq,sse4.1")]
pub(super) unsafe fn emit<const GFNI: bool>(
    a: __m128i,
    b: __m128i,
    c: __m128i,
    d: __m128i,
    frame: &mut [u8],
    source: NonNull<[u8]>,
) {
    let block =
        _mm512_inserti64x4::<1>(_mm512_castsi256_si512(_mm256_set_m128i(b, a)), _mm256_set_m128i(d, c));
    let len = source.len();
    let body = len.next_multiple_of(4);
    let headers = frame.len() - body - ICRC_LEN;
    let missing = LINE - headers;
    // SAFETY: only the block's bytes that are headers are stored; the masks have a block before the
    // headers; `body` is `len` and the pad. What is read of `source` and written behind the headers
    // is within those.
    unsafe {
        let start = frame.as_mut_ptr();
        _mm512_mask_storeu_epi8(start.wrapping_sub(missing).cast(), u64::MAX << missing, block);
        let ones = _mm512_loadu_si512(Masks::V4.headers().sub(missing).cast());
        let (mut acc, mut source, mut target) =
            (_mm512_or_si512(block, ones), source.cast::<u8>().as_ptr().cast_const(), start.add(headers));
        let lead = if len < 4 * LINE || body != len { 0 } else { target.addr().wrapping_neg() % LINE };
        if lead > 0 {
            let bytes = _mm512_maskz_loadu_epi8(below(lead), source.cast());
            _mm512_mask_storeu_epi8(target.cast(), below(lead), bytes);
            acc = then(acc, from_table(&BYTES[lead]), at_the_end(bytes, lead));
            (source, target) = (source.add(lead), target.add(lead));
        }
        let icrc = fold::<GFNI, true>(acc, source, target, len - lead, body - len);
        start.add(headers + body).cast::<[u8; ICRC_LEN]>().write(icrc.to_le_bytes());
    }
}

/// How much of a payload of `len` bytes behind `at` bytes of headers is counted among those, so
/// that the rest is stored by whole lines: a store into two lines takes as long as two, a load from
/// two often costs nothing. Nothing of a payload that is padded, so that its last block and the pad
/// are one.
#[inline]
fn lead(body: &[u8], at: usize, len: usize) -> usize {
    let lead = body.as_ptr().addr().wrapping_neg() % LINE;
    if len < 4 * LINE || !len.is_multiple_of(4) || at + lead > HEADERS_MAX { 0 } else { lead }
}

/// The bytes of a block below `count`.
#[inline]
const fn below(count: usize) -> __mmask64 {
    if count >= LINE { u64::MAX } else { (1 << count) - 1 }
}

/// The bytes of a block from `first` on, if there are any.
#[inline]
const fn from(first: usize) -> __mmask64 {
    !below(first)
}

/// `acc` moved ahead by the distance of `constants`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,vpclmulqdq,pclmulqdq,sse4.1")]
pub(super) fn moved(acc: __m512i, constants: __m512i) -> (__m512i, __m512i) {
    (_mm512_clmulepi64_epi128::<0x00>(acc, constants), _mm512_clmulepi64_epi128::<0x11>(acc, constants))
}

/// `acc` moved ahead, and `next` behind it.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,vpclmulqdq,pclmulqdq,sse4.1")]
fn then(acc: __m512i, constants: __m512i, next: __m512i) -> __m512i {
    joined(next, moved(acc, constants))
}

/// What stands in the same place.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,vpclmulqdq,pclmulqdq,sse4.1")]
pub(super) fn joined(block: __m512i, (first, last): (__m512i, __m512i)) -> __m512i {
    const XOR3: i32 = 0x96;
    _mm512_ternarylogic_epi64::<XOR3>(block, first, last)
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,vpclmulqdq,pclmulqdq,sse4.1")]
fn everywhere((first, last): (i64, i64)) -> __m512i {
    _mm512_set_epi64(last, first, last, first, last, first, last, first)
}

/// The two multipliers of a table in each lane of a vector.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,vpclmulqdq,pclmulqdq,sse4.1")]
fn from_table(multipliers: &[i64; 2]) -> __m512i {
    // SAFETY: as long as a lane.
    _mm512_broadcast_i32x4(unsafe { _mm_loadu_si128(multipliers.as_ptr().cast()) })
}

/// The masked headers, folded to one block.
///
/// # Safety
/// `headers` is at most [`HEADERS_MAX`] long.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,vpclmulqdq,pclmulqdq,sse4.1")]
unsafe fn begin(headers: &[u8], masks: &Masks) -> __m512i {
    // The block that ends `before` bytes before the end of the headers.
    let block = |before: usize| {
        // What would lie before the first byte is left out.
        let missing = (LINE + before).saturating_sub(headers.len());
        let present = if missing < LINE { u64::MAX << missing } else { 0 };
        let at = |first: *const u8| first.wrapping_add(headers.len()).wrapping_sub(LINE + before);
        // SAFETY: bytes that are masked out are not accessed; the others are in `headers`.
        let bytes = unsafe { _mm512_maskz_loadu_epi8(present, at(headers.as_ptr()).cast()) };
        // SAFETY: before <= LINE and the length is below 2 * LINE, so it begins two blocks before
        // the masks or later, and ends one behind them or earlier.
        let ones = unsafe { _mm512_loadu_si512(at(masks.headers()).cast()) };
        _mm512_or_si512(bytes, ones)
    };
    if headers.len() + ONES <= LINE {
        return block(0);
    }
    then(block(LINE), everywhere(FOLD_512), block(0))
}

/// The ICRC of `acc`, `len` bytes at `source`, the most of as many as a packet has by [`columns`]
/// if `GFNI`, and `pad` zeros; copies them to `target` if `COPY`.
///
/// # Safety
/// The processor has GFNI if so; `source` is readable for `len` bytes, `target` writable for `len +
/// pad` if `COPY`; they do not overlap. `pad` is at most three, and what fills `len` up to a
/// multiple of four, or nothing.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,vpclmulqdq,pclmulqdq,sse4.1")]
unsafe fn fold<const GFNI: bool, const COPY: bool>(
    mut acc: __m512i,
    mut source: *const u8,
    mut target: *mut u8,
    len: usize,
    pad: usize,
) -> u32 {
    debug_assert!(pad == 0 || pad == len.wrapping_neg() & 3);
    let mut blocks = len / LINE;
    // Longer than packets are.
    while blocks >= BLOCKS.len() {
        let count = BLOCKS.len() - 1;
        // SAFETY: there are more blocks than these.
        acc = unsafe { gather::<COPY>(acc, source, target, count) };
        (source, target) = (source.wrapping_add(count * LINE), target.wrapping_add(count * LINE));
        blocks -= count;
    }
    let rest = len % LINE;
    // Of whole blocks nothing is missing that would be padded.
    let ends = &ENDS[rest + pad];
    let sum = if GFNI && blocks >= COLUMNS_MIN {
        let before = moved(acc, from_table(&BLOCKS[blocks]));
        // SAFETY: the processor has GFNI; there are as many blocks.
        unsafe { columns::fold::<COPY>(source, target, blocks, before, ends) }
    } else {
        if blocks > 0 {
            // SAFETY: there are as many blocks.
            acc = unsafe { gather::<COPY>(acc, source, target, blocks) };
        }
        let (first, last) = moved(acc, ends.of_last());
        _mm512_xor_si512(first, last)
    };
    if rest == 0 {
        return seal(sum);
    }
    // The block that ends where they end: nothing behind them is touched, not even the line that it
    // is in.
    let count = rest + pad;
    let (present, end) = (from(LINE - count) & below(LINE - pad), blocks * LINE + count);
    // SAFETY: only the last `rest` bytes are read, and only those and the pad written.
    let block = unsafe {
        let mut block = _mm512_maskz_loadu_epi8(present, source.wrapping_add(end).wrapping_sub(LINE).cast());
        if COPY {
            block = read_once(block);
            let target = target.wrapping_add(end).wrapping_sub(LINE);
            _mm512_mask_storeu_epi8(target.cast(), from(LINE - count), block);
        }
        block
    };
    seal(joined(sum, moved(block, ENDS[0].of_last())))
}

/// Reads the block at `source`, and copies it to `target` if `COPY`.
///
/// # Safety
/// `source` is readable for a block, `target` writable for one if `COPY`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,vpclmulqdq,pclmulqdq,sse4.1")]
pub(super) unsafe fn pass<const COPY: bool>(source: *const u8, target: *mut u8) -> __m512i {
    // SAFETY: the caller's promise.
    unsafe {
        let block = _mm512_loadu_si512(source.cast());
        if !COPY {
            return block;
        }
        let block = read_once(block);
        _mm512_storeu_si512(target.cast(), block);
        block
    }
}

/// `block`, of which the compiler does not know that it can be read again: it makes a loop that
/// loads and stores a call of `memcpy` beside one that loads, and an application that writes to its
/// memory meanwhile would have one thing sent and another folded.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,vpclmulqdq,pclmulqdq,sse4.1")]
fn read_once(mut block: __m512i) -> __m512i {
    // SAFETY: no instruction at all.
    unsafe { asm!("/* {0} */", inout(zmm_reg) block, options(nomem, nostack, preserves_flags)) };
    block
}

/// `acc` and `count` blocks at `source` behind it, at least one and at most the longest distance,
/// as one block: each is moved to the place of the last at once, so that no multiplication waits
/// for another. Copies them to `target` if `COPY`.
///
/// # Safety
/// `source` is readable for as many blocks, `target` writable for them if `COPY`; they do not
/// overlap.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,vpclmulqdq,pclmulqdq,sse4.1")]
unsafe fn gather<const COPY: bool>(
    acc: __m512i,
    source: *const u8,
    target: *mut u8,
    count: usize,
) -> __m512i {
    // SAFETY: below, `index` is less than `count`.
    let take =
        |index: usize| unsafe { pass::<COPY>(source.add(index * LINE), target.wrapping_add(index * LINE)) };
    let distances = &BLOCKS[..=count];
    let last = count - 1;
    let (mut even, mut odd) = moved(acc, from_table(&distances[count]));
    let mut index = 0;
    while index + 1 < last {
        let (a, b) = (take(index), take(index + 1));
        even = joined(even, moved(a, from_table(&distances[last - index])));
        odd = joined(odd, moved(b, from_table(&distances[last - index - 1])));
        index += 2;
    }
    if index < last {
        even = joined(even, moved(take(index), from_table(&distances[1])));
    }
    joined(take(last), (even, odd))
}

/// The first `count` bytes of `block` at its end, and nothing before them.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,vpclmulqdq,pclmulqdq,sse4.1")]
#[expect(clippy::cast_possible_truncation, reason = "at most 64")]
fn at_the_end(block: __m512i, count: usize) -> __m512i {
    // In the order of memory.
    const ORDER: [u8; LINE] = {
        let mut bytes = [0; LINE];
        let mut i = 0_u8;
        while (i as usize) < LINE {
            bytes[i as usize] = i;
            i += 1;
        }
        bytes
    };
    // SAFETY: as long as a block.
    let order = unsafe { _mm512_loadu_si512(ORDER.as_ptr().cast()) };
    // Of an index its last six bits count.
    let taken = _mm512_add_epi8(order, _mm512_set1_epi8(count as i8));
    _mm512_maskz_permutexvar_epi8(from(LINE - count), taken, block)
}

/// The ICRC of what was moved to 64 bits behind the end of the message, each lane by itself.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,vpclmulqdq,pclmulqdq,sse4.1")]
fn seal(sum: __m512i) -> u32 {
    let half = _mm256_xor_si256(_mm512_castsi512_si256(sum), _mm512_extracti64x4_epi64::<1>(sum));
    let x = _mm_xor_si128(_mm256_castsi256_si128(half), _mm256_extracti128_si256::<1>(half));
    lanes::barrett(x)
}
