//! Connections are asked for, granted and ended.

use super::attributes::UDP_QKEY;
use super::bind::bind_state;
use super::command::Command;
use super::id::{Id, RC, RETRIES_MAX, Role, State, UD};
use super::inbox::{Requests, Watch};
use super::places;
use crate::abi::ucm::{Accept, ConnParam, Connect, Disconnect, Listen, Reject};
use crate::errno::{Errno, Result};
use crate::opened::Opened;
use core::mem::offset_of;
use core::net::{Ipv4Addr, SocketAddr};
use core::time::Duration;
use std::sync::Arc;
use verbs_api::raw::{CommId, Connections, Service, Terms};

/// Requests that wait, if the program does not say how many.
const BACKLOG: u32 = 1024;
/// How long a peer is asked for that nobody answers for, or that has no listener: it may be about
/// to start.
const PATIENCE: Duration = Duration::from_secs(2);
const QPN_BITS: u32 = 0xFF_FFFF;

pub fn listen(command: &Command) -> Result<()> {
    let asked: Listen = command.get()?;
    let id = command.id(asked.id)?;
    has_manager(&id)?;
    let mut state = id.state();
    if !matches!(state.role, Role::None) || state.dst.is_some() {
        return Err(Errno::INVALID);
    }
    if state.port.is_none() {
        bind_state(&mut state, id.space, SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0))?;
    }
    let port = state.port.as_ref().map_or(0, |port| port.number);
    let backlog = if (1..=BACKLOG).contains(&asked.backlog) { asked.backlog } else { BACKLOG };
    let engines = match &state.engine {
        Some(engine) => vec![Arc::clone(engine)],
        None => places::all()?,
    };
    for (index, engine) in engines.iter().enumerate() {
        let requests = Arc::new(Requests { listener: Arc::downgrade(&id), engine: Arc::downgrade(engine) });
        let listened = listen_on(engine, &id, port, usize::try_from(backlog).unwrap_or(1), requests);
        if let Err(error) = listened {
            for engine in &engines[..index] {
                unlisten_on(engine, &id, port);
            }
            return Err(error.into());
        }
    }
    state.role = if is_datagrams(&id) { Role::Service(engines) } else { Role::Listener(engines) };
    Ok(())
}

fn listen_on(
    engine: &Opened,
    id: &Id,
    port: u16,
    backlog: usize,
    requests: Arc<Requests>,
) -> core::result::Result<(), verbs_api::Error> {
    let connections = Connections::of(&engine.device)?;
    if is_datagrams(id) {
        connections.listen_for_datagrams(port, backlog, requests)
    } else {
        connections.listen(port, backlog, requests)
    }
}

fn unlisten_on(engine: &Opened, id: &Id, port: u16) {
    let Ok(connections) = Connections::of(&engine.device) else { return };
    if is_datagrams(id) { connections.unlisten_for_datagrams(port) } else { connections.unlisten(port) }
}

/// Datagrams have services in place of connections.
const fn is_datagrams(id: &Id) -> bool {
    id.qp_type == UD
}

/// Of reliable connections and datagrams, nothing else is connected.
const fn has_manager(id: &Id) -> Result<()> {
    if id.qp_type == RC || is_datagrams(id) { Ok(()) } else { Err(Errno::NOT_SUPPORTED) }
}

/// The terms that a program names.
fn terms(id: &Id, state: &State, param: &ConnParam) -> Result<Terms> {
    let terms = state.terms(id)?;
    Ok(Terms {
        qpn: param.qp_num & QPN_BITS,
        responder_resources: param.responder_resources.min(terms.responder_resources),
        initiator_depth: param.initiator_depth.min(terms.initiator_depth),
        retry_count: param.retry_count.min(RETRIES_MAX),
        rnr_retry_count: param.rnr_retry_count.min(RETRIES_MAX),
        srq: param.srq != 0,
        ..terms
    })
}

fn private_data(data: &[u8], len: u8) -> &[u8] {
    &data[..usize::from(len).min(data.len())]
}

pub fn connect(command: &Command) -> Result<()> {
    let asked: Connect = command.get_first(offset_of!(Connect, ece))?;
    let id = command.id(asked.id)?;
    has_manager(&id)?;
    let param = asked.conn_param;
    let mut state = id.state();
    let (Some(dst), true, Role::None) = (state.dst, state.is_routed && param.valid != 0, &state.role) else {
        return Err(Errno::INVALID);
    };
    let data = private_data(&param.private_data, param.private_data_len);
    let connections = state.connections()?;
    let comm = if is_datagrams(&id) {
        let port = state.src.map_or(0, |src| src.port());
        connections.look_up(dst, port, data, PATIENCE, Watch::of(&id, dst.ip()))?
    } else {
        let terms = terms(&id, &state, &param)?;
        connections.connect(dst, &terms, data, PATIENCE, Watch::of(&id, dst.ip()))?
    };
    state.role = Role::Active(comm);
    Ok(())
}

pub fn accept(command: &Command) -> Result<()> {
    let asked: Accept = command.get_first(offset_of!(Accept, ece))?;
    let id = command.id(asked.id)?;
    let state = id.state();
    match &state.role {
        Role::Passive(comm) if asked.conn_param.valid != 0 && is_datagrams(&id) => {
            let param = &asked.conn_param;
            let data = private_data(&param.private_data, param.private_data_len);
            let service = Service { qpn: param.qp_num & QPN_BITS, qkey: UDP_QKEY };
            id.inbox().uid = asked.uid;
            Ok(state.connections()?.serve(*comm, service, data)?)
        }
        Role::Passive(comm) if asked.conn_param.valid != 0 => grant(&id, &state, *comm, &asked),
        Role::Active(comm) if asked.conn_param.valid == 0 => Ok(state.connections()?.established(*comm)?),
        _ => Err(Errno::INVALID),
    }
}

fn grant(id: &Id, state: &State, comm: CommId, asked: &Accept) -> Result<()> {
    let terms = terms(id, state, &asked.conn_param)?;
    let data = private_data(&asked.conn_param.private_data, asked.conn_param.private_data_len);
    // What happens next has its name.
    id.inbox().uid = asked.uid;
    let accepted = state.connections()?.accept(comm, &terms, data);
    accepted.map(drop).map_err(|error| {
        id.inbox().uid = 0;
        error.into()
    })
}

pub fn reject(command: &Command) -> Result<()> {
    let asked: Reject = command.get()?;
    let id = command.id(asked.id)?;
    let state = id.state();
    let Role::Passive(comm) = &state.role else { return Err(Errno::INVALID) };
    let data = private_data(&asked.private_data, asked.private_data_len);
    let connections = state.connections()?;
    let done =
        if is_datagrams(&id) { connections.refuse(*comm, data) } else { connections.reject(*comm, data) };
    Ok(done?)
}

pub fn disconnect(command: &Command) -> Result<()> {
    let asked: Disconnect = command.get()?;
    let id = command.id(asked.id)?;
    let state = id.state();
    match &state.role {
        // As in a kernel, nothing is there to be ended.
        Role::Active(_) | Role::Passive(_) if is_datagrams(&id) => Err(Errno::INVALID),
        Role::Active(comm) | Role::Passive(comm) => {
            state.connections()?.disconnect(*comm);
            Ok(())
        }
        Role::None | Role::Listener(_) | Role::Service(_) => Err(Errno::INVALID),
    }
}
