//! The manager: what a program asks of it.

mod datagrams;
mod input;
mod output;
mod table;
mod timers;

use crate::config::{Config, timeout_code};
use crate::connection::{Connection, Patience, Refusal, Retry, State};
use crate::dialect::Options;
use crate::event::{Event, Failure, Host, Request, Transmit};
use crate::lookup::Lookups;
use crate::random::Random;
use crate::stats::Stats;
use crate::terms::{Agreed, Disagreement, Terms};
use core::fmt;
use core::net::IpAddr;
use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};
use table::Table;
use wire::WireMode;
use wire::cm::{Dreq, IpCmHeader, Message, Rej, RejReason, Rep, Req, Rtu, TcpPort};

/// A connection's number on this host.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CommId(pub u32);

impl fmt::Display for CommId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#010x}", self.0)
    }
}

/// Why a call did nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CmError {
    /// Somebody listens already.
    #[error("port {0} has a listener already; take another one, or drop that listener")]
    PortInUse(u16),
    /// Too many connections.
    #[error("there are {0} connections, as many as can be; end some first")]
    TooMany(usize),
    /// Too much private data.
    #[error("{given} bytes of private data; this message carries {max}")]
    PrivateData {
        /// How many there are.
        given: usize,
        /// How many fit.
        max: usize,
    },
    /// The addresses of the two ends are of different families.
    #[error("{to} is of another family than this end's address, {from}")]
    Family {
        /// Ours.
        from: IpAddr,
        /// The peer's.
        to: IpAddr,
    },
    /// The connection is in another state: the peer or a timeout was first. An event says so.
    #[error("the connection is over, or not that far")]
    State,
    /// The two ends do not go together.
    #[error(transparent)]
    Disagreement(#[from] Disagreement),
}

/// A port that somebody listens to.
struct Listener {
    /// Which of all listeners it is: an earlier one of its port may have left requests behind.
    number: u64,
    backlog: usize,
    /// Requests that wait for the program.
    waiting: usize,
}

/// The connection manager of a host: the state machine of all its connections.
pub struct Manager {
    config: Config,
    table: Table,
    /// Questions for services of datagrams.
    lookups: Lookups,
    listeners: BTreeMap<u16, Listener>,
    /// How many listeners there have been.
    listeners_begun: u64,
    output: VecDeque<Transmit>,
    events: VecDeque<Event>,
    random: Random,
    stats: Stats,
}

impl Manager {
    /// Without a connection.
    #[must_use]
    pub fn new(config: Config) -> Self {
        // Without an interval a message would be sent for ever, at once.
        let retry_first = config.retry_first.max(Duration::from_micros(1));
        let disconnect_first = config.disconnect_first.max(Duration::from_micros(1));
        let retry_max = config.retry_max.max(retry_first).max(disconnect_first);
        let config = Config { retry_first, disconnect_first, retry_max, ..config };
        Self {
            table: Table::default(),
            lookups: Lookups::default(),
            listeners: BTreeMap::new(),
            listeners_begun: 0,
            output: VecDeque::new(),
            events: VecDeque::new(),
            random: Random::new(config.seed),
            stats: Stats::default(),
            config,
        }
    }

    /// Takes requests for `port`; those that wait for the program are `backlog` at most.
    ///
    /// # Errors
    /// [`CmError::PortInUse`].
    pub fn listen(&mut self, port: u16, backlog: usize) -> Result<(), CmError> {
        if self.listeners.contains_key(&port) {
            return Err(CmError::PortInUse(port));
        }
        self.listeners_begun += 1;
        self.listeners.insert(port, Listener { number: self.listeners_begun, backlog, waiting: 0 });
        Ok(())
    }

    /// Takes no more. Requests that wait can still be accepted.
    pub fn unlisten(&mut self, port: u16) {
        self.listeners.remove(&port);
    }

