//! One turn of a queue pair: probes, then the RetryQ, then the send queue (paper section 4.2).

use super::common::send_common;
use super::long::send_long;
use super::overlap;
use super::reads::{ReadStart, Reads, rpsn_start, start_read};
use crate::counters::count;
use crate::qp::context::{PendingFailure, entry_of};
use crate::qp::keepalive::send_keepalive;
use crate::qp::requester::{
    Begun, Grant, Sent, TransmitEnd, Wanted, emit, fail_in_turn, is_ready, run_local,
};
use crate::qp::send_stream::{PacketSource, SendStream, Stop, resend};
use crate::qp::{Qp, QpFlags, Qpc, SqEntry, TxSlots, Units};
use crate::queue::{SendWqe, WcStatus};
use wire::{Meta, Psn};

/// Lets a queue pair send. Reduces `grant` by what it used.
pub(in crate::qp) fn transmit<T: TxSlots>(
    mut qp: Qp<'_>,
    units: &mut Units,
    slots: &mut T,
    grant: &mut Grant,
) -> TransmitEnd {
    let again = if SendStream::of_requests(&mut qp).resends() {
        resend(&mut RequestSource { qp: qp.reborrow(), units, slots }, grant)
    } else {
        Ok(())
    };
    let result = again.and_then(|()| send_new(&mut qp, units, slots, grant));
    SendStream::of_requests(&mut qp).arm(units);
    match result {
        Err(Stop::PortFull) => TransmitEnd::PortFull,
        Ok(()) | Err(Stop::Failed) => TransmitEnd::Done { ready: is_ready(&qp) },
    }
}

/// The requests of a queue pair, in its turn.
struct RequestSource<'a, T> {
    qp: Qp<'a>,
    units: &'a mut Units,
    slots: &'a mut T,
}

impl<T: TxSlots> PacketSource for RequestSource<'_, T> {
    #[inline(always)]
    fn stream(&mut self) -> (SendStream<'_>, &mut Units) {
        (SendStream::of_requests(&mut self.qp), self.units)
    }

    fn waits(&self) -> bool {
        self.qp.hot.flags.contains(QpFlags::RNR_WAIT)
    }

    fn meta_of(&self, psn: Psn) -> Option<Meta> {
        let entry = self.qp.cold.entry(find_message(&self.qp, psn)?);
        Some(Meta::of(entry.msn, psn.steps_from(entry.first_psn)))
    }

    fn send_again(&mut self, psn: Psn) -> Result<Option<usize>, Stop> {
        send_again(&mut self.qp, self.units, self.slots, psn)
    }

    fn send_signs(&mut self) -> Result<(), Stop> {
        ask_again(&mut self.qp, self.units, self.slots)?;
        send_keepalive(&mut self.qp, self.units, self.slots)
    }
}

/// The response timer fired: the oldest request, which is acknowledged, goes once more.
fn ask_again<T: TxSlots>(qp: &mut Qp<'_>, units: &mut Units, slots: &mut T) -> Result<(), Stop> {
    if qp.cold.reads.as_deref().is_none_or(|reads| !reads.ask_again) {
        return Ok(());
    }
    let psn = qp.cold.entry(qp.hot.req.head).first_psn;
    if qp.hot.req.head != qp.hot.req.next && psn.is_before(qp.hot.tx.una()) {
        send_again(qp, units, slots, psn)?;
    }
    if let Some(reads) = qp.cold.reads.as_deref_mut() {
        reads.ask_again = false;
    }
    Ok(())
}

/// New packets, as long as both gates are open and the grant lasts. What it does not use of the
/// send queue is read again next time: there is no WQE cache.
#[inline]
fn send_new<T: TxSlots>(
    qp: &mut Qp<'_>,
    units: &mut Units,
    slots: &mut T,
    grant: &mut Grant,
) -> Result<(), Stop> {
    if qp.hot.flags.contains(QpFlags::RNR_WAIT) || qp.cold.failure.is_some() {
        return Ok(());
    }
    let may_start = qp.hot.id.state.starts_sends();
    let tail = qp.cold.send_queue.tail();
    // Only what is sent here changes it before the turn is over.
    let mut room = qp.hot.tx.room();
    let mut begun = qp.hot.req.sent > 0;
    if !begun && may_start && !qp.hot.flags.contains(QpFlags::ORDERED_OVERLAP) {
        room -= send_common(qp, units, slots, grant, (room, tail))?;
    }
    while room > 0 && grant.has_room(qp.hot.id.pmtu) {
        let position = qp.hot.req.next;
        if !begun && (position == tail || grant.wqes == 0 || !may_start) {
            break;
        }
        let wqe = qp.cold.send_queue.wqe(position);
        let entry = if begun {
            *qp.cold.entry(position)
        } else {
            grant.wqes -= 1;
            let entry = plain_entry(qp.hot, &wqe);
            if wqe.minds_responses() || qp.hot.flags.contains(QpFlags::ORDERED_OVERLAP) {
                match begin_in_turn(&mut qp.reborrow(), units, entry) {
                    Begun::Ready => begun = true,
                    Begun::Done => {}
                    Begun::Waits => {
                        grant.give_back(qp.hot);
                        qp.hot.flags.insert(QpFlags::READ_WAIT);
                        break;
                    }
                    Begun::Failed => return Err(Stop::Failed),
                }
                continue;
            }
            *entry_of(&mut qp.cold.sq_entries, position) = entry;
            entry
        };
        if entry.packets > 1 {
            let sent = send_long(qp.hot, qp.cold, units, slots, grant, (room, tail))
                .inspect_err(|_| grant.give_back(qp.hot))?;
            if sent > 0 {
                room -= sent;
                begun = qp.hot.req.sent > 0;
                continue;
            }
        }
        let last = qp.hot.req.sent + 1 == entry.packets;
        let ack_req = qp.hot.tx.must_ask((last && position.wrapping_add(1) == tail) || room == 1);
        send_one(qp, units, slots, grant, entry, ack_req).inspect_err(|_| grant.give_back(qp.hot))?;
        room -= 1;
        begun = !last;
    }
    Ok(())
}

