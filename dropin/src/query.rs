//! What a device, its port and its tables are.

use crate::abi::{self, DeviceAttr, DeviceAttrEx, Gid, GidEntry, PortAttr};
use crate::argument::{In, Out};
use crate::context::Context;
use crate::device::chars;
use crate::errno::{Errno, Result};
use core::ffi::c_int;
use verbs_api::Pmtu;

/// Bytes of the port's attributes that programs have which were compiled before the structure grew.
const PORT_ATTR_OLD: usize = core::mem::offset_of!(PortAttr, port_cap_flags2);
const PKEY: u16 = 0xFFFF;
/// What devices without a vendor say, such as Linux soft-RoCE: pyverbs takes 0 for an error.
const VENDOR: u32 = 0xFF_FFFF;

/// The value of `ibv_mtu`: the library neither opens nor agrees on a path MTU that verbs lack.
pub fn mtu_code(mtu: Pmtu) -> c_int {
    mtu.code().into()
}

/// A count as C has it.
fn int(count: u32) -> c_int {
    c_int::try_from(count).unwrap_or(c_int::MAX)
}

fn device_attr(context: &Context) -> DeviceAttr {
    let attr = context.device().query();
    let guid = context.state().engine.config.guid().to_be();
    DeviceAttr {
        fw_ver: chars(attr.version),
        node_guid: guid,
        sys_image_guid: guid,
        max_mr_size: u64::MAX >> 1,
        page_size_cap: 4096,
        vendor_id: VENDOR,
        vendor_part_id: 0,
        hw_ver: 0,
        max_qp: int(attr.max_qp),
        max_qp_wr: int(attr.max_qp_wr),
        device_cap_flags: abi::cap::CURR_QP_STATE_MOD
            | abi::cap::PORT_ACTIVE_EVENT
            | abi::cap::SYS_IMAGE_GUID
            | abi::cap::RC_RNR_NAK_GEN
            | abi::cap::MEM_WINDOW
            | abi::cap::MEM_WINDOW_TYPE_2B,
        max_sge: int(attr.max_sge),
        max_sge_rd: int(attr.max_sge),
        max_cq: int(attr.max_cq),
        max_cqe: int(attr.max_cqe),
        max_mr: int(attr.max_mr),
        max_pd: c_int::from(u16::MAX),
        max_qp_rd_atom: int(attr.max_qp_rd_atom),
        max_ee_rd_atom: 0,
        max_res_rd_atom: int(attr.max_qp_rd_atom.saturating_mul(attr.max_qp)),
        max_qp_init_rd_atom: int(attr.max_qp_rd_atom),
        max_ee_init_rd_atom: 0,
        atomic_cap: abi::ATOMIC_HCA,
        max_ee: 0,
        max_rdd: 0,
        max_mw: int(attr.max_mr),
        max_raw_ipv6_qp: 0,
        max_raw_ethy_qp: 0,
        max_mcast_grp: int(attr.max_groups),
        max_mcast_qp_attach: int(attr.max_group_members),
        max_total_mcast_qp_attach: int(attr.max_groups.saturating_mul(attr.max_group_members)),
        max_ah: int(attr.max_ah),
        max_fmr: 0,
        max_map_per_fmr: 0,
        max_srq: int(attr.max_srq),
        max_srq_wr: int(attr.max_srq_wr),
        max_srq_sge: int(attr.max_sge),
        max_pkeys: attr.max_pkeys,
        local_ca_ack_delay: 0,
        phys_port_cnt: attr.phys_port_cnt,
    }
}

fn device_attr_ex(context: &Context) -> DeviceAttrEx {
    let orig_attr = device_attr(context);
    DeviceAttrEx {
        orig_attr,
        comp_mask: 0,
        odp_general_caps: 0,
        odp_transport_caps: [0; 3],
        completion_timestamp_mask: 0,
        hca_core_clock: 0,
        device_cap_flags_ex: orig_attr.device_cap_flags.into(),
        tso_caps: [0; 2],
        rss_caps: [0; 4],
        max_wq_type_rq: 0,
        packet_pacing_caps: [0; 3],
        raw_packet_caps: 0,
        tm_caps: [0; 5],
        cq_mod_caps: [0; 2],
        max_dm_size: 0,
        pci_atomic_caps: [0; 3],
        xrc_odp_caps: 0,
        phys_port_cnt_ex: orig_attr.phys_port_cnt.into(),
    }
}

/// `active_width` and `active_speed` of so many gigabits a second, or the next less.
const fn width_and_speed(gigabits: u32) -> (u8, u8) {
    const ONE_LANE: u8 = 1;
    const FOUR_LANES: u8 = 2;
    match gigabits {
        0..10 => (ONE_LANE, 1),
        10..25 => (FOUR_LANES, 1),
        25..40 => (ONE_LANE, 32),
        40..50 => (FOUR_LANES, 4),
        50..100 => (ONE_LANE, 64),
        100..200 => (FOUR_LANES, 32),
        200..400 => (FOUR_LANES, 64),
        _ => (FOUR_LANES, 128),
    }
}

