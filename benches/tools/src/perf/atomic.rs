//! Atomics that count, so that it can be told afterwards whether each was executed exactly once.

use crate::error::{Error, Result};
use crate::perf::cli::Basics;
use std::ops::Range;
use verbs_api::{MemoryRegion, RemoteAddr, SendRequest, Sge};

/// Bytes of the word that an atomic works on.
pub const WORD: usize = size_of::<u64>();
/// What every byte is where no fetched value is yet.
pub const UNFETCHED: u8 = 0xFF;

/// Which atomic, in perftest's words.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum AtomicOp {
    /// Stores a value if another one is there
    #[value(name = "CMP_AND_SWAP")]
    CmpAndSwap,
    /// Adds 1
    #[value(name = "FETCH_AND_ADD")]
    FetchAndAdd,
}

impl AtomicOp {
    /// Counts the word at `at` up from `count`, which is there if each one before was executed
    /// once.
    pub const fn request(self, result: Sge, at: RemoteAddr, count: u64) -> SendRequest<'static> {
        match self {
            Self::CmpAndSwap => SendRequest::compare_and_swap(result, at, count, count + 1),
            Self::FetchAndAdd => SendRequest::fetch_and_add(result, at, 1),
        }
    }
}

/// The size of an atomic is no option.
pub fn check_size(basics: &Basics) -> Result<()> {
    if basics.all || basics.size as usize != WORD {
        return Err(Error::Options(format!("an atomic has {WORD} bytes; leave --size and --all")));
    }
    Ok(())
}

/// The words of each range together say that so many atomics were executed.
pub fn check_counted(
    region: &MemoryRegion,
    ranges: impl Iterator<Item = Range<usize>>,
    executed: u64,
) -> Result<()> {
    check("the words", region, ranges, 0, executed)
}

/// The values fetched last, each one less than the word it left behind, say so.
pub fn check_fetched(
    region: &MemoryRegion,
    ranges: impl Iterator<Item = Range<usize>>,
    executed: u64,
) -> Result<()> {
    check("the values fetched", region, ranges, 1, executed)
}

fn check(
    what: &'static str,
    region: &MemoryRegion,
    ranges: impl Iterator<Item = Range<usize>>,
    more: u64,
    executed: u64,
) -> Result<()> {
    let mut found = 0_u64;
    for offset in ranges.flat_map(|range| range.step_by(WORD)) {
        found = found.wrapping_add(region.load_acquire_u64(offset)?.wrapping_add(more));
    }
    if found == executed { Ok(()) } else { Err(Error::Atomics { what, found, executed }) }
}
