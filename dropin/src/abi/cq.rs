//! Completion queues and channels.

use super::{Context, Pd, PthreadCond, PthreadMutex};
use core::ffi::{c_int, c_void};

#[repr(C)]
pub struct CompChannel {
    pub context: *mut Context,
    pub fd: c_int,
    pub refcnt: c_int,
}

#[repr(C)]
pub struct Cq {
    pub context: *mut Context,
    pub channel: *mut CompChannel,
    pub cq_context: *mut c_void,
    pub handle: u32,
    pub cqe: c_int,
    pub mutex: PthreadMutex,
    pub cond: PthreadCond,
    pub comp_events_completed: u32,
    pub async_events_completed: u32,
}

/// What a reader of one field of the current completion returns.
type Read<T> = Option<unsafe extern "C" fn(*mut CqEx) -> T>;

#[repr(C)]
pub struct CqEx {
    pub base: Cq,
    pub comp_mask: u32,
    pub status: u32,
    pub wr_id: u64,
    pub start_poll: Option<unsafe extern "C" fn(*mut CqEx, *mut c_void) -> c_int>,
    pub next_poll: Read<c_int>,
    pub end_poll: Read<()>,
    pub read_opcode: Read<u32>,
    pub read_vendor_err: Read<u32>,
    pub read_byte_len: Read<u32>,
    pub read_imm_data: Read<u32>,
    pub read_qp_num: Read<u32>,
    pub read_src_qp: Read<u32>,
    pub read_wc_flags: Read<u32>,
    pub read_slid: Read<u32>,
    pub read_sl: Read<u8>,
    pub read_dlid_path_bits: Read<u8>,
    pub read_completion_ts: Read<u64>,
    pub read_cvlan: Read<u16>,
    pub read_flow_tag: Read<u32>,
    pub read_tm_info: *mut c_void,
    pub read_completion_wallclock_ns: Read<u64>,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct CqInitAttrEx {
    pub cqe: u32,
    pub cq_context: *mut c_void,
    pub channel: *mut CompChannel,
    pub comp_vector: u32,
    pub wc_flags: u64,
    pub comp_mask: u32,
    pub flags: u32,
    pub parent_domain: *mut Pd,
}

#[derive(Clone, Copy, Default)]
#[repr(C)]
pub struct Wc {
    pub wr_id: u64,
    pub status: u32,
    pub opcode: u32,
    pub vendor_err: u32,
    pub byte_len: u32,
    /// Big endian; a key that was invalidated is in host order.
    pub imm_data: u32,
    pub qp_num: u32,
    pub src_qp: u32,
    pub wc_flags: u32,
    pub pkey_index: u16,
    pub slid: u16,
    pub sl: u8,
    pub dlid_path_bits: u8,
}

/// What `ibv_create_cq_ex` is asked for in completions; the others need hardware.
pub const WC_STANDARD_FLAGS: u64 = (1 << 7) - 1;
/// `IBV_CREATE_CQ_ATTR_SINGLE_THREADED` and `IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN`.
pub const CQ_ATTR_SINGLE_THREADED: u32 = 1;
/// Fields of [`CqInitAttrEx`]: `flags`, `parent_domain`.
pub const CQ_INIT_FLAGS: u32 = 1;
