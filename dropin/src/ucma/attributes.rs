//! What a queue pair is to be given, state by state.

use super::command::Command;
use super::id::{Id, RC, State};
use super::inbox::agreed_by;
use crate::abi::ucm::{AhAttr, InitQpAttr, QpAttr, zeroed};
use crate::address::gid_of;
use crate::errno::{Errno, Result};
use crate::query::mtu_code;
use core::net::IpAddr;
use verbs_api::raw::Agreed;
use verbs_api::{Access, QpAttrMask, QpState};

/// Waits for a receive of 0.64 ms: that of a kernel is 655 ms.
const MIN_RNR_TIMER: u8 = 12;
/// `RDMA_UDP_QKEY`, that of all datagrams between programs of a connection manager.
pub const UDP_QKEY: u32 = 0x0123_4567;

pub fn init_qp_attr(command: &Command) -> Result<()> {
    let asked: InitQpAttr = command.get()?;
    let id = command.id(asked.id)?;
    let state = id.state();
    state.engine()?;
    let attr = match state_of(asked.qp_state)? {
        QpState::Init => init(&id),
        QpState::Rtr if id.qp_type == RC => rtr(&id, &state)?,
        QpState::Rts if id.qp_type == RC => rts(&agreed_by(&id, &state)?),
        QpState::Rtr | QpState::Rts => of_state(asked.qp_state, QpAttrMask::STATE),
        _ => return Err(Errno::INVALID),
    };
    command.answer(asked.response, &attr)
}

fn state_of(code: u32) -> Result<QpState> {
    [QpState::Init, QpState::Rtr, QpState::Rts]
        .into_iter()
        .find(|state| *state as u32 == code)
        .ok_or(Errno::INVALID)
}

fn of_state(qp_state: u32, mask: QpAttrMask) -> QpAttr {
    QpAttr { qp_attr_mask: mask.bits(), qp_state, ..zeroed() }
}

fn init(id: &Id) -> QpAttr {
    let common = QpAttrMask::STATE | QpAttrMask::PKEY_INDEX | QpAttrMask::PORT;
    let mask = common | if id.qp_type == RC { QpAttrMask::ACCESS_FLAGS } else { QpAttrMask::QKEY };
    let access = Access::REMOTE_WRITE | Access::REMOTE_READ | Access::REMOTE_ATOMIC;
    QpAttr {
        qkey: if id.qp_type == RC { 0 } else { UDP_QKEY },
        qp_access_flags: if id.qp_type == RC { access.bits().into() } else { 0 },
        port_num: 1,
        ..of_state(QpState::Init as u32, mask)
    }
}

fn rtr(id: &Id, state: &State) -> Result<QpAttr> {
    let mask = QpAttrMask::STATE
        | QpAttrMask::AV
        | QpAttrMask::PATH_MTU
        | QpAttrMask::DEST_QPN
        | QpAttrMask::RQ_PSN
        | QpAttrMask::MAX_DEST_RD_ATOMIC
        | QpAttrMask::MIN_RNR_TIMER;
    let agreed = agreed_by(id, state)?;
    let dst = state.dst.ok_or(Errno::INVALID)?;
    Ok(QpAttr {
        path_mtu: mtu_code(agreed.path_mtu).cast_unsigned(),
        rq_psn: id.psn,
        dest_qp_num: agreed.remote_qpn,
        ah_attr: way_to(dst.ip(), state.options.tos),
        max_dest_rd_atomic: agreed.responder_resources,
        min_rnr_timer: MIN_RNR_TIMER,
        ..of_state(QpState::Rtr as u32, mask)
    })
}

/// The address vector of a peer.
pub fn way_to(ip: IpAddr, traffic_class: u8) -> AhAttr {
    AhAttr { dgid: gid_of(ip).bytes, hop_limit: 64, traffic_class, is_global: 1, port_num: 1, ..zeroed() }
}

fn rts(agreed: &Agreed) -> QpAttr {
    let mask = QpAttrMask::STATE
        | QpAttrMask::SQ_PSN
        | QpAttrMask::TIMEOUT
        | QpAttrMask::RETRY_CNT
        | QpAttrMask::RNR_RETRY
        | QpAttrMask::MAX_QP_RD_ATOMIC;
    QpAttr {
        sq_psn: agreed.sq_psn,
        max_rd_atomic: agreed.initiator_depth,
        timeout: agreed.ack_timeout,
        retry_cnt: agreed.retry_count,
        rnr_retry: agreed.rnr_retry_count,
        ..of_state(QpState::Rts as u32, mask)
    }
}
