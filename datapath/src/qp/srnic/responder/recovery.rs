//! The responder while something is missing: metadata to the slow path, completion slots, Advances
//! back.

use super::early::place_early;
use super::emission::emit_ready;
use super::refuse::raise;
use super::settle::queue_plain_nack;
use crate::counters::count;
use crate::qp::attr::RecoveryPolicy;
use crate::qp::responder::{Refused, RequestPacket};
use crate::qp::{ControlKind, Qp, QpCold, QpFlags, Units};
use crate::stream::{Advanced, CompletionSlot, CompletionSlots, Deferred, RxStream, SlotKind};
use sr_recovery::{Generation, Record, StreamId};
use wire::Psn;

/// What the responder keeps while something is missing. The bitmap is not here: it is the slow
/// path's.
pub(crate) struct RxRecovery {
    /// Apart, as every queue pair has room for a context.
    pub slots: Box<CompletionSlots>,
    /// Opcode sequence behind the highest packet: the message that it leaves in progress.
    after_right: Option<SlotKind>,
    /// The newest Advance: its ePSN and what arrived above it.
    pub advance: Option<(Psn, u64)>,
}

impl RxRecovery {
    /// For windows of at most `window` packets.
    pub fn new(window: u16) -> Self {
        Self { slots: Box::new(CompletionSlots::new(window)), after_right: None, advance: None }
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
    if qp.cold.attributes.recovery() == RecoveryPolicy::GoBackN {
        units.counters.drop_go_back_n += 1;
        queue_plain_nack(qp, units);
        return;
    }
    if distance > 0 && qp.hot.flags.contains(QpFlags::STRICT_PLACEMENT) {
        units.counters.drop_strict_placement += 1;
        queue_plain_nack(qp, units);
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
    if !reserve(qp.cold, units, distance == 0) {
        qp.hot.rx.note_dropped();
        queue_plain_nack(qp, units);
        return;
    }
    match place_early(qp, units, &packet) {
        Ok(deferred) => {
            count!(units, qp.cold, rx_out_of_order);
            let parked = matches!(deferred, Some(Deferred::Write(_)));
            units.counters.parked_writes += u64::from(parked);
            if packet.is_end()
                && let Some(recovery) = qp.cold.rx_recovery.as_mut()
            {
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
            note_placed(qp, units, &packet);
        }
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
    if !qp.hot.rx.in_recovery() {
        close_recovery(&mut qp.hot.rx, qp.cold, units, None);
    }
}

/// Makes sure that the packet's metadata can be written and its completion kept, before anything is
/// placed.
fn reserve(cold: &mut QpCold, units: &mut Units, at_epsn: bool) -> bool {
    if !units.has_metadata_room(at_epsn) {
        return false;
    }
    if cold.rx_recovery.is_none() {
        cold.rx_recovery = units.contexts.pop();
    }
    let has_context = cold.rx_recovery.is_some();
    units.counters.drop_no_context += u64::from(!has_context);
    has_context
}

/// The packet is in place: tell the slow path, and the sender.
fn note_placed(qp: &mut Qp<'_>, units: &mut Units, packet: &RequestPacket<'_>) {
    let entered = !qp.hot.rx.in_recovery();
    units.counters.recoveries += u64::from(entered);
    let stream = StreamId { qp: qp.cold.slot, response: false };
    let highest = qp.hot.rx.on_placed_out_of_order(stream, packet.psn, |record| {
        units.tell_slow_path(record);
    });
    if let Some(recovery) = qp.cold.rx_recovery.as_mut() {
        if entered {
            recovery.advance = None;
        }
        if highest {
            recovery.after_right = (!packet.is_end()).then_some(packet.slot_kind());
        }
    }
    units.queue_control(qp.cold.requests(), qp.hot, ControlKind::sack(packet.psn));
}

/// Applies an Advance of the slow path.
pub(crate) fn apply_advance(
    qp: &mut Qp<'_>,
    units: &mut Units,
    generation: Generation,
    epsn: Psn,
    bitmap: u64,
) {
    let advanced = qp.hot.rx.on_advance(generation, epsn);
    if advanced == Advanced::Ignored {
        return;
    }
    if !emit_ready(qp, units) {
        // Refused: the episode ended with this Advance, and no longer looks as if there had been
        // one.
        if advanced != Advanced::StillMissing {
            close_recovery(&mut qp.hot.rx, qp.cold, units, Some(generation));
        }
        return;
    }
    if advanced == Advanced::StillMissing {
        if let Some(recovery) = qp.cold.rx_recovery.as_mut() {
            recovery.advance = Some((epsn, bitmap));
        }
        // What was dropped may itself be the hole that is waited for: it is asked for now, not when
        // Recovery ends.
        if qp.hot.rx.take_dropped() {
            queue_plain_nack(qp, units);
        } else {
            let right = qp.hot.rx.right();
            units.queue_control(qp.cold.requests(), qp.hot, ControlKind::sack(right));
        }
        return;
    }
    if let Some(recovery) = qp.cold.rx_recovery.as_ref() {
        qp.hot.rsp.in_progress = recovery.after_right;
    }
    close_recovery(&mut qp.hot.rx, qp.cold, units, Some(generation));
    if qp.hot.rx.take_dropped() {
        queue_plain_nack(qp, units);
    }
    qp.hot.rsp.owed.insist();
    units.owe_ack(qp.cold.requests(), qp.hot);
}

/// Gives the recovery context back and lets the slow path forget the episode.
pub(crate) fn close_recovery(
    rx: &mut RxStream,
    cold: &mut QpCold,
    units: &mut Units,
    generation: Option<Generation>,
) {
    debug_assert!(!rx.in_recovery(), "only what ended is closed");
    if let Some(mut recovery) = cold.rx_recovery.take() {
        recovery.slots.clear();
        recovery.advance = None;
        units.contexts.push(recovery);
    }
    if let Some(generation) = generation {
        let stream = StreamId { qp: cold.slot, response: false };
        // A lost RxClose costs nothing: the next episode's first record replaces the bitmap.
        units.tell_slow_path(Record::RxClose { stream, generation });
    }
}
