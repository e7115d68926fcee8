//! A datagram's way in (protocol.md 1.11).

use super::QKEY_GSI;
use crate::qp::flush::end_receive;
use crate::qp::responder::{Refused, to_receive};
use crate::qp::{QPN_GSI, Qp, Units, fail};
use crate::queue::{Completion, WcFlags, WcOpcode, WcStatus};
use wire::{Deth, Packet};

/// Bytes at the start of a datagram's receive that hold the sender's IP header: an IPv6 one, or 20
/// bytes of nothing and an IPv4 one.
const GRH_LEN: usize = 40;

/// Handles a datagram whose address, P_Key and ICRC are right. `ip` is its IP header. Returns
/// `true` if it lies in a receive.
pub(crate) fn on_datagram(qp: &mut Qp<'_>, units: &mut Units, packet: &Packet<'_>, ip: &[u8]) -> bool {
    let Some(deth) = packet.deth() else {
        units.counters.drop_opcode_class += 1;
        return false;
    };
    if !qp.hot.id.state.receives() {
        units.counters.drop_qp_state += 1;
        return false;
    }
    if deth.qkey != qkey_of(qp) {
        units.counters.drop_qkey += 1;
        return false;
    }
    match place(qp, units, packet, ip) {
        Some(Ok(byte_len)) => {
            complete(qp, units, packet, &deth, byte_len);
            return true;
        }
        Some(Err(Refused::OWN_MEMORY)) => fail_receive(qp, units, WcStatus::LocProtErr),
        dropped => {
            units.counters.drop_receive_too_short += u64::from(dropped.is_some());
            units.counters.drop_no_receive += u64::from(dropped.is_none());
            qp.cold.receives.put_back(units);
        }
    }
    false
}

fn qkey_of(qp: &Qp<'_>) -> u32 {
    if qp.hot.id.qpn == QPN_GSI { QKEY_GSI } else { qp.cold.attributes.attr.qkey }
}

/// Copies the GRH area and the payload to the next receive. Returns the bytes of both, or why they
/// were not copied; `None` if there is no receive.
fn place(qp: &mut Qp<'_>, units: &mut Units, packet: &Packet<'_>, ip: &[u8]) -> Option<Result<u32, Refused>> {
    let found = qp.cold.receives.find(units, qp.hot.rsp.recv_head, 0);
    let receive = found.ok().and_then(|found| qp.cold.receives.wqe(units, found, qp.hot.id.pd));
    let (wqe, pd) = receive?;
    let payload = packet.payload();
    let byte_len = u32::try_from(GRH_LEN + payload.len()).unwrap_or(u32::MAX);
    if byte_len > wqe.length {
        return Some(Err(Refused::TOO_SHORT));
    }
    let mut grh = [0; GRH_LEN];
    let ip = &ip[..ip.len().min(GRH_LEN)];
    grh[GRH_LEN - ip.len()..].copy_from_slice(ip);
    let put = |start, bytes: &[u8]| to_receive(&units.memory, pd, &wqe, start, bytes);
    Some(put(0, &grh).and_then(|()| put(GRH_LEN as u64, payload)).map(|()| byte_len))
}

fn complete(qp: &mut Qp<'_>, units: &mut Units, packet: &Packet<'_>, deth: &Deth, byte_len: u32) {
    let imm = packet.imm();
    let mut flags = WcFlags::GRH;
    flags.set(WcFlags::WITH_IMM, imm.is_some());
    flags.set(WcFlags::SOLICITED, packet.solicited());
    let wr_id = qp.cold.receives.finish_next(units, &mut qp.hot.rsp.recv_head);
    let completion = Completion {
        flags,
        byte_len,
        imm: imm.unwrap_or(0),
        src_qp: deth.src_qp,
        ..Completion::new(wr_id, WcOpcode::Recv, qp.hot.id.qpn, WcStatus::Success)
    };
    units.counters.rx_unreliable += 1;
    if !units.complete(qp.cold.recv_cq, &completion) {
        fail(qp, units, None);
    }
}

/// The next receive names memory that may not be written: it ends with that status, and the queue
/// pair in ERR.
#[cold]
pub(super) fn fail_receive(qp: &mut Qp<'_>, units: &mut Units, status: WcStatus) {
    end_receive(qp, units, status);
    fail(qp, units, None);
}
