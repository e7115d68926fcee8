//! Services of datagrams: questions for them, and their answers (SIDR).

use super::{CmError, CommId, Manager, padded};
use crate::connection::Retry;
use crate::event::{Event, Failure, Host};
use crate::lookup::{Entry, Question, Service, State};
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use wire::cm::{IpCmHeader, Mad, Message, SidrRep, SidrReq, SidrStatus, UdpPort};

/// The largest number of a queue pair.
const QPN_MAX: u32 = 0xFF_FFFE;

impl Manager {
    /// Takes questions for a service of datagrams; those that wait for the program are `backlog` at
    /// most. Ports of connections are others.
    ///
    /// # Errors
    /// [`CmError::PortInUse`].
    pub fn listen_for_datagrams(&mut self, port: u16, backlog: usize) -> Result<(), CmError> {
        if self.lookups.listeners.contains_key(&port) {
            return Err(CmError::PortInUse(port));
        }
        self.lookups.listeners.insert(port, [backlog, 0]);
        Ok(())
    }

    /// Takes no more. Questions that wait can still be answered.
    pub fn unlisten_for_datagrams(&mut self, port: u16) {
        self.lookups.listeners.remove(&port);
    }

    /// Asks the host `to.ip()` for the service of datagrams at its port. [`Event::Found`] or
    /// [`Event::Failed`] follows. Until the time `until` it is asked again if nobody has the
    /// service, or nobody answers.
    ///
    /// # Errors
    /// [`CmError::Family`], [`CmError::PrivateData`], [`CmError::TooMany`].
    pub fn look_up(
        &mut self,
        now: Duration,
        to: SocketAddr,
        src_port: u16,
        private_data: &[u8],
        until: Duration,
    ) -> Result<CommId, CmError> {
        let (from, peer) = (self.config.ip, to.ip());
        if from.is_ipv4() != peer.is_ipv4() {
            return Err(CmError::Family { from, to: peer });
        }
        let program = padded(private_data)?;
        let known = self.table.len() + self.lookups.len();
        if known >= self.config.connections_max {
            return Err(CmError::TooMany(known));
        }
        let (id, tid) = (self.new_id(), self.random.next_u64());
        let service_id = UdpPort(to.port()).service_id();
        let asked = SidrReq {
            request_id: id.0,
            pkey: 0xFFFF,
            service_id,
            private_data: IpCmHeader { src_port, src: from, dst: peer }.emit_sidr(&program),
        };
        let interval = self.config.retry_first;
        let retry = self.send_reliably(peer.into(), tid, 0, Message::SidrReq(Box::new(asked)), interval);
        let state = State::Asked { retry, until, is_refused: false };
        self.lookups.insert(
            id,
            Entry::new(peer.into(), id.0, tid, service_id, state),
            now.saturating_add(interval),
        );
        Ok(id)
    }

    /// A question that waits for the program.
    #[must_use]
    pub fn question(&self, id: CommId) -> Option<&Question> {
        match &self.lookups.get(id)?.state {
            State::Waits { question } => Some(question),
            _ => None,
        }
    }

    /// Answers a question that waits: `service` is there.
    ///
    /// # Errors
    /// [`CmError::State`] if it waits no more, [`CmError::PrivateData`].
    pub fn serve(
        &mut self,
        now: Duration,
        id: CommId,
        service: Service,
        private_data: &[u8],
    ) -> Result<(), CmError> {
        self.answer_question(now, id, SidrStatus::VALID, service, private_data)
    }

    /// Answers a question that waits: the program does not want to.
    ///
    /// # Errors
    /// As [`serve`](Self::serve).
    pub fn refuse(&mut self, now: Duration, id: CommId, private_data: &[u8]) -> Result<(), CmError> {
        let nowhere = Service { qpn: 0, qkey: 0 };
        self.answer_question(now, id, SidrStatus::REJECTED, nowhere, private_data)
    }

    fn answer_question(
        &mut self,
        now: Duration,
        id: CommId,
        status: SidrStatus,
        service: Service,
        private_data: &[u8],
    ) -> Result<(), CmError> {
        let private_data = padded(private_data)?;
        self.question(id).ok_or(CmError::State)?;
        let entry = self.lookups.get(id).ok_or(CmError::State)?;
        let (peer, tid) = (entry.peer, entry.tid);
        let answer = SidrRep {
            request_id: entry.request_id,
            status,
            qpn: service.qpn,
            service_id: entry.service_id,
            qkey: service.qkey,
            private_data,
        };
        let mad = self.send(peer, tid, 0, Message::SidrRep(Box::new(answer)));
        let deadline = now.saturating_add(self.config.reject_wait);
        self.lookups.answer(id, mad, deadline, self.config.ended_max);
        Ok(())
    }

    /// Ends a question: a peer's that waits is refused. False if there is none of that number.
    pub(super) fn close_question(&mut self, now: Duration, id: CommId) -> bool {
        match self.lookups.get(id).map(|entry| &entry.state) {
            None => return false,
            Some(State::Waits { .. }) => {
                // Nothing is too long, and it waits.
                let _ = self.refuse(now, id, &[]);
            }
            Some(State::Asked { .. }) => drop(self.lookups.remove(id)),
            Some(State::Answered { .. }) => {}
        }
        true
    }

