//! The end of a message is reported to who posted the receive that it consumed.

use crate::qp::{Qp, Units};
use crate::queue::{Completion, WcFlags, WcOpcode, WcStatus};
use crate::stream::SlotKind;

/// What is to be reported of a message that has ended.
#[derive(Clone, Copy, Debug)]
pub(in crate::qp) struct EndOfMessage {
    pub kind: SlotKind,
    pub consumes_receive: bool,
    /// Immediate data, or the key that is no more.
    pub imm: Option<u32>,
    pub invalidates: bool,
    pub solicited: bool,
    pub byte_len: u32,
}

impl EndOfMessage {
    /// A SEND of nothing.
    #[inline(always)]
    pub const fn of_send(solicited: bool) -> Self {
        let kind = SlotKind::Send;
        Self { kind, consumes_receive: true, imm: None, invalidates: false, solicited, byte_len: 0 }
    }

    /// The completion of the receive `wr_id` of queue pair `qpn`.
    #[inline(always)]
    pub fn completion(&self, qpn: u32, wr_id: u64) -> Completion {
        let mut flags = WcFlags::empty();
        flags.set(WcFlags::WITH_IMM, self.imm.is_some() && !self.invalidates);
        flags.set(WcFlags::WITH_INV, self.invalidates);
        flags.set(WcFlags::SOLICITED, self.solicited);
        let is_write = self.kind == SlotKind::Write;
        let opcode = if is_write { WcOpcode::RecvRdmaWithImm } else { WcOpcode::Recv };
        let imm = self.imm.unwrap_or(0);
        let done = Completion::new(wr_id, opcode, qpn, WcStatus::Success);
        Completion { flags, byte_len: self.byte_len, imm, ..done }
    }
}

/// Completes the receive that the oldest message consumed, if it did. False if the completion queue
/// overflowed.
#[inline(always)]
pub(in crate::qp) fn report(qp: &mut Qp<'_>, units: &mut Units, end: &EndOfMessage) -> bool {
    if !end.consumes_receive {
        return true;
    }
    let wr_id = qp.cold.receives.finish_next(units, &mut qp.hot.rsp.recv_head);
    qp.hot.rsp.ssn = qp.hot.rsp.ssn.next();
    units.complete(qp.cold.recv_cq, &end.completion(qp.hot.id.qpn, wr_id))
}
