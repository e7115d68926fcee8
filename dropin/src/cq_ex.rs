//! The extended calls of completion queues: one completion at a time, read field by field.

use crate::abi::{self, CqEx, CqInitAttrEx, PthreadCond, PthreadMutex, Wc};
use crate::argument::{Argument, Handle, In};
use crate::channel::Channel;
use crate::context::Context;
use crate::cq::{Cq, Ring};
use crate::errno::{Errno, Result};
use core::cell::UnsafeCell;
use core::ffi::{c_int, c_void};
use core::ptr::null_mut;
use std::sync::MutexGuard;

/// What happens between `ibv_start_poll` and `ibv_end_poll`: the queue is locked, and one
/// completion is the current one.
#[derive(Default)]
pub struct Polling(UnsafeCell<Current>);

#[derive(Default)]
struct Current {
    ring: Option<MutexGuard<'static, Ring>>,
    wc: Wc,
}

// SAFETY: only who holds the lock of the queue uses it, and those who read the current completion,
// which is the thread that holds it by the contract of the calls.
unsafe impl Sync for Polling {}
// SAFETY: as above.
unsafe impl Send for Polling {}

/// An extended queue as programs see it.
pub struct Extended<'a>(&'a Cq);

impl Argument for Extended<'_> {
    type C = *mut CqEx;

    unsafe fn from_c(c: *mut CqEx) -> Result<Self> {
        // SAFETY: the base is the first field of the extended structure, which every queue has.
        unsafe { <&Cq>::from_c(c.cast()) }.map(Self)
    }
}

impl Extended<'_> {
    fn current(&self) -> *mut Current {
        self.0.polling.0.get()
    }

    fn wc(&self) -> Wc {
        // SAFETY: the calling thread has begun to poll.
        unsafe { (*self.current()).wc }
    }

    fn start(&self) -> Result<()> {
        let state = core::ptr::from_ref::<crate::cq::CqState>(self.0.state());
        // SAFETY: the guard goes by `end` or with an empty queue, while the queue lives.
        let ring = unsafe { &*state }.ring();
        // SAFETY: this thread has the lock now.
        unsafe { (*self.current()).ring = Some(ring) };
        let found = self.next();
        if found.is_err() {
            self.end();
        }
        self.0.note_look(found.is_ok());
        found
    }

    fn next(&self) -> Result<()> {
        // SAFETY: this thread has the lock.
        let current = unsafe { &mut *self.current() };
        let ring = current.ring.as_mut().ok_or(Errno::INVALID)?;
        let completion = ring.poll().ok_or(Errno::NO_ENTRY)?;
        current.wc = self.0.wc_of(&completion);
        let c = self.0.extended();
        // SAFETY: both fields are written by this side only.
        unsafe { ((*c).status, (*c).wr_id) = (current.wc.status, current.wc.wr_id) };
        Ok(())
    }

    fn end(&self) {
        // SAFETY: this thread has the lock. The guard is taken out of the place before it goes.
        let ring = unsafe { (*self.current()).ring.take() };
        drop(ring);
    }
}

calls! {
    fn create_cq_ex(context: &Context, attr: In<CqInitAttrEx>) -> *mut CqEx = pointer {
        let attr = attr.get();
        if attr.wc_flags & !abi::WC_STANDARD_FLAGS != 0 || attr.comp_mask & !abi::CQ_INIT_FLAGS != 0 {
            return Err(Errno::NOT_SUPPORTED);
        }
        let flags = if attr.comp_mask & abi::CQ_INIT_FLAGS == 0 { 0 } else { attr.flags };
        if flags & !abi::CQ_ATTR_SINGLE_THREADED != 0 {
            return Err(Errno::NOT_SUPPORTED);
        }
        // SAFETY: the program's contract.
        let channel = unsafe { <Option<&Channel>>::from_c(attr.channel)? };
        let queue = Cq::create(context, attr.cqe, attr.cq_context, channel, attr.comp_vector)?;
        Ok(queue.cast())
    }

    fn start_poll(cq: Extended<'_>, attr: Handle<c_void>) -> c_int = code {
        let _ = attr;
        cq.start()
    }

    fn next_poll(cq: Extended<'_>) -> c_int = code {
        cq.next()
    }

    fn end_poll(cq: Extended<'_>) -> () = nothing {
        cq.end();
        Ok(())
    }

    fn read_opcode(cq: Extended<'_>) -> u32 = value { Ok(cq.wc().opcode) }
    fn read_vendor_err(cq: Extended<'_>) -> u32 = value { Ok(cq.wc().vendor_err) }
    fn read_byte_len(cq: Extended<'_>) -> u32 = value { Ok(cq.wc().byte_len) }
    fn read_imm_data(cq: Extended<'_>) -> u32 = value { Ok(cq.wc().imm_data) }
    fn read_qp_num(cq: Extended<'_>) -> u32 = value { Ok(cq.wc().qp_num) }
    fn read_src_qp(cq: Extended<'_>) -> u32 = value { Ok(cq.wc().src_qp) }
    fn read_wc_flags(cq: Extended<'_>) -> u32 = value { Ok(cq.wc().wc_flags) }
    fn read_slid(_cq: Extended<'_>) -> u32 = value { Ok(0) }
    fn read_sl(cq: Extended<'_>) -> u8 = value { Ok(cq.wc().sl) }
    fn read_dlid_path_bits(_cq: Extended<'_>) -> u8 = value { Ok(0) }
    fn read_nothing(_cq: Extended<'_>) -> u64 = value { Ok(0) }
    fn read_cvlan(_cq: Extended<'_>) -> u16 = value { Ok(0) }
    fn read_flow_tag(_cq: Extended<'_>) -> u32 = value { Ok(0) }
}

/// A queue as it is before its first poll.
pub const NOTHING: CqEx = CqEx {
    base: abi::Cq {
        context: null_mut(),
        channel: null_mut(),
        cq_context: null_mut(),
        handle: 0,
        cqe: 0,
        mutex: PthreadMutex::NEW,
        cond: PthreadCond::NEW,
        comp_events_completed: 0,
        async_events_completed: 0,
    },
    comp_mask: 0,
    status: 0,
    wr_id: 0,
    start_poll: Some(start_poll),
    next_poll: Some(next_poll),
    end_poll: Some(end_poll),
    read_opcode: Some(read_opcode),
    read_vendor_err: Some(read_vendor_err),
    read_byte_len: Some(read_byte_len),
    read_imm_data: Some(read_imm_data),
    read_qp_num: Some(read_qp_num),
    read_src_qp: Some(read_src_qp),
    read_wc_flags: Some(read_wc_flags),
    read_slid: Some(read_slid),
    read_sl: Some(read_sl),
    read_dlid_path_bits: Some(read_dlid_path_bits),
    // Those who ask for time stamps are refused when they create the queue.
    read_completion_ts: Some(read_nothing),
    read_cvlan: Some(read_cvlan),
    read_flow_tag: Some(read_flow_tag),
    read_tm_info: null_mut(),
    read_completion_wallclock_ns: Some(read_nothing),
};