    pub(super) fn handle_sidr_req(&mut self, now: Duration, from: Host, mad: &Mad, asked: &SidrReq) {
        if let Some(id) = self.lookups.of_peer(from.ip, asked.request_id)
            && let Some(entry) = self.lookups.get(id)
        {
            if entry.tid == mad.tid {
                self.stats.duplicates += 1;
                if let State::Answered { mad } = &entry.state {
                    let mad = mad.clone();
                    self.queue(from, mad);
                }
                return;
            }
            // The peer has begun its numbers anew.
            self.lookups.remove(id);
        }
        let Some(question) = self.question_of(from.ip, asked) else {
            let answer = SidrRep {
                request_id: asked.request_id,
                status: SidrStatus::UNSUPPORTED,
                qpn: 0,
                service_id: asked.service_id,
                qkey: 0,
                private_data: [0; SidrRep::PRIVATE_DATA],
            };
            self.stats.rejected += 1;
            self.send(from, mad.tid, 0, Message::SidrRep(Box::new(answer)));
            return;
        };
        if self.lookups.listeners.get(&question.port).is_some_and(|[backlog, waiting]| waiting >= backlog) {
            self.stats.backlog_full += 1;
            return;
        }
        if self.table.len() + self.lookups.len() >= self.config.connections_max {
            self.stats.table_full += 1;
            return;
        }
        self.stats.requests += 1;
        let (id, port) = (self.new_id(), question.port);
        let state = State::Waits { question };
        let entry = Entry::new(from, asked.request_id, mad.tid, asked.service_id, state);
        self.lookups.insert(id, entry, now.saturating_add(self.config.request_lifetime));
        self.events.push_back(Event::Asked { id, port });
    }

    /// What a SIDR_REQ asks, if somebody listens for it.
    fn question_of(&self, from: IpAddr, asked: &SidrReq) -> Option<Box<Question>> {
        let port = UdpPort::of(asked.service_id)?.0;
        let (header, private_data) = IpCmHeader::parse_sidr(&asked.private_data).ok()?;
        let is_ours = header.dst == self.config.ip && self.lookups.listeners.contains_key(&port);
        let peer = SocketAddr::new(from, header.src_port);
        is_ours.then(|| Box::new(Question { peer, port, private_data }))
    }

    pub(super) fn handle_sidr_rep(&mut self, now: Duration, from: Host, tid: u64, answer: &SidrRep) {
        let id = CommId(answer.request_id);
        let Some(entry) =
            self.lookups.get_mut(id).filter(|entry| entry.peer.ip == from.ip && entry.tid == tid)
        else {
            self.stats.strangers += 1;
            return;
        };
        let State::Asked { until, is_refused, .. } = &mut entry.state else {
            self.stats.unexpected += 1;
            return;
        };
        if answer.status == SidrStatus::UNSUPPORTED && now < *until {
            // Somebody may have it later.
            *is_refused = true;
            return;
        }
        self.lookups.remove(id);
        let is_there = answer.status == SidrStatus::VALID && (1..=QPN_MAX).contains(&answer.qpn);
        self.events.push_back(if is_there {
            let service = Service { qpn: answer.qpn, qkey: answer.qkey };
            Event::Found { id, service, private_data: Box::new(answer.private_data) }
        } else {
            Event::Failed { id, failure: Failure::NotServed { status: answer.status } }
        });
    }

    pub(super) fn handle_question_timeouts(&mut self, now: Duration) {
        while let Some((deadline, id)) = self.lookups.first_deadline() {
            if deadline > now {
                return;
            }
            let (retries, longest) = (self.config.retries, self.config.retry_max);
            match self.lookups.get_mut(id).map(|entry| (entry.peer, &mut entry.state)) {
                Some((peer, State::Asked { retry, until, .. })) if now < *until || retry.resent < retries => {
                    let (mad, interval) = again(retry, longest);
                    self.stats.retransmitted += 1;
                    self.queue(peer, mad);
                    self.lookups.set_deadline(id, now.saturating_add(interval));
                }
                Some((_, State::Asked { is_refused, .. })) => {
                    let status = SidrStatus::UNSUPPORTED;
                    let failure = if *is_refused { Failure::NotServed { status } } else { Failure::TimedOut };
                    self.stats.timed_out += 1;
                    self.lookups.remove(id);
                    self.events.push_back(Event::Failed { id, failure });
                }
                Some((_, State::Waits { .. })) => {
                    self.stats.expired += 1;
                    self.lookups.remove(id);
                    self.events.push_back(Event::Failed { id, failure: Failure::Expired });
                }
                Some((_, State::Answered { .. })) | None => drop(self.lookups.remove(id)),
            }
        }
    }

    /// Nobody has that address: who asks there and has no patience left hears of it.
    pub(super) fn fail_questions(&mut self, now: Duration, host: IpAddr) {
        for id in self.lookups.given_up(now, host) {
            self.lookups.remove(id);
            self.events.push_back(Event::Failed { id, failure: Failure::Unreachable });
        }
    }
}

/// The message once more, and the time until the next copy.
fn again(retry: &mut Retry, longest: Duration) -> (Box<[u8; wire::cm::MAD_LEN]>, Duration) {
    retry.resent = retry.resent.saturating_add(1);
    retry.interval = (retry.interval * 2).min(longest);
    (retry.mad.clone(), retry.interval)
}
