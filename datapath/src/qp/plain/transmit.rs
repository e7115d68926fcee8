//! One turn of a Plain queue pair: a tail probe if one is due, then packets from the cursor on, new
//! or again.

use super::requester::{find, note_rewound, outstanding};
use crate::counters::count;
use crate::qp::context::PendingFailure;
use crate::qp::keepalive::send_keepalive;
use crate::qp::requester::{
    self, Begun, Grant, Sent, TransmitEnd, Wanted, fail_in_turn, response_packets, run_local,
};
use crate::qp::send_stream::{SendStream, Stop};
use crate::qp::{Qp, QpCold, QpFlags, SqEntry, TxSlots, Units};
use crate::queue::{SendFlags, WcStatus};
use crate::sched::SchedFlags;
use wire::Msn;

/// A packet at least this often asks for an acknowledgement: peers need not send any unasked.
const ACK_REQ_EVERY: u8 = 16;
/// PSNs that may be outstanding: half of them, less one (protocol.md 1.6).
const SPAN_MAX: u32 = (1 << 23) - 1;

/// Lets a queue pair send. Reduces `grant` by what it used.
#[cold]
pub(crate) fn transmit<T: TxSlots>(
    qp: &mut Qp<'_>,
    units: &mut Units,
    slots: &mut T,
    grant: &mut Grant,
) -> TransmitEnd {
    if qp.cold.plain.is_none() {
        return TransmitEnd::Done { ready: false };
    }
    let result = send_probe(qp, units, slots).and_then(|()| send_from_cursor(qp, units, slots, grant));
    if qp.cold.plain.as_deref().is_some_and(|plain| outstanding(qp.hot, &plain.req) > 0) {
        let mut stream = SendStream::of_requests(qp);
        if !stream.sched.contains(SchedFlags::TIMED) {
            stream.arm_anew(units);
        }
    }
    match result {
        Err(Stop::PortFull) => TransmitEnd::PortFull,
        Ok(()) | Err(Stop::Failed) => TransmitEnd::Done { ready: qp.is_ready(qp.cold.requests()) },
    }
}

/// A tail probe: one packet once more, past both gates.
fn send_probe<T: TxSlots>(qp: &mut Qp<'_>, units: &mut Units, slots: &mut T) -> Result<(), Stop> {
    if !qp.hot.sched.contains(SchedFlags::PROBE) {
        return Ok(());
    }
    let due = qp.cold.plain.as_deref().and_then(|plain| Some((plain.req.begun, qp.cold.probes[0]?)));
    if let Some((begun, psn)) = due.filter(|(_, psn)| !psn.is_before(qp.hot.tx.una()))
        && let Some(position) = find(qp, begun, psn)
    {
        let index = psn.steps_from(qp.cold.entry(position).first_psn);
        // What can no longer be sent again fails when the timers go back to it.
        if let Sent::Payload(_) = emit(qp, units, slots, (position, index), true)? {
            count!(units, qp.cold, tx_retransmits);
            units.counters.tx_probes += 1;
            qp.hot.tx.restart_rtt(units.now);
        }
    }
    qp.cold.probes[0] = None;
    send_keepalive(qp, units, slots)?;
    qp.hot.sched.remove(SchedFlags::PROBE);
    Ok(())
}

fn send_from_cursor<T: TxSlots>(
    qp: &mut Qp<'_>,
    units: &mut Units,
    slots: &mut T,
    grant: &mut Grant,
) -> Result<(), Stop> {
    let tail = qp.cold.send_queue.tail();
    while grant.has_room(qp.hot.id.pmtu)
        && qp.hot.tx.may_send_new()
        && !qp.hot.flags.contains(QpFlags::RNR_WAIT)
    {
        let rewound = qp.hot.flags.contains(QpFlags::REWOUND);
        if qp.cold.failure.is_some() && !rewound {
            break;
        }
        if qp.hot.req.sent == 0 {
            let may_start = rewound || qp.hot.id.state.starts_sends();
            if qp.hot.req.next == tail || grant.wqes == 0 || !may_start {
                break;
            }
            grant.wqes -= 1;
            match begin(qp, units) {
                Begun::Ready => {}
                Begun::Done => continue,
                Begun::Waits => {
                    grant.give_back(qp.hot);
                    qp.hot.flags.insert(QpFlags::READ_WAIT);
                    break;
                }
                Begun::Failed => return Err(Stop::Failed),
            }
        }
        let opcode = qp.cold.send_queue.wqe(qp.hot.req.next).opcode;
        let begins = qp.hot.req.sent == 0;
        send_packet(qp, units, slots, grant, tail).inspect_err(|_| grant.give_back(qp.hot))?;
        if begins {
            grant.begin(opcode);
        }
    }
    Ok(())
}

