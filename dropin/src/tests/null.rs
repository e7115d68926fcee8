//! NULL instead of every object: an error, and no crash.

use super::errno;
use crate::{absent, address, channel, context, cq, device, ece, events, memory, qp, query, srq};
use core::ptr::{null, null_mut};

/// Calls that return an errno.
macro_rules! refused {
    ($($call:expr),+ $(,)?) => {
        $(
            // SAFETY: NULL is refused before anything is looked at.
            let code = unsafe { $call };
            assert_eq!(code, libc::EINVAL, stringify!($call));
        )+
    };
}

/// Calls that return NULL.
macro_rules! nothing {
    ($($call:expr),+ $(,)?) => {
        $(
            // SAFETY: as above.
            let made = unsafe { $call };
            assert!(made.is_null() && errno() == libc::EINVAL, stringify!($call));
        )+
    };
}

/// Calls that return -1.
macro_rules! minus_one {
    ($($call:expr),+ $(,)?) => {
        $(
            // SAFETY: as above.
            let code = unsafe { $call };
            assert!(code == -1 && errno() == libc::EINVAL, stringify!($call));
        )+
    };
}

#[test]
fn calls_that_return_an_errno_refuse_null() {
    refused!(
        context::ibv_close_device(null_mut()),
        query::ibv_query_device(null_mut(), null_mut()),
        query::ibv_query_port(null_mut(), 1, null_mut()),
        query::_ibv_query_gid_ex(null_mut(), 1, 0, null_mut(), 0, 40),
        query::query_port(null_mut(), 1, null_mut(), 52),
        query::query_device_ex(null_mut(), null(), null_mut(), 400),
        memory::ibv_dealloc_pd(null_mut()),
        memory::ibv_dereg_mr(null_mut()),
        channel::ibv_destroy_comp_channel(null_mut()),
        cq::ibv_resize_cq(null_mut(), 1),
        cq::ibv_destroy_cq(null_mut()),
        cq::req_notify_cq(null_mut(), 0),
        srq::ibv_modify_srq(null_mut(), null(), 0),
        srq::ibv_query_srq(null_mut(), null_mut()),
        srq::ibv_destroy_srq(null_mut()),
        srq::post_srq_recv(null_mut(), null_mut(), null_mut()),
        srq::get_srq_num(null_mut(), null_mut()),
        qp::ibv_modify_qp(null_mut(), null(), 0),
        qp::ibv_attach_mcast(null_mut(), null(), 0),
        qp::ibv_detach_mcast(null_mut(), null(), 0),
        qp::ibv_query_qp(null_mut(), null_mut(), 0, null_mut()),
        qp::ibv_destroy_qp(null_mut()),
        address::ibv_destroy_ah(null_mut()),
        crate::post::post_send(null_mut(), null_mut(), null_mut()),
        crate::post::post_recv(null_mut(), null_mut(), null_mut()),
        crate::window::bind_mw(null_mut(), null_mut(), null()),
        crate::window::dealloc_mw(null_mut()),
        crate::qp_ex::wr_complete(null_mut()),
        crate::cq_ex::start_poll(null_mut(), null_mut()),
        crate::cq_ex::next_poll(null_mut()),
    );
    // SAFETY: as above.
    assert_eq!(unsafe { cq::poll_cq(null_mut(), 1, null_mut()) }, -libc::EINVAL);
}

#[test]
fn calls_that_make_something_return_null_for_null() {
    nothing!(
        context::ibv_open_device(null_mut()),
        memory::ibv_alloc_pd(null_mut()),
        memory::ibv_reg_mr(null_mut(), null_mut(), 1, 0),
        memory::ibv_reg_mr_iova(null_mut(), null_mut(), 1, 0, 0),
        memory::ibv_reg_mr_iova2(null_mut(), null_mut(), 1, 0, 0),
        channel::ibv_create_comp_channel(null_mut()),
        cq::ibv_create_cq(null_mut(), 1, null_mut(), null_mut(), 0),
        crate::cq_ex::create_cq_ex(null_mut(), null()),
        srq::ibv_create_srq(null_mut(), null_mut()),
        qp::ibv_create_qp(null_mut(), null_mut()),
        qp::create_qp_ex(null_mut(), null_mut()),
        qp::ibv_qp_to_qp_ex(null_mut()),
        address::ibv_create_ah(null_mut(), null()),
        address::ibv_create_ah_from_wc(null_mut(), null(), null(), 1),
        crate::window::alloc_mw(null_mut(), 1),
    );
}

#[test]
fn calls_that_return_minus_one_refuse_null() {
    minus_one!(
        query::ibv_query_gid(null_mut(), 1, 0, null_mut()),
        query::ibv_query_pkey(null_mut(), 1, 0, null_mut()),
        query::ibv_get_pkey_index(null_mut(), 1, 0),
        query::ibv_query_gid_type(null_mut(), 1, 0, null_mut()),
        channel::ibv_get_cq_event(null_mut(), null_mut(), null_mut()),
        events::ibv_get_async_event(null_mut(), null_mut()),
        address::ibv_init_ah_from_wc(null_mut(), 1, null(), null(), null_mut()),
    );
}

#[test]
fn calls_that_cannot_fail_do_nothing_for_null() {
    // SAFETY: as above.
    unsafe {
        device::ibv_free_device_list(null_mut());
        cq::ibv_ack_cq_events(null_mut(), 1);
        events::ibv_ack_async_event(null());
        crate::qp_ex::wr_start(null_mut());
        crate::qp_ex::wr_abort(null_mut());
        crate::qp_ex::wr_send(null_mut());
        crate::cq_ex::end_poll(null_mut());
        absent::ibv_unimport_pd(null_mut());
        assert_eq!(crate::cq_ex::read_byte_len(null_mut()), 0);
        assert!(device::ibv_get_device_name(null_mut()).is_null());
        assert_eq!(device::ibv_get_device_guid(null_mut()), 0);
    }
}

#[test]
fn what_is_not_there_is_not_supported() {
    // SAFETY: as above.
    unsafe {
        assert_eq!(ece::ibv_set_ece(null_mut(), null_mut()), libc::EINVAL);
        assert!(memory::ibv_reg_dmabuf_mr(null_mut(), 0, 1, 0, -1, 0).is_null());
        assert_eq!(errno(), libc::EOPNOTSUPP);
    }
}
