//! Messages that go out, and how a connection ends by one.

use super::{CommId, Manager};
use crate::connection::{Connection, State};
use crate::event::{Host, Transmit};
use core::ops::RangeInclusive;
use core::time::Duration;
use wire::cm::{Drep, MAD_LEN, Mad, Message, Mra, Refers, Rej, RejReason};

/// Code of the time that a program may take to accept, of which a peer is told that sends its REQ
/// again: 4.3 s.
const ACCEPT_TIMEOUT: u8 = 20;
/// Codes of those that a program may take to be ready, of which a peer is told that sends its REP
/// again: 67 ms, four times as long each time, and 4.3 s at most. A peer that waits does not miss
/// an RTU that is lost meanwhile.
const READY_TIMEOUTS: RangeInclusive<u8> = 14..=20;
const READY_TIMEOUT_STEP: u8 = 2;

impl Manager {
    /// Queues a message; returns its bytes.
    pub(super) fn send(&mut self, to: Host, tid: u64, attr_mod: u32, message: Message) -> Box<[u8; MAD_LEN]> {
        let mad = Box::new(Mad { tid, attr_mod, message }.emit());
        self.queue(to, mad.clone());
        mad
    }

    pub(super) fn queue(&mut self, to: Host, mad: Box<[u8; MAD_LEN]>) {
        if self.output.len() >= self.config.output_max {
            self.stats.output_full += 1;
            return;
        }
        self.stats.sent += 1;
        self.output.push_back(Transmit { to, mad });
    }

    /// Tells the peer of a connection that it is rejected; the connection is remembered for a
    /// while, to say so again.
    pub(super) fn end_by_rej(
        &mut self,
        now: Duration,
        id: CommId,
        reason: RejReason,
        private_data: [u8; Rej::PRIVATE_DATA],
    ) {
        self.leave_backlog(id);
        let Some(connection) = self.table.get(id) else { return };
        let refers = match connection.state {
            State::ReqRcvd { .. } => Refers::REQ,
            State::RepRcvd => Refers::REP,
            _ => Refers::OTHER,
        };
        let (peer, tid) = (connection.peer, connection.tid);
        let (info, info_len) = self.info(reason);
        let rej = Rej {
            local_comm_id: id.0,
            remote_comm_id: connection.remote_id,
            refers,
            info_len,
            reason,
            info,
            private_data,
        };
        self.stats.rejected += 1;
        let rej = self.send(peer, tid, 0, Message::Rej(Box::new(rej)));
        self.end(now, id, State::Rejected { rej });
        self.owe(now, id);
    }

    /// The peer was answered, and may ask again. The connection is remembered for as long at least.
    pub(super) fn owe(&mut self, now: Duration, id: CommId) {
        let until = now.saturating_add(self.config.linger);
        if let Some(connection) = self.table.get_mut(id) {
            connection.owed_until = Some(until);
            let deadline = connection.deadline.max(Some(until));
            self.table.set_deadline(id, deadline);
        }
    }

    /// It is over; what comes late is still answered for a while.
    pub(super) fn end(&mut self, now: Duration, id: CommId, state: State) {
        let remembered = match state {
            State::Rejected { .. } => self.config.reject_wait,
            _ => self.config.time_wait,
        };
        let deadline = now.saturating_add(remembered);
        self.table.end(id, state, deadline, self.config.ended_max);
    }

    /// Tells the peer, which has not answered yet, that its answer is not awaited any more. It does
    /// not know us by number, but by its own of our request, and our GUID.
    pub(super) fn send_rej_timeout(&mut self, id: CommId) {
        let Some(Connection { peer, tid, remote_id, .. }) = self.table.get(id) else { return };
        let (peer, tid, remote_comm_id) = (*peer, *tid, *remote_id);
        self.send_rej(peer, tid, [id.0, remote_comm_id], Refers::OTHER, RejReason::TIMEOUT);
    }

    /// A rejection of what belongs to no connection here; `ids` are ours and the peer's.
    pub(super) fn send_rej(&mut self, to: Host, tid: u64, ids: [u32; 2], refers: Refers, reason: RejReason) {
        let [local_comm_id, remote_comm_id] = ids;
        let (info, info_len) = self.info(reason);
        let private_data = [0; Rej::PRIVATE_DATA];
        let rej = Rej { local_comm_id, remote_comm_id, refers, info_len, reason, info, private_data };
        self.stats.rejected += 1;
        self.send(to, tid, 0, Message::Rej(Box::new(rej)));
    }

    /// What goes with a reason: with a timeout who we are.
    fn info(&self, reason: RejReason) -> ([u8; Rej::INFO], u8) {
        let mut info = [0; Rej::INFO];
        if reason != RejReason::TIMEOUT {
            return (info, 0);
        }
        info[..8].copy_from_slice(&self.config.ca_guid.to_be_bytes());
        (info, 8)
    }

    pub(super) fn send_mra(&mut self, id: CommId, refers: Refers) {
        let Some(connection) = self.table.get_mut(id) else { return };
        let (peer, tid) = (connection.peer, connection.tid);
        let service_timeout = if refers == Refers::REP {
            let (first, last) = READY_TIMEOUTS.into_inner();
            let longer = connection.put_off.saturating_mul(READY_TIMEOUT_STEP);
            connection.put_off = connection.put_off.saturating_add(1);
            longer.saturating_add(first).min(last)
        } else {
            ACCEPT_TIMEOUT
        };
        let mra = Mra {
            local_comm_id: id.0,
            remote_comm_id: connection.remote_id,
            refers,
            service_timeout,
            private_data: [0; Mra::PRIVATE_DATA],
        };
        self.send(peer, tid, 0, Message::Mra(Box::new(mra)));
    }

    /// The answer to a DREQ, of a connection or not. Also the answer to a DREP: who sent that need
    /// not stay for us.
    pub(super) fn send_drep(&mut self, to: Host, tid: u64, ids: [u32; 2]) {
        let [local_comm_id, remote_comm_id] = ids;
        let drep = Drep { local_comm_id, remote_comm_id, private_data: [0; Drep::PRIVATE_DATA] };
        self.send(to, tid, 0, Message::Drep(Box::new(drep)));
    }
}
