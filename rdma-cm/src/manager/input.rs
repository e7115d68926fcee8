//! Messages that come in.

use super::{CommId, Manager};
use crate::config::timeout;
use crate::connection::{Connection, State};
use crate::dialect::Options;
use crate::event::{Event, Failure, Host, Request};
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use wire::cm::{Drep, Dreq, IpCmHeader, Mad, Message, Mra, Refers, Rej, RejReason, Rep, Req, Rtu, TcpPort};

/// Largest code of a service time that is believed: 69 s.
const SERVICE_TIMEOUT_MAX: u8 = 24;
/// The largest number of a queue pair.
const QPN_MAX: u32 = 0xFF_FFFE;

impl Manager {
    /// Takes the payload of a datagram that came to queue pair 1 from the host `from`.
    pub fn handle_mad(&mut self, now: Duration, from: impl Into<Host>, bytes: &[u8]) {
        let from = from.into();
        self.stats.received += 1;
        let Ok(mad) = Mad::parse(bytes) else {
            self.stats.malformed += 1;
            return;
        };
        let tid = mad.tid;
        match &mad.message {
            Message::Req(req) => self.handle_req(now, from, &mad, req),
            Message::Mra(mra) => self.handle_mra(now, from, mra),
            Message::Rej(rej) => self.handle_rej(now, from, rej),
            Message::Rep(rep) => self.handle_rep(now, from, &mad, rep),
            Message::Rtu(rtu) => self.handle_rtu(from, rtu),
            Message::Dreq(dreq) => self.handle_dreq(now, from, tid, dreq),
            Message::Drep(drep) => self.handle_drep(now, from, tid, drep),
            Message::SidrReq(asked) => self.handle_sidr_req(now, from, &mad, asked),
            Message::SidrRep(answer) => self.handle_sidr_rep(now, from, tid, answer),
        }
    }

    /// The connection that a message is about, if it is one with that host.
    fn find(&self, from: Host, ours: u32, theirs: u32) -> Option<(CommId, &Connection)> {
        let connection = self.table.get(CommId(ours))?;
        let known = connection.remote_id == 0 || connection.remote_id == theirs;
        (connection.peer.ip == from.ip && known).then_some((CommId(ours), connection))
    }

    /// The connection with this queue pair of the peer's, if it has not ended.
    fn live_by_qpn(&self, peer: IpAddr, qpn: u32) -> Option<CommId> {
        let id = self.table.by_remote_qpn(peer, qpn)?;
        self.table.get(id).is_some_and(|connection| !connection.state.has_ended()).then_some(id)
    }

    fn handle_req(&mut self, now: Duration, from: Host, mad: &Mad, req: &Req) {
        if let Some(id) = self.table.by_remote_id(from.ip, req.local_comm_id)
            && self.handle_known_req(now, id, mad, req)
        {
            return;
        }
        let ids = [0, req.local_comm_id];
        let request = match self.request_of(from, mad, req) {
            Ok(request) => request,
            Err(reason) => return self.send_rej(from, mad.tid, ids, Refers::REQ, reason),
        };
        if let Some(old) = self.live_by_qpn(from.ip, req.qpn) {
            // The peer has a new connection for its queue pair, so it has forgotten the old one.
            self.end_stale(now, old);
            return self.send_rej(from, mad.tid, ids, Refers::REQ, RejReason::STALE_CONNECTION);
        }
        self.take_request(now, mad, req, request);
    }

    /// A REQ with the number of a connection that is there. False if that one has made way.
    fn handle_known_req(&mut self, now: Duration, id: CommId, mad: &Mad, req: &Req) -> bool {
        let Some(connection) = self.table.get_mut(id) else { return false };
        let (peer, tid) = (connection.peer, connection.tid);
        if (tid, connection.remote_qpn, connection.remote_psn) != (mad.tid, req.qpn, req.starting_psn) {
            // The peer has begun its numbers anew.
            if connection.state.has_ended() {
                self.table.remove(id);
                return false;
            }
            self.end_stale(now, id);
            self.send_rej(peer, mad.tid, [0, req.local_comm_id], Refers::REQ, RejReason::STALE_CONNECTION);
            return true;
        }
        self.stats.duplicates += 1;
        match &connection.state {
            State::ReqRcvd { .. } => {
                let deadline = now.saturating_add(self.config.request_lifetime);
                self.send_mra(id, Refers::REQ);
                self.table.set_deadline(id, Some(deadline));
            }
            State::RepSent { retry } => {
                let mad = retry.mad.clone();
                self.queue(peer, mad);
            }
            State::Rejected { rej } => {
                let (rej, deadline) = (rej.clone(), now.saturating_add(self.config.reject_wait));
                self.queue(peer, rej);
                self.table.set_deadline(id, Some(deadline));
                self.owe(now, id);
            }
            _ => {}
        }
        true
    }

