//! Shared receive queues.

use crate::abi::{self, PthreadCond, PthreadMutex, RecvWr, SrqAttr, SrqInitAttr};
use crate::acks::Acks;
use crate::argument::{Chain, In, Out};
use crate::errno::Errno;
use crate::events::Target;
use crate::memory::{Pd, PdState};
use crate::object::{Object, Shell, Taken};
use crate::post::post_receives;
use core::ffi::c_int;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use verbs_api::{SharedReceiveQueue, SrqCaps};

/// `IBV_SRQ_MAX_WR`, `IBV_SRQ_LIMIT`.
const MAX_WR: c_int = 1;
const LIMIT: c_int = 2;

/// A shared receive queue.
#[repr(C)]
pub struct Srq {
    c: Shell<abi::Srq>,
    state: Arc<SrqState>,
    acks: Acks,
}

// SAFETY: the structure is its first field.
unsafe impl Object for Srq {
    type C = abi::Srq;
}

/// What lives as long as a queue pair that takes its receives from the queue.
pub struct SrqState {
    ring: Mutex<SharedReceiveQueue>,
    pd: Arc<PdState>,
}

impl SrqState {
    pub fn ring(&self) -> MutexGuard<'_, SharedReceiveQueue> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Srq {
    pub const fn state(&self) -> &Arc<SrqState> {
        &self.state
    }

    pub const fn acks(&self) -> &Acks {
        &self.acks
    }
}

calls! {
    fn post_srq_recv(srq: &Srq, list: Chain<RecvWr>, bad: Option<Out<*mut RecvWr>>) -> c_int = code {
        let mut ring = srq.state.ring();
        post_receives(list, bad, |request| Ok(ring.post_recv(request)?))
    }

    fn get_srq_num(srq: &Srq, number: Out<u32>) -> c_int = code {
        number.set(srq.state.ring().number());
        Ok(())
    }
}

exports! {
    fn ibv_create_srq(pd: &Pd, init: Out<SrqInitAttr>) -> *mut abi::Srq = pointer {
        let mut asked = init.get();
        let caps = SrqCaps { max_wr: asked.attr.max_wr.max(1), max_sge: asked.attr.max_sge.max(1) };
        let ring = pd.domain().create_srq(caps)?;
        let number = ring.number();
        let c = abi::Srq {
            context: pd.context(),
            srq_context: asked.srq_context,
            pd: pd.address(),
            handle: number,
            mutex: PthreadMutex::NEW,
            cond: PthreadCond::NEW,
            events_completed: 0,
        };
        let state = SrqState { ring: Mutex::new(ring), pd: Arc::clone(pd.state()) };
        let srq = Srq { c: Shell::new(c), state: Arc::new(state), acks: Acks::default() }.give();
        let context = &pd.state().context;
        context.engine.listeners.add(Target::Srq(number), &context.events, srq);
        (asked.attr.max_wr, asked.attr.max_sge) = (caps.max_wr, caps.max_sge);
        init.set(asked);
        Ok(srq)
    }

    fn ibv_modify_srq(srq: &Srq, attr: In<SrqAttr>, mask: c_int) -> c_int = both {
        if mask & MAX_WR != 0 {
            return Err(Errno::NOT_SUPPORTED);
        }
        if mask & LIMIT != 0 {
            srq.state.ring().arm_limit(attr.get().srq_limit)?;
        }
        Ok(())
    }

    fn ibv_query_srq(srq: &Srq, attr: Out<SrqAttr>) -> c_int = both {
        let queried = srq.state.ring().query();
        attr.set(SrqAttr { max_wr: queried.caps.max_wr, max_sge: queried.caps.max_sge, srq_limit: queried.limit });
        Ok(())
    }

    fn ibv_destroy_srq(srq: Taken<Srq>) -> c_int = both {
        let queue = srq.get();
        if Arc::strong_count(&queue.state) > 1 {
            return Err(Errno::BUSY);
        }
        let number = queue.state.ring().number();
        queue.state.pd.context.engine.listeners.remove(Target::Srq(number));
        queue.acks.wait();
        srq.destroy();
        Ok(())
    }
}
