//! Copying what arrived to the elements of a work request.

use crate::memory::{Access, AccessError, MemoryTable, ProtectionDomainId};
use crate::queue::Sge;

/// Copies `payload` to the elements of a work request, from byte `start` of its message on.
///
/// # Errors
/// [`AccessError`] of the first element that may not be written; those before it were.
pub(super) fn scatter(
    memory: &MemoryTable,
    pd: ProtectionDomainId,
    sges: impl Iterator<Item = Sge>,
    start: u64,
    payload: &[u8],
) -> Result<(), AccessError> {
    let mut skip = start;
    let mut rest = payload;
    for sge in sges {
        if rest.is_empty() {
            break;
        }
        let room = u64::from(sge.length).saturating_sub(skip);
        if room == 0 {
            skip -= u64::from(sge.length);
            continue;
        }
        let take = usize::try_from(room).unwrap_or(usize::MAX).min(rest.len());
        let (now, later) = rest.split_at(take);
        memory
            .check(sge.lkey, pd, sge.addr.wrapping_add(skip), now.len() as u64, Access::LOCAL_WRITE)?
            .write(now);
        skip = 0;
        rest = later;
    }
    Ok(())
}
