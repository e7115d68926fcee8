//! An open device: the table of calls that the header's inline functions go through.

use super::{
    Context as C, Cq, CqEx, CqInitAttrEx, Device, DeviceAttrEx, Mw, MwBind, Pd, PortAttr, PthreadMutex, Qp,
    QpInitAttrEx, QueryDeviceExInput, RecvWr, SendWr, Srq, Wc,
};
use core::ffi::{c_int, c_void};

/// A call that no program of today makes through the table, or that srnic has not: NULL.
type Absent = *mut c_void;

#[repr(C)]
pub struct ContextOps {
    pub before_mw: [Absent; 7],
    pub alloc_mw: Option<unsafe extern "C" fn(*mut Pd, u32) -> *mut Mw>,
    pub bind_mw: Option<unsafe extern "C" fn(*mut Qp, *mut Mw, *const MwBind) -> c_int>,
    pub dealloc_mw: Option<unsafe extern "C" fn(*mut Mw) -> c_int>,
    pub create_cq: Absent,
    pub poll_cq: Option<unsafe extern "C" fn(*mut Cq, c_int, *mut Wc) -> c_int>,
    pub req_notify_cq: Option<unsafe extern "C" fn(*mut Cq, c_int) -> c_int>,
    pub before_srq: [Absent; 7],
    pub post_srq_recv: Option<unsafe extern "C" fn(*mut Srq, *mut RecvWr, *mut *mut RecvWr) -> c_int>,
    pub before_post: [Absent; 4],
    pub post_send: Option<unsafe extern "C" fn(*mut Qp, *mut SendWr, *mut *mut SendWr) -> c_int>,
    pub post_recv: Option<unsafe extern "C" fn(*mut Qp, *mut RecvWr, *mut *mut RecvWr) -> c_int>,
    pub behind_post: [Absent; 5],
}

#[repr(C)]
pub struct Context {
    pub device: *mut Device,
    pub ops: ContextOps,
    pub cmd_fd: c_int,
    pub async_fd: c_int,
    pub num_comp_vectors: c_int,
    pub mutex: PthreadMutex,
    /// All ones: the context is the end of a [`VerbsContext`].
    pub abi_compat: *mut c_void,
}

/// `verbs_context`: grows at its beginning, and `sz` says how far.
#[repr(C)]
pub struct VerbsContext {
    pub query_port: Option<unsafe extern "C" fn(*mut C, u8, *mut PortAttr, usize) -> c_int>,
    pub before_cq: [Absent; 24],
    pub create_cq_ex: Option<unsafe extern "C" fn(*mut C, *const CqInitAttrEx) -> *mut CqEx>,
    pub private: *mut c_void,
    pub query_device_ex:
        Option<unsafe extern "C" fn(*mut C, *const QueryDeviceExInput, *mut DeviceAttrEx, usize) -> c_int>,
    pub flows: [Absent; 4],
    pub open_qp: Absent,
    pub create_qp_ex: Option<unsafe extern "C" fn(*mut C, *mut QpInitAttrEx) -> *mut Qp>,
    pub get_srq_num: Option<unsafe extern "C" fn(*mut Srq, *mut u32) -> c_int>,
    pub create_srq_ex: Absent,
    pub xrcd: [Absent; 3],
    pub sz: usize,
    pub context: C,
}
