//! A program with two queue pairs of one device that are connected to each other.

use super::{blank, errno, no_attributes};
use crate::abi::{self, QpAttr, QpInitAttrEx, RecvWr, SendWr, Sge, Wc, flag};
use crate::device::register;
use crate::object::Object as _;
use core::ffi::{c_int, c_void};
use core::ptr::null_mut;
use std::time::{Duration, Instant};

const LEN: usize = 4096;
const PATIENCE: Duration = Duration::from_secs(60);

pub struct Program {
    pub context: *mut abi::Context,
    pub pd: *mut abi::Pd,
    pub channel: *mut abi::CompChannel,
    pub cq: *mut abi::Cq,
    pub pairs: [*mut abi::Qp; 2],
    mr: *mut abi::Mr,
    memory: *mut u8,
}

impl Program {
    pub fn start(name: &str) -> Self {
        let device = register(&format!("sim:dropin-{name}"));
        let memory: &mut [u64] = Box::leak(Box::new([0; LEN / 8]));
        let memory: *mut u8 = memory.as_mut_ptr().cast();
        // SAFETY: everything that a call is given was made by one before, and nothing is gone.
        unsafe {
            memory.copy_from(b"hello".as_ptr(), 5);
            let context = crate::context::ibv_open_device(device.address());
            assert!(!context.is_null(), "errno {}", errno());
            let pd = crate::memory::ibv_alloc_pd(context);
            let mr = crate::memory::ibv_reg_mr(pd, memory.cast(), LEN, 0xF);
            assert!(!mr.is_null(), "errno {}", errno());
            let channel = crate::channel::ibv_create_comp_channel(context);
            let cq = crate::cq::ibv_create_cq(context, 64, null_mut(), channel, 0);
            let pairs = [(); 2].map(|()| create_pair(context, pd, cq));
            let program = Self { context, pd, channel, cq, pairs, mr, memory };
            program.connect(0, 1);
            program.connect(1, 0);
            program
        }
    }

    fn connect(&self, from: usize, to: usize) {
        const STEPS: [(c_int, c_int); 3] = [
            (1, 1 | 1 << 3 | 1 << 4 | 1 << 5),
            (2, 1 | 1 << 7 | 1 << 8 | 1 << 12 | 1 << 15 | 1 << 17 | 1 << 20),
            (3, 1 | 1 << 9 | 1 << 10 | 1 << 11 | 1 << 13 | 1 << 16),
        ];
        // SAFETY: as in `start`.
        unsafe {
            let mut attr =
                QpAttr { qp_access_flags: 0xE, max_rd_atomic: 1, max_dest_rd_atomic: 1, ..no_attributes() };
            (attr.dest_qp_num, attr.path_mtu) = ((*self.pairs[to]).qp_num, 3);
            attr.ah_attr = crate::address::NOWHERE;
            attr.ah_attr.grh.dgid = self.gid();
            (attr.ah_attr.is_global, attr.ah_attr.port_num) = (1, 1);
            for (state, mask) in STEPS {
                attr.qp_state = state;
                assert_eq!(
                    crate::qp::ibv_modify_qp(self.pairs[from], &raw const attr, mask),
                    0,
                    "to {state}"
                );
                assert_eq!((*self.pairs[from]).state, state);
            }
        }
    }

    fn gid(&self) -> abi::Gid {
        let mut gid = abi::Gid { bytes: [0; 16] };
        // SAFETY: the device is open.
        assert_eq!(unsafe { crate::query::ibv_query_gid(self.context, 1, 0, &raw mut gid) }, 0);
        gid
    }

    pub fn address(&self) -> u64 {
        self.memory.expose_provenance() as u64
    }

    pub fn key(&self) -> u32 {
        // SAFETY: the region lives.
        unsafe { (*self.mr).rkey }
    }

    /// The memory as it is now; nothing is under way.
    pub fn bytes(&self) -> [u8; LEN] {
        // SAFETY: it is never freed.
        unsafe { self.memory.cast::<[u8; LEN]>().read() }
    }

    /// A list of one element, for ever.
    fn sge(&self, offset: u64, length: u32) -> *mut Sge {
        Box::leak(Box::new(Sge { addr: self.address() + offset, length, lkey: self.key() }))
    }

    /// The first queue pair is to send, or to write to, the first `length` bytes.
    pub fn request(&self, opcode: u32, length: u32) -> SendWr {
        SendWr {
            wr_id: 2,
            sg_list: self.sge(0, length),
            num_sge: 1,
            opcode,
            send_flags: flag::SIGNALED,
            ..crate::qp_ex::BLANK
        }
    }

