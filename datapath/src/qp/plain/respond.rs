//! One turn of a Plain responder: READ responses and atomic results, oldest first.

use super::read::revoke;
use super::resources::Reply;
use super::responder::finish_refusal;
use crate::qp::requester::{Grant, TransmitEnd};
use crate::qp::responder::tell_withdrawn;
use crate::qp::response::ResponsePacket;
use crate::qp::{NotSent, Qp, Qpc, TxSlots, Units};
use wire::{Msn, WireMode};

/// Lets a queue pair send responses. Reduces `grant` by what it used.
#[cold]
pub(crate) fn transmit_responses<T: TxSlots>(
    qp: &mut Qp<'_>,
    units: &mut Units,
    slots: &mut T,
    grant: &mut Grant,
) -> TransmitEnd {
    while qp.hot.id.state.receives() && grant.has_room(qp.hot.id.pmtu) {
        let Some(plain) = qp.cold.plain.as_deref_mut() else { break };
        let Some(resource) = plain.rsp.resources.next_pending() else { break };
        let reply = &mut resource.reply;
        let packet = packet_of(qp.hot, reply);
        let emitted =
            slots.emit(qp.hot.id.loopback, |frame| packet.write(WireMode::Plain, &units.memory, frame));
        let payload_len = packet.payload_len();
        match emitted {
            Ok(()) => {}
            Err(NotSent::PortFull) => return TransmitEnd::PortFull,
            Err(NotSent::Failed(_)) => {
                let psn = reply.next;
                if !resource.answered {
                    revoke(qp, units, psn);
                    return TransmitEnd::Done { ready: false };
                }
                reply.next = reply.end;
                plain.rsp.resources.finish_one();
                tell_withdrawn(qp.hot, qp.cold.requests(), units, psn);
                on_ended(qp, units);
                continue;
            }
        }
        units.counters.tx_responses += 1;
        grant.bytes = grant.bytes.saturating_sub(payload_len);
        grant.packets -= 1;
        reply.next = reply.next.next();
        if !reply.is_pending() {
            let end = reply.end;
            resource.answered |= end == resource.end;
            plain.rsp.resources.finish_one();
            if end == qp.hot.rx.epsn() && !plain.rsp.resources.is_pending() {
                // It acknowledges all there is.
                qp.hot.rsp.owed.settle(units.now);
            }
            on_ended(qp, units);
        }
    }
    let ready = qp.cold.plain.as_deref().is_some_and(|plain| plain.rsp.resources.is_pending());
    TransmitEnd::Done { ready: ready && qp.hot.id.state.receives() }
}

/// A response is sent, or given up: what had to wait for the last of them follows.
fn on_ended(qp: &mut Qp<'_>, units: &mut Units) {
    let Some(plain) = qp.cold.plain.as_deref_mut().filter(|plain| !plain.rsp.resources.is_pending()) else {
        return;
    };
    if let Some(kind) = plain.rsp.held.take() {
        qp.answer(units, kind);
    }
    if qp.hot.rsp.owed.is_owed() {
        qp.owe_ack(units);
    }
    finish_refusal(qp, units);
}

/// The packet of a reply that is sent next.
const fn packet_of<'a>(qpc: &'a Qpc, reply: &Reply) -> ResponsePacket<'a> {
    ResponsePacket {
        qpc,
        source: reply.source,
        index: reply.next.steps_from(reply.from),
        packets: reply.end.steps_from(reply.from),
        psn: reply.next,
        ack_req: false,
        msn: Msn::new(0),
        rslot: 0,
    }
}
