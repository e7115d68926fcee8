//! WRITEs and SENDs of several packets whose data are in one piece, and which nothing holds back.
//! The packets of one go out in a run, for which the work request is read, and its memory looked
//! up, once. A last packet with an immediate goes out alone.

use super::common::{Numbers, Part, emit};
use crate::qp::requester::Grant;
use crate::qp::send_stream::Stop;
use crate::qp::{QpCold, Qpc, TxSlots, Units};

/// Sends the next packets, at most up to its end, of the request at the front, which has its entry.
/// Both parts of the queue pair come by themselves, so that what is read of them for each packet
/// stays in registers. `room` new packets are let through by both gates, and the queue ends at
/// `tail`. Returns how many were sent: none, if the next packet is not of this kind.
#[inline(never)]
pub(super) fn send_long<T: TxSlots>(
    qpc: &mut Qpc,
    cold: &QpCold,
    units: &mut Units,
    slots: &mut T,
    grant: &mut Grant,
    (room, tail): (u32, u32),
) -> Result<u32, Stop> {
    let position = qpc.req.next;
    let entry = *cold.entry(position);
    let Some((wqe, last_differs)) = cold.send_queue.common_but_last(position) else { return Ok(0) };
    // What may not be read in whole fails where everything else does, if it must.
    let Some(message) = wqe.mapped(&units.memory, qpc.id.pd) else { return Ok(0) };
    let (pmtu, first) = (qpc.id.pmtu, qpc.req.sent);
    let packets = u32::try_from(grant.packets).unwrap_or(u32::MAX);
    let most = room.min(packets).min(entry.packets - first - u32::from(last_differs));
    let mut sent = 0;
    let mut end = Ok(());
    while sent < most && grant.bytes >= usize::from(pmtu) {
        let index = first + sent;
        let last = index + 1 == entry.packets;
        let start = index * u32::from(pmtu);
        let payload = message.part(start as usize, pmtu.into());
        let numbers = Numbers {
            psn: qpc.tx.nxt(),
            msn: entry.msn,
            ssn: entry.ssn,
            ack_req: qpc.tx.must_ask((last && position.wrapping_add(1) == tail) || sent + 1 == room),
        };
        let part = Part { index, packets: entry.packets, start };
        match emit(qpc, slots, &wqe, &numbers, &part, &payload) {
            Ok(true) => {}
            Ok(false) => break,
            Err(stop) => {
                end = Err(stop);
                break;
            }
        }
        qpc.tx.send_new_asking(numbers.ack_req, units.now);
        grant.bytes = grant.bytes.saturating_sub(payload.len());
        sent += 1;
    }
    units.counters.tx_requests += u64::from(sent);
    grant.packets -= sent as usize;
    qpc.req.pass(sent, entry.packets, !wqe.is_write);
    end.map(|()| sent)
}
