//! Attributes of queue pairs, as C has them and as the engine does.

use crate::abi::{self, QpCap};
use crate::address::{NOWHERE, attr_of, vector_of};
use crate::errno::{Errno, Result};
use crate::memory::access_of;
use crate::query::mtu_code;
use core::ffi::c_int;
use verbs_api::{Access, Device, Pmtu, QpAttr, QpAttrMask, QpState, QueueCaps};

/// Attributes that verbs have and the engine has not: `ALT_PATH`, `PATH_MIG_STATE`, `CAP`,
/// `RATE_LIMIT`.
const ALT_PATH: u32 = 1 << 14;
const PATH_MIG_STATE: u32 = 1 << 18;
const CAP: u32 = 1 << 19;
const RATE_LIMIT: u32 = 1 << 25;
/// The attributes that are the engine's own begin here.
const OWN: u32 = 1 << 26;
/// `IBV_MIG_MIGRATED`: no other path is used.
const MIGRATED: c_int = 0;

fn state_of(code: c_int) -> Result<QpState> {
    use QpState::{Err as Failed, Init, Reset, Rtr, Rts, Sqd, Sqe};
    let all = [Reset, Init, Rtr, Rts, Sqd, Sqe, Failed];
    usize::try_from(code).ok().and_then(|code| all.get(code)).copied().ok_or(Errno::INVALID)
}

fn mtu_of(code: c_int) -> Result<Pmtu> {
    Pmtu::PLAIN.into_iter().find(|mtu| mtu_code(*mtu) == code).ok_or(Errno::INVALID)
}

/// What a modification changes.
pub fn of_c(device: &Device, attr: &abi::QpAttr, mask: c_int) -> Result<(QpAttr, QpAttrMask)> {
    let bits = mask.cast_unsigned();
    if bits & (ALT_PATH | CAP | RATE_LIMIT) != 0 {
        return Err(Errno::NOT_SUPPORTED);
    }
    if bits >= OWN || bits & PATH_MIG_STATE != 0 && attr.path_mig_state != MIGRATED {
        return Err(Errno::INVALID);
    }
    let mask = QpAttrMask::from_bits(bits & !PATH_MIG_STATE).ok_or(Errno::INVALID)?;
    let mut to = QpAttr::default();
    if mask.contains(QpAttrMask::STATE) {
        to.state = state_of(attr.qp_state)?;
    }
    if mask.contains(QpAttrMask::CUR_STATE) {
        to.cur_state = state_of(attr.cur_qp_state)?;
    }
    if mask.contains(QpAttrMask::PATH_MTU) {
        to.path_mtu = mtu_of(attr.path_mtu)?;
    }
    if mask.contains(QpAttrMask::AV) {
        to.av = vector_of(device, &attr.ah_attr)?;
    }
    if mask.contains(QpAttrMask::PKEY_INDEX) {
        to.pkey = device.query_pkey(attr.pkey_index).ok_or(Errno::INVALID)?;
    }
    // Of a queue pair the engine wants to hear that peers' writes are writes here.
    to.access_flags = access_of(attr.qp_access_flags) | Access::LOCAL_WRITE;
    to.en_sqd_async_notify = attr.en_sqd_async_notify != 0;
    (to.qkey, to.rq_psn, to.sq_psn) = (attr.qkey, attr.rq_psn & PSN_BITS, attr.sq_psn & PSN_BITS);
    (to.dest_qpn, to.port_num, to.timeout) = (attr.dest_qp_num, attr.port_num, attr.timeout & TIMER_BITS);
    (to.retry_cnt, to.rnr_retry) = (attr.retry_cnt & RETRY_BITS, attr.rnr_retry & RETRY_BITS);
    to.min_rnr_timer = attr.min_rnr_timer & TIMER_BITS;
    (to.max_rd_atomic, to.max_dest_rd_atomic) = (attr.max_rd_atomic, attr.max_dest_rd_atomic);
    Ok((to, mask))
}

/// Fields of the wire are this wide; hardware takes no more of what a program gives.
const PSN_BITS: u32 = 0xFF_FFFF;
const TIMER_BITS: u8 = 31;
const RETRY_BITS: u8 = 7;

/// All attributes of a queue pair.
pub fn to_c(attr: &QpAttr, caps: &QueueCaps) -> abi::QpAttr {
    let state = attr.state as c_int;
    abi::QpAttr {
        qp_state: state,
        cur_qp_state: state,
        path_mtu: mtu_code(attr.path_mtu),
        path_mig_state: MIGRATED,
        qkey: attr.qkey,
        rq_psn: attr.rq_psn,
        sq_psn: attr.sq_psn,
        dest_qp_num: attr.dest_qpn,
        qp_access_flags: attr.access_flags.bits().into(),
        cap: cap_of(caps),
        ah_attr: attr_of(&attr.av),
        alt_ah_attr: NOWHERE,
        pkey_index: 0,
        alt_pkey_index: 0,
        en_sqd_async_notify: attr.en_sqd_async_notify.into(),
        sq_draining: 0,
        max_rd_atomic: attr.max_rd_atomic,
        max_dest_rd_atomic: attr.max_dest_rd_atomic,
        min_rnr_timer: attr.min_rnr_timer,
        port_num: attr.port_num,
        timeout: attr.timeout,
        retry_cnt: attr.retry_cnt,
        rnr_retry: attr.rnr_retry,
        alt_port_num: 0,
        alt_timeout: 0,
        rate_limit: 0,
    }
}

/// Sizes as C has them.
pub const fn cap_of(caps: &QueueCaps) -> QpCap {
    QpCap {
        max_send_wr: caps.max_send_wr,
        max_recv_wr: caps.max_recv_wr,
        max_send_sge: caps.max_send_sge,
        max_recv_sge: caps.max_recv_sge,
        max_inline_data: caps.max_inline,
    }
}

/// The sizes that were asked for; no queue is smaller than one request.
pub fn caps_of(cap: &QpCap, has_srq: bool) -> QueueCaps {
    QueueCaps {
        max_send_wr: cap.max_send_wr.max(1),
        max_recv_wr: if has_srq { 0 } else { cap.max_recv_wr.max(1) },
        max_send_sge: cap.max_send_sge.max(1),
        max_recv_sge: cap.max_recv_sge.max(1),
        max_inline: cap.max_inline_data,
    }
}
