//! Scatter-gather elements as words of a queue: address, (length, lkey).

use super::sync::AtomicU64;
use super::word_ring::{halves, load, pair, store};
use crate::memory::Sge;

/// Words of an element.
pub(super) const SGE_WORDS: usize = 2;

/// Writes elements one behind the other.
#[inline]
pub(super) fn store_sges(words: &[AtomicU64], sges: &[Sge]) {
    for (sge, words) in sges.iter().zip(words.chunks_exact(SGE_WORDS)) {
        store(&words[0], sge.addr);
        store(&words[1], pair(sge.length, sge.lkey));
    }
}

/// The first `count` elements that stand there.
#[inline]
pub(super) fn load_sges(words: &[AtomicU64], count: usize) -> impl Iterator<Item = Sge> {
    words.chunks_exact(SGE_WORDS).take(count).map(|words| {
        let (length, lkey) = halves(load(&words[1]));
        Sge { addr: load(&words[0]), length, lkey }
    })
}
