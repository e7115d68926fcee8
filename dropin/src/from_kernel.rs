//! Structures of the kernel's connection manager, made those of verbs.

use crate::abi::{self, ucm};
use crate::address::NOWHERE;
use crate::argument::{In, Out};
use core::ffi::c_int;

/// A number as C's `int` has it.
const fn int(number: u32) -> c_int {
    number.cast_signed()
}

const fn ah_attr(from: &ucm::AhAttr) -> abi::AhAttr {
    let mut to = NOWHERE;
    to.grh = abi::GlobalRoute {
        dgid: abi::Gid { bytes: from.dgid },
        flow_label: from.flow_label,
        sgid_index: from.sgid_index,
        hop_limit: from.hop_limit,
        traffic_class: from.traffic_class,
    };
    (to.dlid, to.sl, to.src_path_bits) = (from.dlid, from.sl, from.src_path_bits);
    (to.static_rate, to.is_global, to.port_num) = (from.static_rate, from.is_global, from.port_num);
    to
}

const fn qp_attr(from: &ucm::QpAttr) -> abi::QpAttr {
    abi::QpAttr {
        qp_state: int(from.qp_state),
        cur_qp_state: int(from.cur_qp_state),
        path_mtu: int(from.path_mtu),
        path_mig_state: int(from.path_mig_state),
        qkey: from.qkey,
        rq_psn: from.rq_psn,
        sq_psn: from.sq_psn,
        dest_qp_num: from.dest_qp_num,
        qp_access_flags: from.qp_access_flags,
        cap: abi::QpCap {
            max_send_wr: from.max_send_wr,
            max_recv_wr: from.max_recv_wr,
            max_send_sge: from.max_send_sge,
            max_recv_sge: from.max_recv_sge,
            max_inline_data: from.max_inline_data,
        },
        ah_attr: ah_attr(&from.ah_attr),
        alt_ah_attr: ah_attr(&from.alt_ah_attr),
        pkey_index: from.pkey_index,
        alt_pkey_index: from.alt_pkey_index,
        en_sqd_async_notify: from.en_sqd_async_notify,
        sq_draining: from.sq_draining,
        max_rd_atomic: from.max_rd_atomic,
        max_dest_rd_atomic: from.max_dest_rd_atomic,
        min_rnr_timer: from.min_rnr_timer,
        port_num: from.port_num,
        timeout: from.timeout,
        retry_cnt: from.retry_cnt,
        rnr_retry: from.rnr_retry,
        alt_port_num: from.alt_port_num,
        alt_timeout: from.alt_timeout,
        rate_limit: 0,
    }
}

const fn path_rec(from: &ucm::PathRec) -> abi::SaPathRec {
    abi::SaPathRec {
        dgid: abi::Gid { bytes: from.dgid },
        sgid: abi::Gid { bytes: from.sgid },
        dlid: from.dlid,
        slid: from.slid,
        raw_traffic: int(from.raw_traffic),
        flow_label: from.flow_label,
        hop_limit: from.hop_limit,
        traffic_class: from.traffic_class,
        reversible: int(from.reversible),
        numb_path: from.numb_path,
        pkey: from.pkey,
        sl: from.sl,
        mtu_selector: from.mtu_selector,
        // A code of five values.
        mtu: from.mtu.to_le_bytes()[0],
        rate_selector: from.rate_selector,
        rate: from.rate,
        packet_life_time_selector: from.packet_life_time_selector,
        packet_life_time: from.packet_life_time,
        preference: from.preference,
    }
}

fn user_path_rec(from: &abi::SaPathRec) -> ucm::PathRec {
    ucm::PathRec {
        dgid: from.dgid.bytes,
        sgid: from.sgid.bytes,
        dlid: from.dlid,
        slid: from.slid,
        raw_traffic: from.raw_traffic.cast_unsigned(),
        flow_label: from.flow_label,
        reversible: from.reversible.cast_unsigned(),
        mtu: from.mtu.into(),
        pkey: from.pkey,
        hop_limit: from.hop_limit,
        traffic_class: from.traffic_class,
        numb_path: from.numb_path,
        sl: from.sl,
        mtu_selector: from.mtu_selector,
        rate_selector: from.rate_selector,
        rate: from.rate,
        packet_life_time_selector: from.packet_life_time_selector,
        packet_life_time: from.packet_life_time,
        preference: from.preference,
    }
}

exports! {
    fn ibv_copy_ah_attr_from_kern(to: Out<abi::AhAttr>, from: In<ucm::AhAttr>) -> () = nothing {
        to.set(ah_attr(&from.get()));
        Ok(())
    }

    fn ibv_copy_qp_attr_from_kern(to: Out<abi::QpAttr>, from: In<ucm::QpAttr>) -> () = nothing {
        to.set(qp_attr(&from.get()));
        Ok(())
    }

    fn ibv_copy_path_rec_from_kern(to: Out<abi::SaPathRec>, from: In<ucm::PathRec>) -> () = nothing {
        to.set(path_rec(&from.get()));
        Ok(())
    }

    fn ibv_copy_path_rec_to_kern(to: Out<ucm::PathRec>, from: In<abi::SaPathRec>) -> () = nothing {
        to.set(user_path_rec(&from.get()));
        Ok(())
    }
}
