//! Why a packet is refused, and what a refusal leaves behind (protocol.md 1.6).

use crate::qp::flush::end_receive;
use crate::qp::receives::NoReceive;
use crate::qp::{ControlKind, Qp, Qpc, Units};
use crate::queue::WcStatus;
use sr_recovery::StreamId;
use wire::{NakCode, Psn};

/// Why a packet was not placed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::qp) enum Refused {
    /// No receive is posted for its message.
    Rnr,
    /// Its message is ahead of its turn, and its receive would be more than the queue pair's share
    /// of a shared queue.
    OverShare,
    /// The request is wrong: what the peer is told, and the status of the receive that it held.
    Nak(NakCode, WcStatus),
}

impl From<NoReceive> for Refused {
    fn from(reason: NoReceive) -> Self {
        match reason {
            NoReceive::NotPosted => Self::Rnr,
            NoReceive::OverShare => Self::OverShare,
        }
    }
}

impl Refused {
    /// Opcode sequence, lengths, unsupported operation.
    pub const INVALID: Self = Self::Nak(NakCode::InvalidRequest, WcStatus::RemInvReqErr);
    /// Key, permission, range, protection domain.
    pub const ACCESS: Self = Self::Nak(NakCode::RemoteAccess, WcStatus::LocAccessErr);
    /// The message is longer than its receive.
    pub const TOO_SHORT: Self = Self::Nak(NakCode::InvalidRequest, WcStatus::LocLenErr);
    /// The receive names memory that may not be written.
    pub const OWN_MEMORY: Self = Self::Nak(NakCode::RemoteOperational, WcStatus::LocProtErr);
}

/// Tells the peer that what it misses of the response to the READ at `psn` cannot be had. It was
/// sent before: if the peer has it after all, because what it said of it was late or lost, it says
/// so again, and the queue pair lives on (docs/adr/0014).
#[cold]
pub(in crate::qp) fn tell_withdrawn(qpc: &Qpc, requests: StreamId, units: &mut Units, psn: Psn) {
    units.counters.resp_remote_access_errors += 1;
    units.queue_control(requests, qpc.id.qpn, ControlKind::Withdrawn { psn });
}

/// Notes the refusal, and ends the receive that its message held.
pub(in crate::qp) fn refuse_receive(
    qp: &mut Qp<'_>,
    units: &mut Units,
    psn: Psn,
    code: NakCode,
    receive_status: Option<WcStatus>,
) {
    units.counters.resp_remote_access_errors += u64::from(code == NakCode::RemoteAccess);
    qp.cold.refusal = Some((psn, code));
    if let Some(status) = receive_status {
        end_receive(qp, units, status);
    }
}
