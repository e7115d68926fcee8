//! The payload of a request packet: from the memory of its work request to the frame, in one copy.

use super::elements::for_each_part;
use super::packet::Body;
use crate::memory::{Access, Mapped, MemoryTable, ProtectionDomainId};
use crate::queue::{SendWqe, WcStatus};
use icrc::Kernel;
use wire::bth;

/// A part of a work request's message.
#[derive(Clone, Copy)]
pub(super) struct Payload<'a> {
    pub memory: &'a MemoryTable,
    pub wqe: SendWqe<'a>,
    /// Whose memory the work request may name.
    pub pd: ProtectionDomainId,
    /// Bytes of the message before it.
    pub start: u64,
    /// Its bytes.
    pub len: usize,
}

impl Body for Payload<'_> {
    fn len(&self) -> usize {
        self.len
    }

    #[inline(always)]
    fn write_sealed(&self, frame_from_l3: &mut [u8], at: usize) -> Result<(), WcStatus> {
        match self.whole()? {
            Some(whole) => {
                whole.read_sealed(Kernel::detected(), frame_from_l3, at, self.len);
                Ok(())
            }
            None => self.write_in_pieces(frame_from_l3, at),
        }
    }
}

impl<'a> Payload<'a> {
    /// Writes a payload that lies in the work request, or in several pieces.
    #[inline(never)]
    fn write_in_pieces(self, frame_from_l3: &mut [u8], at: usize) -> Result<(), WcStatus> {
        let (payload, rest) = frame_from_l3[at..].split_at_mut(self.len);
        self.gather(payload)?;
        rest[..usize::from(bth::pad_of(self.len))].fill(0);
        Kernel::detected().seal(frame_from_l3);
        Ok(())
    }

    /// If it is one piece of registered memory: copied and sealed in one pass.
    #[inline(always)]
    fn whole(&self) -> Result<Option<Mapped<'a>>, WcStatus> {
        let Some(sge) = self.wqe.only_sge() else { return Ok(None) };
        self.memory
            .check(sge.lkey, self.pd, sge.addr.wrapping_add(self.start), self.len as u64, Access::empty())
            .map(Some)
            .map_err(|_| WcStatus::LocProtErr)
    }

    #[inline]
    fn gather(&self, target: &mut [u8]) -> Result<(), WcStatus> {
        if self.wqe.is_inline() {
            self.wqe.read_inline(usize::try_from(self.start).unwrap_or(usize::MAX), target);
            return Ok(());
        }
        let Self { memory, wqe, pd, start, len } = *self;
        for_each_part(memory, pd, wqe.sges(), (start, len), Access::empty(), |mapped, part| {
            mapped.read(&mut target[part]);
        })
        .map_err(|_| WcStatus::LocProtErr)
    }
}
