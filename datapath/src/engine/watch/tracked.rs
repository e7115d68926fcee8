//! A sampled operation and the queue pair that it is of.

use super::report_of;
use crate::engine::QpLimit;
use crate::engine::admin::{QpReport, limit_of};
use crate::latency::{Part, Polled, Posted, Sample, Standing, Track};
use crate::qp::{Qp, QpFlags, QpTable, Units, Watched};
use crate::queue::WcStatus;
use crate::time::Time;

/// What a look has found.
#[expect(clippy::large_enum_variant, reason = "it is returned and taken apart at once")]
pub(super) enum Look {
    /// The operation goes on.
    Goes,
    /// It is complete, and was not polled.
    AwaitsPoll,
    /// Its queue pair, or its completion, is not to be found any more.
    Gone,
    /// It has ended.
    Ended(Sample, Option<QpReport>),
}

/// A completion that waits to be polled.
#[derive(Clone, Copy)]
struct Completed {
    /// Its position in the completion queue.
    position: u32,
    status: WcStatus,
    queue_pair: Option<QpReport>,
}

/// A sampled operation that is followed.
pub(super) struct Tracked {
    track: Track,
    qpn: u32,
    cq: u32,
    /// Where requests completed, and completions were written, at the last look.
    head: u32,
    cq_tail: u32,
    completed: Option<Completed>,
    polled_at: Option<Time>,
}

impl Tracked {
    /// Begins to follow an operation; `None` if its queue pair is gone, or another one of its
    /// operations is followed.
    pub fn begin(posted: Posted, qps: &mut QpTable, units: &Units) -> Option<Self> {
        let Qp { hot, cold } = qps.get(posted.slot)?;
        if hot.flags.contains(QpFlags::WATCHED) {
            return None;
        }
        hot.flags.insert(QpFlags::WATCHED);
        cold.watched = Watched { position: posted.position, again: 0, host_delay_ns: 0 };
        let cq = hot.send_cq;
        // It may be complete already, if nobody acknowledges it.
        let cq_tail = units.cqs.get(cq)?.tail().wrapping_sub(1);
        let (qpn, head) = (hot.id.qpn, posted.position);
        Some(Self { track: Track::new(posted), qpn, cq, head, cq_tail, completed: None, polled_at: None })
    }

    /// A completion queue was polled.
    pub fn note_poll(&mut self, polled: &Polled) {
        if let Some(completed) = &self.completed
            && polled.cq == self.cq
            && is_before(completed.position, polled.head)
        {
            self.polled_at.get_or_insert(polled.at);
        }
    }

    /// Looks behind a turn. Slow operations come with the state of their queue pair if these are
    /// kept.
    pub fn look(&mut self, qps: &mut QpTable, units: &Units, port_full: bool, keeps_slow: bool) -> Look {
        if self.completed.is_none() && !self.follow(qps, units, port_full, keeps_slow) {
            return self.end(qps, Look::Gone);
        }
        let Some(completed) = self.completed else { return Look::Goes };
        let Some(writer) = units.cqs.get(self.cq) else { return self.end(qps, Look::Gone) };
        let signaled = self.track.posted.signaled || completed.status != WcStatus::Success;
        let polled_at = match (self.polled_at, signaled) {
            (Some(at), _) => at,
            (None, false) => units.now,
            (None, true) if is_before(completed.position, writer.reader_head()) => units.now,
            (None, true) => return Look::AwaitsPoll,
        };
        let again = self.watched(qps).map_or(0, |watched| watched.again);
        let sample = self.track.finish(polled_at, self.qpn, completed.status, again);
        self.end(qps, Look::Ended(sample, completed.queue_pair))
    }

    fn end(&self, qps: &mut QpTable, look: Look) -> Look {
        if let Some(qp) = self.queue_pair(qps) {
            qp.hot.flags.remove(QpFlags::WATCHED);
        }
        look
    }

    fn queue_pair<'a>(&self, qps: &'a mut QpTable) -> Option<Qp<'a>> {
        qps.get(self.track.posted.slot).filter(|qp| qp.hot.id.qpn == self.qpn)
    }

    fn watched(&self, qps: &mut QpTable) -> Option<Watched> {
        self.queue_pair(qps).map(|qp| qp.cold.watched)
    }

    /// How far it is; false if it cannot be told any more.
    fn follow(&mut self, qps: &mut QpTable, units: &Units, port_full: bool, keeps_slow: bool) -> bool {
        let position = self.track.posted.position;
        let Some(Qp { hot, cold }) = self.queue_pair(qps) else { return false };
        let standing = if is_before(position, hot.req.head) {
            Standing::Complete
        } else if is_before(position, hot.req.next) {
            Standing::Sent
        } else if position == hot.req.next && hot.req.sent > 0 {
            Standing::Begun
        } else if is_before(position, cold.send_queue.tail()) {
            Standing::Unsent
        } else {
            Standing::Unseen
        };
        let limit = limit_of((hot, cold), &units.mux, units.now);
        let (head, host_delay_ns) = (hot.req.head, cold.watched.host_delay_ns);
        self.track.look(units.now, standing, part_of(limit, standing, port_full));
        if standing == Standing::Complete {
            self.track.blame_peer(host_delay_ns.into());
            let Some(found) = self.find_completion(units) else { return false };
            let slot = self.track.posted.slot;
            let queue_pair = if keeps_slow { report_of(qps, slot, units) } else { None };
            self.completed = Some(Completed { queue_pair, ..found });
        } else {
            self.head = head;
            self.cq_tail = units.cqs.get(self.cq).map_or(self.cq_tail, |writer| writer.tail());
        }
        true
    }

    /// The completion of the operation, which was written since the last look.
    fn find_completion(&self, units: &Units) -> Option<Completed> {
        let Posted { position, wr_id, signaled, .. } = self.track.posted;
        let writer = units.cqs.get(self.cq)?;
        let found = writer.find_since(self.cq_tail, (self.qpn, wr_id), position.wrapping_sub(self.head));
        match found {
            Some((position, status)) => Some(Completed { position, status, queue_pair: None }),
            None if signaled => None,
            None => Some(Completed { position: 0, status: WcStatus::Success, queue_pair: None }),
        }
    }
}

/// Whether a position comes before another, where both wrap.
const fn is_before(position: u32, other: u32) -> bool {
    other.wrapping_sub(position).cast_signed() > 0
}

/// What an operation waits for, as its queue pair is held back by `limit`.
const fn part_of(limit: QpLimit, standing: Standing, port_full: bool) -> Part {
    let is_sent = matches!(standing, Standing::Sent | Standing::Complete);
    match limit {
        QpLimit::Recovery => Part::Recovery,
        QpLimit::NoReceive => Part::Receives,
        _ if is_sent => Part::Network,
        QpLimit::Reads => Part::Reads,
        QpLimit::Credit | QpLimit::PeerSilent | QpLimit::Acknowledgement => Part::Window,
        QpLimit::Congestion | QpLimit::PeerHost => Part::Congestion,
        QpLimit::Turn if port_full => Part::Port,
        QpLimit::Turn | QpLimit::Tenant | QpLimit::Paused | QpLimit::State | QpLimit::NothingToSend => {
            Part::Scheduler
        }
    }
}
