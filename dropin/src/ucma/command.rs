//! A command as its bytes have it, and who carries it out.

use super::channel::Channel;
use super::id::Id;
use super::{attributes, bind, connect, events, groups, options, query, table, user};
use crate::abi::ucm::{CmdHdr, Plain, cmd, from_bytes};
use crate::errno::{Errno, Result};
use std::os::fd::RawFd;
use std::sync::Arc;

/// A command that was written to a descriptor.
pub struct Command {
    pub fd: RawFd,
    pub channel: Arc<Channel>,
    bytes: Vec<u8>,
    len_out: usize,
}

const HEADER: usize = size_of::<CmdHdr>();

/// Carries out the command in `len` bytes at an address.
pub fn run(fd: RawFd, inode: u64, address: u64, len: usize) -> Result<()> {
    if len < HEADER {
        return Err(Errno::INVALID);
    }
    let header: CmdHdr = user::get(address)?;
    let len_in = usize::from(header.len_in);
    if HEADER + len_in > len {
        return Err(Errno::INVALID);
    }
    let bytes = user::read(address.wrapping_add(HEADER as u64), len_in)?;
    let channel = table::channel(inode)?;
    let command = Command { fd, channel, bytes, len_out: header.len_out.into() };
    handler(header.cmd)?(&command)
}

type Handler = fn(&Command) -> Result<()>;

fn handler(number: u32) -> Result<Handler> {
    Ok(match number {
        cmd::CREATE_ID => bind::create_id,
        cmd::DESTROY_ID => bind::destroy_id,
        cmd::BIND_IP => bind::bind_ip,
        cmd::BIND => bind::bind,
        cmd::RESOLVE_IP => bind::resolve_ip,
        cmd::RESOLVE_ADDR => bind::resolve_addr,
        cmd::RESOLVE_ROUTE => bind::resolve_route,
        cmd::QUERY_ROUTE => query::query_route,
        cmd::QUERY => query::query,
        cmd::LISTEN => connect::listen,
        cmd::CONNECT => connect::connect,
        cmd::ACCEPT => connect::accept,
        cmd::REJECT => connect::reject,
        cmd::DISCONNECT => connect::disconnect,
        cmd::INIT_QP_ATTR => attributes::init_qp_attr,
        cmd::GET_EVENT => events::get_event,
        cmd::MIGRATE_ID => events::migrate_id,
        cmd::SET_OPTION => options::set_option,
        cmd::NOTIFY => options::notify,
        // The kernel has none of it either.
        cmd::GET_OPTION => |_| Err(Errno(libc::ENOSYS)),
        cmd::JOIN_IP_MCAST => groups::join_ip,
        cmd::JOIN_MCAST => groups::join,
        cmd::LEAVE_MCAST => groups::leave,
        _ => return Err(Errno::INVALID),
    })
}

impl Command {
    /// Its structure. EINVAL if the bytes are not all of it.
    pub fn get<T: Plain>(&self) -> Result<T> {
        self.get_first(size_of::<T>())
    }

    /// Its structure, of which older programs have `required` bytes only.
    pub fn get_first<T: Plain>(&self, required: usize) -> Result<T> {
        if self.bytes.len() < required { Err(Errno::INVALID) } else { Ok(from_bytes(&self.bytes)) }
    }

    /// Answers at an address. ENOSPC if the program has no room for it.
    pub fn answer<T: Plain>(&self, address: u64, value: &T) -> Result<()> {
        self.answer_first(address, value, size_of::<T>())
    }

    /// Answers; older programs have room for `required` bytes only.
    pub fn answer_first<T: Plain>(&self, address: u64, value: &T, required: usize) -> Result<()> {
        if self.len_out < required {
            return Err(Errno(libc::ENOSPC));
        }
        user::put(address, value, self.len_out)
    }

    /// The identifier of that number.
    pub fn id(&self, handle: u32) -> Result<Arc<Id>> {
        table::id(&self.channel, handle)
    }
}
