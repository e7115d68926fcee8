//! Identifiers come and go, and are bound to addresses.

use super::command::Command;
use super::id::{Id, Role, State, qp_type_of};
use super::inbox::{Inbox, plain};
use super::ports::Port;
use super::{places, sockaddr, table};
use crate::abi::ucm::{
    Bind, BindIp, CreateId, DestroyId, Plain, ResolveAddr, ResolveIp, ResolveRoute, event,
};
use crate::errno::{Errno, Result};
use core::net::{IpAddr, SocketAddr};
use std::sync::Arc;

pub fn create_id(command: &Command) -> Result<()> {
    let asked: CreateId = command.get()?;
    let qp_type = qp_type_of(asked.ps, asked.qp_type)?;
    let inbox = Inbox::new(Arc::downgrade(&command.channel), asked.uid);
    let id = table::add(|handle| Id::new(handle, asked.ps, qp_type, inbox, State::default()))?;
    command.answer(asked.response, &id.handle).inspect_err(|_| _ = id.end(Some(command.fd)))
}

pub fn destroy_id(command: &Command) -> Result<()> {
    let asked: DestroyId = command.get()?;
    let reported = command.id(asked.id)?.end(Some(command.fd));
    command.answer(asked.response, &reported)
}

pub fn bind_ip(command: &Command) -> Result<()> {
    let asked: BindIp = command.get()?;
    bind_to(&*command.id(asked.id)?, &asked.addr)
}

pub fn bind(command: &Command) -> Result<()> {
    let asked: Bind = command.get()?;
    bind_to(&*command.id(asked.id)?, &asked.addr)
}

fn bind_to<T: Plain>(id: &Id, addr: &T) -> Result<()> {
    let addr = sockaddr::from_c(addr)?.ok_or(Errno(libc::EAFNOSUPPORT))?;
    bind_state(&mut id.state(), id.space, addr)
}

/// Binds it to an address of a device's, or to any.
pub fn bind_state(state: &mut State, space: u16, addr: SocketAddr) -> Result<()> {
    if state.port.is_some() {
        return Err(Errno::INVALID);
    }
    let engine = match addr.ip() {
        ip if ip.is_unspecified() => None,
        // A kernel's devices have this address, too: libfabric binds to it to learn of one.
        ip if ip.is_loopback() => Some(places::towards(ip)?),
        ip => Some(places::at(ip)?),
    };
    let ip = engine.as_ref().map_or(addr.ip(), |engine| engine.device.ip());
    let port = Port::take(space, addr.port(), state.options.shares_port)?;
    state.src = Some(SocketAddr::new(ip, port.number));
    (state.port, state.engine) = (Some(port), engine);
    Ok(())
}

pub fn resolve_ip(command: &Command) -> Result<()> {
    let asked: ResolveIp = command.get()?;
    resolve(&command.id(asked.id)?, &asked.src_addr, &asked.dst_addr)
}

pub fn resolve_addr(command: &Command) -> Result<()> {
    let asked: ResolveAddr = command.get()?;
    resolve(&command.id(asked.id)?, &asked.src_addr, &asked.dst_addr)
}

fn resolve<T: Plain>(id: &Arc<Id>, src: &T, dst: &T) -> Result<()> {
    let (src, dst) = (sockaddr::from_c(src)?, sockaddr::from_c(dst)?.ok_or(Errno::INVALID)?);
    let mut state = id.state();
    if !matches!(state.role, Role::None) || state.dst.is_some() {
        return Err(Errno::INVALID);
    }
    if let Some(src) = src.filter(|_| state.port.is_none()) {
        bind_state(&mut state, id.space, src)?;
    }
    match reach(&mut state, id.space, dst) {
        Ok(()) => id.tell(plain(event::ADDR_RESOLVED, 0)),
        // As a kernel says it that has no way there.
        Err(Errno(errno)) => id.tell(plain(event::ADDR_ERROR, -errno)),
    }
    Ok(())
}

/// Binds it to the device from which it reaches `dst`.
fn reach(state: &mut State, space: u16, dst: SocketAddr) -> Result<()> {
    let engine = match &state.engine {
        Some(engine) => Arc::clone(engine),
        None => places::towards(dst.ip())?,
    };
    let own = engine.device.ip();
    if own.is_ipv4() != dst.is_ipv4() {
        return Err(Errno(libc::ENETUNREACH));
    }
    if state.port.is_none() {
        state.port = Some(Port::take(space, 0, false)?);
    }
    let port = state.port.as_ref().map_or(0, |port| port.number);
    state.src = Some(SocketAddr::new(own, port));
    // No address is this host's own.
    let ip: IpAddr = if dst.ip().is_unspecified() { own } else { dst.ip() };
    state.dst = Some(SocketAddr::new(ip, dst.port()));
    state.engine = Some(engine);
    Ok(())
}

pub fn resolve_route(command: &Command) -> Result<()> {
    let asked: ResolveRoute = command.get()?;
    let id = command.id(asked.id)?;
    let mut state = id.state();
    if state.dst.is_none() || state.is_routed {
        return Err(Errno::INVALID);
    }
    state.is_routed = true;
    id.tell(plain(event::ROUTE_RESOLVED, 0));
    Ok(())
}
