//! Queue pairs.

use crate::abi::{self, PthreadCond, PthreadMutex, QpAttr, QpInitAttr, QpInitAttrEx, init};
use crate::acks::Acks;
use crate::address::ip_of;
use crate::argument::{Argument, In, Out};
use crate::context::Context;
use crate::cq::{Cq, CqState};
use crate::ece;
use crate::errno::{Errno, Result, explain};
use crate::events::Target;
use crate::memory::{Pd, PdState, SENT_WITHIN};
use crate::object::{Object, Shell, Taken};
use crate::opened::Opened;
use crate::qp_attr::{cap_of, caps_of, of_c, to_c};
use crate::qp_ex::{CALLS, Session};
use crate::srq::{Srq, SrqState};
use crate::ucma;
use core::ffi::c_int;
use std::sync::Arc;
use verbs_api::{QpAttrMask, QpState, QpType, QueuePairBuilder, raw};

/// A queue pair. All have room for the extended structure.
#[repr(C)]
pub struct Qp {
    c: Shell<abi::QpEx>,
    pair: Arc<raw::QueuePair>,
    /// What the extended calls are at.
    pub session: Session,
    init: QpInitAttr,
    /// The program asked for the extended calls.
    is_extended: bool,
    acks: Acks,
    dialect: ece::Dialect,
    pd: Arc<PdState>,
    queues: [Arc<CqState>; 2],
    _srq: Option<Arc<SrqState>>,
}

// SAFETY: the structure is its first field; the pointers of `init` are handed on only.
unsafe impl Object for Qp {
    type C = abi::Qp;
}

impl Qp {
    pub fn pair(&self) -> &raw::QueuePair {
        &self.pair
    }

    pub const fn extended(&self) -> *mut abi::QpEx {
        self.c.get()
    }

    /// Returns `true` if every request completes with a completion.
    pub const fn signals_all(&self) -> bool {
        self.init.sq_sig_all != 0
    }

    pub const fn acks(&self) -> &Acks {
        &self.acks
    }

    /// Its dialect is that on which two connection managers have agreed, or what the program has
    /// set, or the device's. UC and UD have one only.
    fn take_dialect(&self, attr: &mut verbs_api::QpAttr, mask: &mut QpAttrMask) {
        let names_peer = QpAttrMask::STATE | QpAttrMask::AV | QpAttrMask::DEST_QPN;
        if !mask.contains(names_peer) || attr.state != QpState::Rtr || self.pair.qp_type() != QpType::Rc {
            return;
        }
        match ucma::agreed_with([attr.av.src_ip, attr.av.dst_ip], attr.dest_qpn) {
            Some(options) => ece::speak(self, options, attr, mask),
            None => ece::take_choice(self, attr, mask),
        }
    }

    pub const fn dialect(&self) -> &ece::Dialect {
        &self.dialect
    }

    pub fn engine(&self) -> &Opened {
        &self.pd.context.engine
    }

    fn note_state(&self) {
        // SAFETY: the field is written by this side only.
        unsafe { (*self.c.get()).base.state = self.pair.state() as c_int };
    }
}

fn type_of(code: c_int) -> Result<QpType> {
    match code {
        abi::QPT_RC => Ok(QpType::Rc),
        abi::QPT_UC => Ok(QpType::Uc),
        abi::QPT_UD => Ok(QpType::Ud),
        _ => Err(Errno::NOT_SUPPORTED),
    }
}

/// Both queues at once. Every caller takes them in the order of their addresses.
fn builder_on(pd: &Pd, send_cq: &Cq, recv_cq: &Cq) -> QueuePairBuilder {
    if core::ptr::eq(send_cq, recv_cq) {
        let ring = send_cq.state().ring();
        return pd.domain().queue_pair(&ring, &ring);
    }
    if core::ptr::from_ref(send_cq) < core::ptr::from_ref(recv_cq) {
        let send = send_cq.state().ring();
        let recv = recv_cq.state().ring();
        return pd.domain().queue_pair(&send, &recv);
    }
    let recv = recv_cq.state().ring();
    let send = send_cq.state().ring();
    pd.domain().queue_pair(&send, &recv)
}

/// A queue pair, and what it was created with.
fn create(pd: &Pd, mut init: QpInitAttr, is_extended: bool) -> Result<(*mut abi::Qp, QpInitAttr)> {
    let qp_type = type_of(init.qp_type)?;
    // SAFETY: the program's contract.
    let (send_cq, recv_cq, srq) = unsafe {
        (<&Cq>::from_c(init.send_cq)?, <&Cq>::from_c(init.recv_cq)?, <Option<&Srq>>::from_c(init.srq)?)
    };
    let caps = caps_of(&init.cap, srq.is_some());
    let mut builder = builder_on(pd, send_cq, recv_cq).caps(caps);
    if let Some(srq) = srq {
        builder = builder.srq(&srq.state().ring());
    }
    let pair = Arc::new(builder.create_raw(qp_type)?);
    if qp_type == QpType::Ud {
        pd.state().note_datagrams(&pair);
    }
    init.cap = cap_of(&caps);
    let qpn = pair.qpn();
    let c = abi::QpEx {
        base: abi::Qp {
            context: pd.context(),
            qp_context: init.qp_context,
            pd: pd.address(),
            send_cq: init.send_cq,
            recv_cq: init.recv_cq,
            srq: init.srq,
            handle: qpn,
            qp_num: qpn,
            state: 0,
            qp_type: init.qp_type,
            mutex: PthreadMutex::NEW,
            cond: PthreadCond::NEW,
            events_completed: 0,
        },
        ..CALLS
    };
    let qp = Qp {
        c: Shell::new(c),
        pair,
        session: Session::default(),
        init,
        is_extended,
        acks: Acks::default(),
        dialect: ece::Dialect::default(),
        pd: Arc::clone(pd.state()),
        queues: [send_cq, recv_cq].map(|cq| Arc::clone(cq.state())),
        _srq: srq.map(|srq| Arc::clone(srq.state())),
    };
    let qp = qp.give();
    let context = &pd.state().context;
    context.engine.listeners.add(Target::Qp(qpn), &context.events, qp);
    Ok((qp, init))
}

