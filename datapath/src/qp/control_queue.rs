//! Acknowledgements that must go out one by one: NACKs, duplicates' ACKs, RNR and error NAKs.

use sr_recovery::StreamId;
use std::collections::VecDeque;
use wire::{Meta, NakCode, Psn};

/// Acknowledgements that wait at most. A full queue drops the newest, as a lossy network might.
const CONTROL_MAX: usize = 1024;

/// Packets that the bitmap of a NACK can name beside SACK_PSN.
const LOOKS_BACK: u32 = 64;

/// What to say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ControlKind {
    /// A duplicate arrived, with this META: everything below ePSN is acknowledged again.
    Duplicate { meta: Meta },
    /// Something is missing at ePSN; `sack` arrived, and all from `first` on in the same run.
    Nack { first: Psn, sack: Psn },
    /// Something is missing at ePSN, and what was not SACKed must be sent again.
    NackAll,
    /// No receive for the message at this PSN.
    Rnr { psn: Psn },
    /// The queue pair's refusal.
    ErrorNak,
    /// What the peer misses of the response to the READ with this PSN cannot be had: its memory was
    /// withdrawn.
    Withdrawn { psn: Psn },
    /// Wire mode Plain: what the peer sends is marked on its way.
    Cnp,
    /// What a queue pair acknowledged that has ended; `stream` says nothing.
    LastWord,
}

impl ControlKind {
    /// Something is missing at ePSN, and this packet arrived.
    pub const fn sack(psn: Psn) -> Self {
        Self::Nack { first: psn, sack: psn }
    }

    /// The PSN and the reason, if it tells of a response that cannot be had: that is older than
    /// anything refused, and acknowledges nothing behind it. Where it is not before ePSN it is of a
    /// former life.
    pub const fn withdrawn(self) -> Option<(Psn, NakCode)> {
        if let Self::Withdrawn { psn } = self { Some((psn, NakCode::RemoteAccess)) } else { None }
    }
}

/// One acknowledgement to send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ControlPacket {
    pub stream: StreamId,
    pub qpn: u32,
    pub kind: ControlKind,
}

/// One NACK for two packets of a run, the second right behind the first.
fn merge(before: ControlKind, next: ControlKind) -> Option<ControlKind> {
    let (ControlKind::Nack { first, sack }, ControlKind::Nack { first: start, sack: end }) = (before, next)
    else {
        return None;
    };
    let continues = start == sack.next() && end.steps_from(first) <= LOOKS_BACK;
    continues.then_some(ControlKind::Nack { first, sack: end })
}

#[derive(Debug)]
pub(crate) struct ControlQueue {
    packets: VecDeque<ControlPacket>,
}

impl ControlQueue {
    pub fn new() -> Self {
        Self { packets: VecDeque::with_capacity(CONTROL_MAX) }
    }

    /// Queues an acknowledgement; false if there is no room. A NACK that continues the run of the
    /// one before it takes its place, as long as the bitmap that looks back covers both.
    #[inline]
    #[must_use]
    pub fn push(&mut self, packet: ControlPacket) -> bool {
        if let Some(last) = self.packets.back_mut()
            && (last.stream, last.qpn) == (packet.stream, packet.qpn)
            && let Some(merged) = merge(last.kind, packet.kind)
        {
            last.kind = merged;
            return true;
        }
        let fits = self.packets.len() < CONTROL_MAX;
        if fits {
            self.packets.push_back(packet);
        }
        fits
    }

    #[inline]
    pub fn pop(&mut self) -> Option<ControlPacket> {
        self.packets.pop_front()
    }

    pub fn push_front(&mut self, packet: ControlPacket) {
        self.packets.push_front(packet);
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }
}