    /// Asks the host `to` for a connection with its port. [`Event::Replied`] or [`Event::Failed`]
    /// follows.
    ///
    /// # Errors
    /// [`CmError::Family`], [`CmError::PrivateData`], [`CmError::TooMany`].
    pub fn connect(
        &mut self,
        now: Duration,
        to: IpAddr,
        port: u16,
        terms: &Terms,
        private_data: &[u8],
    ) -> Result<CommId, CmError> {
        let from = self.config.ip;
        if from.is_ipv4() != to.is_ipv4() {
            return Err(CmError::Family { from, to });
        }
        let private_data = padded(private_data)?;
        if self.table.len() >= self.config.connections_max {
            return Err(CmError::TooMany(self.table.len()));
        }
        let id = self.new_id();
        let tid = self.random.next_u64();
        // As ephemeral ports are; nothing but the peer's log shows it.
        let [low, high, ..] = id.0.to_le_bytes();
        let src_port = terms.src_port.unwrap_or(0xC000 | u16::from_le_bytes([low, high]));
        let (vendor_id, attr_mod) = Terms::ece(terms.offer());
        let response = timeout_code(self.config.retry_max);
        let req = Req {
            local_comm_id: id.0,
            vendor_id,
            service_id: TcpPort(port).service_id(),
            ca_guid: self.config.ca_guid,
            qpn: terms.qpn,
            responder_resources: terms.responder_resources,
            initiator_depth: terms.initiator_depth,
            remote_response_timeout: response,
            transport: 0,
            starting_psn: terms.rq_psn,
            local_response_timeout: response,
            retry_count: terms.retry_count,
            pkey: 0xFFFF,
            mtu: terms.path_mtu.in_dialect(WireMode::Plain).code(),
            rnr_retry_count: terms.rnr_retry_count,
            max_cm_retries: self.config.retries,
            srq: terms.srq,
            lids: [0xFFFF; 2],
            local_gid: gid(from),
            remote_gid: gid(to),
            flow_label: 0,
            packet_rate: 0,
            traffic_class: 0,
            hop_limit: 64,
            ack_timeout: terms.ack_timeout,
            private_data: IpCmHeader { src_port, src: from, dst: to }.emit(&private_data),
        };
        let message = Message::Req(Box::new(req));
        let retry = self.send_reliably(to.into(), tid, attr_mod, message, self.config.retry_first);
        let deadline = now.saturating_add(retry.interval);
        let connection = Connection {
            peer: to.into(),
            remote_id: 0,
            remote_qpn: 0,
            remote_psn: 0,
            qpn: terms.qpn,
            tid,
            listener: None,
            put_off: 0,
            state: State::ReqSent {
                retry,
                terms: *terms,
                patience: Patience::AtLeast(now),
                refusal: Refusal::default(),
            },
            deadline: None,
            owed_until: None,
        };
        self.table.insert(id, connection);
        self.table.set_deadline(id, Some(deadline));
        Ok(id)
    }

    /// Active: goes on asking until that time, also if nobody answers for the peer's address, its
    /// manager is silent, or nobody listens to the port: it may be started later. So it does if the
    /// peer had an old connection with the queue pair, which is over then. Without this, and after
    /// it, a request is given up after [`Config::retries`] or as soon as it is refused, or at
    /// the time of [`ask_until`](Self::ask_until) if that is later.
    pub fn persist(&mut self, id: CommId, until: Duration) {
        self.set_patience(id, |before| before.extended(until));
    }

    /// Active: goes on asking until that time as with [`persist`](Self::persist), and fails then.
    pub fn ask_until(&mut self, id: CommId, until: Duration) {
        self.set_patience(id, |_| Patience::Until(until));
    }

    /// Active: fails as soon as the peer says that nobody listens to the port, whatever patience
    /// there is for one that does not answer.
    pub fn end_if_refused(&mut self, id: CommId) {
        if let Some(State::ReqSent { refusal, .. }) =
            self.table.get_mut(id).map(|connection| &mut connection.state)
        {
            refusal.needs_listener = true;
        }
    }

    /// Active: the peer has said that nobody listens to the port, or that it had an old connection
    /// with the queue pair, and is asked again; with this the attempt fails if that does not
    /// change.
    #[must_use]
    pub fn refusal(&self, id: CommId) -> Option<&Failure> {
        match &self.table.get(id)?.state {
            State::ReqSent { refusal, .. } => refusal.heard.as_ref(),
            _ => None,
        }
    }

    fn set_patience(&mut self, id: CommId, patience: impl FnOnce(Patience) -> Patience) {
        let Some(connection) = self.table.get_mut(id) else { return };
        if let State::ReqSent { patience: before, .. } = &mut connection.state {
            *before = patience(*before);
            // It is not later than the attempt may last.
            let deadline = connection.deadline;
            self.table.set_deadline(id, deadline);
        }
    }

    /// Active: the queue pair is in RTS. The peer learns that it can begin.
    ///
    /// # Errors
    /// [`CmError::State`] if the peer has ended it.
    pub fn established(&mut self, id: CommId) -> Result<(), CmError> {
        let connection = self.table.get_mut(id).ok_or(CmError::State)?;
        let State::RepRcvd = connection.state else { return Err(CmError::State) };
        connection.state = State::Established { active: true };
        self.stats.established += 1;
        self.send_rtu(id);
        Ok(())
    }

