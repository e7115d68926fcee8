//! What rdma-core's libraries and drivers share among themselves (`IBVERBS_PRIVATE_34`). The loader
//! wants every name of them; there are no drivers here.

use core::ffi::{c_int, c_void};
use core::ptr::null_mut;

/// Whether objects may be destroyed whose device is gone. Drivers read it.
#[unsafe(export_name = "verbs_allow_disassociate_destroy")]
pub static ALLOW_DISASSOCIATE_DESTROY: bool = false;

/// Functions that do nothing, whatever they are given, and what each returns.
macro_rules! idle {
    ($returned:expr => $type:ty: $($name:ident)+) => {
        $(#[unsafe(no_mangle)]
        pub extern "C" fn $name() -> $type {
            $returned
        })+
    };
}

// What libmlx5 and the like call when they are loaded.
idle!(() => (): verbs_register_driver_34 verbs_set_ops verbs_uninit_context __verbs_log);
idle!(null_mut() => *mut c_void: _verbs_init_and_alloc_context verbs_open_device ibv_wr_opcode_str);
idle!(0 => c_int: __ioctl_final_num_attrs);
idle! {
    libc::EOPNOTSUPP => c_int:
    execute_ioctl ibv_cmd_advise_mr ibv_cmd_alloc_dm ibv_cmd_alloc_mw ibv_cmd_alloc_pd
    ibv_cmd_attach_mcast ibv_cmd_close_xrcd ibv_cmd_create_ah ibv_cmd_create_counters
    ibv_cmd_create_cq ibv_cmd_create_cq_ex ibv_cmd_create_cq_ex2 ibv_cmd_create_flow
    ibv_cmd_create_flow_action_esp
    ibv_cmd_create_qp ibv_cmd_create_qp_ex2 ibv_cmd_create_qp_ex ibv_cmd_create_rwq_ind_table
    ibv_cmd_create_srq ibv_cmd_create_srq_ex ibv_cmd_create_wq ibv_cmd_dealloc_mw ibv_cmd_dealloc_pd
    ibv_cmd_dereg_mr ibv_cmd_destroy_ah ibv_cmd_destroy_counters ibv_cmd_destroy_cq
    ibv_cmd_destroy_flow ibv_cmd_destroy_flow_action ibv_cmd_destroy_qp
    ibv_cmd_destroy_rwq_ind_table ibv_cmd_destroy_srq ibv_cmd_destroy_wq ibv_cmd_detach_mcast
    ibv_cmd_free_dm ibv_cmd_get_context ibv_cmd_modify_cq ibv_cmd_modify_flow_action_esp
    ibv_cmd_modify_qp ibv_cmd_modify_qp_ex ibv_cmd_modify_srq ibv_cmd_modify_wq ibv_cmd_open_qp
    ibv_cmd_open_xrcd ibv_cmd_poll_cq ibv_cmd_post_recv ibv_cmd_post_send ibv_cmd_post_srq_recv
    ibv_cmd_query_context ibv_cmd_query_device_any ibv_cmd_query_mr ibv_cmd_query_port
    ibv_cmd_query_qp ibv_cmd_query_srq ibv_cmd_read_counters ibv_cmd_reg_dm_mr ibv_cmd_reg_dmabuf_mr
    ibv_cmd_reg_mr ibv_cmd_req_notify_cq ibv_cmd_rereg_mr ibv_cmd_resize_cq verbs_init_cq
}
