//! Structures and numbers of the verbs ABI, as rdma-core 44 has them (docs/adr/0054). Names are
//! those of the header, without `ibv_`.
//!
//! `tests` compares every size and offset with those of the installed header.

mod context;
mod cq;
mod device;
mod qp;
pub mod ucm;
mod wr;

#[cfg(test)]
mod tests;

pub use context::{Context, ContextOps, VerbsContext};
pub use cq::{
    CQ_ATTR_SINGLE_THREADED, CQ_INIT_FLAGS, CompChannel, Cq, CqEx, CqInitAttrEx, WC_STANDARD_FLAGS, Wc,
};
pub use device::{
    ATOMIC_HCA, GID_TYPE_ROCE_V2, GID_TYPE_SYSFS_ROCE_V2, LINK_LAYER_ETHERNET, NODE_CA, PORT_ACTIVE,
    PORT_IP_BASED_GIDS, TRANSPORT_IB, cap, event,
};
pub use device::{AsyncEvent, Device, DeviceAttr, DeviceAttrEx, Gid, GidEntry, PortAttr, QueryDeviceExInput};
pub use qp::{
    Ah, AhAttr, Ece, GlobalRoute, Grh, QPT_RC, QPT_UC, QPT_UD, Qp, QpAttr, QpCap, QpEx, QpInitAttr,
    QpInitAttrEx, SEND_OPS, SaPathRec, init,
};
pub use wr::{
    Atomic, BindMw, DataBuf, MwBind, MwBindInfo, Rdma, RecvWr, SendWr, Sge, Ud, WrTarget, flag, opcode,
};

use core::ffi::c_void;

/// A `pthread_mutex_t`, which only the other side's macros could use.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub struct PthreadMutex([u8; 40]);

/// A `pthread_cond_t`.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub struct PthreadCond([u8; 48]);

impl PthreadMutex {
    /// As `PTHREAD_MUTEX_INITIALIZER`.
    pub const NEW: Self = Self([0; 40]);
}

impl PthreadCond {
    /// As `PTHREAD_COND_INITIALIZER`.
    pub const NEW: Self = Self([0; 48]);
}

#[repr(C)]
pub struct Pd {
    pub context: *mut Context,
    pub handle: u32,
}

#[repr(C)]
pub struct Mr {
    pub context: *mut Context,
    pub pd: *mut Pd,
    pub addr: *mut c_void,
    pub length: usize,
    pub handle: u32,
    pub lkey: u32,
    pub rkey: u32,
}

#[repr(C)]
pub struct Mw {
    pub context: *mut Context,
    pub pd: *mut Pd,
    pub rkey: u32,
    pub handle: u32,
    pub kind: u32,
}

#[repr(C)]
pub struct Srq {
    pub context: *mut Context,
    pub srq_context: *mut c_void,
    pub pd: *mut Pd,
    pub handle: u32,
    pub mutex: PthreadMutex,
    pub cond: PthreadCond,
    pub events_completed: u32,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct SrqAttr {
    pub max_wr: u32,
    pub max_sge: u32,
    pub srq_limit: u32,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct SrqInitAttr {
    pub srq_context: *mut c_void,
    pub attr: SrqAttr,
}
