//! What the connection manager says of an identifier, made events for its program.

use super::agreements;
use super::attributes::way_to;
use super::channel::{Channel, Subject, Told};
use super::id::{Id, Role, State};
use super::table;
use crate::abi::ucm::{ConnParam, Ece, EventResp, PRIVATE_DATA, UdParam, bytes_of, event, zeroed};
use crate::opened::Opened;
use core::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Weak};
use verbs_api::raw::{Agreed, CommId, ConnectionSink, Event, Failure, Options, Question, Request, Service};

/// Where an identifier's events go.
pub struct Inbox {
    pub channel: Weak<Channel>,
    /// The program's name of it; 0: it has none yet, and is told nothing.
    pub uid: u64,
    /// Events that the program has got.
    pub reported: u32,
    /// Active: what the peer grants.
    pub agreed: Option<Agreed>,
}

impl Inbox {
    pub const fn new(channel: Weak<Channel>, uid: u64) -> Self {
        Self { channel, uid, reported: 0, agreed: None }
    }
}

/// An event without parameters.
pub fn plain(event: u32, status: i32) -> EventResp {
    EventResp { event, status: status.cast_unsigned(), ..zeroed() }
}

/// An event, whose parameter begins with these bytes.
fn with_param(event: u32, status: i32, param: &[u8]) -> EventResp {
    let mut resp = plain(event, status);
    for (word, bytes) in resp.param.iter_mut().zip(param.chunks_exact(4)) {
        *word = u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    }
    resp
}

/// An event of a connection.
fn of_connection(event: u32, status: i32, param: &ConnParam, offer: Option<Options>) -> EventResp {
    let mut resp = with_param(event, status, bytes_of(param));
    let (vendor_id, attr_mod) = offer.map_or((0, 0), Options::to_ece);
    resp.ece = Ece { vendor_id, attr_mod };
    resp
}

/// Private data as a message has them, zeros at the end included.
fn with_private_data(data: &[u8], param: ConnParam) -> ConnParam {
    let mut private_data = [0; PRIVATE_DATA];
    private_data[..data.len()].copy_from_slice(data);
    ConnParam { private_data, private_data_len: u8::try_from(data.len()).unwrap_or(u8::MAX), ..param }
}

fn of_request(request: &Request) -> EventResp {
    let param = ConnParam {
        qp_num: request.qpn,
        srq: request.srq.into(),
        // What the peer wants is what this end is to have, and the other way round.
        responder_resources: request.initiator_depth,
        initiator_depth: request.responder_resources,
        flow_control: 1,
        retry_count: request.retry_count,
        rnr_retry_count: request.rnr_retry_count,
        ..zeroed()
    };
    let param = with_private_data(&request.private_data, param);
    of_connection(event::CONNECT_REQUEST, 0, &param, request.offer)
}

fn of_reply(agreed: &Agreed, private_data: &[u8]) -> EventResp {
    let param = ConnParam {
        qp_num: agreed.remote_qpn,
        responder_resources: agreed.responder_resources,
        initiator_depth: agreed.initiator_depth,
        flow_control: 1,
        rnr_retry_count: agreed.rnr_retry_count,
        ..zeroed()
    };
    let param = with_private_data(private_data, param);
    of_connection(event::CONNECT_RESPONSE, 0, &param, agreements::options(agreed))
}

/// An event of datagrams, with private data as a message has them, zeros at the end included.
pub fn of_datagrams(event: u32, param: UdParam, data: &[u8]) -> EventResp {
    let mut private_data = [0; PRIVATE_DATA];
    private_data[..data.len()].copy_from_slice(data);
    let private_data_len = u8::try_from(data.len()).unwrap_or(u8::MAX);
    with_param(event, 0, bytes_of(&UdParam { private_data, private_data_len, ..param }))
}

/// A service of datagrams was found, at a host.
fn of_service(service: Service, host: IpAddr, private_data: &[u8]) -> EventResp {
    let (qp_num, qkey, ah_attr) = (service.qpn, service.qkey, way_to(host, 0));
    of_datagrams(event::ESTABLISHED, UdParam { qp_num, qkey, ah_attr, ..zeroed() }, private_data)
}