fn check_port(port: u32) -> Result<()> {
    if port == 1 { Ok(()) } else { Err(Errno::INVALID) }
}

fn port_attr(context: &Context, port: u8) -> Result<PortAttr> {
    check_port(port.into())?;
    let attr = context.device().query_port();
    let (active_width, active_speed) = width_and_speed(context.state().engine.config.speed);
    Ok(PortAttr {
        // Also while a memif waits for its other end: programs refuse a port that is down before
        // they tell their peer to come.
        state: abi::PORT_ACTIVE,
        max_mtu: mtu_code(attr.max_mtu),
        active_mtu: mtu_code(attr.max_mtu),
        gid_tbl_len: attr.gid_tbl_len.into(),
        port_cap_flags: abi::PORT_IP_BASED_GIDS,
        max_msg_sz: attr.max_msg_sz,
        bad_pkey_cntr: 0,
        qkey_viol_cntr: 0,
        pkey_tbl_len: attr.pkey_tbl_len,
        lid: 0,
        sm_lid: 0,
        lmc: 0,
        max_vl_num: 1,
        sm_sl: 0,
        subnet_timeout: 0,
        init_type_reply: 0,
        active_width,
        active_speed,
        phys_state: 5,
        link_layer: abi::LINK_LAYER_ETHERNET,
        flags: 0,
        port_cap_flags2: 0,
    })
}

fn gid(context: &Context, index: u32) -> Result<Gid> {
    let index = u16::try_from(index).map_err(|_| Errno::INVALID)?;
    context.device().query_gid(index).map(|bytes| Gid { bytes }).ok_or(Errno::INVALID)
}

fn gid_entry(context: &Context, port: u32, index: u32) -> Result<GidEntry> {
    check_port(port)?;
    let gid = gid(context, index)?;
    Ok(GidEntry { gid, gid_index: index, port_num: port, gid_type: abi::GID_TYPE_ROCE_V2, ndev_ifindex: 0 })
}

exports! {
    fn ibv_query_device(context: &Context, attr: Out<DeviceAttr>) -> c_int = code {
        attr.set(device_attr(context));
        Ok(())
    }

    fn ibv_query_port(context: &Context, port: u8, attr: Out<PortAttr>) -> c_int = code {
        attr.set_sized(&port_attr(context, port)?, PORT_ATTR_OLD)
    }

    fn ibv_query_gid(context: &Context, port: u8, index: c_int, entry: Out<Gid>) -> c_int = count {
        check_port(port.into())?;
        entry.set(gid(context, index.cast_unsigned())?);
        Ok(0)
    }

    fn _ibv_query_gid_ex(context: &Context, port: u32, index: u32, entry: Out<GidEntry>, flags: u32, size: usize) -> c_int = code {
        if flags != 0 {
            return Err(Errno::NOT_SUPPORTED);
        }
        // What libibverbs returns for an entry that is empty.
        let found = gid_entry(context, port, index).map_err(|_| Errno(libc::ENODATA))?;
        entry.set_sized(&found, size)
    }

    fn _ibv_query_gid_table(context: &Context, entries: Out<GidEntry>, max: usize, flags: u32, size: usize) -> isize = negative_long {
        if flags != 0 || size != size_of::<GidEntry>() {
            return Err(Errno::NOT_SUPPORTED);
        }
        if max == 0 {
            // There is no room for the one entry.
            return Err(Errno::INVALID);
        }
        entries.set(gid_entry(context, 1, 0)?);
        Ok(1)
    }

    fn ibv_query_gid_type(context: &Context, port: u8, index: u32, kind: Out<c_int>) -> c_int = count {
        gid_entry(context, port.into(), index)?;
        kind.set(abi::GID_TYPE_SYSFS_ROCE_V2);
        Ok(0)
    }

    fn ibv_query_pkey(context: &Context, port: u8, index: c_int, pkey: Out<u16>) -> c_int = count {
        check_port(port.into())?;
        let index = u16::try_from(index).map_err(|_| Errno::INVALID)?;
        pkey.set(context.device().query_pkey(index).ok_or(Errno::INVALID)?.to_be());
        Ok(0)
    }

    fn ibv_get_pkey_index(_context: &Context, port: u8, pkey: u16) -> c_int = count {
        check_port(port.into())?;
        if u16::from_be(pkey) == PKEY { Ok(0) } else { Err(Errno::NO_ENTRY) }
    }
}

calls! {
    fn query_port(context: &Context, port: u8, attr: Out<PortAttr>, size: usize) -> c_int = code {
        attr.set_sized(&port_attr(context, port)?, size)
    }

    fn query_device_ex(context: &Context, input: Option<In<abi::QueryDeviceExInput>>, attr: Out<DeviceAttrEx>, size: usize) -> c_int = code {
        if input.is_some_and(|input| input.get().comp_mask != 0) {
            return Err(Errno::INVALID);
        }
        // What is behind the program's structure is its stack.
        attr.set_sized(&device_attr_ex(context), size)
    }
}