/// Gives the request at the cursor its PSNs, unless it has them.
fn begin(qp: &mut Qp<'_>, units: &mut Units) -> Begun {
    let position = qp.hot.req.next;
    let Some(plain) = qp.cold.plain.as_deref_mut() else { return Begun::Failed };
    if position != plain.req.begun {
        return Begun::Ready;
    }
    let wqe = qp.cold.send_queue.wqe(position);
    if wqe.opcode.is_local() {
        let reads = plain.req.reads > 0;
        return begin_local(qp, units, reads);
    }
    let asks = wqe.opcode.has_response();
    let limit = u32::from(qp.cold.attributes.attr.max_rd_atomic);
    let reads = plain.req.reads;
    if (asks && limit > 0 && reads >= limit) || (reads > 0 && wqe.flags.contains(SendFlags::FENCE)) {
        return Begun::Waits;
    }
    let packets = response_packets(qp.hot, &wqe);
    let span = plain.req.max.steps_from(qp.hot.tx.una());
    if span > 0 && span + packets > SPAN_MAX {
        return Begun::Waits;
    }
    let status = match () {
        () if asks && limit == 0 => Some(WcStatus::LocQpOpErr),
        () if packets > SPAN_MAX => Some(WcStatus::LocLenErr),
        () => None,
    };
    if let Some(status) = status {
        fail_in_turn(qp, units, PendingFailure { position, status });
        return Begun::Failed;
    }
    plain.req.begun = position.wrapping_add(1);
    plain.req.reads += u32::from(asks);
    let (first_psn, ssn) = (qp.hot.tx.nxt(), qp.hot.req.ssn);
    *qp.cold.entry_mut(position) = SqEntry { first_psn, ssn, packets, msn: Msn::new(0) };
    Begun::Ready
}

/// LOCAL_INV or BIND_MW: needs no packets.
fn begin_local(qp: &mut Qp<'_>, units: &mut Units, reads: bool) -> Begun {
    let begun = run_local(qp, units, reads);
    if let (Begun::Done, Some(plain)) = (&begun, qp.cold.plain.as_deref_mut()) {
        plain.req.begun = qp.hot.req.next;
    }
    begun
}

/// Sends the packet at the cursor and moves the cursor behind it.
fn send_packet<T: TxSlots>(
    qp: &mut Qp<'_>,
    units: &mut Units,
    slots: &mut T,
    grant: &mut Grant,
    tail: u32,
) -> Result<(), Stop> {
    let (position, index) = (qp.hot.req.next, qp.hot.req.sent);
    let Some(plain) = qp.cold.plain.as_deref() else { return Err(Stop::Failed) };
    let (max, since) = (plain.req.max, plain.req.since_ack_req);
    let asks = qp.cold.send_queue.wqe(position).opcode.has_response();
    let packets = qp.cold.entry(position).packets;
    // A request for a response takes all PSNs of the response with its one packet.
    let span = if asks { packets - index } else { 1 };
    let last = index + span == packets;
    let pauses = last && pauses_after(qp.cold, position, tail);
    let next = qp.hot.tx.nxt().add(span);
    let catches_up = qp.hot.flags.contains(QpFlags::REWOUND) && !next.is_before(max);
    let due = pauses || catches_up || qp.hot.tx.closes_gate() || since + 1 >= ACK_REQ_EVERY;
    let ack_req = due && !asks;
    match emit(qp, units, slots, (position, index), ack_req)? {
        Sent::Payload(payload) => grant.bytes = grant.bytes.saturating_sub(payload),
        Sent::Failed(status) => {
            give_up_from(qp, units, PendingFailure { position, status });
            return Err(Stop::Failed);
        }
    }
    grant.packets -= 1;
    qp.hot.tx.send_span(units.now, span, qp.hot.tx.una() == max);
    let again = next.distance_from(max) <= 0;
    units.counters.tx_requests += u64::from(!again);
    if again {
        count!(units, qp.cold, tx_retransmits);
    }
    if let Some(plain) = qp.cold.plain.as_deref_mut() {
        plain.req.since_ack_req = if ack_req || asks { 0 } else { since.saturating_add(1) };
        if !again {
            plain.req.max = next;
        }
    }
    if last {
        (qp.hot.req.next, qp.hot.req.sent) = (position.wrapping_add(1), 0);
        pass_local(qp);
    } else {
        qp.hot.req.sent = index + span;
    }
    note_rewound(qp);
    Ok(())
}

/// Whether the queue ends behind the request at `position`, or one comes that may wait for it to be
/// acknowledged.
fn pauses_after(cold: &QpCold, position: u32, tail: u32) -> bool {
    let next = position.wrapping_add(1);
    next == tail || cold.send_queue.wqe(next).opcode.is_local()
}

/// Passes the requests without packets at the cursor that have been carried out: they are not, once
/// more.
fn pass_local(qp: &mut Qp<'_>) {
    let begun = qp.cold.plain.as_deref().map_or(qp.hot.req.next, |plain| plain.req.begun);
    while qp.hot.req.next != begun && qp.cold.entry(qp.hot.req.next).packets == 0 {
        qp.hot.req.next = qp.hot.req.next.wrapping_add(1);
    }
}

/// A request cannot be sent, or not again: it fails in its turn, and nothing from it on is
/// outstanding any more.
fn give_up_from(qp: &mut Qp<'_>, units: &mut Units, failure: PendingFailure) {
    fail_in_turn(qp, units, failure);
    let nxt = qp.hot.tx.nxt();
    if let Some(plain) = qp.cold.plain.as_deref_mut() {
        plain.req.max = nxt;
        plain.req.begun = failure.position.wrapping_add(u32::from(qp.hot.req.sent > 0));
    }
    note_rewound(qp);
}

/// Builds packet `index` of the request at `position` in a frame of the port's and sends it.
fn emit<T: TxSlots>(
    qp: &Qp<'_>,
    units: &Units,
    slots: &mut T,
    (position, index): (u32, u32),
    ack_req: bool,
) -> Result<Sent, Stop> {
    let wanted = Wanted::new(qp, position, *qp.cold.entry(position), index, ack_req);
    requester::emit::<true, T>(&wanted, units, slots)
}