    /// A request that waits for the program.
    #[must_use]
    pub fn request(&self, id: CommId) -> Option<&Request> {
        match &self.table.get(id)?.state {
            State::ReqRcvd { request } => Some(request),
            _ => None,
        }
    }

    /// Passive: what the queue pair is to be given for this request. Take it to RTS, and then
    /// [`accept`](Self::accept).
    ///
    /// # Errors
    /// [`CmError::State`] if the peer has given up, [`CmError::Disagreement`].
    pub fn agree(&self, id: CommId, terms: &Terms) -> Result<Agreed, CmError> {
        Ok(self.agreement(id, terms)?.0)
    }

    fn agreement(&self, id: CommId, terms: &Terms) -> Result<(Agreed, Option<Options>), CmError> {
        Ok(terms.for_request(self.request(id).ok_or(CmError::State)?)?)
    }

    /// Passive: grants the connection. [`Event::Established`] or [`Event::Failed`] follows.
    ///
    /// # Errors
    /// As [`agree`](Self::agree), and [`CmError::PrivateData`].
    pub fn accept(
        &mut self,
        now: Duration,
        id: CommId,
        terms: &Terms,
        private_data: &[u8],
    ) -> Result<Agreed, CmError> {
        let private_data = padded(private_data)?;
        let (agreed, options) = self.agreement(id, terms)?;
        let connection = self.table.get(id).ok_or(CmError::State)?;
        let (peer, tid) = (connection.peer, connection.tid);
        let (vendor_id, attr_mod) = Terms::ece(options);
        let rep = Rep {
            local_comm_id: id.0,
            remote_comm_id: connection.remote_id,
            qpn: terms.qpn,
            vendor_id,
            starting_psn: terms.rq_psn,
            responder_resources: agreed.responder_resources,
            initiator_depth: agreed.initiator_depth,
            target_ack_delay: 0,
            rnr_retry_count: terms.rnr_retry_count,
            srq: terms.srq,
            ca_guid: self.config.ca_guid,
            private_data,
        };
        let message = Message::Rep(Box::new(rep));
        let retry = self.send_reliably(peer, tid, attr_mod, message, self.config.retry_first);
        let deadline = now.saturating_add(retry.interval);
        self.leave_backlog(id);
        if let Some(connection) = self.table.get_mut(id) {
            connection.qpn = terms.qpn;
            connection.state = State::RepSent { retry };
        }
        self.table.set_deadline(id, Some(deadline));
        Ok(agreed)
    }

    /// Passive: rejects a request that waits.
    ///
    /// # Errors
    /// [`CmError::State`] if the peer has given up, [`CmError::PrivateData`].
    pub fn reject(
        &mut self,
        now: Duration,
        id: CommId,
        reason: RejReason,
        private_data: &[u8],
    ) -> Result<(), CmError> {
        let private_data = padded(private_data)?;
        self.request(id).ok_or(CmError::State)?;
        self.end_by_rej(now, id, reason, private_data);
        Ok(())
    }

    /// Ends a connection, or the attempt at one, in any state, as its state asks for.
    /// [`Event::Disconnected`] follows if it was established; the peer is told in any case.
    pub fn close(&mut self, now: Duration, id: CommId) {
        if self.close_question(now, id) {
            return;
        }
        let Some(connection) = self.table.get(id) else { return };
        match connection.state {
            State::ReqSent { .. } => {
                self.send_rej_timeout(id);
                self.table.remove(id);
            }
            State::ReqRcvd { .. } | State::RepRcvd | State::RepSent { .. } => {
                self.end_by_rej(now, id, RejReason::CONSUMER, [0; Rej::PRIVATE_DATA]);
            }
            State::Established { .. } => self.send_dreq(now, id),
            State::DreqSent { .. } | State::Rejected { .. } | State::TimeWait => {}
        }
    }

    /// Notes that no host has this address. Connections that wait for an answer of it, for the
    /// first time or the last, need not wait. A request that [persists](Self::persist) waits for as
    /// long as it was told to.
    pub fn handle_unreachable(&mut self, now: Duration, host: IpAddr) {
        self.handle_unsent(now, host);
        let ends = |connection: &Connection| matches!(connection.state, State::DreqSent { .. });
        for id in self.table.ids(|connection| connection.peer.ip == host && ends(connection)) {
            self.end(now, id, State::TimeWait);
            self.events.push_back(Event::Disconnected { id });
        }
    }

