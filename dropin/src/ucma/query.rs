//! What an identifier is bound to.

use super::command::Command;
use super::id::State;
use super::sockaddr;
use crate::abi::ucm::{PathRec, Query, QueryAddrResp, QueryRouteResp, SockaddrIn6, query as what, zeroed};
use crate::address::gid_of;
use crate::errno::{Errno, Result};
use crate::opened::Opened;
use crate::query::mtu_code;
use core::mem::offset_of;
use core::net::{IpAddr, SocketAddr};

const PKEY: u16 = 0xFFFF;
/// No number of a device: it is known by its GUID.
const NO_INDEX: u32 = u32::MAX;
/// `IBV_RATE_100_GBPS`, and how long a packet may live: 4.096 us x 2^14.
const RATE: u8 = 16;
const LIFE_TIME: u8 = 14;
/// A field is exactly what it says.
const EXACTLY: u8 = 2;

fn node_guid(state: &State) -> u64 {
    state.engine.as_ref().map_or(0, |engine| engine.config.guid().to_be())
}

/// The number of the port, if it is bound to a device.
fn port_num(state: &State) -> u8 {
    state.engine.is_some().into()
}

fn address<T: crate::abi::ucm::Plain>(addr: Option<SocketAddr>) -> (T, u16) {
    addr.map_or((zeroed(), 0), sockaddr::to_c)
}

fn path(engine: &Opened, ends: [IpAddr; 2], tos: u8) -> PathRec {
    let [src, dst] = ends.map(|ip| gid_of(ip).bytes);
    PathRec {
        dgid: dst,
        sgid: src,
        reversible: 1,
        mtu: mtu_code(engine.path_mtu_max()).cast_unsigned(),
        pkey: PKEY.to_be(),
        hop_limit: 64,
        traffic_class: tos,
        numb_path: 1,
        mtu_selector: EXACTLY,
        rate_selector: EXACTLY,
        rate: RATE,
        packet_life_time_selector: EXACTLY,
        packet_life_time: LIFE_TIME,
        ..zeroed()
    }
}

pub fn query_route(command: &Command) -> Result<()> {
    let asked: Query = command.get_first(offset_of!(Query, option))?;
    let id = command.id(asked.id)?;
    let state = id.state();
    let (src_addr, _) = address::<SockaddrIn6>(state.src);
    let (dst_addr, _) = address::<SockaddrIn6>(state.dst);
    let mut resp = QueryRouteResp {
        node_guid: node_guid(&state),
        src_addr,
        dst_addr,
        port_num: port_num(&state),
        ibdev_index: NO_INDEX,
        ..zeroed()
    };
    if let (Some(engine), Some(src), Some(dst)) = (&state.engine, state.src, state.dst) {
        // Its ends are there before a route is.
        resp.ib_route[0] = path(engine, [src.ip(), dst.ip()], state.options.tos);
        resp.num_paths = state.is_routed.into();
    }
    command.answer_first(asked.response, &resp, offset_of!(QueryRouteResp, ibdev_index))
}

pub fn query(command: &Command) -> Result<()> {
    let asked: Query = command.get()?;
    let id = command.id(asked.id)?;
    let state = id.state();
    let (src_addr, src_size) = address(state.src);
    let (dst_addr, dst_size) = address(state.dst);
    match asked.option {
        what::ADDR => {}
        // Programs ask for these with addresses of InfiniBand only, which are refused.
        what::PATH | what::GID => return Err(Errno::NOT_SUPPORTED),
        _ => return Err(Errno(libc::ENOSYS)),
    }
    let resp = QueryAddrResp {
        node_guid: node_guid(&state),
        port_num: port_num(&state),
        pkey: PKEY,
        src_size,
        dst_size,
        src_addr,
        dst_addr,
        ibdev_index: NO_INDEX,
        ..zeroed()
    };
    command.answer_first(asked.response, &resp, offset_of!(QueryAddrResp, ibdev_index))
}
