//! Filling and checking registered memory, which no Rust reference may point into.

use crate::error::{Error, Result};
use crate::perf::pattern::Pattern;
use std::ops::Range;
use verbs_api::MemoryRegion;

/// Bytes handled at a time.
const CHUNK: usize = 64 << 10;

/// Writes the pattern's bytes, whose offsets are those of the region.
pub fn fill(region: &MemoryRegion, range: Range<usize>, pattern: Pattern) -> Result<()> {
    let mut chunk = vec![0; CHUNK.min(range.len())];
    for start in range.clone().step_by(CHUNK) {
        let chunk = &mut chunk[..CHUNK.min(range.end - start)];
        pattern.fill(start, chunk);
        region.write(start, chunk)?;
    }
    Ok(())
}

/// Writes zeros.
pub fn clear(region: &MemoryRegion, range: Range<usize>) -> Result<()> {
    set(region, range, 0)
}

/// Writes one byte again and again.
pub fn set(region: &MemoryRegion, range: Range<usize>, byte: u8) -> Result<()> {
    let bytes = vec![byte; CHUNK.min(range.len())];
    for start in range.clone().step_by(CHUNK) {
        region.write(start, &bytes[..CHUNK.min(range.end - start)])?;
    }
    Ok(())
}

/// Fails on the first byte that is not the pattern's; without a pattern, on the first that is not
/// zero. `what` names the bytes in the error.
pub fn check(
    region: &MemoryRegion,
    range: Range<usize>,
    pattern: Option<Pattern>,
    what: &'static str,
) -> Result<()> {
    let (mut found, mut expected) = (vec![0; CHUNK.min(range.len())], vec![0; CHUNK.min(range.len())]);
    for start in range.clone().step_by(CHUNK) {
        let len = CHUNK.min(range.end - start);
        region.read(start, &mut found[..len])?;
        if let Some(pattern) = pattern {
            pattern.fill(start, &mut expected[..len]);
        }
        let (found, expected) = (&found[..len], &expected[..len]);
        if found != expected
            && let Some(index) = (0..len).find(|&index| found[index] != expected[index])
        {
            let (found, expected) = (found[index], expected[index]);
            return Err(Error::Differs { what, offset: start + index, found, expected });
        }
    }
    Ok(())
}
