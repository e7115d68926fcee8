//! READ and atomic requests on the wire: whole, or of a READ what is still missing.

use crate::engine::{TxSlots, Units};
use crate::qp::requester::{Stop, Wanted, check_target, opcode_at};
use crate::queue::WcStatus;
use wire::{AtomicEth, Bth, Layout, Reth, WireMode, bth, icrc};

const ICRC_LEN: usize = 4;

/// Builds the request in a frame of the port's and sends it. Returns the bytes of its payload, none, or the status with
/// which its work request fails.
pub(super) fn emit<T: TxSlots>(
    wanted: &Wanted<'_>,
    units: &Units,
    slots: &mut T,
) -> Result<Result<usize, WcStatus>, Stop> {
    // What the response could not be placed into is not asked for.
    if let Err(status) = check_target(wanted, &units.memory) {
        return Ok(Err(status));
    }
    let loopback = wanted.id.loopback;
    let frame = slots.slot(loopback).ok_or(Stop::PortFull)?;
    let built = build(wanted, frame);
    match built {
        Some(len) => slots.commit(loopback, len),
        None => slots.cancel(loopback),
    }
    Ok(built.map(|_| 0).ok_or(WcStatus::LocQpOpErr))
}

/// Writes the packet to the start of `frame` and returns its length. The index of a READ's packet is the first one of
/// its response that is missing.
fn build(wanted: &Wanted<'_>, frame: &mut [u8]) -> Option<usize> {
    let Wanted { id, template, wqe, entry, index, ack_req, .. } = *wanted;
    let opcode = opcode_at(wqe.opcode, 0, 1);
    let layout = Layout::of(WireMode::Plain, opcode)?;
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
        ..Bth::new(WireMode::Plain, opcode)
    };
    bth::emit(headers, &header);
    if layout.reth != 0 {
        let here = index * u32::from(id.pmtu);
        let reth = Reth {
            va: wqe.remote_addr.wrapping_add(here.into()),
            rkey: wqe.rkey,
            dma_len: wqe.length.saturating_sub(here),
        };
        reth.emit(&mut headers[usize::from(layout.reth)..]);
    } else {
        let (compare, swap_add) = wqe.operands();
        let atomic = AtomicEth { va: wqe.remote_addr, rkey: wqe.rkey, swap_add, compare };
        atomic.emit(&mut headers[usize::from(layout.atomic_eth)..]);
    }
    icrc::seal(&mut frame[template.l3_offset()..]);
    Some(end)
}