/// Sends the next packet of the request at the front, which has those of `entry`.
#[inline(always)]
fn send_one<T: TxSlots>(
    qp: &mut Qp<'_>,
    units: &mut Units,
    slots: &mut T,
    grant: &mut Grant,
    entry: SqEntry,
    ack_req: bool,
) -> Result<(), Stop> {
    let position = qp.hot.req.next;
    let mut wanted = Wanted::new(qp, position, entry, qp.hot.req.sent, ack_req);
    let opcode = wanted.wqe.opcode;
    if opcode.has_response() {
        wanted.rpsn_start = rpsn_start(qp.cold, &entry);
    }
    let sent = emit::<false, T>(&wanted, units, slots)?;
    if opcode.has_response() {
        grant.begin(opcode);
    }
    let consumes_receive = wanted.wqe.opcode.consumes_receive();
    match sent {
        Sent::Payload(payload) => grant.bytes = grant.bytes.saturating_sub(payload),
        Sent::Failed(status) => {
            fail_in_turn(&mut qp.reborrow(), units, PendingFailure { position, status });
            return Err(Stop::Failed);
        }
    }
    qp.hot.tx.send_new_asking(ack_req, units.now);
    units.counters.tx_requests += 1;
    grant.packets -= 1;
    qp.hot.req.pass(1, entry.packets, consumes_receive);
    Ok(())
}

/// The PSNs of the next request and, if it consumes a receive, its SSN.
#[inline]
fn plain_entry(qpc: &Qpc, wqe: &SendWqe<'_>) -> SqEntry {
    let pmtu = u32::from(qpc.id.pmtu);
    let packets = if wqe.length <= pmtu { 1 } else { wqe.length.div_ceil(pmtu) };
    let first_psn = qpc.tx.nxt();
    SqEntry { first_psn, ssn: qpc.req.ssn, packets, msn: qpc.req.msn() }
}

/// Begins a request that those before it may hold back, or that has no packets. `entry` is what it
/// gets if it has no response.
#[cold]
fn begin_in_turn(qp: &mut Qp<'_>, units: &mut Units, entry: SqEntry) -> Begun {
    if qp.hot.flags.contains(QpFlags::ORDERED_OVERLAP) && overlap::must_wait(qp) {
        return Begun::Waits;
    }
    let wqe = qp.cold.send_queue.wqe(qp.hot.req.next);
    if wqe.opcode.is_local() {
        let reads = qp.cold.reads.as_deref().map_or(0, Reads::under_way);
        return run_local(qp, units, reads > 0);
    }
    let start = if wqe.minds_responses() { start_read(qp, entry) } else { ReadStart::Begin(entry) };
    match start {
        ReadStart::Begin(entry) => {
            *qp.cold.entry_mut(qp.hot.req.next) = entry;
            Begun::Ready
        }
        ReadStart::Wait => Begun::Waits,
        ReadStart::Never => {
            let failure = PendingFailure { position: qp.hot.req.next, status: WcStatus::LocQpOpErr };
            fail_in_turn(qp, units, failure);
            Begun::Failed
        }
    }
}

/// Builds an outstanding packet once more and sends it. Returns the bytes of its payload, or `None`
/// if its memory may not be read any more: then its request fails in its turn, unless it turns out
/// to have arrived.
#[cold]
#[inline(never)]
fn send_again<T: TxSlots>(
    qp: &mut Qp<'_>,
    units: &mut Units,
    slots: &mut T,
    psn: Psn,
) -> Result<Option<usize>, Stop> {
    let Some(position) = find_message(qp, psn) else {
        debug_assert!(false, "an outstanding PSN belongs to a message");
        return Ok(None);
    };
    let entry = *qp.cold.entry(position);
    let wanted = Wanted {
        rpsn_start: rpsn_start(qp.cold, &entry),
        ..Wanted::new(qp, position, entry, psn.steps_from(entry.first_psn), true)
    };
    let payload = match emit::<false, T>(&wanted, units, slots)? {
        Sent::Payload(payload) => payload,
        Sent::Failed(status) => {
            fail_in_turn(qp, units, PendingFailure { position, status });
            return if qp.hot.id.state.continues_sends() { Ok(None) } else { Err(Stop::Failed) };
        }
    };
    count!(units, qp.cold, tx_retransmits);
    if qp.hot.flags.contains(QpFlags::WATCHED) && qp.cold.watched.position == position {
        qp.cold.watched.again += 1;
    }
    Ok(Some(payload))
}

/// Position of the message that an outstanding PSN belongs to.
pub(super) fn find_message(qp: &Qp<'_>, psn: Psn) -> Option<u32> {
    let begun = qp.hot.req.next.wrapping_sub(qp.hot.req.head) + u32::from(qp.hot.req.sent > 0);
    qp.cold.find_message(qp.hot.req.head, begun, psn)
}
