//! Wire mode Plain: a reliable connection in standard RoCEv2, for peers that know nothing of SRNIC
//! (protocol.md 1.6).
//!
//! It lives beside the SRNIC streams and shares with them what is the same: work queues,
//! completions, memory checks, the placement and completion of messages in order, timers, window
//! and scheduling. What differs is here: one PSN space for requests and responses, go-back-N, and a
//! responder that keeps its results for duplicates. See docs/adr/0016.

mod acknowledge;
mod acknowledged;
mod cnp;
mod read;
mod requester;
mod resources;
mod respond;
mod responder;
mod response;
mod timers;
mod transmit;

pub(crate) use acknowledge::write_ack;
pub(crate) use cnp::on_mark;
pub(crate) use respond::transmit_responses;
pub(crate) use timers::on_timer;
pub(crate) use transmit::transmit;

use crate::qp::{Qp, QpFlags, Units};
use crate::time::Time;
use requester::Requester;
use responder::Responder;
use wire::{Kind, Packet, Psn, Transport};

/// What a queue pair in wire mode Plain has beside the state that all have. There is one from RTR
/// on.
pub(crate) struct Plain {
    req: Requester,
    rsp: Responder,
    /// When the peer may be notified of marks again.
    cnp_at: Option<Time>,
}

impl Plain {
    /// Nothing received, nothing sent; the peer's first packet is `psn`, and it may have
    /// `max_dest_rd_atomic` READs and atomics outstanding.
    pub fn new(max_dest_rd_atomic: u8, psn: Psn) -> Self {
        let rsp = Responder::new(max_dest_rd_atomic, psn);
        Self { req: Requester::new(Psn::new(0), 0), rsp, cnp_at: None }
    }

    /// The PSN behind the newest SEND or WRITE packet taken: acknowledgements of requests reach up
    /// to it.
    pub const fn taken(&self) -> Psn {
        self.rsp.taken
    }

    /// The queue pair goes to RTS: its first packet is `psn`, its next request stands at
    /// `position`.
    pub fn start_sending(&mut self, psn: Psn, position: u32) {
        self.req = Requester::new(psn, position);
    }

    /// The peer may have so many READs and atomics outstanding from now on. Fewer only if no
    /// response is to be sent.
    pub fn resize(&mut self, max_dest_rd_atomic: u8) {
        self.rsp.resources.resize(max_dest_rd_atomic);
    }

    /// Whether a response is to be sent.
    pub const fn responds(&self) -> bool {
        self.rsp.resources.is_pending()
    }

    /// Ends both directions: nothing is resent, no response is owed. The stream that was abandoned
    /// stands at `psn`.
    pub fn stop(&mut self, psn: Psn) {
        self.req.stop(psn);
        self.rsp.stop();
    }

    /// The oldest READ or atomic has its response: others may begin.
    pub fn take_answer(&mut self, flags: &mut QpFlags) {
        self.req.reads = self.req.reads.saturating_sub(1);
        flags.remove(QpFlags::READ_WAIT);
    }

    /// Bytes on the heap, its own included.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.rsp.resources.bytes()
    }
}

/// A packet that passed the checks of protocol.md 1.2.
#[cold]
pub(crate) fn on_packet(qp: &mut Qp<'_>, units: &mut Units, packet: &Packet<'_>, ce: bool) {
    let opcode = packet.opcode();
    match opcode.transport() {
        Transport::Rc => {}
        Transport::Cnp => return cnp::on_notification(qp, units, packet),
        _ => {
            units.counters.drop_opcode_class += 1;
            return;
        }
    }
    if ce {
        units.counters.rx_ce_marked += 1;
        // An acknowledgement's sender could not send less of them.
        if opcode.kind() != Kind::Ack {
            cnp::on_mark(qp, units);
        }
    }
    match opcode.kind() {
        Kind::Ack => acknowledged::on_acknowledge(qp, units, packet),
        Kind::ReadResponse | Kind::AtomicAck => response::on_response(qp, units, packet),
        _ => responder::on_request(qp, units, packet),
    }
}
