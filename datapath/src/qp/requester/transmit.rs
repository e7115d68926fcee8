//! One turn of a queue pair: probes, then the RetryQ, then the send queue (paper section 4.2).

use super::common::send_common;
use super::grant::{Grant, TransmitEnd};
use super::is_ready;
use super::local::{Local, run_local};
use super::long::send_long;
use super::overlap;
use super::packet::{Sent, Wanted, emit};
use super::reads::{Reads, Turn, rpsn_start, take_turn};
use crate::counters::count;
use crate::engine::{TxSlots, Units};
use crate::qp::context::{PendingFailure, QpCold, Qpc, SqEntry, entry_of};
use crate::qp::flags::QpFlags;
use crate::qp::keepalive::send_keepalive;
use crate::qp::send_stream::{PacketSource, SendStream, Stop, send_turn};
use crate::qp::{fail, plain};
use crate::queue::{SendWqe, WcStatus};
use wire::{Meta, Psn, WireMode};

/// Lets a queue pair send. Reduces `grant` by what it used.
pub(crate) fn transmit<T: TxSlots>(
    qpc: &mut Qpc,
    cold: &mut QpCold,
    units: &mut Units,
    slots: &mut T,
    grant: &mut Grant,
) -> TransmitEnd {
    if qpc.id.mode == WireMode::Plain {
        return plain::transmit(qpc, cold, units, slots, grant);
    }
    match send_turn(&mut Requests { qpc, cold, units, slots }, grant) {
        Err(Stop::PortFull) => TransmitEnd::PortFull,
        Ok(()) | Err(Stop::Failed) => TransmitEnd::Done { ready: is_ready(qpc, cold) },
    }
}

/// The requests of a queue pair, in its turn.
struct Requests<'a, T> {
    qpc: &'a mut Qpc,
    cold: &'a mut QpCold,
    units: &'a mut Units,
    slots: &'a mut T,
}

impl<T: TxSlots> PacketSource for Requests<'_, T> {
    #[inline(always)]
    fn stream(&mut self) -> (SendStream<'_>, &mut Units) {
        (SendStream::of_requests(self.qpc, self.cold), self.units)
    }

    fn waits(&self) -> bool {
        self.qpc.flags.contains(QpFlags::RNR_WAIT)
    }

    fn meta_of(&self, psn: Psn) -> Option<Meta> {
        let entry = self.cold.entry(find_message(self.qpc, self.cold, psn)?);
        Some(Meta::of(entry.msn, psn.steps_from(entry.first_psn)))
    }

    fn send_again(&mut self, psn: Psn) -> Result<Option<usize>, Stop> {
        send_again(self.qpc, self.cold, self.units, self.slots, psn)
    }

    fn send_signs(&mut self) -> Result<(), Stop> {
        ask_again(self.qpc, self.cold, self.units, self.slots)?;
        send_keepalive(self.qpc, self.cold, self.units, self.slots)
    }

    #[inline(always)]
    fn send_new(&mut self, grant: &mut Grant) -> Result<(), Stop> {
        send_new(self.qpc, self.cold, self.units, self.slots, grant)
    }
}

/// The response timer fired: the oldest request, which is acknowledged, goes once more.
fn ask_again<T: TxSlots>(
    qpc: &mut Qpc,
    cold: &mut QpCold,
    units: &mut Units,
    slots: &mut T,
) -> Result<(), Stop> {
    if cold.reads.as_deref().is_none_or(|reads| !reads.ask_again) {
        return Ok(());
    }
    let psn = cold.entry(qpc.req.head).first_psn;
    if qpc.req.head != qpc.req.next && psn.is_before(qpc.tx.una()) {
        send_again(qpc, cold, units, slots, psn)?;
    }
    if let Some(reads) = cold.reads.as_deref_mut() {
        reads.ask_again = false;
    }
    Ok(())
}

