//! Connections by their numbers, their peers', and their deadlines.

use super::CommId;
use crate::connection::{Connection, State};
use core::net::IpAddr;
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// All connections. In order, so that a seed repeats whatever walks over them.
#[derive(Default)]
pub struct Table {
    connections: BTreeMap<CommId, Connection>,
    /// Passive ones, by the peer's number.
    by_remote_id: BTreeMap<(IpAddr, u32), CommId>,
    /// Those that have or had a queue pair at the peer, by its number.
    by_remote_qpn: BTreeMap<(IpAddr, u32), CommId>,
    deadlines: BTreeSet<(Duration, CommId)>,
    /// Those that have ended, the oldest first; some are forgotten already.
    ended: VecDeque<CommId>,
}

impl Table {
    pub fn len(&self) -> usize {
        self.connections.len()
    }

    pub fn get(&self, id: CommId) -> Option<&Connection> {
        self.connections.get(&id)
    }

    pub fn get_mut(&mut self, id: CommId) -> Option<&mut Connection> {
        self.connections.get_mut(&id)
    }

    /// The connections for which `is` returns true. Looks at all connections.
    pub fn ids(&self, is: impl Fn(&Connection) -> bool) -> Vec<CommId> {
        self.connections.iter().filter(|(_, connection)| is(connection)).map(|(id, _)| *id).collect()
    }

    /// The number of connections for which `is` returns true. Looks at all connections.
    pub fn count(&self, is: impl Fn(&Connection) -> bool) -> usize {
        self.connections.values().filter(|connection| is(connection)).count()
    }

    /// A new connection, without a deadline.
    pub fn insert(&mut self, id: CommId, connection: Connection) {
        if connection.listener.is_some() {
            self.by_remote_id.insert((connection.peer.ip, connection.remote_id), id);
            self.by_remote_qpn.insert((connection.peer.ip, connection.remote_qpn), id);
        }
        self.connections.insert(id, connection);
    }

    /// An active connection learns who its peer is.
    pub fn set_remote(&mut self, id: CommId, remote_id: u32, remote_qpn: u32) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        (connection.remote_id, connection.remote_qpn) = (remote_id, remote_qpn);
        self.by_remote_qpn.insert((connection.peer.ip, remote_qpn), id);
    }

    /// The passive connection to which the peer gave this number.
    pub fn by_remote_id(&self, peer: IpAddr, remote_id: u32) -> Option<CommId> {
        self.by_remote_id.get(&(peer, remote_id)).copied()
    }

    /// The connection with this queue pair of the peer's.
    pub fn by_remote_qpn(&self, peer: IpAddr, qpn: u32) -> Option<CommId> {
        self.by_remote_qpn.get(&(peer, qpn)).copied()
    }

    pub fn remove(&mut self, id: CommId) -> Option<Connection> {
        self.set_deadline(id, None);
        let connection = self.connections.remove(&id)?;
        let keys = [
            (&mut self.by_remote_id, connection.remote_id),
            (&mut self.by_remote_qpn, connection.remote_qpn),
        ];
        for (index, number) in keys {
            // Another may have taken its place.
            if index.get(&(connection.peer.ip, number)) == Some(&id) {
                index.remove(&(connection.peer.ip, number));
            }
        }
        Some(connection)
    }

    pub fn set_deadline(&mut self, id: CommId, deadline: Option<Duration>) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let deadline = deadline.map(|deadline| deadline.min(connection.state.fails_at().unwrap_or(deadline)));
        if let Some(old) = connection.deadline.take() {
            self.deadlines.remove(&(old, id));
        }
        connection.deadline = deadline;
        self.deadlines.extend(deadline.map(|deadline| (deadline, id)));
    }

    /// The earliest deadline.
    pub fn first_deadline(&self) -> Option<(Duration, CommId)> {
        self.deadlines.first().copied()
    }

    /// A connection has ended, and is remembered until `deadline`; if more than `max` are, the
    /// oldest is forgotten.
    pub fn end(&mut self, id: CommId, state: State, deadline: Duration, max: usize) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.state = state;
        self.set_deadline(id, Some(deadline));
        self.ended.push_back(id);
        while self.ended.front().is_some_and(|oldest| !self.has_ended(*oldest)) {
            self.ended.pop_front();
        }
        if self.ended.len() > max
            && let Some(oldest) = self.ended.pop_front()
        {
            self.remove(oldest);
        }
    }

    fn has_ended(&self, id: CommId) -> bool {
        self.connections.get(&id).is_some_and(|connection| connection.state.has_ended())
    }
}
