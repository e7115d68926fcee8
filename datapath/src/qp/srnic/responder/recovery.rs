//! The responder while something is missing: packets out of order are placed, and their messages
//! wait in completion slots.

use super::early::place_early;
use super::emission::emit_ready;
use super::refuse::raise;
use crate::counters::count;
use crate::qp::responder::{Refused, RequestPacket};
use crate::qp::srnic::ReceiveStream;
use crate::qp::{Qp, QpFlags, Units};
use crate::stream::{Advanced, CompletionSlot, CompletionSlots, Deferred, SlotKind};

/// What the responder keeps while something is missing. The bitmap is not here: it is the slow
/// path's.
pub(crate) struct RxRecovery {
    /// Apart, as every queue pair has room for a context.
    pub slots: Box<CompletionSlots>,
    /// Opcode sequence behind the highest packet: the message that it leaves in progress.
    after_right: Option<SlotKind>,
}

impl RxRecovery {
    /// For windows of at most `window` packets.
    pub fn new(window: u16) -> Self {
        Self { slots: Box::new(CompletionSlots::new(window)), after_right: None }
    }

    /// For another stream.
    pub fn emptied(mut self) -> Self {
        self.slots.clear();
        self
    }

    /// Bytes on the heap.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + size_of_val(&*self.slots) + self.slots.bytes()
    }
}

/// A packet ahead of ePSN, or at ePSN in Recovery.
#[cold]
#[inline(never)]
pub(super) fn out_of_order(qp: &mut Qp<'_>, units: &mut Units, packet: RequestPacket<'_>, distance: u32) {
    if distance > 0 && qp.hot.flags.contains(QpFlags::STRICT_PLACEMENT) {
        units.counters.drop_strict_placement += 1;
        ReceiveStream::of_requests(qp).nack_all(units);
        return;
    }
    let messages_ahead = packet.meta.msn.steps_from(qp.hot.rsp.msn());
    if messages_ahead > distance {
        units.counters.drop_msn += 1;
        return;
    }
    if packet.ssn.is_some_and(|ssn| ssn.is_before(qp.hot.rsp.ssn)) {
        units.counters.drop_ssn += 1;
        return;
    }
    if !ReceiveStream::of_requests(qp).reserve(units, distance == 0) {
        return;
    }
    match place_early(qp, units, &packet) {
        Ok(deferred) => note_placed(qp, units, &packet, deferred),
        Err(refused) if distance == 0 => {
            raise(qp, units, packet.psn, packet.consumes_receive(), refused);
        }
        Err(refused) => {
            let over_share = refused == Refused::OverShare;
            units.counters.drop_srq_share += u64::from(over_share);
            units.counters.drop_unplaceable += u64::from(!over_share);
            qp.hot.rx.note_dropped();
        }
    }
    ReceiveStream::of_requests(qp).give_back(units);
}

/// The packet is in place: what its message needs in its turn is kept, and the slow path and the
/// sender are told.
fn note_placed(qp: &mut Qp<'_>, units: &mut Units, packet: &RequestPacket<'_>, deferred: Option<Deferred>) {
    count!(units, qp.cold, rx_out_of_order);
    units.counters.parked_writes += u64::from(matches!(deferred, Some(Deferred::Write(_))));
    let is_highest = ReceiveStream::of_requests(qp).note_placed(units, packet.psn);
    let Some(recovery) = qp.cold.rx_recovery.as_mut() else { return };
    if is_highest {
        recovery.after_right = (!packet.is_end()).then_some(packet.slot_kind());
    }
    if packet.is_end() {
        recovery.slots.put(CompletionSlot {
            msn: packet.meta.msn,
            end_psn: packet.psn,
            offset: packet.offset,
            kind: packet.slot_kind(),
            ssn: packet.ssn,
            imm: packet.imm,
            solicited: packet.solicited,
            byte_len: packet.message_len(qp.hot.id.pmtu),
            deferred,
        });
    }
}

/// ePSN moved: emits all messages that end before it. If nothing is missing any more, what comes
/// next goes on behind the highest packet. False if the queue pair went to ERR on the way.
pub(in crate::qp::srnic) fn go_on(qp: &mut Qp<'_>, units: &mut Units, advanced: Advanced) -> bool {
    let goes_on = emit_ready(qp, units);
    if let (true, Advanced::Left, Some(recovery)) = (goes_on, advanced, &qp.cold.rx_recovery) {
        qp.hot.rsp.in_progress = recovery.after_right;
    }
    goes_on
}
