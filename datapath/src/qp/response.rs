//! Packets of responses to READs and atomics, in either wire mode.

use super::context::Qpc;
use super::packet::PacketBuilder;
use crate::memory::{Access, Mapped, MemoryTable};
use crate::queue::WcStatus;
use wire::{Aeth, Bth, Fields, Meta, Msn, Opcode, Psn, Ssn, Ssnw, Syndrome, WireMode};

/// Where the bytes of a response come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Source {
    /// READ: memory, checked and read again for each packet that is sent.
    Memory { va: u64, rkey: u32, len: u32 },
    /// Atomic: what was there before.
    Saved(u64),
}

/// One packet of a response.
pub(super) struct ResponsePacket<'a> {
    pub qpc: &'a Qpc,
    pub source: Source,
    /// Index of the packet in its response.
    pub index: u32,
    /// Packets of the response.
    pub packets: u32,
    pub psn: Psn,
    pub ack_req: bool,
    /// In the SRNIC dialect, the number of the request.
    pub msn: Msn,
    /// In the SRNIC dialect, its slot.
    pub rslot: u8,
}

impl ResponsePacket<'_> {
    /// Bytes of its payload.
    #[inline]
    pub fn payload_len(&self) -> usize {
        match self.source {
            Source::Memory { len, .. } => {
                let rest = u64::from(len).saturating_sub(self.start());
                usize::try_from(rest)
                    .map_or(self.qpc.id.pmtu.into(), |rest| rest.min(self.qpc.id.pmtu.into()))
            }
            Source::Saved(_) => 0,
        }
    }

    /// Bytes of the response before it.
    const fn start(&self) -> u64 {
        self.index as u64 * self.qpc.id.pmtu as u64
    }

    /// Its payload, if it may be read: keys are checked for each packet.
    #[inline]
    pub fn payload<'m>(&self, memory: &'m MemoryTable) -> Option<Mapped<'m>> {
        let Source::Memory { va, rkey, .. } = self.source else { return Some(Mapped::empty()) };
        let (va, len) = (va.wrapping_add(self.start()), self.payload_len());
        let mapped =
            memory.check_remote(rkey, self.qpc.id.peer(), va, len as u64, Access::REMOTE_READ).ok()?;
        Some(mapped.part(0, len))
    }

    /// Writes it to the start of `frame` and returns its length.
    ///
    /// # Errors
    /// Its memory may not be read.
    #[inline(always)]
    pub fn write(&self, mode: WireMode, memory: &MemoryTable, frame: &mut [u8]) -> Result<usize, WcStatus> {
        let Self { qpc, source, index, packets, psn, ack_req, msn, rslot } = *self;
        let payload = self.payload(memory).ok_or(WcStatus::LocProtErr)?;
        let (opcode, saved) = match source {
            Source::Memory { .. } => (opcode_at(index, packets), 0),
            Source::Saved(value) => (Opcode::RcAtomicAck, value),
        };
        let (meta, ssnw) = (Meta::of(msn, index), Ssnw::of(index, Ssn::new(rslot.into())));
        let bth = Bth { ack_req, psn, ..qpc.id.bth(mode, opcode) };
        let aeth = Aeth { syndrome: Syndrome::ACK, msn: qpc.rsp.completed.get() };
        let fields = Fields { aeth, atomic_ack: saved, meta, ssnw, ..Fields::default() };
        PacketBuilder::new(&qpc.template, mode, bth, fields)?.build(&payload, frame)
    }
}

/// The opcode of packet `index` of `packets` of the response to a READ.
pub(super) const fn opcode_at(index: u32, packets: u32) -> Opcode {
    match (index == 0, index + 1 == packets) {
        (true, true) => Opcode::RcReadResponseOnly,
        (true, false) => Opcode::RcReadResponseFirst,
        (false, false) => Opcode::RcReadResponseMiddle,
        (false, true) => Opcode::RcReadResponseLast,
    }
}
