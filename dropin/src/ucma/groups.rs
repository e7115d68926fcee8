//! Multicast groups (`rdma_join_multicast`). Of RoCEv2 a group is an IP address, so that joining
//! asks nobody: the program learns where to send, and its queue pair is made a member by
//! `ibv_attach_mcast`, which librdmacm calls.

use super::attributes::{UDP_QKEY, way_to};
use super::channel::{Subject, Told};
use super::command::Command;
use super::id::UD;
use super::inbox::of_datagrams;
use super::{sockaddr, table};
use crate::abi::ucm::{DestroyId, JoinIpMcast, JoinMcast, Plain, UdParam, event, join as flags, zeroed};
use crate::errno::{Errno, Result};
use core::net::IpAddr;
use core::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;
use verbs_api::MULTICAST_QPN;

/// An identifier's part in a group.
pub struct Membership {
    pub handle: u32,
    /// The program's name of it.
    pub uid: u64,
    /// Events that the program has got.
    reported: AtomicU32,
}

impl Membership {
    pub const fn new(handle: u32, uid: u64) -> Self {
        Self { handle, uid, reported: AtomicU32::new(0) }
    }

    pub fn note_reported(&self) {
        self.reported.fetch_add(1, Ordering::Relaxed);
    }
}

/// Who joins, and by which name.
struct Joining {
    id: u32,
    uid: u64,
    response: u64,
}

pub fn join_ip(command: &Command) -> Result<()> {
    let JoinIpMcast { response, uid, addr, id } = command.get()?;
    join_group(command, &Joining { id, uid, response }, group_in(&addr)?)
}

pub fn join(command: &Command) -> Result<()> {
    let JoinMcast { response, uid, id, join_flags, addr, .. } = command.get()?;
    if !matches!(join_flags, flags::FULL_MEMBER | flags::SEND_ONLY) {
        return Err(Errno::INVALID);
    }
    join_group(command, &Joining { id, uid, response }, group_in(&addr)?)
}

fn group_in<T: Plain>(addr: &T) -> Result<IpAddr> {
    let ip = sockaddr::from_c(addr)?.map(|addr| addr.ip());
    ip.filter(IpAddr::is_multicast).ok_or(Errno::INVALID)
}

fn join_group(command: &Command, joining: &Joining, group: IpAddr) -> Result<()> {
    let id = command.id(joining.id)?;
    let state = id.state();
    let own = state.engine()?.device.ip();
    if id.qp_type != UD || own.is_ipv4() != group.is_ipv4() {
        return Err(Errno::INVALID);
    }
    let ah_attr = way_to(group, state.options.tos);
    drop(state);
    let membership = table::join(&id, joining.uid)?;
    if let Err(error) = command.answer(joining.response, &membership.handle) {
        table::leave_group(&command.channel, membership.handle)?;
        return Err(error);
    }
    let param = UdParam { qp_num: MULTICAST_QPN, qkey: UDP_QKEY, ah_attr, ..zeroed() };
    let event = of_datagrams(event::MULTICAST_JOIN, param, &[]);
    command.channel.push(Told { about: id, of: Subject::Group(membership), event });
    Ok(())
}

pub fn leave(command: &Command) -> Result<()> {
    let asked: DestroyId = command.get()?;
    let left = table::leave_group(&command.channel, asked.id)?;
    let is_of_it = |told: &Told| matches!(&told.of, Subject::Group(group) if Arc::ptr_eq(group, &left));
    drop(command.channel.remove(Some(command.fd), is_of_it));
    command.answer(asked.response, &left.reported.load(Ordering::Relaxed))
}
