//! One turn of a Plain responder: READ responses and atomic results, oldest first.

use super::read::revoke;
use super::resources::{Reply, Source};
use super::responder::finish_refusal;
use crate::engine::{TxSlots, Units};
use crate::icrc::Kernel;
use crate::memory::{Access, MemoryTable};
use crate::qp::context::{QpCold, Qpc};
use crate::qp::requester::{Grant, TransmitEnd};
use crate::qp::responder::{queue_control, response_opcode_at, tell_withdrawn};
use wire::{Aeth, Bth, Layout, Opcode, Syndrome, WireMode, bth, emit, icrc};

const ICRC_LEN: usize = 4;

/// Lets a queue pair send responses. Reduces `grant` by what it used.
#[cold]
pub(crate) fn transmit_responses<T: TxSlots>(
    qpc: &mut Qpc,
    cold: &mut QpCold,
    units: &mut Units,
    slots: &mut T,
    grant: &mut Grant,
) -> TransmitEnd {
    while qpc.id.state.receives() && grant.has_room(qpc.id.pmtu) {
        let Some(plain) = cold.plain.as_deref_mut() else { break };
        let Some(resource) = plain.rsp.resources.next_pending() else { break };
        let reply = &mut resource.reply;
        let loopback = qpc.id.loopback;
        let Some(plan) = ResponsePlan::new(qpc, reply) else { break };
        let Some(frame) = slots.slot(loopback) else { return TransmitEnd::PortFull };
        let Some(len) = plan.build(&units.memory, frame) else {
            slots.cancel(loopback);
            let psn = reply.next;
            if !resource.answered {
                revoke(qpc, cold, units, psn);
                return TransmitEnd::Done { ready: false };
            }
            reply.next = reply.end;
            plain.rsp.resources.finish_one();
            tell_withdrawn(qpc, cold.slot, units, psn);
            on_ended(qpc, cold, units);
            continue;
        };
        slots.commit(loopback, len);
        units.counters.tx_responses += 1;
        grant.bytes = grant.bytes.saturating_sub(plan.payload_len);
        grant.packets -= 1;
        reply.next = reply.next.next();
        if !reply.is_pending() {
            let end = reply.end;
            resource.answered |= end == resource.end;
            plain.rsp.resources.finish_one();
            if end == qpc.rx.epsn() && !plain.rsp.resources.is_pending() {
                // It acknowledges all there is.
                qpc.rsp.owed.settle(units.now);
            }
            on_ended(qpc, cold, units);
        }
    }
    let ready = cold.plain.as_deref().is_some_and(|plain| plain.rsp.resources.is_pending());
    TransmitEnd::Done { ready: ready && qpc.id.state.receives() }
}

/// A response is sent, or given up: what had to wait for the last of them follows.
fn on_ended(qpc: &mut Qpc, cold: &mut QpCold, units: &mut Units) {
    let Some(plain) = cold.plain.as_deref_mut().filter(|plain| !plain.rsp.resources.is_pending()) else {
        return;
    };
    if let Some(kind) = plain.rsp.held.take() {
        queue_control(qpc, cold.slot, units, kind);
    }
    if qpc.rsp.owed.is_owed() {
        units.owe_ack(cold.slot, qpc);
    }
    finish_refusal(qpc, cold, units);
}

/// A response packet with all its lengths known.
struct ResponsePlan<'a> {
    qpc: &'a Qpc,
    reply: Reply,
    layout: &'static Layout,
    /// Bytes of the response before this packet.
    start: u64,
    payload_len: usize,
}

impl<'a> ResponsePlan<'a> {
    fn new(qpc: &'a Qpc, reply: &Reply) -> Option<Self> {
        let index = reply.next.steps_from(reply.from);
        let start = u64::from(index) * u64::from(qpc.id.pmtu);
        let (opcode, payload) = match reply.source {
            Source::Memory { len, .. } => {
                let rest = u64::from(len).saturating_sub(start).min(qpc.id.pmtu.into());
                (response_opcode_at(index, reply.end.steps_from(reply.from)), rest)
            }
            Source::Saved(_) => (Opcode::RcAtomicAck, 0),
        };
        let layout = Layout::of(WireMode::Plain, opcode)?;
        Some(Self { qpc, reply: *reply, layout, start, payload_len: usize::try_from(payload).ok()? })
    }

    /// Writes the packet to the start of `frame` and returns its length; `None` if its memory may not be read.
    fn build(&self, memory: &MemoryTable, frame: &mut [u8]) -> Option<usize> {
        let template = &self.qpc.template;
        let header_len = usize::from(self.layout.len);
        let pad = usize::from(bth::pad_of(self.payload_len));
        let transport_len = header_len + self.payload_len + pad + ICRC_LEN;
        let frame = frame.get_mut(..template.len() + transport_len)?;
        template.emit(frame, transport_len);
        self.write_headers(&mut frame[template.len()..]);
        let l3 = template.l3_offset();
        let at = template.len() + header_len - l3;
        if let Source::Memory { va, rkey, .. } = self.reply.source {
            let (id, va) = (&self.qpc.id, va.wrapping_add(self.start));
            let len = self.payload_len as u64;
            let mapped = memory.check_remote(rkey, id.peer(), va, len, Access::REMOTE_READ).ok()?;
            mapped.read_sealed(Kernel::detected(), &mut frame[l3..], at, self.payload_len);
        } else {
            icrc::seal(&mut frame[l3..]);
        }
        Some(template.len() + transport_len)
    }

    fn write_headers(&self, headers: &mut [u8]) {
        let Self { qpc, layout, .. } = *self;
        let header = Bth {
            pad: bth::pad_of(self.payload_len),
            pkey: qpc.id.pkey,
            dest_qp: qpc.id.dest_qpn,
            psn: self.reply.next,
            ..Bth::new(WireMode::Plain, layout.opcode)
        };
        bth::emit(headers, &header);
        if layout.aeth != 0 {
            let aeth = Aeth { syndrome: Syndrome::ACK, msn: qpc.rsp.completed };
            aeth.emit(&mut headers[usize::from(layout.aeth)..]);
        }
        if let (Source::Saved(value), true) = (self.reply.source, layout.atomic_ack != 0) {
            emit::atomic_ack(&mut headers[usize::from(layout.atomic_ack)..], value);
        }
    }
}
