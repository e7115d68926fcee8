//! The elements of a work request, as parts of registered memory.

use crate::memory::{Access, AccessError, Mapped, MemoryTable, ProtectionDomainId, Sge};
use core::ops::Range;

/// Calls `copy` with the memory of each part of bytes `start..start + len` of a work request's
/// message, and which of those `len` bytes it is.
///
/// # Errors
/// [`AccessError`] of the first element that does not allow `access`; those before it were used.
#[inline(always)]
pub(super) fn for_each_part(
    memory: &MemoryTable,
    pd: ProtectionDomainId,
    sges: impl Iterator<Item = Sge>,
    (start, len): (u64, usize),
    access: Access,
    mut copy: impl FnMut(Mapped<'_>, Range<usize>),
) -> Result<(), AccessError> {
    let (mut skip, mut done) = (start, 0);
    for sge in sges {
        if done == len {
            break;
        }
        let room = u64::from(sge.length).saturating_sub(skip);
        if room == 0 {
            skip -= u64::from(sge.length);
            continue;
        }
        let take = usize::try_from(room).unwrap_or(usize::MAX).min(len - done);
        let mapped = memory.check(sge.lkey, pd, sge.addr.wrapping_add(skip), take as u64, access)?;
        copy(mapped, done..done + take);
        skip = 0;
        done += take;
    }
    Ok(())
}
