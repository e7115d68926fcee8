//! Requests as most of them are: a WRITE or SEND that fits one packet, in one piece, which nothing
//! holds back. They go out one after the other without asking of each what it is not.
//!
//! What a packet needs is kept in registers from the work request to the frame. Whoever reads back
//! in one piece what it has just stored in several waits until all its earlier stores have left the
//! processor's core, and those to a frame go to memory that the peer's core has.

use crate::memory::Mapped;
use crate::qp::context::entry_of;
use crate::qp::packet::build_behind;
use crate::qp::requester::{Grant, opcode_at};
use crate::qp::send_stream::Stop;
use crate::qp::{Qp, QpIdentity, Qpc, TxSlots, Units};
use crate::queue::{CommonWqe, SendOpcode};
use wire::emit::ICRC_LEN;
use wire::{Bth, Head, Meta, Msn, Psn, Reth, Ssn, Ssnw, Template, WireMode, bth};

/// Sends requests from the front of the send queue, up to one that is not common. `room` new
/// packets are let through by both gates, and the queue ends at `tail`. Returns how many were sent.
#[inline(always)]
pub(super) fn send_common<T: TxSlots>(
    qp: &mut Qp<'_>,
    units: &mut Units,
    slots: &mut T,
    grant: &mut Grant,
    (room, tail): (u32, u32),
) -> Result<u32, Stop> {
    let pmtu = qp.hot.id.pmtu;
    let packets = u32::try_from(grant.packets).unwrap_or(u32::MAX);
    let most = room.min(grant.wqes).min(packets).min(tail.wrapping_sub(qp.hot.req.next));
    let mut sent = 0;
    let mut end = Ok(());
    while sent < most && grant.bytes >= usize::from(pmtu) {
        let position = qp.hot.req.next;
        let Some(wqe) = qp.cold.send_queue.common(position) else { break };
        if wqe.length > u32::from(pmtu) {
            break;
        }
        // What may not be read fails where everything else does.
        let Some(payload) = wqe.mapped(&units.memory, qp.hot.id.pd) else { break };
        let numbers = Numbers {
            psn: qp.hot.tx.nxt(),
            msn: qp.hot.req.msn(),
            ssn: qp.hot.req.ssn,
            ack_req: qp.hot.tx.must_ask(position.wrapping_add(1) == tail || sent + 1 == room),
        };
        match emit(qp.hot, slots, &wqe, &numbers, &Part::WHOLE, &payload) {
            Ok(true) => {}
            Ok(false) => break,
            Err(stop) => {
                end = Err(stop);
                break;
            }
        }
        // One by one: as one value they would go through the stack.
        let entry = entry_of(&mut qp.cold.sq_entries, position);
        entry.first_psn = numbers.psn;
        entry.ssn = numbers.ssn;
        entry.packets = 1;
        entry.msn = numbers.msn;
        qp.hot.tx.send_new_asking(numbers.ack_req, units.now);
        qp.hot.req.next = position.wrapping_add(1);
        if !wqe.is_write {
            qp.hot.req.ssn = numbers.ssn.next();
        }
        grant.bytes = grant.bytes.saturating_sub(payload.len());
        sent += 1;
    }
    units.counters.tx_requests += u64::from(sent);
    grant.wqes -= sent;
    grant.packets -= sent as usize;
    end.map(|()| sent)
}

/// What sets a packet apart from the others of its queue pair.
pub(super) struct Numbers {
    pub psn: Psn,
    pub msn: Msn,
    pub ssn: Ssn,
    pub ack_req: bool,
}

/// What of its message a packet has.
pub(super) struct Part {
    /// Of the packet.
    pub index: u32,
    /// Of the message.
    pub packets: u32,
    /// Bytes before it.
    pub start: u32,
}

impl Part {
    /// All of it.
    const WHOLE: Self = Self { index: 0, packets: 1, start: 0 };
}

/// Builds a packet with that payload in a frame of the port's and sends it; false if it is one that
/// does not go this way.
#[inline(always)]
pub(super) fn emit<T: TxSlots>(
    qpc: &Qpc,
    slots: &mut T,
    wqe: &CommonWqe<'_>,
    numbers: &Numbers,
    part: &Part,
    payload: &Mapped<'_>,
) -> Result<bool, Stop> {
    let Some(head) = head(&qpc.id, &qpc.template, wqe, numbers, part, payload.len()) else {
        return Ok(false);
    };
    // As `TxSlots::emit` does it: a closure cannot be told to be inlined, and the head must stay in
    // registers.
    let loopback = qpc.id.loopback;
    let frame = slots.slot(loopback).ok_or(Stop::PortFull)?;
    let Some(len) = build_behind(head, &qpc.template, payload, frame) else {
        slots.cancel(loopback);
        return Ok(false);
    };
    slots.commit(loopback, len);
    Ok(true)
}

/// The headers behind the link's of a packet with `len` bytes; `None` if they are longer than a
/// block.
#[inline(always)]
fn head(
    id: &QpIdentity,
    template: &Template,
    wqe: &CommonWqe<'_>,
    numbers: &Numbers,
    part: &Part,
    len: usize,
) -> Option<Head> {
    let Part { index, packets, start } = *part;
    let pad = bth::pad_of(len);
    let request = if wqe.is_write { SendOpcode::Write } else { SendOpcode::Send };
    let bth = Bth {
        solicited: wqe.solicited && index + 1 == packets,
        pad,
        ack_req: numbers.ack_req,
        psn: numbers.psn,
        ..id.bth(WireMode::Srnic, opcode_at(request, index, packets))
    };
    let (meta, ssnw) = (Meta::of(numbers.msn, index), Ssnw::of(index, numbers.ssn));
    let body = len + usize::from(pad) + ICRC_LEN;
    if wqe.is_write {
        let (va, rkey) = wqe.remote();
        let reth = Reth { va: va.wrapping_add(start.into()), rkey, dma_len: wqe.length - start };
        template.head_of_write(body, &bth, &reth, &meta)
    } else {
        template.head_of_send(body, &bth, &meta, &ssnw)
    }
}
