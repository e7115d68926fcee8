//! Devices, their ports, and what happens to them.

use core::ffi::{c_char, c_int, c_void};

pub const NODE_CA: c_int = 1;
pub const TRANSPORT_IB: c_int = 0;
pub const ATOMIC_HCA: c_int = 1;
pub const PORT_ACTIVE: c_int = 4;
pub const LINK_LAYER_ETHERNET: u8 = 2;
pub const GID_TYPE_ROCE_V2: u32 = 2;
/// Entries of `gid_type` in sysfs and of `ibv_query_gid_type`, which has RoCE v1 and IB as one.
pub const GID_TYPE_SYSFS_ROCE_V2: c_int = 1;
/// `IBV_PORT_IP_BASED_GIDS`.
pub const PORT_IP_BASED_GIDS: u32 = 1 << 26;

pub mod cap {
    pub const CURR_QP_STATE_MOD: u32 = 1 << 7;
    pub const PORT_ACTIVE_EVENT: u32 = 1 << 10;
    pub const SYS_IMAGE_GUID: u32 = 1 << 11;
    pub const RC_RNR_NAK_GEN: u32 = 1 << 12;
    pub const MEM_WINDOW: u32 = 1 << 17;
    pub const MEM_WINDOW_TYPE_2B: u32 = 1 << 24;
}

pub mod event {
    pub const CQ_ERR: u32 = 0;
    pub const QP_FATAL: u32 = 1;
    pub const QP_REQ_ERR: u32 = 2;
    pub const QP_ACCESS_ERR: u32 = 3;
    pub const COMM_EST: u32 = 4;
    pub const SQ_DRAINED: u32 = 5;
    pub const DEVICE_FATAL: u32 = 8;
    pub const PORT_ACTIVE: u32 = 9;
    pub const PORT_ERR: u32 = 10;
    pub const SRQ_LIMIT_REACHED: u32 = 15;
    pub const QP_LAST_WQE_REACHED: u32 = 16;
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct Device {
    pub ops: [*mut c_void; 2],
    pub node_type: c_int,
    pub transport_type: c_int,
    pub name: [c_char; 64],
    pub dev_name: [c_char; 64],
    pub dev_path: [c_char; 256],
    pub ibdev_path: [c_char; 256],
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct DeviceAttr {
    pub fw_ver: [c_char; 64],
    /// Big endian.
    pub node_guid: u64,
    pub sys_image_guid: u64,
    pub max_mr_size: u64,
    pub page_size_cap: u64,
    pub vendor_id: u32,
    pub vendor_part_id: u32,
    pub hw_ver: u32,
    pub max_qp: c_int,
    pub max_qp_wr: c_int,
    pub device_cap_flags: u32,
    pub max_sge: c_int,
    pub max_sge_rd: c_int,
    pub max_cq: c_int,
    pub max_cqe: c_int,
    pub max_mr: c_int,
    pub max_pd: c_int,
    pub max_qp_rd_atom: c_int,
    pub max_ee_rd_atom: c_int,
    pub max_res_rd_atom: c_int,
    pub max_qp_init_rd_atom: c_int,
    pub max_ee_init_rd_atom: c_int,
    pub atomic_cap: c_int,
    pub max_ee: c_int,
    pub max_rdd: c_int,
    pub max_mw: c_int,
    pub max_raw_ipv6_qp: c_int,
    pub max_raw_ethy_qp: c_int,
    pub max_mcast_grp: c_int,
    pub max_mcast_qp_attach: c_int,
    pub max_total_mcast_qp_attach: c_int,
    pub max_ah: c_int,
    pub max_fmr: c_int,
    pub max_map_per_fmr: c_int,
    pub max_srq: c_int,
    pub max_srq_wr: c_int,
    pub max_srq_sge: c_int,
    pub max_pkeys: u16,
    pub local_ca_ack_delay: u8,
    pub phys_port_cnt: u8,
}

/// `ibv_device_attr_ex`. Behind `phys_port_cnt_ex` nothing may be written.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct DeviceAttrEx {
    pub orig_attr: DeviceAttr,
    pub comp_mask: u32,
    pub odp_general_caps: u64,
    pub odp_transport_caps: [u32; 3],
    pub completion_timestamp_mask: u64,
    pub hca_core_clock: u64,
    pub device_cap_flags_ex: u64,
    pub tso_caps: [u32; 2],
    pub rss_caps: [u64; 4],
    pub max_wq_type_rq: u32,
    pub packet_pacing_caps: [u32; 3],
    pub raw_packet_caps: u32,
    pub tm_caps: [u32; 5],
    pub cq_mod_caps: [u16; 2],
    pub max_dm_size: u64,
    pub pci_atomic_caps: [u16; 3],
    pub xrc_odp_caps: u32,
    pub phys_port_cnt_ex: u32,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct QueryDeviceExInput {
    pub comp_mask: u32,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct PortAttr {
    pub state: c_int,
    pub max_mtu: c_int,
    pub active_mtu: c_int,
    pub gid_tbl_len: c_int,
    pub port_cap_flags: u32,
    pub max_msg_sz: u32,
    pub bad_pkey_cntr: u32,
    pub qkey_viol_cntr: u32,
    pub pkey_tbl_len: u16,
    pub lid: u16,
    pub sm_lid: u16,
    pub lmc: u8,
    pub max_vl_num: u8,
    pub sm_sl: u8,
    pub subnet_timeout: u8,
    pub init_type_reply: u8,
    pub active_width: u8,
    pub active_speed: u8,
    pub phys_state: u8,
    pub link_layer: u8,
    pub flags: u8,
    pub port_cap_flags2: u16,
}

#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(C, align(8))]
pub struct Gid {
    pub bytes: [u8; 16],
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct GidEntry {
    pub gid: Gid,
    pub gid_index: u32,
    pub port_num: u32,
    pub gid_type: u32,
    pub ndev_ifindex: u32,
}

/// What an event concerns: a queue pair and such by its address, or a port by its number.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct AsyncEvent {
    pub element: *mut c_void,
    pub event_type: u32,
}
