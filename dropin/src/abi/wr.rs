//! Work requests.

use super::{Ah, Mr, Mw};
use core::ffi::{c_int, c_void};
use core::mem::offset_of;

/// `ibv_wr_opcode`.
pub mod opcode {
    pub const WRITE: u32 = 0;
    pub const WRITE_WITH_IMM: u32 = 1;
    pub const SEND: u32 = 2;
    pub const SEND_WITH_IMM: u32 = 3;
    pub const READ: u32 = 4;
    pub const CMP_AND_SWP: u32 = 5;
    pub const FETCH_AND_ADD: u32 = 6;
    pub const LOCAL_INV: u32 = 7;
    pub const BIND_MW: u32 = 8;
    pub const SEND_WITH_INV: u32 = 9;
}

/// `ibv_send_flags`. The lowest three are those of the engine.
pub mod flag {
    pub const SIGNALED: u32 = 1 << 1;
    pub const INLINE: u32 = 1 << 3;
}

pub use verbs_api::Sge;

const _: () = assert!(size_of::<Sge>() == 16 && offset_of!(Sge, length) == 8 && offset_of!(Sge, lkey) == 12);

#[derive(Clone, Copy)]
#[repr(C)]
pub struct DataBuf {
    pub addr: *const c_void,
    pub length: usize,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct Rdma {
    pub remote_addr: u64,
    pub rkey: u32,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct Atomic {
    pub remote_addr: u64,
    pub compare_add: u64,
    pub swap: u64,
    pub rkey: u32,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct Ud {
    pub ah: *mut Ah,
    pub remote_qpn: u32,
    pub remote_qkey: u32,
}

/// Where a request goes, by its operation and service.
#[derive(Clone, Copy)]
#[repr(C)]
pub union WrTarget {
    pub rdma: Rdma,
    pub atomic: Atomic,
    pub ud: Ud,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct MwBindInfo {
    pub mr: *mut Mr,
    pub addr: u64,
    pub length: u64,
    pub mw_access_flags: u32,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct BindMw {
    pub mw: *mut Mw,
    pub rkey: u32,
    pub bind_info: MwBindInfo,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct SendWr {
    pub wr_id: u64,
    pub next: *mut SendWr,
    pub sg_list: *mut Sge,
    pub num_sge: c_int,
    pub opcode: u32,
    pub send_flags: u32,
    /// Big endian; a key to invalidate is in host order.
    pub imm_data: u32,
    pub wr: WrTarget,
    pub remote_srqn: u32,
    pub bind_mw: BindMw,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct RecvWr {
    pub wr_id: u64,
    pub next: *mut RecvWr,
    pub sg_list: *mut Sge,
    pub num_sge: c_int,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct MwBind {
    pub wr_id: u64,
    pub send_flags: u32,
    pub bind_info: MwBindInfo,
}
