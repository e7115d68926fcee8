//! Sizes and offsets of every structure, compared with what a C compiler makes of the installed
//! header.
//!
//! Without the header (Debian: libibverbs-dev) the test says so and passes, unless
//! `SRNIC_REQUIRE_TOOLS=1`.

use super::*;
use core::fmt::Write as _;
use core::mem::offset_of;
use std::process::Command;

/// A structure: its C name, its size, and its fields as C names them with their offsets.
struct Layout {
    c: &'static str,
    size: usize,
    fields: Vec<(&'static str, usize)>,
}

/// `rust_field = c.name` where the two differ.
macro_rules! layout {
    ($type:ty, $c:literal: $($field:tt),+ $(,)?) => {
        Layout { c: $c, size: size_of::<$type>(), fields: vec![$(field!($type, $field)),+] }
    };
}

macro_rules! field {
    ($type:ty, ($field:ident = $c:literal)) => {
        ($c, offset_of!($type, $field))
    };
    ($type:ty, $field:ident) => {
        (stringify!($field), offset_of!($type, $field))
    };
}

fn devices() -> Vec<Layout> {
    vec![
        layout!(Device, "struct ibv_device": (ops = "_ops"), node_type, transport_type, name, dev_name, dev_path, ibdev_path),
        layout!(DeviceAttr, "struct ibv_device_attr": fw_ver, node_guid, sys_image_guid, max_mr_size, page_size_cap,
            vendor_id, vendor_part_id, hw_ver, max_qp, max_qp_wr, device_cap_flags, max_sge, max_sge_rd, max_cq, max_cqe,
            max_mr, max_pd, max_qp_rd_atom, max_ee_rd_atom, max_res_rd_atom, max_qp_init_rd_atom, max_ee_init_rd_atom,
            atomic_cap, max_ee, max_rdd, max_mw, max_raw_ipv6_qp, max_raw_ethy_qp, max_mcast_grp, max_mcast_qp_attach,
            max_total_mcast_qp_attach, max_ah, max_fmr, max_map_per_fmr, max_srq, max_srq_wr, max_srq_sge, max_pkeys,
            local_ca_ack_delay, phys_port_cnt),
        layout!(DeviceAttrEx, "struct ibv_device_attr_ex": orig_attr, comp_mask, (odp_general_caps = "odp_caps.general_caps"),
            (odp_transport_caps = "odp_caps.per_transport_caps"), completion_timestamp_mask, hca_core_clock,
            device_cap_flags_ex, tso_caps, rss_caps, max_wq_type_rq, packet_pacing_caps, raw_packet_caps, tm_caps,
            cq_mod_caps, max_dm_size, pci_atomic_caps, xrc_odp_caps, phys_port_cnt_ex),
        layout!(QueryDeviceExInput, "struct ibv_query_device_ex_input": comp_mask),
        layout!(PortAttr, "struct ibv_port_attr": state, max_mtu, active_mtu, gid_tbl_len, port_cap_flags, max_msg_sz,
            bad_pkey_cntr, qkey_viol_cntr, pkey_tbl_len, lid, sm_lid, lmc, max_vl_num, sm_sl, subnet_timeout,
            init_type_reply, active_width, active_speed, phys_state, link_layer, flags, port_cap_flags2),
        layout!(Gid, "union ibv_gid": (bytes = "raw")),
        layout!(GidEntry, "struct ibv_gid_entry": gid, gid_index, port_num, gid_type, ndev_ifindex),
        layout!(AsyncEvent, "struct ibv_async_event": element, event_type),
    ]
}

fn contexts() -> Vec<Layout> {
    vec![
        layout!(ContextOps, "struct ibv_context_ops": (before_mw = "_compat_query_device"), alloc_mw, bind_mw, dealloc_mw,
            (create_cq = "_compat_create_cq"), poll_cq, req_notify_cq, (before_srq = "_compat_cq_event"), post_srq_recv,
            (before_post = "_compat_create_qp"), post_send, post_recv, (behind_post = "_compat_create_ah")),
        layout!(Context, "struct ibv_context": device, ops, cmd_fd, async_fd, num_comp_vectors, mutex, abi_compat),
        layout!(VerbsContext, "struct verbs_context": query_port, (before_cq = "advise_mr"), create_cq_ex,
            (private = "priv"), query_device_ex, (flows = "ibv_destroy_flow"), open_qp, create_qp_ex, get_srq_num,
            create_srq_ex, (xrcd = "open_xrcd"), sz, context),
    ]
}

fn memory() -> Vec<Layout> {
    vec![
        layout!(Pd, "struct ibv_pd": context, handle),
        layout!(Mr, "struct ibv_mr": context, pd, addr, length, handle, lkey, rkey),
        layout!(Mw, "struct ibv_mw": context, pd, rkey, handle, (kind = "type")),
        layout!(MwBindInfo, "struct ibv_mw_bind_info": mr, addr, length, mw_access_flags),
        layout!(MwBind, "struct ibv_mw_bind": wr_id, send_flags, bind_info),
    ]
}

fn completions() -> Vec<Layout> {
    vec![
        layout!(CompChannel, "struct ibv_comp_channel": context, fd, refcnt),
        layout!(Cq, "struct ibv_cq": context, channel, cq_context, handle, cqe, mutex, cond, comp_events_completed,
            async_events_completed),
        layout!(CqEx, "struct ibv_cq_ex": (base = "context"), comp_mask, status, wr_id, start_poll, next_poll, end_poll,
            read_opcode, read_vendor_err, read_byte_len, read_imm_data, read_qp_num, read_src_qp, read_wc_flags,
            read_slid, read_sl, read_dlid_path_bits, read_completion_ts, read_cvlan, read_flow_tag, read_tm_info,
            read_completion_wallclock_ns),
        layout!(CqInitAttrEx, "struct ibv_cq_init_attr_ex": cqe, cq_context, channel, comp_vector, wc_flags, comp_mask,
            flags, parent_domain),
        layout!(Wc, "struct ibv_wc": wr_id, status, opcode, vendor_err, byte_len, imm_data, qp_num, src_qp, wc_flags,
            pkey_index, slid, sl, dlid_path_bits),
    ]
}

fn queue_pairs() -> Vec<Layout> {
    vec![
        layout!(Srq, "struct ibv_srq": context, srq_context, pd, handle, mutex, cond, events_completed),
        layout!(SrqAttr, "struct ibv_srq_attr": max_wr, max_sge, srq_limit),
        layout!(SrqInitAttr, "struct ibv_srq_init_attr": srq_context, attr),
        layout!(GlobalRoute, "struct ibv_global_route": dgid, flow_label, sgid_index, hop_limit, traffic_class),
        layout!(AhAttr, "struct ibv_ah_attr": grh, dlid, sl, src_path_bits, static_rate, is_global, port_num),
        layout!(Ah, "struct ibv_ah": context, pd, handle),
        layout!(Grh, "struct ibv_grh": (bytes = "version_tclass_flow")),
        layout!(Ece, "struct ibv_ece": vendor_id, options, comp_mask),
        layout!(QpCap, "struct ibv_qp_cap": max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline_data),
        layout!(QpInitAttr, "struct ibv_qp_init_attr": qp_context, send_cq, recv_cq, srq, cap, qp_type, sq_sig_all),
        layout!(QpInitAttrEx, "struct ibv_qp_init_attr_ex": qp_context, send_cq, recv_cq, srq, cap, qp_type, sq_sig_all, comp_mask, pd, xrcd, create_flags,
            max_tso_header, rwq_ind_tbl, rx_hash_conf, source_qpn, send_ops_flags),
        layout!(QpAttr, "struct ibv_qp_attr": qp_state, cur_qp_state, path_mtu, path_mig_state, qkey, rq_psn, sq_psn,
            dest_qp_num, qp_access_flags, cap, ah_attr, alt_ah_attr, pkey_index, alt_pkey_index, en_sqd_async_notify,
            sq_draining, max_rd_atomic, max_dest_rd_atomic, min_rnr_timer, port_num, timeout, retry_cnt, rnr_retry,
            alt_port_num, alt_timeout, rate_limit),
        layout!(Qp, "struct ibv_qp": context, qp_context, pd, send_cq, recv_cq, srq, handle, qp_num, state, qp_type, mutex,
            cond, events_completed),
        layout!(QpEx, "struct ibv_qp_ex": (base = "qp_base"), comp_mask, wr_id, wr_flags, wr_atomic_cmp_swp,
            wr_atomic_fetch_add, wr_bind_mw, wr_local_inv, wr_rdma_read, wr_rdma_write, wr_rdma_write_imm, wr_send,
            wr_send_imm, wr_send_inv, wr_send_tso, wr_set_ud_addr, wr_set_xrc_srqn, wr_set_inline_data,
            wr_set_inline_data_list, wr_set_sge, wr_set_sge_list, wr_start, wr_complete, wr_abort, wr_atomic_write),
    ]
}

fn requests() -> Vec<Layout> {
    vec![
        layout!(Sge, "struct ibv_sge": addr, length, lkey),
        layout!(DataBuf, "struct ibv_data_buf": addr, length),
        layout!(SendWr, "struct ibv_send_wr": wr_id, next, sg_list, num_sge, opcode, send_flags, imm_data, wr,
            (remote_srqn = "qp_type.xrc.remote_srqn"), bind_mw),
        layout!(RecvWr, "struct ibv_recv_wr": wr_id, next, sg_list, num_sge),
    ]
}

/// What librdmacm and the kernel's connection manager tell each other.
fn connection_manager() -> Vec<Layout> {
    vec![
        layout!(SaPathRec, "struct ibv_sa_path_rec": dgid, sgid, dlid, slid, raw_traffic, flow_label, hop_limit, traffic_class,
            reversible, numb_path, pkey, sl, mtu_selector, mtu, rate_selector, rate, packet_life_time_selector,
            packet_life_time, preference),
        layout!(ucm::CmdHdr, "struct rdma_ucm_cmd_hdr": cmd, (len_in = "in"), (len_out = "out")),
        layout!(ucm::CreateId, "struct rdma_ucm_create_id": uid, response, ps, qp_type),
        layout!(ucm::DestroyId, "struct rdma_ucm_destroy_id": response, id),
        layout!(ucm::BindIp, "struct rdma_ucm_bind_ip": response, addr, id),
        layout!(ucm::Bind, "struct rdma_ucm_bind": id, addr_size, addr),
        layout!(ucm::ResolveIp, "struct rdma_ucm_resolve_ip": src_addr, dst_addr, id, timeout_ms),
        layout!(ucm::ResolveAddr, "struct rdma_ucm_resolve_addr": id, timeout_ms, src_size, dst_size, src_addr, dst_addr),
        layout!(ucm::ResolveRoute, "struct rdma_ucm_resolve_route": id, timeout_ms),
        layout!(ucm::Query, "struct rdma_ucm_query": response, id, option),
        layout!(ucm::PathRec, "struct ib_user_path_rec": dgid, sgid, dlid, slid, raw_traffic, flow_label, reversible, mtu, pkey,
            hop_limit, traffic_class, numb_path, sl, mtu_selector, rate_selector, rate, packet_life_time_selector,
            packet_life_time, preference),
        layout!(ucm::QueryRouteResp, "struct rdma_ucm_query_route_resp": node_guid, ib_route, src_addr, dst_addr, num_paths,
            port_num, ibdev_index),
        layout!(ucm::QueryAddrResp, "struct rdma_ucm_query_addr_resp": node_guid, port_num, pkey, src_size, dst_size, src_addr,
            dst_addr, ibdev_index),
        layout!(ucm::ConnParam, "struct rdma_ucm_conn_param": qp_num, qkey, private_data, private_data_len, srq,
            responder_resources, initiator_depth, flow_control, retry_count, rnr_retry_count, valid),
        layout!(ucm::Connect, "struct rdma_ucm_connect": conn_param, id, ece),
        layout!(ucm::Listen, "struct rdma_ucm_listen": id, backlog),
        layout!(ucm::Accept, "struct rdma_ucm_accept": uid, conn_param, id, ece),
        layout!(ucm::Reject, "struct rdma_ucm_reject": id, private_data_len, reason, private_data),
        layout!(ucm::Disconnect, "struct rdma_ucm_disconnect": id),
        layout!(ucm::InitQpAttr, "struct rdma_ucm_init_qp_attr": response, id, qp_state),
        layout!(ucm::Notify, "struct rdma_ucm_notify": id, event),
        layout!(ucm::GetEvent, "struct rdma_ucm_get_event": response),
        layout!(ucm::EventResp, "struct rdma_ucm_event_resp": uid, id, event, status, param, reserved, ece),
        layout!(ucm::SetOption, "struct rdma_ucm_set_option": optval, id, level, optname, optlen),
        layout!(ucm::MigrateId, "struct rdma_ucm_migrate_id": response, id, fd),
        layout!(ucm::AhAttr, "struct ib_uverbs_ah_attr": dlid, sl, src_path_bits, static_rate, is_global, port_num),
        layout!(ucm::QpAttr, "struct ib_uverbs_qp_attr": qp_attr_mask, qp_state, cur_qp_state, path_mtu, path_mig_state, qkey,
            rq_psn, sq_psn, dest_qp_num, qp_access_flags, ah_attr, alt_ah_attr, max_send_wr, max_inline_data,
            pkey_index, alt_pkey_index, en_sqd_async_notify, sq_draining, max_rd_atomic, max_dest_rd_atomic,
            min_rnr_timer, port_num, timeout, retry_cnt, rnr_retry, alt_port_num, alt_timeout),
    ]
}

fn layouts() -> Vec<Layout> {
    [devices(), contexts(), memory(), completions(), queue_pairs(), requests(), connection_manager()]
        .into_iter()
        .flatten()
        .collect()
}

/// What this side has, a line each.
fn ours() -> String {
    let mut text = String::new();
    for layout in layouts() {
        writeln!(text, "{} {}", layout.c, layout.size).expect("a string");
        for (name, offset) in layout.fields {
            writeln!(text, "{}.{name} {offset}", layout.c).expect("a string");
        }
    }
    // Fields of parts that have no name of their own in C.
    for (name, offset) in [
        ("wr.atomic.compare_add", offset_of!(Atomic, compare_add)),
        ("wr.atomic.swap", offset_of!(Atomic, swap)),
        ("wr.atomic.rkey", offset_of!(Atomic, rkey)),
        ("wr.rdma.rkey", offset_of!(Rdma, rkey)),
        ("wr.ud.remote_qpn", offset_of!(Ud, remote_qpn)),
        ("wr.ud.remote_qkey", offset_of!(Ud, remote_qkey)),
    ] {
        writeln!(text, "struct ibv_send_wr.{name} {}", offset_of!(SendWr, wr) + offset).expect("a string");
    }
    for (name, offset) in [("rkey", offset_of!(BindMw, rkey)), ("bind_info", offset_of!(BindMw, bind_info))] {
        let offset = offset_of!(SendWr, bind_mw) + offset;
        writeln!(text, "struct ibv_send_wr.bind_mw.{name} {offset}").expect("a string");
    }
    text
}

/// A C program that prints what the header has, line for line.
fn program(ours: &str) -> String {
    let mut text =
        "#include <infiniband/verbs.h>\n#include <infiniband/sa.h>\n#include <rdma/rdma_user_cm.h>\n#include <stddef.h>\n#include <stdio.h>\nint main(void) {\n"
            .to_owned();
    for name in ours.lines().filter_map(|line| line.rsplit_once(' ')).map(|(name, _)| name) {
        let value = match name.split_once('.') {
            Some((of, field)) => format!("offsetof({of}, {field})"),
            None => format!("sizeof({name})"),
        };
        writeln!(text, "printf(\"{name} %zu\\n\", {value});").expect("a string");
    }
    text + "return 0; }\n"
}

#[test]
fn every_structure_is_as_the_installed_header_has_it() {
    let ours = ours();
    let place = std::env::temp_dir().join(format!("srnic-abi-{}", std::process::id()));
    std::fs::create_dir_all(&place).expect("a directory");
    let (source, binary) = (place.join("abi.c"), place.join("abi"));
    std::fs::write(&source, program(&ours)).expect("a file");
    let compiled = Command::new("cc").arg(&source).arg("-o").arg(&binary).output().expect("a C compiler");
    let said = String::from_utf8_lossy(&compiled.stderr).into_owned();
    let missing = said.contains("infiniband/verbs.h: No such file");
    let theirs = compiled.status.success().then(|| Command::new(&binary).output().expect("it runs").stdout);
    std::fs::remove_dir_all(&place).expect("it was made");
    if missing && std::env::var_os("SRNIC_REQUIRE_TOOLS").is_none() {
        return eprintln!("skipped: there is no infiniband/verbs.h; install Debian's libibverbs-dev");
    }
    let theirs = String::from_utf8(theirs.unwrap_or_else(|| panic!("{said}"))).expect("text");
    for (ours, theirs) in ours.lines().zip(theirs.lines()) {
        // Later headers have a field more at the end of these. Callers say how long theirs is.
        let bytes = |line: &str, name: &str| line.strip_prefix(name)?.parse::<usize>().ok();
        let both = |name: &str| bytes(ours, name).zip(bytes(theirs, name));
        if let Some((ours, theirs)) = both("struct ibv_port_attr ") {
            assert!(theirs >= ours, "ibv_port_attr has {theirs} bytes, and {ours} here");
            continue;
        }
        // This library makes them, with room for all that a later program looks for.
        if let Some((ours, theirs)) = both("struct ibv_qp_ex ") {
            assert!(theirs <= ours, "ibv_qp_ex has {theirs} bytes, and {ours} here");
            continue;
        }
        assert_eq!(ours, theirs, "this side, and the header");
    }
    assert_eq!(ours.lines().count(), theirs.lines().count());
}

#[test]
fn the_comparison_sees_a_field_that_moved() {
    let ours = ours();
    assert!(
        ours.contains("struct ibv_send_wr.wr 40\n") && ours.lines().count() > 350,
        "{}",
        ours.lines().count()
    );
    assert!(program("struct ibv_wc 1\nstruct ibv_wc.status 2\n").contains("offsetof(struct ibv_wc, status)"));
}
