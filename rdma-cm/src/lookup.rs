//! Services of datagrams: a host asks another one for the queue pair of a port (SIDR).
//!
//! The question is sent again until it is answered, and an answer that was given is given again for
//! a while. What strangers can make this hold is bounded by each listener's backlog and by
//! [`Config::ended_max`](crate::Config::ended_max).

use crate::connection::Retry;
use crate::event::Host;
use crate::manager::CommId;
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use wire::cm::{MAD_LEN, SidrReq};

/// A peer's question for a service of datagrams.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Question {
    /// The peer: the address that its MADs come from, and the port that it says it has.
    pub peer: SocketAddr,
    /// The port of the service.
    pub port: u16,
    /// The private data of the peer's program.
    pub private_data: [u8; SidrReq::PROGRAM_DATA],
}

/// Where a service of datagrams is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Service {
    /// The number of its queue pair.
    pub qpn: u32,
    /// The Q_Key of that.
    pub qkey: u32,
}

/// How far a question has come.
pub(crate) enum State {
    /// Active: it was sent, and is sent again until that time if nobody has the service.
    Asked { retry: Retry, until: Duration, is_refused: bool },
    /// Passive: the program has not answered yet.
    Waits { question: Box<Question> },
    /// Passive: this was the answer.
    Answered { mad: Box<[u8; MAD_LEN]> },
}

/// A question.
pub(crate) struct Entry {
    pub peer: Host,
    /// The number that its sender gave it.
    pub request_id: u32,
    pub tid: u64,
    pub service_id: u64,
    pub state: State,
    /// When something happens by itself.
    deadline: Duration,
}

/// All questions, and who listens for them.
#[derive(Default)]
pub(crate) struct Lookups {
    entries: BTreeMap<CommId, Entry>,
    /// The peers' questions, by the numbers that they gave them.
    theirs: BTreeMap<(IpAddr, u32), CommId>,
    deadlines: BTreeSet<(Duration, CommId)>,
    /// Those that were answered, the oldest first; some are forgotten already.
    answered: VecDeque<CommId>,
    /// How many may wait, and do, by port.
    pub listeners: BTreeMap<u16, [usize; 2]>,
}

impl Entry {
    pub const fn new(peer: Host, request_id: u32, tid: u64, service_id: u64, state: State) -> Self {
        Self { peer, request_id, tid, service_id, state, deadline: Duration::MAX }
    }
}

impl Lookups {
    pub fn get(&self, id: CommId) -> Option<&Entry> {
        self.entries.get(&id)
    }

    pub fn get_mut(&mut self, id: CommId) -> Option<&mut Entry> {
        self.entries.get_mut(&id)
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// The question to which a peer gave this number.
    pub fn of_peer(&self, peer: IpAddr, request_id: u32) -> Option<CommId> {
        self.theirs.get(&(peer, request_id)).copied()
    }

    pub fn insert(&mut self, id: CommId, entry: Entry, deadline: Duration) {
        if let State::Waits { question } = &entry.state {
            self.theirs.insert((entry.peer.ip, entry.request_id), id);
            if let Some([_, waiting]) = self.listeners.get_mut(&question.port) {
                *waiting += 1;
            }
        }
        self.entries.insert(id, entry);
        self.set_deadline(id, deadline);
    }

    pub fn set_deadline(&mut self, id: CommId, deadline: Duration) {
        let Some(entry) = self.entries.get_mut(&id) else { return };
        self.deadlines.remove(&(entry.deadline, id));
        entry.deadline = deadline;
        self.deadlines.insert((deadline, id));
    }

    pub fn first_deadline(&self) -> Option<(Duration, CommId)> {
        self.deadlines.first().copied()
    }

    /// The program has answered; the answer is remembered until `deadline`, and `max` are at most.
    pub fn answer(&mut self, id: CommId, mad: Box<[u8; MAD_LEN]>, deadline: Duration, max: usize) {
        self.leave_backlog(id);
        let Some(entry) = self.entries.get_mut(&id) else { return };
        entry.state = State::Answered { mad };
        self.set_deadline(id, deadline);
        self.answered.push_back(id);
        while self.answered.len() > max
            && let Some(oldest) = self.answered.pop_front()
        {
            if self.entries.get(&oldest).is_some_and(|entry| matches!(entry.state, State::Answered { .. })) {
                self.remove(oldest);
            }
        }
    }

    pub fn remove(&mut self, id: CommId) -> Option<Entry> {
        self.leave_backlog(id);
        let entry = self.entries.remove(&id)?;
        self.deadlines.remove(&(entry.deadline, id));
        let key = (entry.peer.ip, entry.request_id);
        if self.theirs.get(&key) == Some(&id) {
            self.theirs.remove(&key);
        }
        Some(entry)
    }

    /// Those that wait for an answer of a host, and are no longer asked again at `now`.
    pub fn given_up(&self, now: Duration, host: IpAddr) -> Vec<CommId> {
        let is = |entry: &Entry| {
            entry.peer.ip == host && matches!(entry.state, State::Asked { until, .. } if until <= now)
        };
        self.entries.iter().filter(|(_, entry)| is(entry)).map(|(id, _)| *id).collect()
    }

    /// Answers that are remembered until a time after `until`: their peers may ask for them again.
    pub fn owed(&self, until: Duration) -> usize {
        let is = |entry: &&Entry| matches!(entry.state, State::Answered { .. }) && entry.deadline > until;
        self.entries.values().filter(is).count()
    }

    fn leave_backlog(&mut self, id: CommId) {
        if let Some(Entry { state: State::Waits { question }, .. }) = self.entries.get(&id)
            && let Some([_, waiting]) = self.listeners.get_mut(&question.port)
        {
            *waiting = waiting.saturating_sub(1);
        }
    }
}
