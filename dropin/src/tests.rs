//! The calls as C makes them: through the symbols, and through the tables of an open device.

mod null;
mod program;

use crate::abi::{self, QpAttr, QpInitAttr, SendWr, Wc, flag, opcode};
use crate::config::parse;
use crate::device::{Device, register};
use crate::ece::{ibv_query_ece, ibv_set_ece};
use crate::object::Object as _;
use crate::qp::ibv_modify_qp;
use core::ffi::{c_int, c_void};
use core::ptr::null_mut;
use program::Program;

/// The thread's `errno`.
fn errno() -> c_int {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

#[test]
fn what_is_sent_arrives_and_says_whose_it_is() {
    let program = Program::start("send");
    program.receive(7, 16, 64);
    assert_eq!(
        program.send(SendWr {
            wr_id: 8,
            imm_data: 0x1234_u32.to_be(),
            ..program.request(opcode::SEND_WITH_IMM, 5)
        }),
        0
    );
    let done = program.completions(2);
    let sent = done.iter().find(|wc| wc.wr_id == 8).expect("the send");
    let received = done.iter().find(|wc| wc.wr_id == 7).expect("the receive");
    assert_eq!((sent.status, sent.opcode), (0, 0));
    assert_eq!((received.status, received.opcode, received.byte_len), (0, 128, 5));
    // Big endian, and said to be there.
    assert_eq!((received.imm_data, received.wc_flags), (0x1234_u32.to_be(), 2));
    assert_eq!(program.bytes()[16..21], *b"hello");
    program.end();
}

#[test]
fn queue_pairs_of_a_plain_device_are_connected_and_offer_no_dialect() {
    let program = Program::start("plain; dialect=plain");
    program.receive(7, 16, 64);
    assert_eq!(program.send(program.request(opcode::SEND, 5)), 0);
    assert!(program.completions(2).iter().all(|wc| wc.status == 0));
    let mut ece = abi::Ece { vendor_id: 0, options: 0, comp_mask: 0 };
    // SAFETY: the queue pair is there.
    assert_eq!(unsafe { ibv_query_ece(program.pairs[0], &raw mut ece) }, libc::EOPNOTSUPP);
    program.end();
}

#[test]
fn the_dialect_is_told_and_set_as_options_of_a_vendor() {
    let program = Program::start("ece");
    let mut ece = abi::Ece { vendor_id: 0, options: 0, comp_mask: 0 };
    // SAFETY: the queue pairs are there.
    unsafe {
        assert_eq!(ibv_query_ece(program.pairs[0], &raw mut ece), 0);
        assert!(ece.vendor_id == 0x0053_524E && ece.options >> 28 == 1, "{:#x}", ece.options);
        assert_eq!(ibv_set_ece(program.pairs[0], &raw mut ece), libc::EINVAL, "it is connected");
        assert_eq!(ibv_modify_qp(program.pairs[0], &QpAttr { qp_state: 0, ..no_attributes() }, 1), 0);
        // The peer has a smaller window: both have that.
        ece.options = ece.options & !(0xF << 16) | 3 << 16;
        let asked = ece.options;
        assert_eq!((ibv_set_ece(program.pairs[0], &raw mut ece), ece.options), (0, asked));
        assert_eq!((ibv_query_ece(program.pairs[0], &raw mut ece), ece.options), (0, asked));
        // The peer is no program of verbs. This one cannot name 1,408 bytes a packet, and both have
        // 1,024.
        for (theirs, both) in [(3 | 8, 3), (5 | 8, 5)] {
            ece.options = asked & !15 | theirs;
            assert_eq!((ibv_set_ece(program.pairs[0], &raw mut ece), ece.options & 15), (0, both));
        }
        // It takes nothing: plain.
        ece.options = 0;
        assert_eq!((ibv_set_ece(program.pairs[0], &raw mut ece), ece.options), (0, 0));
        assert_eq!((ibv_query_ece(program.pairs[0], &raw mut ece), ece.options), (0, 0));
        for vendor_id in [0, 0x2C9] {
            let mut other = abi::Ece { vendor_id, ..ece };
            assert_eq!(ibv_set_ece(program.pairs[0], &raw mut other), libc::EOPNOTSUPP);
        }
    }
    program.end();
}

#[test]
fn strict_order_is_among_the_options_that_a_device_offers() {
    const STRICT: u32 = 1 << 24;
    for (name, is_strict) in [("free", false), ("strict; order=strict", true)] {
        let program = Program::start(name);
        let mut ece = abi::Ece { vendor_id: 0, options: 0, comp_mask: 0 };
        // SAFETY: the queue pair is there.
        assert_eq!(unsafe { ibv_query_ece(program.pairs[0], &raw mut ece) }, 0);
        assert_eq!(ece.options & STRICT != 0, is_strict, "{:#x}", ece.options);
        program.receive(7, 16, 64);
        assert_eq!(program.send(program.request(opcode::SEND, 5)), 0);
        assert!(program.completions(2).iter().all(|wc| wc.status == 0));
        program.end();
    }
}

#[test]
fn a_write_inline_and_a_fetch_and_add_reach_memory() {
    let program = Program::start("write");
    let target = program.address() + 1024;
    let inline = program.request(opcode::WRITE, 5);
    let rdma = abi::WrTarget { rdma: abi::Rdma { remote_addr: target, rkey: program.key() } };
    assert_eq!(program.send(SendWr { send_flags: flag::SIGNALED | flag::INLINE, wr: rdma, ..inline }), 0);
    assert_eq!(program.completions(1)[0].status, 0);
    assert_eq!(program.bytes()[1024..1029], *b"hello");
    let atomic =
        abi::Atomic { remote_addr: program.address() + 2048, compare_add: 40, swap: 0, rkey: program.key() };
    for _ in 0..2 {
        let add = SendWr { wr: abi::WrTarget { atomic }, ..program.request(opcode::FETCH_AND_ADD, 8) };
        assert_eq!(program.send(add), 0);
        assert_eq!(program.completions(1)[0].status, 0);
    }
    assert_eq!(program.bytes()[2048], 80);
    // What was there before the second.
    assert_eq!(program.bytes()[0], 40);
    program.end();
}

#[test]
fn a_queue_pair_that_is_reset_leaves_no_completions() {
    let program = Program::start("reset");
    // The first one's completion waits in the queue behind the one that is looked at.
    for (wr_id, offset) in [(7, 16), (9, 32)] {
        program.receive(wr_id, offset, 16);
        assert_eq!(program.send(SendWr { wr_id: wr_id + 1, ..program.request(opcode::SEND, 5) }), 0);
    }
    let mut received = program.completions(1);
    while program.bytes()[32..37] != *b"hello" {
        std::thread::yield_now();
    }
    let reset = QpAttr { qp_state: 0, ..no_attributes() };
    // SAFETY: the queue pair is there.
    assert_eq!(unsafe { ibv_modify_qp(program.pairs[0], &raw const reset, 1) }, 0);
    let left = if received[0].wr_id == 8 { 2 } else { 1 };
    received.extend(program.completions(left));
    received.retain(|wc| wc.wr_id != 8);
    let numbers: Vec<_> = received.iter().map(|wc| (wc.wr_id, wc.status)).collect();
    assert_eq!(numbers, [(7, 0), (9, 0)], "the peer's");
    assert!(program.poll().is_none(), "and no other");
    program.end();
}

#[test]
fn a_list_is_posted_up_to_the_first_that_is_refused() {
    let program = Program::start("list");
    program.receive(1, 512, 64);
    let mut bad = SendWr { opcode: 99, ..program.request(opcode::SEND, 5) };
    let mut good = SendWr { wr_id: 3, next: &raw mut bad, ..program.request(opcode::SEND, 5) };
    let mut refused = null_mut();
    assert_eq!(program.post(&raw mut good, &raw mut refused), libc::EOPNOTSUPP);
    assert!(core::ptr::eq(refused, &raw const bad));
    assert_eq!(program.completions(2).iter().filter(|wc| wc.wr_id == 3).count(), 1);
    program.end();
}

#[test]
fn the_extended_calls_make_requests_field_by_field() {
    let program = Program::start("extended");
    let target = program.address() + 1024;
    program.extended_write(b"good day", target, true);
    assert_eq!(program.completions(1)[0].status, 0);
    assert_eq!(program.bytes()[1024..1032], *b"good day");
    // What is aborted is never sent.
    program.extended_write(b"bad day!", target, false);
    assert!(program.poll().is_none());
    assert_eq!(program.bytes()[1024..1032], *b"good day");
    program.end();
}

#[test]
fn a_queue_of_one_entry_has_room_for_more_as_those_of_nics_have() {
    let program = Program::start("small");
    // SAFETY: the device is open.
    unsafe {
        let queue = crate::cq::ibv_create_cq(program.context, 1, null_mut(), null_mut(), 0);
        assert!((*queue).cqe >= 64);
        assert_eq!(crate::cq::ibv_destroy_cq(queue), 0);
        assert!(crate::cq::ibv_create_cq(program.context, 0, null_mut(), null_mut(), 0).is_null());
        assert_eq!(errno(), libc::EINVAL);
    }
    program.end();
}

#[test]
fn what_others_use_is_busy() {
    let program = Program::start("busy");
    // SAFETY: all of them are alive.
    unsafe {
        assert_eq!(crate::memory::ibv_dealloc_pd(program.pd), libc::EBUSY);
        assert_eq!(crate::cq::ibv_destroy_cq(program.cq), libc::EBUSY);
        assert_eq!(crate::channel::ibv_destroy_comp_channel(program.channel), libc::EBUSY);
    }
    program.end();
}

#[test]
fn a_failure_is_an_event_of_its_queue_pair() {
    let program = Program::start("event");
    let nowhere = abi::WrTarget { rdma: abi::Rdma { remote_addr: program.address(), rkey: !program.key() } };
    assert_eq!(program.send(SendWr { wr: nowhere, ..program.request(opcode::WRITE, 5) }), 0);
    assert_eq!(program.completions(1)[0].status, 10);
    let mut event = abi::AsyncEvent { element: null_mut(), event_type: 0 };
    // SAFETY: the device is open, and the event is of a queue pair that lives.
    unsafe {
        assert_eq!(crate::events::ibv_get_async_event(program.context, &raw mut event), 0);
        crate::events::ibv_ack_async_event(&raw const event);
    }
    let pairs: [*mut c_void; 2] = program.pairs.map(|pair| pair.cast());
    assert!(pairs.contains(&event.element));
    assert_eq!(event.event_type, abi::event::QP_ACCESS_ERR);
    program.end();
}

#[test]
fn a_completion_is_an_event_of_its_channel() {
    let program = Program::start("channel");
    program.receive(1, 512, 64);
    program.arm();
    assert_eq!(program.send(program.request(opcode::SEND, 5)), 0);
    let (mut queue, mut context) = (null_mut(), null_mut());
    // SAFETY: the channel lives.
    let got = unsafe { crate::channel::ibv_get_cq_event(program.channel, &raw mut queue, &raw mut context) };
    assert_eq!((got, queue), (0, program.cq));
    // SAFETY: the queue lives.
    unsafe { crate::cq::ibv_ack_cq_events(queue, 1) };
    assert_eq!(program.completions(2).len(), 2);
    program.end();
}

#[test]
fn a_device_that_is_opened_twice_has_one_engine() {
    let device = register("sim:dropin-twice");
    // SAFETY: what is named was made.
    unsafe {
        let one = crate::context::ibv_open_device(device.address());
        let two = crate::context::ibv_open_device(device.address());
        assert!(!one.is_null() && !two.is_null() && one != two);
        let gid = |context| {
            let mut gid = abi::Gid { bytes: [0; 16] };
            assert_eq!(crate::query::ibv_query_gid(context, 1, 0, &raw mut gid), 0);
            gid.bytes
        };
        // A second engine would have the next address of the segment.
        assert_eq!(gid(one), gid(two));
        let mut second = abi::Gid { bytes: [0; 16] };
        assert_eq!(crate::query::ibv_query_gid(one, 1, 1, &raw mut second), -1);
        assert_eq!((crate::context::ibv_close_device(one), crate::context::ibv_close_device(two)), (0, 0));
    }
}

#[test]
fn a_table_of_gids_that_does_not_fit_is_an_error() {
    let program = Program::start("gids");
    let mut entry = core::mem::MaybeUninit::<abi::GidEntry>::uninit();
    let size = size_of::<abi::GidEntry>();
    // SAFETY: the device is open, and there is room for one entry.
    let asked = |max| unsafe {
        crate::query::_ibv_query_gid_table(program.context, entry.as_mut_ptr(), max, 0, size)
    };
    assert_eq!([0, 1, 7].map(asked), [-(libc::EINVAL as isize), 1, 1]);
    program.end();
}

#[test]
fn a_query_writes_no_more_than_the_program_has_room_for() {
    let program = Program::start("short");
    let size = core::mem::offset_of!(abi::DeviceAttrEx, comp_mask);
    let mut attr = core::mem::MaybeUninit::<abi::DeviceAttrEx>::uninit();
    // SAFETY: there is room for the whole structure, of which only a part is lent.
    unsafe {
        attr.as_mut_ptr().cast::<u8>().write_bytes(0xAA, size_of::<abi::DeviceAttrEx>());
        assert_eq!(crate::query::query_device_ex(program.context, null_mut(), attr.as_mut_ptr(), size), 0);
        let bytes = core::slice::from_raw_parts(attr.as_ptr().cast::<u8>(), size_of::<abi::DeviceAttrEx>());
        assert!(
            bytes[size..].iter().all(|byte| *byte == 0xAA) && bytes[..size].iter().any(|byte| *byte != 0xAA)
        );
    }
    program.end();
}

/// `ibv_port_attr` has `active_speed_ex` at its end since rdma-core 49.
#[test]
fn what_a_later_version_has_beyond_ours_is_zero() {
    const KNOWN: usize = size_of::<abi::PortAttr>();
    let program = Program::start("later");
    let mut attr = [0xAA_u8; KNOWN + 8];
    // SAFETY: there is room for more than is asked for.
    unsafe {
        let to = attr.as_mut_ptr().cast();
        assert_eq!(crate::query::query_port(program.context, 1, to, usize::MAX), libc::EINVAL);
        assert_eq!(crate::query::query_port(program.context, 1, to, KNOWN + 4), 0);
    }
    assert_eq!(attr[KNOWN..], [0, 0, 0, 0, 0xAA, 0xAA, 0xAA, 0xAA]);
    program.end();
}

#[test]
fn a_panic_ends_as_an_errno_and_is_told() {
    use core::sync::atomic::{AtomicU32, Ordering};
    static TOLD: AtomicU32 = AtomicU32::new(0);
    fn panics() -> crate::errno::Result<()> {
        panic!("meant to be seen in this test's output")
    }
    fn tell() {
        TOLD.fetch_add(1, Ordering::Relaxed);
        panic!("this one, too")
    }
    assert_eq!(crate::export::caught_and_told(|| Ok(7), tell), Ok(7));
    assert_eq!(TOLD.load(Ordering::Relaxed), 0);
    assert_eq!(crate::export::code(crate::export::caught_and_told(panics, tell)), libc::EIO);
    assert_eq!(TOLD.load(Ordering::Relaxed), 1);
}

#[test]
fn what_was_destroyed_is_no_argument() {
    let device = register("sim:dropin-dead");
    // SAFETY: what is named was made, and is kept a while after its end.
    unsafe {
        let context = crate::context::ibv_open_device(device.address());
        let pd = crate::memory::ibv_alloc_pd(context);
        assert_eq!(crate::memory::ibv_dealloc_pd(pd), 0);
        assert_eq!(crate::memory::ibv_dealloc_pd(pd), libc::EINVAL, "once more");
        assert_eq!(crate::memory::ibv_dealloc_pd(pd.wrapping_byte_add(3)), libc::EINVAL, "not aligned");
        assert!(crate::memory::ibv_reg_mr(pd, null_mut(), 0, 0).is_null());
        assert_eq!(crate::context::ibv_close_device(context), 0);
        assert!(crate::memory::ibv_alloc_pd(context).is_null());
        assert_eq!(errno(), libc::EINVAL);
        assert_eq!(crate::context::ibv_close_device(context), libc::EINVAL);
    }
}

#[test]
fn what_nobody_made_is_no_argument() {
    let program = Program::start("never");
    // A device that is not listed, memory that is none, and what stands in for an address.
    let unlisted = Device::new(parse("srnic0", "sim:dropin-unlisted").expect("a device"), 0);
    let mut memory = [0_u64; 64];
    let lowest = [1, 7, 8, 64, 4095].map(core::ptr::without_provenance_mut::<c_void>);
    let none = [unlisted.address().cast(), memory.as_mut_ptr().cast()];
    for wrong in none.into_iter().chain(lowest) {
        // SAFETY: no device is followed that is not listed.
        let refused = unsafe {
            crate::device::ibv_get_device_name(wrong.cast()).is_null()
                && crate::context::ibv_open_device(wrong.cast()).is_null()
                && errno() == libc::EINVAL
        };
        assert!(refused, "{wrong:?}");
    }
    for wrong in lowest {
        // SAFETY: nothing is so low.
        unsafe {
            assert_eq!(crate::memory::ibv_dealloc_pd(wrong.cast()), libc::EINVAL, "{wrong:?}");
            assert_eq!(crate::context::ibv_close_device(wrong.cast()), libc::EINVAL, "{wrong:?}");
            assert!(crate::memory::ibv_alloc_pd(wrong.cast()).is_null(), "{wrong:?}");
            assert_eq!(errno(), libc::EINVAL);
            let channel = wrong.cast();
            assert!(crate::cq::ibv_create_cq(program.context, 8, null_mut(), channel, 0).is_null());
            assert_eq!(errno(), libc::EINVAL);
        }
    }
    program.end();
}

/// What connections without a connection manager have: nobody tells the peer.
#[test]
fn strict_order_needs_no_connection_manager() {
    use verbs_api::WriteOrder;
    for (name, order) in [
        ("order-free", WriteOrder::empty()),
        ("order-strict; order=strict", WriteOrder::STRICT_PLACEMENT),
        ("order-plain; order=strict; dialect=plain", WriteOrder::empty()),
    ] {
        let program = Program::start(name);
        for pair in program.pairs {
            // SAFETY: the queue pair is there.
            let qp = unsafe { <&crate::qp::Qp as crate::argument::Argument>::from_c(pair) };
            assert_eq!(qp.expect("it is alive").pair().query().write_order, order, "{name}");
        }
        program.end();
    }
}

#[test]
fn a_device_that_is_not_to_be_trusted_has_a_fatal_event() {
    let program = Program::start("fatal");
    let mut event = abi::AsyncEvent { element: null_mut(), event_type: 0 };
    // SAFETY: the device is open.
    unsafe {
        let context = <&crate::context::Context as crate::argument::Argument>::from_c(program.context);
        context.expect("it is open").state().engine.listeners.tell_fatal();
        assert_eq!(crate::events::ibv_get_async_event(program.context, &raw mut event), 0);
        crate::events::ibv_ack_async_event(&raw const event);
    }
    assert_eq!(event.event_type, abi::event::DEVICE_FATAL);
    program.end();
}

/// What is left of the structures that only the program's part fills.
fn blank() -> (QpInitAttr, Wc) {
    let cap = abi::QpCap {
        max_send_wr: 16,
        max_recv_wr: 16,
        max_send_sge: 1,
        max_recv_sge: 1,
        max_inline_data: 64,
    };
    let init = QpInitAttr {
        qp_context: null_mut(),
        send_cq: null_mut(),
        recv_cq: null_mut(),
        srq: null_mut(),
        cap,
        qp_type: abi::QPT_RC,
        sq_sig_all: 0,
    };
    (init, Wc::default())
}

/// Attributes of a queue pair before anything is said of it.
fn no_attributes() -> QpAttr {
    crate::qp_attr::to_c(&verbs_api::QpAttr::default(), &verbs_api::QueueCaps::default())
}
