//! The SRNIC dialect of a reliable connection: packets out of order are placed, and only what was
//! lost goes again (protocol.md 2).
//!
//! Plain, the other dialect, is in `qp/plain/`. Both use `qp/requester/` and `qp/responder/`:
//! checks of requests, placement, completion, and the packets of a request.

mod receive_stream;
mod requester;
mod responder;

pub(crate) use receive_stream::Gap;
pub(super) use receive_stream::ReceiveStream;
pub(crate) use requester::{Acknowledgement, Hull, Reads, on_acknowledge, take_middle};
pub(super) use requester::{on_timer, stop_reads, take_answer, transmit};
pub(super) use responder::{NextWrite, stop_responses, transmit_responses, write_ack, write_in_order};
pub(crate) use responder::{Responses, RxRecovery, admit, on_response_timer};

use super::responder::RequestPacket;
use crate::qp::{Qp, Units};
use crate::stream::Advanced;
use sr_recovery::{Generation, StreamId};
use wire::{Kind, Packet, Psn};

/// Applies an Advance of the slow path to a stream that the queue pair receives: packets before
/// `epsn` have arrived, and those behind it that `bitmap` says.
pub(crate) fn apply_advance(
    qp: &mut Qp<'_>,
    units: &mut Units,
    id: StreamId,
    generation: Generation,
    epsn: Psn,
    bitmap: u64,
) {
    let Some(stream) = ReceiveStream::of(qp, id) else { return };
    let advanced = stream.rx.on_advance(generation, epsn);
    if advanced == Advanced::Ignored {
        return;
    }
    if !id.response && !responder::go_on(qp, units, advanced) {
        // Refused: the episode ended with this Advance, and no longer looks as if there had been
        // one.
        if advanced == Advanced::Left {
            ReceiveStream::of_requests(qp).close(units, generation);
        }
        return;
    }
    if let Some(mut stream) = ReceiveStream::of(qp, id) {
        stream.note_advance(units, advanced, epsn, bitmap);
    }
    if id.response {
        requester::go_on(qp, units);
    }
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
