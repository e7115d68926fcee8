//! The payload of a request packet: from the memory of its work request to the frame, in one copy.

use super::elements::for_each_part;
use crate::icrc::Kernel;
use crate::memory::{Access, Mapped, MemoryTable, ProtectionDomainId};
use crate::queue::{SendWqe, WcStatus};
use wire::bth;

/// A part of a work request's message.
#[derive(Clone, Copy)]
pub(super) struct Payload<'a> {
    pub wqe: SendWqe<'a>,
    /// Whose memory the work request may name.
    pub pd: ProtectionDomainId,
    /// Bytes of the message before it.
    pub start: u64,
    /// Its bytes.
    pub len: usize,
}

impl Payload<'_> {
    /// Copies it to byte `at` of a frame that begins with the IP header, has its other headers, and ends with the ICRC;
    /// writes pad bytes and ICRC.
    ///
    /// # Errors
    /// The status with which the work request fails, if its memory may not be read.
    #[inline(always)]
    pub fn write_sealed(
        &self,
        memory: &MemoryTable,
        frame_from_l3: &mut [u8],
        at: usize,
    ) -> Result<(), WcStatus> {
        match self.whole(memory)? {
            Some(whole) => {
                whole.read_sealed(Kernel::detected(), frame_from_l3, at, self.len);
                Ok(())
            }
            None => self.write_in_pieces(memory, frame_from_l3, at),
        }
    }

    /// The same of a payload that lies in the work request, or in several pieces.
    #[inline(never)]
    fn write_in_pieces(
        self,
        memory: &MemoryTable,
        frame_from_l3: &mut [u8],
        at: usize,
    ) -> Result<(), WcStatus> {
        let (payload, rest) = frame_from_l3[at..].split_at_mut(self.len);
        self.gather(memory, payload)?;
        rest[..usize::from(bth::pad_of(self.len))].fill(0);
        Kernel::detected().seal(frame_from_l3);
        Ok(())
    }

    /// If it is one piece of registered memory: copied and sealed in one pass.
    #[inline(always)]
    fn whole<'m>(&self, memory: &'m MemoryTable) -> Result<Option<Mapped<'m>>, WcStatus> {
        let Some(sge) = self.wqe.only_sge() else { return Ok(None) };
        memory
            .check(sge.lkey, self.pd, sge.addr.wrapping_add(self.start), self.len as u64, Access::empty())
            .map(Some)
            .map_err(|_| WcStatus::LocProtErr)
    }

    #[inline]
    fn gather(&self, memory: &MemoryTable, target: &mut [u8]) -> Result<(), WcStatus> {
        if self.wqe.is_inline() {
            self.wqe.read_inline(usize::try_from(self.start).unwrap_or(usize::MAX), target);
            return Ok(());
        }
        let Self { wqe, pd, start, len } = *self;
        for_each_part(memory, pd, wqe.sges(), start, len, Access::empty(), |mapped, part| {
            mapped.read(&mut target[part]);
        })
        .map_err(|_| WcStatus::LocProtErr)
    }
}
