//! The extended calls of queue pairs: one request after the other, made field by field, posted
//! together.

use crate::abi::{
    self, BindMw, DataBuf, MwBindInfo, PthreadCond, PthreadMutex, QpEx, SendWr, WrTarget, flag, opcode,
};
use crate::argument::{Argument, Handle, In, array};
use crate::errno::{Errno, Result};
use crate::qp::Qp;
use crate::request::{INLINE, Inline, with_data};
use core::cell::UnsafeCell;
use core::ffi::{c_int, c_void};
use core::ptr::null_mut;
use verbs_api::QueueCaps;
use verbs_api::raw::SendGuard;

const SGES: usize = QueueCaps::SGE_LIMIT as usize;

/// What happens between `ibv_wr_start` and `ibv_wr_complete`: the send queue is locked, and
/// requests are made one by one. They are not moved: many sessions have one request only.
pub struct Session(UnsafeCell<Open>);

struct Open {
    /// The send queue while there is a session.
    queue: Option<SendGuard<'static>>,
    /// A request is being made.
    has_request: bool,
    wr: SendWr,
    /// The list of the request: its first `wr.num_sge` elements.
    sges: [abi::Sge; SGES],
    /// The data are `inline`, and not those of the list.
    is_inline: bool,
    inline: Inline,
    /// Why the session as a whole fails.
    failure: Option<Errno>,
}

impl Default for Session {
    fn default() -> Self {
        Self(UnsafeCell::new(Open {
            queue: None,
            has_request: false,
            wr: BLANK,
            sges: [abi::Sge { addr: 0, length: 0, lkey: 0 }; SGES],
            is_inline: false,
            inline: Inline::EMPTY,
            failure: None,
        }))
    }
}

// SAFETY: only the thread that holds the lock of the send queue uses it, by the contract of the
// calls.
unsafe impl Sync for Session {}
// SAFETY: as above; a queue pair changes threads only between sessions.
unsafe impl Send for Session {}

/// An extended queue pair as programs see it.
pub struct Extended<'a>(&'a Qp);

impl Argument for Extended<'_> {
    type C = *mut QpEx;

    #[inline]
    unsafe fn from_c(c: *mut QpEx) -> Result<Self> {
        // SAFETY: the base is the first field of the extended structure, which every queue pair
        // has.
        unsafe { <&Qp>::from_c(c.cast()) }.map(Self)
    }
}

/// A request before anything is known of it.
pub const BLANK: SendWr = SendWr {
    wr_id: 0,
    next: null_mut(),
    sg_list: null_mut(),
    num_sge: 0,
    opcode: 0,
    send_flags: 0,
    imm_data: 0,
    wr: WrTarget { atomic: abi::Atomic { remote_addr: 0, compare_add: 0, swap: 0, rkey: 0 } },
    remote_srqn: 0,
    bind_mw: BindMw {
        mw: null_mut(),
        rkey: 0,
        bind_info: MwBindInfo { mr: null_mut(), addr: 0, length: 0, mw_access_flags: 0 },
    },
};

impl Extended<'_> {
    fn start(&self) {
        let pair = core::ptr::from_ref(self.0.pair());
        // SAFETY: the guard goes at the end of the session, while the queue pair lives.
        let queue = unsafe { &*pair }.send();
        // SAFETY: this thread has the lock now.
        let open = unsafe { &mut *self.0.session.0.get() };
        open.queue = Some(queue);
        (open.has_request, open.failure) = (false, None);
    }

    /// The session that this thread has begun.
    fn with(&self, change: impl FnOnce(&mut Open) -> Result<()>) -> Result<()> {
        // SAFETY: by the contract of the calls this thread has begun a session, so that it has the
        // lock; without a session nobody else looks here.
        let open = unsafe { &mut *self.0.session.0.get() };
        if open.queue.is_none() {
            return Err(Errno::INVALID);
        }
        if let Err(errno) = change(open) {
            open.failure.get_or_insert(errno);
        }
        Ok(())
    }

    /// Begins a request, whose number and flags the program has written.
    fn begin(&self, code: u32, fill: impl FnOnce(&mut SendWr)) -> Result<()> {
        self.with(|open| {
            self.finish_request(open)?;
            let c = self.0.extended();
            // SAFETY: the program has written both before this call.
            let (wr_id, send_flags) = unsafe { ((*c).wr_id, (*c).wr_flags & !flag::INLINE) };
            open.wr = SendWr { wr_id, opcode: code, send_flags, ..BLANK };
            fill(&mut open.wr);
            (open.has_request, open.is_inline) = (true, false);
            Ok(())
        })
    }

    /// Changes the request that is being made.
    fn fill(&self, fill: impl FnOnce(&mut Open) -> Result<()>) -> Result<()> {
        self.with(|open| if open.has_request { fill(open) } else { Err(Errno::INVALID) })
    }

    fn finish_request(&self, open: &mut Open) -> Result<()> {
        if !core::mem::take(&mut open.has_request) {
            return Ok(());
        }
        let Open { queue: Some(queue), wr, sges, is_inline, inline, .. } = open else {
            return Err(Errno::INVALID);
        };
        let list = usize::try_from(wr.num_sge).ok().and_then(|count| sges.get(..count));
        let list = list.ok_or(Errno::INVALID)?;
        let inline = is_inline.then(|| inline.get());
        // SAFETY: the program's contract.
        unsafe { with_data(self.0, wr, list, inline, |request| Ok(queue.post(request)?)) }
    }

    fn end(&self, is_complete: bool) -> Result<()> {
        if is_complete {
            self.with(|open| self.finish_request(open))?;
        }
        // SAFETY: this thread has the lock. The guard is taken out of its place before it goes, and
        // nothing of the session is looked at any more then.
        let (queue, failure) = unsafe {
            let open = &mut *self.0.session.0.get();
            (open.queue.take(), open.failure)
        };
        let mut queue = queue.ok_or(Errno::INVALID)?;
        if !is_complete || failure.is_some() {
            queue.discard();
        }
        failure.map_or(Ok(()), Err)
    }
}