    /// What a REQ asks for, or why it cannot have it.
    fn request_of(&self, from: Host, mad: &Mad, req: &Req) -> Result<Box<Request>, RejReason> {
        let port = TcpPort::of(req.service_id).ok_or(RejReason::INVALID_SERVICE_ID)?;
        if req.transport != 0 {
            return Err(RejReason::INVALID_TRANSPORT);
        }
        let (header, private_data) =
            IpCmHeader::parse(&req.private_data).map_err(|_| RejReason::UNSUPPORTED)?;
        if header.dst != self.config.ip {
            return Err(RejReason::INVALID_GID);
        }
        if !self.listeners.contains_key(&port.0) {
            return Err(RejReason::INVALID_SERVICE_ID);
        }
        if !(1..=QPN_MAX).contains(&req.qpn) {
            return Err(RejReason::NO_QP);
        }
        Ok(Box::new(Request {
            peer: SocketAddr::new(from.ip, header.src_port),
            mac: from.mac,
            port: port.0,
            qpn: req.qpn,
            psn: req.starting_psn,
            path_mtu: req.path_mtu().ok_or(RejReason::INVALID_MTU)?,
            responder_resources: req.responder_resources,
            initiator_depth: req.initiator_depth,
            retry_count: req.retry_count,
            rnr_retry_count: req.rnr_retry_count,
            ack_timeout: req.ack_timeout,
            srq: req.srq,
            offer: Options::from_ece(req.vendor_id, mad.attr_mod),
            private_data,
        }))
    }

    fn take_request(&mut self, now: Duration, mad: &Mad, req: &Req, request: Box<Request>) {
        let Some(listener) = self.listeners.get_mut(&request.port) else { return };
        if listener.waiting >= listener.backlog {
            self.stats.backlog_full += 1;
            return;
        }
        if self.table.len() >= self.config.connections_max {
            self.stats.table_full += 1;
            return;
        }
        listener.waiting += 1;
        let number = listener.number;
        self.stats.requests += 1;
        let (id, port) = (self.new_id(), request.port);
        let connection = Connection {
            peer: Host { ip: request.peer.ip(), mac: request.mac },
            remote_id: req.local_comm_id,
            remote_qpn: req.qpn,
            remote_psn: req.starting_psn,
            qpn: 0,
            tid: mad.tid,
            listener: Some(number),
            put_off: 0,
            state: State::ReqRcvd { request },
            deadline: None,
            owed_until: None,
        };
        self.table.insert(id, connection);
        self.table.set_deadline(id, Some(now.saturating_add(self.config.request_lifetime)));
        self.events.push_back(Event::Requested { id, port });
    }

    /// The peer uses its queue pair for another connection.
    fn end_stale(&mut self, now: Duration, id: CommId) {
        let Some(connection) = self.table.get(id) else { return };
        self.stats.stale += 1;
        if matches!(connection.state, State::Established { .. } | State::DreqSent { .. }) {
            self.end(now, id, State::TimeWait);
            self.events.push_back(Event::Disconnected { id });
        } else {
            let reason = RejReason::STALE_CONNECTION;
            self.fail(id, Failure::Rejected { reason, private_data: Box::new([0; Rej::PRIVATE_DATA]) });
        }
    }

