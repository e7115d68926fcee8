//! Which attributes a modify call carries.

use core::fmt;

bitflags::bitflags! {
    /// Names the fields of [`QpAttr`](super::QpAttr) that a modify call sets. Values as
    /// `ibv_qp_attr_mask`, except the six highest, which are ours.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    pub struct QpAttrMask: u32 {
        /// `state`: the state to go to.
        const STATE = 1 << 0;
        /// `cur_state`: the state the caller believes the QP to be in.
        const CUR_STATE = 1 << 1;
        /// `en_sqd_async_notify`.
        const EN_SQD_ASYNC_NOTIFY = 1 << 2;
        /// `access_flags`.
        const ACCESS_FLAGS = 1 << 3;
        /// `pkey`. The name is that of verbs, whose index into a table of one key this is.
        const PKEY_INDEX = 1 << 4;
        /// `port_num`.
        const PORT = 1 << 5;
        /// `qkey`.
        const QKEY = 1 << 6;
        /// `av`.
        const AV = 1 << 7;
        /// `path_mtu`.
        const PATH_MTU = 1 << 8;
        /// `timeout`.
        const TIMEOUT = 1 << 9;
        /// `retry_cnt`.
        const RETRY_CNT = 1 << 10;
        /// `rnr_retry`.
        const RNR_RETRY = 1 << 11;
        /// `rq_psn`.
        const RQ_PSN = 1 << 12;
        /// `max_rd_atomic`.
        const MAX_QP_RD_ATOMIC = 1 << 13;
        /// `min_rnr_timer`.
        const MIN_RNR_TIMER = 1 << 15;
        /// `sq_psn`.
        const SQ_PSN = 1 << 16;
        /// `max_dest_rd_atomic`.
        const MAX_DEST_RD_ATOMIC = 1 << 17;
        /// `dest_qpn`.
        const DEST_QPN = 1 << 20;
        /// `write_order`.
        const WRITE_ORDER = 1 << 26;
        /// `scheduling`.
        const SCHEDULING = 1 << 27;
        /// `wire_mode`.
        const WIRE_MODE = 1 << 28;
        /// `recovery`.
        const RECOVERY = 1 << 29;
        /// `congestion` and `congestion_tuning`.
        const CONGESTION = 1 << 30;
        /// `keepalive_ms`.
        const KEEPALIVE = 1 << 31;
    }
}

/// The names, as in `AV | PATH_MTU`; bits without a name in hexadecimal; `(none)` if empty.
impl fmt::Display for QpAttrMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() { f.write_str("(none)") } else { bitflags::parser::to_writer(self, f) }
    }
}
