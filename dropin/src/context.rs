//! Opening and closing a device.

use crate::abi::{self, ContextOps, PthreadMutex, VerbsContext};
use crate::device::Device;
use crate::events::EventQueue;
use crate::object::{Object, Shell, Taken};
use crate::opened::{self, Opened};
use crate::{cq, cq_ex, post, qp, query, srq, window};
use core::ffi::{c_int, c_void};
use core::mem::offset_of;
use core::ptr::{null_mut, without_provenance_mut};
use std::os::fd::AsRawFd;
use std::sync::Arc;

/// An open device.
#[repr(C)]
pub struct Context {
    c: Shell<VerbsContext>,
    state: Arc<ContextState>,
}

// SAFETY: programs know the last field of the structure, which is the first of the object.
unsafe impl Object for Context {
    type C = abi::Context;
    const AT: usize = offset_of!(VerbsContext, context);
}

/// What lives as long as anything that was made of an open device.
pub struct ContextState {
    pub engine: Arc<Opened>,
    pub events: Arc<EventQueue>,
}

impl Context {
    pub const fn state(&self) -> &Arc<ContextState> {
        &self.state
    }

    pub fn device(&self) -> &verbs_api::Device {
        &self.state.engine.device
    }

    fn new(device: &Device, state: ContextState) -> Self {
        let context = abi::Context {
            device: device.address(),
            ops: OPS,
            cmd_fd: -1,
            async_fd: state.events.as_raw_fd(),
            num_comp_vectors: 1,
            mutex: PthreadMutex::NEW,
            abi_compat: without_provenance_mut(usize::MAX),
        };
        let verbs = VerbsContext {
            query_port: Some(query::query_port),
            before_cq: [null_mut(); 24],
            create_cq_ex: Some(cq_ex::create_cq_ex),
            private: null_mut::<c_void>(),
            query_device_ex: Some(query::query_device_ex),
            flows: [null_mut(); 4],
            open_qp: null_mut(),
            create_qp_ex: Some(qp::create_qp_ex),
            get_srq_num: Some(srq::get_srq_num),
            create_srq_ex: null_mut(),
            xrcd: [null_mut(); 3],
            sz: size_of::<VerbsContext>(),
            context,
        };
        Self { c: Shell::new(verbs), state: Arc::new(state) }
    }
}

/// What the header's inline functions call.
const OPS: ContextOps = ContextOps {
    before_mw: [null_mut(); 7],
    alloc_mw: Some(window::alloc_mw),
    bind_mw: Some(window::bind_mw),
    dealloc_mw: Some(window::dealloc_mw),
    create_cq: null_mut(),
    poll_cq: Some(cq::poll_cq),
    req_notify_cq: Some(cq::req_notify_cq),
    before_srq: [null_mut(); 7],
    post_srq_recv: Some(srq::post_srq_recv),
    before_post: [null_mut(); 4],
    post_send: Some(post::post_send),
    post_recv: Some(post::post_recv),
    behind_post: [null_mut(); 5],
};

exports! {
    fn ibv_open_device(device: &Device) -> *mut abi::Context = pointer {
        let engine = opened::open(device.config())?;
        let events = EventQueue::new(&engine.listeners)?;
        Ok(Context::new(device, ContextState { engine, events }).give())
    }

    fn ibv_close_device(context: Taken<Context>) -> c_int = code {
        context.destroy();
        Ok(())
    }
}