    pub fn send(&self, mut wr: SendWr) -> c_int {
        let mut bad = null_mut();
        self.post(&raw mut wr, &raw mut bad)
    }

    pub fn post(&self, wr: *mut SendWr, bad: *mut *mut SendWr) -> c_int {
        // SAFETY: the queue pair lives.
        unsafe { (*self.context).ops.post_send.map_or(-1, |post| post(self.pairs[0], wr, bad)) }
    }

    /// The second takes a message.
    pub fn receive(&self, wr_id: u64, offset: u64, length: u32) {
        let mut wr = RecvWr { wr_id, next: null_mut(), sg_list: self.sge(offset, length), num_sge: 1 };
        // SAFETY: the queue pair lives.
        unsafe {
            let post = (*self.context).ops.post_recv.expect("it is there");
            assert_eq!(post(self.pairs[1], &raw mut wr, null_mut()), 0);
        }
    }

    pub fn arm(&self) {
        // SAFETY: the queue lives.
        unsafe { assert_eq!((*self.context).ops.req_notify_cq.map(|arm| arm(self.cq, 0)), Some(0)) };
    }

    pub fn poll(&self) -> Option<Wc> {
        let (_, mut wc) = blank();
        // SAFETY: the queue lives.
        let found = unsafe { (*self.context).ops.poll_cq.map_or(-1, |poll| poll(self.cq, 1, &raw mut wc)) };
        assert!((0..=1).contains(&found), "{found}");
        (found == 1).then_some(wc)
    }

    pub fn completions(&self, count: usize) -> Vec<Wc> {
        let deadline = Instant::now() + PATIENCE;
        let mut found = Vec::new();
        while found.len() < count {
            assert!(Instant::now() < deadline, "{} of {count} completions", found.len());
            found.extend(self.poll());
        }
        found
    }

    /// Two WRITEs of inline data to one place by the extended calls, which are posted or aborted.
    pub fn extended_write(&self, bytes: &[u8], target: u64, complete: bool) {
        // SAFETY: the queue pair lives, and has the extended calls.
        unsafe {
            let pair = crate::qp::ibv_qp_to_qp_ex(self.pairs[0]);
            assert!(!pair.is_null());
            let calls = &*pair;
            calls.wr_start.expect("there")(pair);
            for flags in [0, flag::SIGNALED] {
                ((*pair).wr_id, (*pair).wr_flags) = (2, flags);
                calls.wr_rdma_write.expect("there")(pair, self.key(), target);
                let start = bytes.as_ptr().cast::<c_void>().cast_mut();
                calls.wr_set_inline_data.expect("there")(pair, start, bytes.len());
            }
            if complete {
                assert_eq!(calls.wr_complete.expect("there")(pair), 0);
            } else {
                calls.wr_abort.expect("there")(pair);
            }
        }
    }

    /// Destroys all in the right order.
    pub fn end(self) {
        // SAFETY: nothing is used behind its end.
        unsafe {
            for pair in self.pairs {
                assert_eq!(crate::qp::ibv_destroy_qp(pair), 0);
            }
            assert_eq!(crate::cq::ibv_destroy_cq(self.cq), 0);
            assert_eq!(crate::channel::ibv_destroy_comp_channel(self.channel), 0);
            assert_eq!(crate::memory::ibv_dereg_mr(self.mr), 0);
            assert_eq!(crate::memory::ibv_dealloc_pd(self.pd), 0);
            assert_eq!(crate::context::ibv_close_device(self.context), 0);
        }
    }
}

/// # Safety
/// All of them are alive.
unsafe fn create_pair(context: *mut abi::Context, pd: *mut abi::Pd, cq: *mut abi::Cq) -> *mut abi::Qp {
    let (init, _) = blank();
    let mut init = QpInitAttrEx {
        qp_context: null_mut(),
        send_cq: cq,
        recv_cq: cq,
        srq: null_mut(),
        cap: init.cap,
        qp_type: init.qp_type,
        sq_sig_all: 0,
        comp_mask: abi::init::PD | abi::init::SEND_OPS_FLAGS,
        pd,
        xrcd: null_mut(),
        create_flags: 0,
        max_tso_header: 0,
        rwq_ind_tbl: null_mut(),
        rx_hash_conf: [0; 3],
        source_qpn: 0,
        send_ops_flags: abi::SEND_OPS,
    };
    // SAFETY: the caller's promise.
    let pair = unsafe { crate::qp::create_qp_ex(context, &raw mut init) };
    assert!(!pair.is_null(), "errno {}", errno());
    pair
}