impl Open {
    /// The place for the bytes that the request brings along.
    const fn new_inline(&mut self) -> &mut Inline {
        self.is_inline = true;
        self.inline.clear();
        &mut self.inline
    }
}

const fn rdma(remote_addr: u64, rkey: u32) -> WrTarget {
    WrTarget { rdma: abi::Rdma { remote_addr, rkey } }
}

calls! {
    fn wr_atomic_cmp_swp(qp: Extended<'_>, rkey: u32, remote_addr: u64, compare_add: u64, swap: u64) -> () = nothing {
        qp.begin(opcode::CMP_AND_SWP, |wr| wr.wr.atomic = abi::Atomic { remote_addr, compare_add, swap, rkey })
    }

    fn wr_atomic_fetch_add(qp: Extended<'_>, rkey: u32, remote_addr: u64, compare_add: u64) -> () = nothing {
        qp.begin(opcode::FETCH_AND_ADD, |wr| wr.wr.atomic = abi::Atomic { remote_addr, compare_add, swap: 0, rkey })
    }

    fn wr_bind_mw(qp: Extended<'_>, mw: Handle<abi::Mw>, rkey: u32, info: In<MwBindInfo>) -> () = nothing {
        qp.begin(opcode::BIND_MW, |wr| wr.bind_mw = BindMw { mw: mw.0, rkey, bind_info: info.get() })
    }

    fn wr_local_inv(qp: Extended<'_>, rkey: u32) -> () = nothing {
        qp.begin(opcode::LOCAL_INV, |wr| wr.imm_data = rkey)
    }

    fn wr_rdma_read(qp: Extended<'_>, rkey: u32, remote_addr: u64) -> () = nothing {
        qp.begin(opcode::READ, |wr| wr.wr = rdma(remote_addr, rkey))
    }

    fn wr_rdma_write(qp: Extended<'_>, rkey: u32, remote_addr: u64) -> () = nothing {
        qp.begin(opcode::WRITE, |wr| wr.wr = rdma(remote_addr, rkey))
    }

    fn wr_rdma_write_imm(qp: Extended<'_>, rkey: u32, remote_addr: u64, imm: u32) -> () = nothing {
        qp.begin(opcode::WRITE_WITH_IMM, |wr| (wr.wr, wr.imm_data) = (rdma(remote_addr, rkey), imm))
    }

    fn wr_send(qp: Extended<'_>) -> () = nothing {
        qp.begin(opcode::SEND, |_| {})
    }

    fn wr_send_imm(qp: Extended<'_>, imm: u32) -> () = nothing {
        qp.begin(opcode::SEND_WITH_IMM, |wr| wr.imm_data = imm)
    }

    fn wr_send_inv(qp: Extended<'_>, rkey: u32) -> () = nothing {
        qp.begin(opcode::SEND_WITH_INV, |wr| wr.imm_data = rkey)
    }

    fn wr_send_tso(qp: Extended<'_>, _header: *mut c_void, _len: u16, _mss: u16) -> () = nothing {
        qp.with(|_| Err(Errno::NOT_SUPPORTED))
    }

    fn wr_flush(qp: Extended<'_>, _rkey: u32, _remote_addr: u64, _len: usize, _type: u8, _level: u8) -> () = nothing {
        qp.with(|_| Err(Errno::NOT_SUPPORTED))
    }

    fn wr_atomic_write(qp: Extended<'_>, _rkey: u32, _remote_addr: u64, _value: *const c_void) -> () = nothing {
        qp.with(|_| Err(Errno::NOT_SUPPORTED))
    }

    fn wr_set_xrc_srqn(qp: Extended<'_>, _number: u32) -> () = nothing {
        qp.with(|_| Err(Errno::NOT_SUPPORTED))
    }

    fn wr_set_ud_addr(qp: Extended<'_>, ah: Handle<abi::Ah>, remote_qpn: u32, remote_qkey: u32) -> () = nothing {
        qp.fill(|open| {
            open.wr.wr.ud = abi::Ud { ah: ah.0, remote_qpn, remote_qkey };
            Ok(())
        })
    }

    fn wr_set_inline_data(qp: Extended<'_>, addr: *mut c_void, length: usize) -> () = nothing {
        qp.fill(|open| {
            let inline = open.new_inline();
            // SAFETY: the program's contract.
            unsafe { inline.push(addr.cast(), length.min(INLINE + 1)) }
        })
    }

    fn wr_set_inline_data_list(qp: Extended<'_>, count: usize, list: Handle<DataBuf>) -> () = nothing {
        qp.fill(|open| {
            let inline = open.new_inline();
            // SAFETY: the program's contract.
            unsafe { array(list.0, count).iter().try_for_each(|part| inline.push(part.addr.cast(), part.length)) }
        })
    }

    fn wr_set_sge(qp: Extended<'_>, lkey: u32, addr: u64, length: u32) -> () = nothing {
        qp.fill(|open| {
            open.sges[0] = abi::Sge { addr, length, lkey };
            open.wr.num_sge = 1;
            Ok(())
        })
    }

    fn wr_set_sge_list(qp: Extended<'_>, count: usize, list: Handle<abi::Sge>) -> () = nothing {
        qp.fill(|open| {
            let places = open.sges.get_mut(..count).ok_or(Errno::INVALID)?;
            // SAFETY: the program's contract.
            let list = unsafe { array(list.0, count) };
            places.iter_mut().zip(list).for_each(|(place, sge)| *place = *sge);
            open.wr.num_sge = c_int::try_from(list.len()).map_err(|_| Errno::INVALID)?;
            Ok(())
        })
    }

    fn wr_start(qp: Extended<'_>) -> () = nothing {
        qp.start();
        Ok(())
    }

    fn wr_complete(qp: Extended<'_>) -> c_int = code {
        qp.end(true)
    }

    fn wr_abort(qp: Extended<'_>) -> () = nothing {
        qp.end(false)
    }
}

