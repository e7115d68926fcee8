//! The SRNIC dialect of a reliable connection: packets out of order are placed, and only what was
//! lost goes again (protocol.md 2).
//!
//! Plain, the other dialect, is in `qp/plain/`. Both use `qp/requester/` and `qp/responder/`:
//! checks of requests, placement, completion, and the packets of a request.

mod requester;
mod responder;

pub(crate) use requester::{Acknowledgement, Hull, Reads, apply_response_advance, on_acknowledge};
pub(super) use requester::{on_timer, stop_reads, take_answer, transmit};
pub(super) use responder::{
    NextWrite, close_recovery, stop_responses, transmit_responses, write_ack, write_in_order,
};
pub(crate) use responder::{Responses, ResponsesConfig, RxRecovery, admit, apply_advance, on_response_timer};

use super::responder::RequestPacket;
use crate::counters::count;
use crate::qp::{ControlKind, Qp, Units};
use crate::stream::Arrival;
use sr_recovery::StreamId;
use wire::{Kind, Meta, Packet, Psn};

/// Answers a packet of a stream once more that has arrived before, with this PSN and META. One
/// behind the window is dropped.
#[cold]
#[inline(never)]
fn answer_old(
    qp: &mut Qp<'_>,
    units: &mut Units,
    stream: StreamId,
    arrival: Arrival,
    (psn, meta): (Psn, Meta),
) {
    let kind = match arrival {
        Arrival::Duplicate => ControlKind::Duplicate { meta },
        Arrival::DuplicateAhead => ControlKind::sack(psn),
        Arrival::BeyondWindow => {
            units.counters.drop_beyond_window += 1;
            return;
        }
        Arrival::InOrder | Arrival::AtEpsn | Arrival::Ahead(_) => return,
    };
    count!(units, qp.cold, rx_duplicates);
    units.queue_control(stream, qp.hot, kind);
}

/// Handles a packet that passed the checks of protocol.md 1.2; `ce`: a switch marked it.
#[inline]
pub(super) fn on_packet(qp: &mut Qp<'_>, units: &mut Units, packet: &Packet<'_>, ce: bool) {
    if packet.opcode().kind() == Kind::Ack {
        match Acknowledgement::new(packet) {
            Some(ack) => on_acknowledge(qp.reborrow(), units, &ack),
            None => units.counters.drop_bad_ack += 1,
        }
    } else if let Some(request) = RequestPacket::new(packet, ce) {
        responder::on_request(qp, units, &request);
    } else if matches!(packet.opcode().kind(), Kind::ReadResponse | Kind::AtomicAck) {
        requester::on_response(qp, units, *packet, ce);
    } else {
        units.counters.drop_opcode_class += 1;
    }
}