exports! {
    fn ibv_create_qp(pd: &Pd, init: Out<QpInitAttr>) -> *mut abi::Qp = pointer {
        let (qp, created) = create(pd, init.get(), false)?;
        init.set(created);
        Ok(qp)
    }

    fn ibv_modify_qp(qp: &Qp, attr: In<QpAttr>, mask: c_int) -> c_int = both {
        let engine = &qp.pd.context.engine;
        let (mut attr, mut mask) = of_c(&engine.device, &attr.get(), mask)?;
        qp.take_dialect(&mut attr, &mut mask);
        qp.pair.modify(&attr, mask).map_err(|error| engine.explain_way("ibv_modify_qp", error))?;
        if mask.contains(QpAttrMask::STATE) {
            qp.note_state();
        }
        if mask.contains(QpAttrMask::STATE) && attr.state == QpState::Reset {
            qp.queues.iter().for_each(|queue| queue.ring().forget(qp.pair.qpn()));
        }
        Ok(())
    }

    fn ibv_query_qp(qp: &Qp, attr: Out<QpAttr>, _mask: c_int, init: Option<Out<QpInitAttr>>) -> c_int = both {
        attr.set(to_c(&qp.pair.query(), &qp.pair.caps()));
        if let Some(init) = init {
            init.set(qp.init);
        }
        qp.note_state();
        Ok(())
    }

    fn ibv_query_qp_data_in_order(_qp: &Qp, _opcode: u32, _flags: u32) -> c_int = value {
        // A packet that comes late fills its hole after what lies behind it. With strict order
        // packets are placed in their order, but not the bytes of one.
        Ok(0)
    }

    fn ibv_destroy_qp(qp: Taken<Qp>) -> c_int = both {
        let pair = qp.get();
        if pair.pair.is_in_group() {
            return Err(Errno::BUSY);
        }
        pair.pd.context.engine.listeners.remove(Target::Qp(pair.pair.qpn()));
        pair.acks.wait();
        if pair.pair.qp_type() != QpType::Rc {
            // What a program posts, a NIC has sent by the time that it could be taken back.
            let _ = pair.pair.wait_sent(SENT_WITHIN);
        }
        if pair.pair.qp_type() == QpType::Rc && matches!(pair.pair.state(), QpState::Rts | QpState::Sqd) {
            pair.pd.context.engine.note_end();
        }
        qp.destroy();
        Ok(())
    }

    fn ibv_qp_to_qp_ex(qp: &Qp) -> *mut abi::QpEx = pointer {
        if qp.is_extended { Ok(qp.address().cast()) } else { Err(Errno::INVALID) }
    }

    fn ibv_attach_mcast(qp: &Qp, gid: In<abi::Gid>, _lid: u16) -> c_int = both {
        qp.pair.join_group(ip_of(gid.get().bytes)).map_err(|error| explain("ibv_attach_mcast", error))
    }

    fn ibv_detach_mcast(qp: &Qp, gid: In<abi::Gid>, _lid: u16) -> c_int = both {
        Ok(qp.pair.leave_group(ip_of(gid.get().bytes))?)
    }
}

calls! {
    fn create_qp_ex(_context: &Context, init: Out<QpInitAttrEx>) -> *mut abi::Qp = pointer {
        let mut asked = init.get();
        if asked.comp_mask & !(init::PD | init::CREATE_FLAGS | init::SEND_OPS_FLAGS) != 0 {
            return Err(Errno::NOT_SUPPORTED);
        }
        if asked.comp_mask & init::CREATE_FLAGS != 0 && asked.create_flags != 0 {
            return Err(Errno::NOT_SUPPORTED);
        }
        let is_extended = asked.comp_mask & init::SEND_OPS_FLAGS != 0;
        if is_extended && asked.send_ops_flags & !abi::SEND_OPS != 0 {
            return Err(Errno::NOT_SUPPORTED);
        }
        if asked.comp_mask & init::PD == 0 {
            return Err(Errno::INVALID);
        }
        // SAFETY: the program's contract.
        let pd = unsafe { <&Pd>::from_c(asked.pd)? };
        let base = QpInitAttr {
            qp_context: asked.qp_context,
            send_cq: asked.send_cq,
            recv_cq: asked.recv_cq,
            srq: asked.srq,
            cap: asked.cap,
            qp_type: asked.qp_type,
            sq_sig_all: asked.sq_sig_all,
        };
        let (qp, created) = create(pd, base, is_extended)?;
        asked.cap = created.cap;
        init.set(asked);
        Ok(qp)
    }
}
