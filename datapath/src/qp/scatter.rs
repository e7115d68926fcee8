//! Copying what arrived to the elements of a work request.

use super::elements::for_each_part;
use crate::memory::{Access, AccessError, Mapped, MemoryTable, ProtectionDomainId, Sge};

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
    for_each_part(memory, pd, sges, (start, payload.len()), Access::LOCAL_WRITE, |mapped, part| {
        mapped.write(&payload[part]);
    })
}

/// `len` bytes of the only element of a work request, from byte `start` on.
#[inline(always)]
pub(super) fn in_element<'m>(
    memory: &'m MemoryTable,
    pd: ProtectionDomainId,
    sge: &Sge,
    start: u64,
    len: u64,
) -> Result<Mapped<'m>, AccessError> {
    memory.check(sge.lkey, pd, sge.addr.wrapping_add(start), len, Access::LOCAL_WRITE)
}
