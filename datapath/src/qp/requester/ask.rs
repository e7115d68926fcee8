//! READ and atomic requests on the wire, and asking once more for responses that do not come (protocol.md 2.4).

use super::grant::Stop;
use super::packet::{Wanted, opcode_at};
use crate::counters::count;
use crate::engine::{TxSlots, Units};
use crate::memory::{Access, MemoryTable};
use crate::qp::context::{QpCold, Qpc};
use crate::queue::WcStatus;
use crate::sched::SchedFlags;
use crate::stream::Verdict;
use crate::time::Time;
use wire::{AtomicEth, Bth, Layout, Meta, Psn, Rdw, Reth, WireMode, bth, icrc};

const ICRC_LEN: usize = 4;

/// Builds a READ or atomic request, whose response begins at `rpsn_start`, in a frame of the port's and sends it. Returns
/// the bytes of its payload, none, or the status with which its work request fails.
#[cold]
#[inline(never)]
pub(in crate::qp) fn emit_request<T: TxSlots>(
    wanted: &Wanted<'_>,
    rpsn_start: Psn,
    units: &Units,
    slots: &mut T,
) -> Result<Result<usize, WcStatus>, Stop> {
    // What the response could not be placed into is not asked for.
    if let Err(status) = check_target(wanted, &units.memory) {
        return Ok(Err(status));
    }
    let loopback = wanted.id.loopback;
    let frame = slots.slot(loopback).ok_or(Stop::PortFull)?;
    match build(wanted, rpsn_start, frame) {
        Some(len) => {
            slots.commit(loopback, len);
            Ok(Ok(0))
        }
        None => {
            slots.cancel(loopback);
            Ok(Err(WcStatus::LocQpOpErr))
        }
    }
}

fn check_target(wanted: &Wanted<'_>, memory: &MemoryTable) -> Result<(), WcStatus> {
    for sge in wanted.wqe.sges() {
        memory
            .check(sge.lkey, wanted.id.pd, sge.addr, sge.length.into(), Access::LOCAL_WRITE)
            .map_err(|_| WcStatus::LocProtErr)?;
    }
    Ok(())
}

/// Writes the packet to the start of `frame` and returns its length. In Plain the index of a READ's packet is the first one
/// of its response that is missing; a request of the SRNIC dialect has one packet, 0.
fn build(wanted: &Wanted<'_>, rpsn_start: Psn, frame: &mut [u8]) -> Option<usize> {
    let Wanted { id, template, wqe, entry, index, ack_req } = *wanted;
    let opcode = opcode_at(wqe.opcode, 0, 1);
    let layout = Layout::of(id.mode, opcode)?;
    let transport_len = usize::from(layout.len) + ICRC_LEN;
    let end = template.len() + transport_len;
    let frame = frame.get_mut(..end)?;
    template.emit(frame, transport_len);
    let headers = &mut frame[template.len()..];
    let header = Bth {
        pkey: id.pkey,
        dest_qp: id.dest_qpn,
        ack_req,
        psn: entry.first_psn.add(index),
        ..Bth::new(id.mode, opcode)
    };
    bth::emit(headers, &header);
    if id.mode == WireMode::Srnic {
        Meta { msn: entry.msn, offset: 0 }.emit(&mut headers[usize::from(layout.meta)..]);
        let rdw = Rdw { rslot: entry.ssn.get().to_le_bytes()[0], rpsn_start };
        rdw.emit(&mut headers[usize::from(layout.rdw)..]);
    }
    let (va, rkey) = wqe.remote();
    if layout.reth != 0 {
        let here = index * u32::from(id.pmtu);
        let reth = Reth { va: va.wrapping_add(here.into()), rkey, dma_len: wqe.length.saturating_sub(here) };
        reth.emit(&mut headers[usize::from(layout.reth)..]);
    } else {
        let (compare, swap_add) = wqe.operands();
        let atomic = AtomicEth { va, rkey, swap_add, compare };
        atomic.emit(&mut headers[usize::from(layout.atomic_eth)..]);
    }
    icrc::seal(&mut frame[template.l3_offset()..]);
    Some(end)
}

/// Whether only responses are missing: every request that was sent is acknowledged. A READ that has its slot and found no room
/// in the port was not sent.
pub(super) fn waits_for_responses(qpc: &Qpc, cold: &QpCold) -> bool {
    let begun = qpc.req.head != qpc.req.next;
    begun && qpc.tx.outstanding() == 0 && cold.reads.as_deref().is_some_and(|reads| reads.under_way() > 0)
}

/// The response timer: when nothing has come for long enough, the oldest request is to be sent again. Returns when to
/// look again, or `None` if the retries are exhausted.
#[cold]
pub(super) fn watch_responses(qpc: &mut Qpc, cold: &mut QpCold, units: &mut Units) -> Option<Time> {
    let (rtt, heard_at) = (cold.watchdog.rtt, cold.heard_at);
    let reads = cold.reads.as_deref_mut()?;
    reads.watchdog.rtt = rtt;
    reads.watchdog.sync(reads.progress_at.max(qpc.tx.progress_at()));
    loop {
        // As if many packets were outstanding: the high timeout.
        match reads.watchdog.check(units.now, heard_at, u32::MAX) {
            Verdict::Wait(until) => return Some(until),
            // A lost response is the responder's to find; the request is not what is missing.
            Verdict::TailProbe => {}
            Verdict::Rto => {
                count!(units, cold, response_timeouts);
                reads.ask_again = true;
                qpc.sched.insert(SchedFlags::PROBE);
            }
            Verdict::Exhausted => return None,
        }
    }
}