fn of_failure(failure: &Failure) -> EventResp {
    match failure {
        Failure::NotServed { status } => plain(event::UNREACHABLE, status.0.into()),
        Failure::Rejected { reason, private_data } => {
            let param = with_private_data(&private_data[..], zeroed());
            of_connection(event::REJECTED, reason.0.into(), &param, None)
        }
        Failure::Disagreed(why) => {
            eprintln!("srnic: rdma_connect: {why}");
            plain(event::REJECTED, why.reason().0.into())
        }
        Failure::TimedOut | Failure::Unreachable => plain(event::UNREACHABLE, -libc::ETIMEDOUT),
        Failure::Expired => plain(event::CONNECT_ERROR, -libc::ETIMEDOUT),
    }
}

/// Tells an identifier what happens to its connection.
pub struct Watch {
    id: Weak<Id>,
    /// The host that it asks; its state has that, too, but must not be locked for an event.
    peer: IpAddr,
}

impl Watch {
    pub fn of(id: &Arc<Id>, peer: IpAddr) -> Arc<Self> {
        Arc::new(Self { id: Arc::downgrade(id), peer })
    }

    /// That of an identifier which a request made, if it did.
    fn of_request(id: Option<Arc<Id>>, peer: IpAddr) -> Arc<Self> {
        Arc::new(Self { id: id.map_or_else(Weak::new, |id| Arc::downgrade(&id)), peer })
    }
}

impl ConnectionSink for Watch {
    fn requested(&self, _id: CommId, request: &Request) -> Arc<dyn ConnectionSink> {
        // It listens to no port.
        Self::of_request(None, request.peer.ip())
    }

    fn happened(&self, event: &Event) {
        let Some(id) = self.id.upgrade() else { return };
        let resp = match event {
            Event::Replied { agreed, private_data, .. } => {
                id.inbox().agreed = Some(*agreed);
                of_reply(agreed, &private_data[..])
            }
            Event::Established { .. } => plain(event::ESTABLISHED, 0),
            Event::Failed { failure, .. } => of_failure(failure),
            Event::Disconnected { .. } => plain(event::DISCONNECTED, 0),
            Event::Found { service, private_data, .. } => of_service(*service, self.peer, &private_data[..]),
            Event::Requested { .. } | Event::Asked { .. } => return,
        };
        // As a kernel: of a connection that its program has not named it hears nothing.
        if id.inbox().uid != 0 {
            id.tell(resp);
        }
    }
}

/// Makes an identifier of each request for a listener, on one of its devices.
pub struct Requests {
    pub listener: Weak<Id>,
    pub engine: Weak<Opened>,
}

impl ConnectionSink for Requests {
    fn requested(&self, comm: CommId, request: &Request) -> Arc<dyn ConnectionSink> {
        let fresh = self.take(comm, request.port, request.peer, of_request(request));
        Watch::of_request(fresh, request.peer.ip())
    }

    fn asked(&self, comm: CommId, question: &Question) -> Arc<dyn ConnectionSink> {
        let event = of_datagrams(event::CONNECT_REQUEST, zeroed(), &question.private_data);
        let fresh = self.take(comm, question.port, question.peer, event);
        Watch::of_request(fresh, question.peer.ip())
    }

    fn happened(&self, _event: &Event) {}
}

impl Requests {
    fn take(&self, comm: CommId, port: u16, peer: SocketAddr, event: EventResp) -> Option<Arc<Id>> {
        let (listener, engine) = (self.listener.upgrade()?, self.engine.upgrade()?);
        let channel = listener.inbox().channel.upgrade()?;
        let state = State {
            src: Some(SocketAddr::new(engine.device.ip(), port)),
            dst: Some(peer),
            is_routed: true,
            engine: Some(engine),
            role: Role::Passive(comm),
            ..State::default()
        };
        let inbox = Inbox::new(Arc::downgrade(&channel), 0);
        let fresh =
            table::add(|handle| Id::new(handle, listener.space, listener.qp_type, inbox, state)).ok()?;
        let told = Told { about: listener, of: Subject::Connection(Arc::clone(&fresh)), event };
        channel.push(told);
        Some(fresh)
    }
}

/// What the queue pair of an identifier is to be given, if its peer has said what it has.
pub fn agreed_by(id: &Id, state: &State) -> crate::errno::Result<Agreed> {
    let agreed = match &state.role {
        Role::Active(..) => id.inbox().agreed,
        Role::Passive(comm) => Some(state.connections()?.agree(*comm, &state.terms(id)?)?),
        Role::None | Role::Listener(_) | Role::Service(_) => None,
    };
    let agreed = agreed.ok_or(crate::errno::Errno::INVALID)?;
    if let (Some(src), Some(dst)) = (state.src, state.dst) {
        agreements::note(id.handle, [src.ip(), dst.ip()], agreed);
    }
    Ok(agreed)
}
