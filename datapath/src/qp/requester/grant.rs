//! What a queue pair may send in one turn, and how its turn ends.

use crate::qp::Qpc;
use crate::queue::SendOpcode;

/// What a queue pair may send in one turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grant {
    /// Work requests that may be read from the send queue.
    pub wqes: u32,
    /// Bytes of payload.
    pub bytes: usize,
    /// Packets, so that small messages leave room for others in the transmit batch.
    pub packets: usize,
    /// READs that were sent in it.
    pub reads: u32,
    /// Atomics that were sent in it.
    pub atomics: u32,
}

impl Grant {
    /// A READ or atomic was sent.
    pub fn begin(&mut self, opcode: SendOpcode) {
        self.reads += u32::from(opcode == SendOpcode::Read);
        self.atomics += u32::from(matches!(opcode, SendOpcode::FetchAdd | SendOpcode::CompareSwap));
    }

    /// The turn ends at the request that was read last. If nothing of it is sent, it is read once
    /// more in another turn.
    #[cold]
    pub fn give_back(&mut self, qpc: &Qpc) {
        self.wqes += u32::from(qpc.req.sent == 0);
    }

    /// Whether it covers one more packet, however long.
    #[inline]
    pub const fn has_room(&self, pmtu: u16) -> bool {
        self.packets > 0 && self.bytes >= pmtu as usize
    }
}

/// Why a turn ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TransmitEnd {
    /// The queue pair sent what it may; true if it is still ready.
    Done { ready: bool },
    /// The port has no slot.
    PortFull,
}
