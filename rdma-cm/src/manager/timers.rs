//! Timers: what the manager does when no message comes.

use super::{CommId, Manager};
use crate::connection::State;
use crate::event::{Event, Failure};
use core::time::Duration;
use wire::cm::RejReason;

impl Manager {
    /// When [`handle_timeouts`](Self::handle_timeouts) is to be called next; `None`: not before
    /// something else happens.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Duration> {
        let firsts = [self.table.first_deadline(), self.lookups.first_deadline()];
        firsts.into_iter().flatten().map(|(deadline, _)| deadline).min()
    }

    /// Sends again what was not answered, and gives up what was not answered often enough.
    pub fn handle_timeouts(&mut self, now: Duration) {
        self.handle_question_timeouts(now);
        while let Some((deadline, id)) = self.table.first_deadline() {
            if deadline > now {
                return;
            }
            self.table.set_deadline(id, None);
            self.handle_timeout(now, id);
        }
    }

    fn handle_timeout(&mut self, now: Duration, id: CommId) {
        let Some(connection) = self.table.get_mut(id) else { return };
        let peer = connection.peer;
        let persists = matches!(&connection.state, State::ReqSent { patience, .. } if patience.lasts(now));
        let is_late = connection.state.fails_at().is_some_and(|end| end <= now);
        match &mut connection.state {
            State::ReqSent { retry, .. } | State::RepSent { retry } | State::DreqSent { retry }
                if persists || retry.resent < self.config.retries && !is_late =>
            {
                retry.resent = retry.resent.saturating_add(1);
                retry.interval = (retry.interval * 2).min(self.config.retry_max);
                let (mad, next) = (retry.mad.clone(), now.saturating_add(retry.interval));
                self.stats.retransmitted += 1;
                self.queue(peer, mad);
                self.table.set_deadline(id, Some(next));
            }
            State::ReqSent { .. } | State::RepSent { .. } => {
                self.stats.timed_out += 1;
                let failure = self.refusal(id).cloned().unwrap_or(Failure::TimedOut);
                self.send_rej_timeout(id);
                self.fail(id, failure);
            }
            State::DreqSent { .. } => {
                self.stats.timed_out += 1;
                self.end(now, id, State::TimeWait);
                self.events.push_back(Event::Disconnected { id });
            }
            State::ReqRcvd { .. } => {
                self.stats.expired += 1;
                self.end_by_rej(now, id, RejReason::TIMEOUT, [0; wire::cm::Rej::PRIVATE_DATA]);
                self.events.push_back(Event::Failed { id, failure: Failure::Expired });
            }
            State::Rejected { .. } | State::TimeWait => {
                self.table.remove(id);
            }
            // They wait for the program, or for ever.
            State::RepRcvd | State::Established { .. } => {}
        }
    }

    /// There will be no connection.
    pub(super) fn fail(&mut self, id: CommId, failure: Failure) {
        self.leave_backlog(id);
        self.table.remove(id);
        self.events.push_back(Event::Failed { id, failure });
    }
}