    fn handle_rep(&mut self, now: Duration, from: Host, mad: &Mad, rep: &Rep) {
        let ids = [rep.remote_comm_id, rep.local_comm_id];
        let Some((id, connection)) = self.find(from, rep.remote_comm_id, rep.local_comm_id) else {
            // Else it would repeat it until it gives up.
            self.stats.strangers += 1;
            return self.send_rej(from, mad.tid, ids, Refers::REP, RejReason::INVALID_COMM_ID);
        };
        match &connection.state {
            State::ReqSent { terms, .. } if (1..=QPN_MAX).contains(&rep.qpn) => {
                let agreed = terms.for_reply(rep, mad.attr_mod);
                if let Some(old) = self.live_by_qpn(from.ip, rep.qpn) {
                    self.end_stale(now, old);
                }
                self.table.set_deadline(id, None);
                self.table.set_remote(id, rep.local_comm_id, rep.qpn);
                let Some(connection) = self.table.get_mut(id) else { return };
                connection.state = State::RepRcvd;
                match agreed {
                    Ok(agreed) => {
                        let private_data = Box::new(rep.private_data);
                        self.events.push_back(Event::Replied { id, agreed, private_data });
                    }
                    Err(why) => {
                        self.end_by_rej(now, id, why.reason(), [0; Rej::PRIVATE_DATA]);
                        self.events.push_back(Event::Failed { id, failure: Failure::Disagreed(why) });
                    }
                }
            }
            State::RepRcvd => {
                self.stats.duplicates += 1;
                self.send_mra(id, Refers::REP);
            }
            State::Established { active: true } => {
                self.stats.duplicates += 1;
                self.send_rtu(id);
            }
            State::Rejected { rej } => {
                let rej = rej.clone();
                self.stats.duplicates += 1;
                self.queue(from, rej);
                self.owe(now, id);
            }
            _ => self.stats.unexpected += 1,
        }
    }

    fn handle_rtu(&mut self, from: Host, rtu: &Rtu) {
        let Some((id, connection)) = self.find(from, rtu.remote_comm_id, rtu.local_comm_id) else {
            self.stats.strangers += 1;
            return;
        };
        match connection.state {
            State::RepSent { .. } => self.establish(id),
            State::Established { active: false } | State::DreqSent { .. } | State::TimeWait => {
                self.stats.duplicates += 1;
            }
            _ => self.stats.unexpected += 1,
        }
    }

    /// Passive: the peer is ready.
    fn establish(&mut self, id: CommId) {
        let Some(connection) = self.table.get_mut(id) else { return };
        connection.state = State::Established { active: false };
        // It is no stranger any more: if its Ethernet address changes, it may be looked for.
        connection.peer.mac = None;
        self.table.set_deadline(id, None);
        self.stats.established += 1;
        self.events.push_back(Event::Established { id });
    }

    fn handle_mra(&mut self, now: Duration, from: Host, mra: &Mra) {
        let retries = self.config.retries;
        let Some((id, _)) = self.find(from, mra.remote_comm_id, mra.local_comm_id) else {
            self.stats.strangers += 1;
            return;
        };
        let retry = match self.table.get_mut(id).map(|connection| &mut connection.state) {
            Some(State::ReqSent { retry, refusal, .. }) if mra.refers == Refers::REQ => {
                // Somebody listens by now.
                refusal.heard = None;
                retry
            }
            Some(State::RepSent { retry }) if mra.refers == Refers::REP => retry,
            _ => {
                self.stats.unexpected += 1;
                return;
            }
        };
        // Who says so again and again is not believed for ever.
        if retry.delayed >= retries {
            self.stats.unexpected += 1;
            return;
        }
        retry.delayed += 1;
        let service = timeout(mra.service_timeout.min(SERVICE_TIMEOUT_MAX));
        let deadline = now.saturating_add(service).saturating_add(retry.interval);
        self.table.set_deadline(id, Some(deadline));
    }