    /// MADs to that host were not sent for a reason that is not the host's, which may be there.
    /// Requests to it fail as of a host that is [unreachable](Self::handle_unreachable); that a
    /// connection is over it is told later, as if the MAD had been lost.
    pub fn handle_unsent(&mut self, now: Duration, host: IpAddr) {
        let gives_up =
            |state: &State| matches!(state, State::ReqSent { patience, .. } if !patience.lasts(now));
        for id in self.table.ids(|connection| connection.peer.ip == host && gives_up(&connection.state)) {
            self.fail(id, Failure::Unreachable);
        }
        self.fail_questions(now, host);
    }

    /// Connections for which a host that leaves now would leave its peer without an answer: a DREQ
    /// of ours is not answered yet, or the peer may not have our answer to its DREQ or its request
    /// and ask again ([`Config::linger`]). Looks at all.
    #[must_use]
    pub fn owes(&self, now: Duration) -> usize {
        let owes = |connection: &Connection| {
            matches!(connection.state, State::DreqSent { .. })
                || connection.owed_until.is_some_and(|until| until > now)
        };
        // An answer is remembered for longer than who leaves stays.
        let stays = self.config.reject_wait.saturating_sub(self.config.linger);
        self.table.count(owes) + self.lookups.owed(now.saturating_add(stays))
    }

    /// The oldest event that was not polled yet.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// The next MAD to send.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.output.pop_front()
    }

    /// Connections in any state, and questions for services of datagrams, those that have ended and
    /// are remembered included.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.table.len() + self.lookups.len()
    }

    /// Counters.
    #[must_use]
    pub const fn stats(&self) -> &Stats {
        &self.stats
    }

    fn send_dreq(&mut self, now: Duration, id: CommId) {
        let Some(connection) = self.table.get(id) else { return };
        let (peer, dreq) = (
            connection.peer,
            Dreq {
                local_comm_id: id.0,
                remote_comm_id: connection.remote_id,
                remote_qpn: connection.remote_qpn,
                private_data: [0; Dreq::PRIVATE_DATA],
            },
        );
        let tid = self.random.next_u64();
        let message = Message::Dreq(Box::new(dreq));
        let retry = self.send_reliably(peer, tid, 0, message, self.config.disconnect_first);
        let deadline = now.saturating_add(retry.interval);
        if let Some(connection) = self.table.get_mut(id) {
            connection.state = State::DreqSent { retry };
        }
        self.table.set_deadline(id, Some(deadline));
    }

    /// Sends a message that is to be answered, and will be sent again after `interval` the first
    /// time.
    fn send_reliably(
        &mut self,
        to: Host,
        tid: u64,
        attr_mod: u32,
        message: Message,
        interval: Duration,
    ) -> Retry {
        let mad = self.send(to, tid, attr_mod, message);
        Retry { mad, resent: 0, delayed: 0, interval }
    }

    fn send_rtu(&mut self, id: CommId) {
        let Some(connection) = self.table.get(id) else { return };
        let (peer, tid) = (connection.peer, connection.tid);
        let rtu = Rtu {
            local_comm_id: id.0,
            remote_comm_id: connection.remote_id,
            private_data: [0; Rtu::PRIVATE_DATA],
        };
        self.send(peer, tid, 0, Message::Rtu(Box::new(rtu)));
    }

    /// A number that no connection has.
    fn new_id(&mut self) -> CommId {
        loop {
            let id = CommId(self.random.next_u32());
            if id.0 != 0 && self.table.get(id).is_none() && self.lookups.get(id).is_none() {
                return id;
            }
        }
    }

    /// A request waits no more.
    fn leave_backlog(&mut self, id: CommId) {
        let Some(Connection { state: State::ReqRcvd { request }, listener: Some(number), .. }) =
            self.table.get(id)
        else {
            return;
        };
        if let Some(listener) =
            self.listeners.get_mut(&request.port).filter(|listener| listener.number == *number)
        {
            listener.waiting = listener.waiting.saturating_sub(1);
        }
    }
}

/// Private data as a message carries them.
fn padded<const N: usize>(data: &[u8]) -> Result<[u8; N], CmError> {
    let mut padded = [0; N];
    let room = padded.get_mut(..data.len());
    room.ok_or(CmError::PrivateData { given: data.len(), max: N })?.copy_from_slice(data);
    Ok(padded)
}

/// An IP address as GID.
fn gid(ip: IpAddr) -> [u8; 16] {
    match ip {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}