/// New packets, as long as both gates are open and the grant lasts. What it does not use of the send queue is read
/// again next time: there is no WQE cache.
#[inline]
fn send_new<T: TxSlots>(
    qpc: &mut Qpc,
    cold: &mut QpCold,
    units: &mut Units,
    slots: &mut T,
    grant: &mut Grant,
) -> Result<(), Stop> {
    if qpc.flags.contains(QpFlags::RNR_WAIT) || cold.failure.is_some() {
        return Ok(());
    }
    let may_start = qpc.id.state.starts_sends();
    let tail = cold.send_queue.tail();
    // Only what is sent here changes it before the turn is over.
    let mut room = qpc.tx.room();
    let mut begun = qpc.req.sent > 0;
    if !begun && may_start && !qpc.flags.contains(QpFlags::ORDERED_OVERLAP) {
        room -= send_common(qpc, cold, units, slots, grant, (room, tail))?;
    }
    while room > 0 && grant.has_room(qpc.id.pmtu) {
        let position = qpc.req.next;
        if !begun && (position == tail || grant.wqes == 0 || !may_start) {
            break;
        }
        let wqe = cold.send_queue.wqe(position);
        let entry = if begun {
            *cold.entry(position)
        } else {
            grant.wqes -= 1;
            let entry = plain_entry(qpc, &wqe);
            if wqe.minds_responses() || qpc.flags.contains(QpFlags::ORDERED_OVERLAP) {
                match begin_in_turn(qpc, cold, units, entry) {
                    Begun::Ready => begun = true,
                    Begun::Done => {}
                    Begun::Waits => {
                        qpc.flags.insert(QpFlags::READ_WAIT);
                        break;
                    }
                    Begun::Failed => return Err(Stop::Failed),
                }
                continue;
            }
            *entry_of(&mut cold.sq_entries, position) = entry;
            entry
        };
        if entry.packets > 1 {
            let sent = send_long(qpc, cold, units, slots, grant, entry, (room, tail))?;
            if sent > 0 {
                room -= sent;
                begun = qpc.req.sent > 0;
                continue;
            }
        }
        let last = qpc.req.sent + 1 == entry.packets;
        let ack_req = qpc.tx.must_ask((last && position.wrapping_add(1) == tail) || room == 1);
        let wanted = Wanted {
            id: &qpc.id,
            template: &qpc.template,
            wqe,
            entry,
            rpsn_start: if wqe.opcode.has_response() { rpsn_start(cold, &entry) } else { Psn::new(0) },
            index: qpc.req.sent,
            ack_req,
        };
        let sent = emit::<false, T>(&wanted, units, slots)?;
        let consumes_receive = wqe.opcode.consumes_receive();
        match sent {
            Sent::Payload(payload) => grant.bytes = grant.bytes.saturating_sub(payload),
            Sent::Failed(status) => {
                fail_in_turn(qpc, cold, units, PendingFailure { position, status });
                return Err(Stop::Failed);
            }
        }
        qpc.tx.send_new_asking(ack_req, units.now);
        units.counters.tx_requests += 1;
        grant.packets -= 1;
        room -= 1;
        begun = !last;
        qpc.req.pass(1, entry.packets, consumes_receive);
    }
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

/// How the request at the front begins.
enum Begun {
    /// It has packets to send.
    Ready,
    /// It needs none, and is done.
    Done,
    /// It must wait for those before it.
    Waits,
    Failed,
}

/// Begins a request that those before it may hold back, or that has no packets. `entry` is what it gets if it has no
/// response.
#[cold]
fn begin_in_turn(qpc: &mut Qpc, cold: &mut QpCold, units: &mut Units, entry: SqEntry) -> Begun {
    if qpc.flags.contains(QpFlags::ORDERED_OVERLAP) && overlap::must_wait(qpc, cold) {
        return Begun::Waits;
    }
    let wqe = cold.send_queue.wqe(qpc.req.next);
    if wqe.opcode.is_local() {
        let reads = cold.reads.as_deref().map_or(0, Reads::under_way);
        return match run_local(qpc, cold, units, reads > 0) {
            Local::Done => Begun::Done,
            Local::Waits => Begun::Waits,
            Local::Failed => Begun::Failed,
        };
    }
    let turn = if wqe.minds_responses() { take_turn(qpc, cold, entry) } else { Turn::Begin(entry) };
    match turn {
        Turn::Begin(entry) => {
            *cold.entry_mut(qpc.req.next) = entry;
            Begun::Ready
        }
        Turn::Wait => Begun::Waits,
        Turn::Never => {
            let failure = PendingFailure { position: qpc.req.next, status: WcStatus::LocQpOpErr };
            fail_in_turn(qpc, cold, units, failure);
            Begun::Failed
        }
    }
}

/// The request fails once all before it have completed; nothing behind it is sent. Of two that must fail, the first does.
#[cold]
pub(in crate::qp) fn fail_in_turn(
    qpc: &mut Qpc,
    cold: &mut QpCold,
    units: &mut Units,
    failure: PendingFailure,
) {
    let head = qpc.req.head;
    if head == failure.position {
        fail(qpc, cold, units, Some(failure));
        return;
    }
    let distance = |failure: PendingFailure| failure.position.wrapping_sub(head);
    if cold.failure.is_none_or(|other| distance(failure) < distance(other)) {
        cold.failure = Some(failure);
    }
}

/// Builds an outstanding packet once more and sends it. Returns the bytes of its payload, or `None` if its memory may not
/// be read any more: then its request fails in its turn, unless it turns out to have arrived.
#[cold]
#[inline(never)]
fn send_again<T: TxSlots>(
    qpc: &mut Qpc,
    cold: &mut QpCold,
    units: &mut Units,
    slots: &mut T,
    psn: Psn,
) -> Result<Option<usize>, Stop> {
    let Some(position) = find_message(qpc, cold, psn) else {
        debug_assert!(false, "an outstanding PSN belongs to a message");
        return Ok(None);
    };
    let wqe = cold.send_queue.wqe(position);
    let entry = *cold.entry(position);
    let wanted = Wanted {
        id: &qpc.id,
        template: &qpc.template,
        wqe,
        entry,
        rpsn_start: rpsn_start(cold, &entry),
        index: psn.steps_from(entry.first_psn),
        ack_req: true,
    };
    let payload = match emit::<false, T>(&wanted, units, slots)? {
        Sent::Payload(payload) => payload,
        Sent::Failed(status) => {
            fail_in_turn(qpc, cold, units, PendingFailure { position, status });
            return if qpc.id.state.continues_sends() { Ok(None) } else { Err(Stop::Failed) };
        }
    };
    count!(units, cold, tx_retransmits);
    Ok(Some(payload))
}

/// Position of the message that an outstanding PSN belongs to: messages are in PSN order in the send queue.
pub(super) fn find_message(qpc: &Qpc, cold: &QpCold, psn: Psn) -> Option<u32> {
    let begun = qpc.req.next.wrapping_sub(qpc.req.head) + u32::from(qpc.req.sent > 0);
    find_among(cold, qpc.req.head, begun, psn)
}

/// The same among the `count` messages from position `head` on.
pub(in crate::qp) fn find_among(cold: &QpCold, head: u32, count: u32, psn: Psn) -> Option<u32> {
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low.midpoint(high);
        let entry = cold.entry(head.wrapping_add(middle));
        if psn.is_before(entry.first_psn) {
            high = middle;
        } else if psn.steps_from(entry.first_psn) < entry.packets {
            return Some(head.wrapping_add(middle));
        } else {
            low = middle + 1;
        }
    }
    None
}
