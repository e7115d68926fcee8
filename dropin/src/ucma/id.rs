//! An identifier (`rdma_cm_id`): its addresses, and its connection.

use super::agreements;
use super::channel::{Channel, Subject, Told};
use super::inbox::Inbox;
use super::ports::{Port, random};
use super::table;
use crate::abi::ucm::ps;
use crate::errno::{Errno, Result};
use crate::opened::{Opened, TAKES_1408};
use core::net::SocketAddr;
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use verbs_api::raw::{CommId, Connections, Terms};
use verbs_api::{Dialect, WireMode};

/// Values of `ibv_qp_type`.
pub const RC: u8 = 2;
pub const UD: u8 = 4;

/// An identifier. Commands have its state locked; events come to its inbox, whose lock is the last.
pub struct Id {
    pub handle: u32,
    /// The port space.
    pub space: u16,
    pub qp_type: u8,
    /// First PSN that its queue pair takes.
    pub psn: u32,
    inbox: Mutex<Inbox>,
    state: Mutex<State>,
}

/// What commands have made of it.
#[derive(Default)]
pub struct State {
    pub options: Options,
    /// Of the device, or of any.
    pub src: Option<SocketAddr>,
    pub dst: Option<SocketAddr>,
    pub port: Option<Port>,
    pub is_routed: bool,
    /// The device that it is bound to.
    pub engine: Option<Arc<Opened>>,
    pub role: Role,
}

/// What the program has set.
#[derive(Clone, Copy, Default)]
pub struct Options {
    pub shares_port: bool,
    pub ack_timeout: Option<u8>,
    pub tos: u8,
}

/// Its part in a connection.
#[derive(Default)]
pub enum Role {
    #[default]
    None,
    /// It listens, on these devices.
    Listener(Vec<Arc<Opened>>),
    /// It listens for questions for a service of datagrams, on these devices.
    Service(Vec<Arc<Opened>>),
    /// It asks for a connection, or has asked.
    Active(CommId),
    /// It was asked.
    Passive(CommId),
}

impl Id {
    /// One of a descriptor, which is bound to nothing.
    pub fn new(handle: u32, space: u16, qp_type: u8, inbox: Inbox, state: State) -> Self {
        let psn = random() & 0xFF_FFFF;
        Self { handle, space, qp_type, psn, inbox: Mutex::new(inbox), state: Mutex::new(state) }
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn is_on(&self, channel: &Arc<Channel>) -> bool {
        core::ptr::eq(self.inbox().channel.as_ptr(), Arc::as_ptr(channel))
    }

    /// What it makes of an event, if its descriptor is still there.
    pub fn tell(self: &Arc<Self>, event: crate::abi::ucm::EventResp) {
        let channel = self.inbox().channel.upgrade();
        if let Some(channel) = channel {
            channel.push(Told { about: Arc::clone(self), of: Subject::Itself, event });
        }
    }

    /// It is over: a connection ends, who waits is rejected, and nothing is told of it any more.
    /// `fd` is the program's descriptor, if there is one. Returns how many events the program has
    /// got.
    pub fn end(self: &Arc<Self>, fd: Option<RawFd>) -> u32 {
        // In parts: what lies in the state may be the last that holds a device, whose end waits for
        // peers.
        let state = core::mem::take(&mut *self.state());
        state.leave();
        let channel = core::mem::take(&mut self.inbox().channel).upgrade();
        let removed = channel.map(|channel| channel.remove(fd, |told| told.is_of(self))).unwrap_or_default();
        for told in removed {
            if let Subject::Connection(fresh) = told.of {
                fresh.end(None);
            }
        }
        agreements::forget(self.handle);
        table::forget(self.handle);
        self.inbox().reported
    }
}

impl State {
    /// The connection manager of the device that it is bound to.
    pub fn connections(&self) -> Result<Connections> {
        Ok(Connections::of(&self.engine()?.device)?)
    }

    pub fn engine(&self) -> Result<&Arc<Opened>> {
        self.engine.as_ref().ok_or(Errno::INVALID)
    }

    /// The terms of a queue pair of which nothing else is known.
    pub fn terms(&self, id: &Id) -> Result<Terms> {
        let engine = self.engine()?;
        let max = engine.device.query().max_qp_rd_atom;
        let max = u8::try_from(max).unwrap_or(u8::MAX);
        Ok(Terms {
            qpn: 0,
            rq_psn: id.psn,
            path_mtu: engine.path_mtu_max(),
            takes_1408: TAKES_1408,
            responder_resources: max,
            initiator_depth: max,
            retry_count: RETRIES_MAX,
            rnr_retry_count: RETRIES_MAX,
            ack_timeout: self.options.ack_timeout.unwrap_or(ACK_TIMEOUT),
            src_port: self.src.map(|src| src.port()),
            srq: false,
            window: engine.device.window_max(),
            strict_placement: engine.config.strict_placement,
            dialect: if engine.config.wire_mode == WireMode::Plain { Dialect::Off } else { Dialect::Prefer },
        })
    }

    /// Its part in a connection ends.
    fn leave(self) {
        match &self.role {
            Role::None => {}
            Role::Listener(engines) => {
                let Some(port) = self.port.as_ref().map(|port| port.number) else { return };
                for engine in engines {
                    // Fails in a child that was forked, which has none of it.
                    if let Ok(connections) = Connections::of(&engine.device) {
                        connections.unlisten(port);
                    }
                }
            }
            Role::Service(engines) => {
                let Some(port) = self.port.as_ref().map(|port| port.number) else { return };
                for connections in engines.iter().filter_map(|engine| Connections::of(&engine.device).ok()) {
                    connections.unlisten_for_datagrams(port);
                }
            }
            Role::Active(comm) | Role::Passive(comm) => {
                if let Ok(connections) = self.connections() {
                    connections.release(*comm);
                }
            }
        }
    }
}

/// Tries of 67 ms each: that of a queue pair of which the program says nothing.
const ACK_TIMEOUT: u8 = 14;
/// As often as can be.
pub const RETRIES_MAX: u8 = 7;

/// The type of queue pairs in a port space.
pub fn qp_type_of(space: u16, asked: u8) -> Result<u8> {
    match space {
        ps::TCP => Ok(RC),
        ps::UDP | ps::IPOIB => Ok(UD),
        ps::IB => Ok(asked),
        _ => Err(Errno::INVALID),
    }
}
