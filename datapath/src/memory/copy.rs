//! The copy of a payload to or from registered memory.

use core::ptr::copy_nonoverlapping;

/// Bytes from which on libraries copy by `rep movsb`, which AMD's Zen 3 takes twice as long for,
/// and twenty times as long where the target lies up to 31 bytes behind the source modulo 4096
/// (glibc's bug 30994, mended in 2.39).
#[cfg(target_arch = "x86_64")]
const LONG: usize = 2048;

/// Copies `len` bytes from `source` to `target`, in ascending order if they are many.
///
/// # Safety
/// `source` is readable and `target` writable for `len` bytes; they do not overlap.
#[inline(always)]
pub(super) unsafe fn copy(source: *const u8, target: *mut u8, len: usize) {
    #[cfg(target_arch = "x86_64")]
    if len >= LONG && is_x86_feature_detected!("avx") {
        // SAFETY: the processor has it; the caller's promise.
        return unsafe { by_vectors(source, target, len) };
    }
    // SAFETY: the caller's promise.
    unsafe { copy_nonoverlapping(source, target, len) };
}

/// Copies `len` bytes by vectors of 32 bytes, of which none is stored to two cache lines.
///
/// # Safety
/// That of [`copy`], and the processor has AVX.
#[cfg(target_arch = "x86_64")]
#[inline(never)]
#[target_feature(enable = "avx")]
unsafe fn by_vectors(source: *const u8, target: *mut u8, len: usize) {
    use core::arch::asm;
    use core::arch::x86_64::{__m256i, _mm256_loadu_si256, _mm256_store_si256};

    const VECTOR: usize = size_of::<__m256i>();
    const BLOCK: usize = 4 * VECTOR;

    let first = (target.addr().wrapping_neg() % VECTOR).min(len);
    let blocks = (len - first) / BLOCK;
    let last = first + blocks * BLOCK;
    // SAFETY: `first` and `last` are within `len`, and so are whole blocks between them, at which
    // `target` is aligned.
    unsafe {
        copy_nonoverlapping(source, target, first);
        for at in (first..last).step_by(BLOCK) {
            let load = |index: usize| _mm256_loadu_si256(source.add(at + index * VECTOR).cast());
            let mut vectors = [load(0), load(1), load(2), load(3)];
            // No instruction at all: the compiler would make a call of `memcpy` of the loop.
            asm!("/* {0} */", inout(ymm_reg) vectors[0], options(nomem, nostack, preserves_flags));
            for (index, vector) in vectors.into_iter().enumerate() {
                _mm256_store_si256(target.add(at + index * VECTOR).cast(), vector);
            }
        }
        copy_nonoverlapping(source.add(last), target.add(last), len - last);
    }
}