    fn handle_rej(&mut self, now: Duration, from: Host, rej: &Rej) {
        // Who gives up before it was answered does not know our number.
        let ours = if rej.remote_comm_id == 0 {
            self.table.by_remote_id(from.ip, rej.local_comm_id).map_or(0, |id| id.0)
        } else {
            rej.remote_comm_id
        };
        let connection = self.table.get(CommId(ours)).filter(|connection| {
            // Who has no connection has no number of it; such a one has nothing to end either.
            let known = connection.remote_id == rej.local_comm_id;
            let begun = !matches!(connection.state, State::Established { .. } | State::DreqSent { .. });
            connection.peer.ip == from.ip
                && (known || begun && (connection.remote_id == 0 || rej.local_comm_id == 0))
        });
        let Some(connection) = connection else {
            self.stats.strangers += 1;
            return;
        };
        let id = CommId(ours);
        match connection.state {
            State::ReqSent { .. } | State::RepRcvd | State::ReqRcvd { .. } | State::RepSent { .. } => {
                let private_data = Box::new(rej.private_data);
                self.rejected(now, id, rej.refers, Failure::Rejected { reason: rej.reason, private_data });
            }
            State::Established { .. } | State::DreqSent { .. } => {
                self.end(now, id, State::TimeWait);
                self.events.push_back(Event::Disconnected { id });
            }
            State::Rejected { .. } | State::TimeWait => self.heard_of_the_end(id),
        }
    }

    /// There is no connection yet, and the peer wants none. A peer without a listener may have one
    /// later, and one that had a connection with the queue pair has ended it by now: then the
    /// request goes on, and is sent again at its time.
    fn rejected(&mut self, now: Duration, id: CommId, refers: Refers, failure: Failure) {
        let Some(connection) = self.table.get_mut(id) else { return };
        let is = |wanted| matches!(failure, Failure::Rejected { reason, .. } if reason == wanted);
        let is_stale = is(RejReason::STALE_CONNECTION);
        let is_refusal = is(RejReason::INVALID_SERVICE_ID);
        match &mut connection.state {
            State::ReqSent { patience, refusal, .. }
                if patience.lasts(now) && (is_stale || is_refusal && !refusal.needs_listener) =>
            {
                refusal.heard = Some(failure);
                // It is not later than the attempt may last.
                let deadline = connection.deadline;
                self.table.set_deadline(id, deadline);
            }
            // Of an earlier copy of the REQ, and overtaken by the REP.
            State::RepRcvd if refers == Refers::REQ && (is_refusal || is_stale) => self.stats.duplicates += 1,
            _ => self.fail(id, failure),
        }
    }

    fn handle_dreq(&mut self, now: Duration, from: Host, tid: u64, dreq: &Dreq) {
        let ids = [dreq.remote_comm_id, dreq.local_comm_id];
        let Some((id, connection)) = self.find(from, dreq.remote_comm_id, dreq.local_comm_id) else {
            // What is not there is disconnected.
            self.stats.strangers += 1;
            return self.send_drep(from, tid, ids);
        };
        if connection.qpn != dreq.remote_qpn || connection.remote_id == 0 {
            self.stats.unexpected += 1;
            return;
        }
        match connection.state {
            // The RTU was lost: the peer was ready.
            State::RepSent { .. } => self.establish(id),
            State::Established { .. } | State::DreqSent { .. } | State::RepRcvd => {}
            // Rejected by us, of which the peer has not heard: it believes in the connection until
            // then.
            State::TimeWait | State::Rejected { .. } => {
                self.stats.duplicates += 1;
                self.owe(now, id);
                return self.send_drep(from, tid, ids);
            }
            State::ReqSent { .. } | State::ReqRcvd { .. } => {
                self.stats.unexpected += 1;
                return;
            }
        }
        self.send_drep(from, tid, ids);
        self.end(now, id, State::TimeWait);
        self.owe(now, id);
        self.events.push_back(Event::Disconnected { id });
    }

    fn handle_drep(&mut self, now: Duration, from: Host, tid: u64, drep: &Drep) {
        let Some((id, connection)) = self.find(from, drep.remote_comm_id, drep.local_comm_id) else {
            self.stats.strangers += 1;
            return;
        };
        match connection.state {
            State::DreqSent { .. } => {
                // The peer learns that it is not asked again, and may leave.
                self.send_drep(from, tid, [id.0, drep.local_comm_id]);
                self.end(now, id, State::TimeWait);
                self.events.push_back(Event::Disconnected { id });
            }
            State::TimeWait => self.heard_of_the_end(id),
            _ => self.stats.unexpected += 1,
        }
    }

    /// The peer knows that it is over.
    fn heard_of_the_end(&mut self, id: CommId) {
        let owed = self.table.get_mut(id).and_then(|connection| connection.owed_until.take());
        self.stats.duplicates += u64::from(owed.is_none());
    }
}