/// A queue pair as it is before its first session.
pub const CALLS: QpEx = QpEx {
    base: abi::Qp {
        context: null_mut(),
        qp_context: null_mut(),
        pd: null_mut(),
        send_cq: null_mut(),
        recv_cq: null_mut(),
        srq: null_mut(),
        handle: 0,
        qp_num: 0,
        state: 0,
        qp_type: 0,
        mutex: PthreadMutex::NEW,
        cond: PthreadCond::NEW,
        events_completed: 0,
    },
    comp_mask: 0,
    wr_id: 0,
    wr_flags: 0,
    wr_atomic_cmp_swp: Some(wr_atomic_cmp_swp),
    wr_atomic_fetch_add: Some(wr_atomic_fetch_add),
    wr_bind_mw: Some(wr_bind_mw),
    wr_local_inv: Some(wr_local_inv),
    wr_rdma_read: Some(wr_rdma_read),
    wr_rdma_write: Some(wr_rdma_write),
    wr_rdma_write_imm: Some(wr_rdma_write_imm),
    wr_send: Some(wr_send),
    wr_send_imm: Some(wr_send_imm),
    wr_send_inv: Some(wr_send_inv),
    wr_send_tso: Some(wr_send_tso),
    wr_set_ud_addr: Some(wr_set_ud_addr),
    wr_set_xrc_srqn: Some(wr_set_xrc_srqn),
    wr_set_inline_data: Some(wr_set_inline_data),
    wr_set_inline_data_list: Some(wr_set_inline_data_list),
    wr_set_sge: Some(wr_set_sge),
    wr_set_sge_list: Some(wr_set_sge_list),
    wr_start: Some(wr_start),
    wr_complete: Some(wr_complete),
    wr_abort: Some(wr_abort),
    wr_atomic_write: Some(wr_atomic_write),
    wr_flush: Some(wr_flush),
};
