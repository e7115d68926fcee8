//! Packets in the middle of a READ's response. They go out in a run, for which the response, and
//! its memory, are looked up once.

use super::responses::{Response, Responses};
use crate::memory::Access;
use crate::qp::packet::build_behind;
use crate::qp::requester::Grant;
use crate::qp::response::Source;
use crate::qp::send_stream::Stop;
use crate::qp::{Qpc, TxSlots, Units};
use wire::emit::ICRC_LEN;
use wire::{Bth, Meta, Opcode, Ssn, Ssnw, WireMode};

/// Sends the next new packets, as far as they lie between the first and the last one of a response,
/// and as both gates and `grant` let them through. What must be looked at alone is left.
#[inline(never)]
pub(super) fn send_middles<T: TxSlots>(
    qpc: &Qpc,
    responses: &mut Responses,
    units: &mut Units,
    slots: &mut T,
    grant: &mut Grant,
) -> Result<(), Stop> {
    let (next, pmtu) = (responses.tx.nxt(), usize::from(qpc.id.pmtu));
    let Some((rslot, &Response { msn, start, packets, source, .. })) = responses.find(next) else {
        return Ok(());
    };
    let first = next.steps_from(start);
    let Source::Memory { va, rkey, .. } = source else { return Ok(()) };
    if qpc.template.is_v6() {
        // Its headers are longer than a block.
        return Ok(());
    }
    if first == 0 || first + 1 >= packets {
        return Ok(());
    }
    let granted = u32::try_from(grant.packets.min(grant.bytes / pmtu)).unwrap_or(u32::MAX);
    let most = granted.min(responses.tx.room()).min(packets - 1 - first);
    if most == 0 {
        return Ok(());
    }
    let (begin, bytes) = (u64::from(first) * pmtu as u64, u64::from(most) * pmtu as u64);
    let va = va.wrapping_add(begin);
    // What may not be read in whole fails where everything else does, if it must.
    let mapped = units.memory.check_remote(rkey, qpc.id.peer(), va, bytes, Access::REMOTE_READ);
    let Ok(memory) = mapped else { return Ok(()) };
    let loopback = qpc.id.loopback;
    for sent in 0..most {
        let index = first + sent;
        let ack_req = responses.tx.must_ask(responses.tx.closes_gate());
        let psn = responses.tx.nxt();
        let bth = Bth { ack_req, psn, ..qpc.id.bth(WireMode::Srnic, Opcode::RcReadResponseMiddle) };
        let (meta, ssnw) = (Meta::of(msn, index), Ssnw::of(index, Ssn::new(rslot.into())));
        // It has the headers of a SEND.
        let Some(head) = qpc.template.head_of_send(pmtu + ICRC_LEN, &bth, &meta, &ssnw) else {
            return Ok(());
        };
        let frame = slots.slot(loopback).ok_or(Stop::PortFull)?;
        let payload = memory.part(sent as usize * pmtu, pmtu);
        let Some(len) = build_behind(head, &qpc.template, &payload, frame) else {
            slots.cancel(loopback);
            return Ok(());
        };
        slots.commit(loopback, len);
        responses.tx.send_new_asking(ack_req, units.now);
        units.counters.tx_responses += 1;
        grant.bytes -= pmtu;
        grant.packets -= 1;
    }
    Ok(())
}
