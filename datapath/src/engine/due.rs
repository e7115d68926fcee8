//! Queue pairs that must be looked at: their doorbell rang, or their timer fired.

use super::Core;
use crate::qp::{self, QpFlags};
use crate::sched::{SchedFlags, Scheduled, Usage};
use crate::tuning;
use sr_recovery::StreamId;

/// Queue pairs that are taken together if there are many: each is fetched while those before it are
/// served.
const TOGETHER: usize = 8;

impl Core {
    /// Queue pairs that turned active.
    #[inline]
    pub(super) fn take_doorbells(&mut self) {
        let next = |core: &mut Self| core.doorbells.pop();
        self.serve(tuning::DOORBELLS_PER_TURN, next, |_, slot| slot, Self::on_doorbell);
    }

    /// Queue pairs whose timer fired.
    #[inline]
    pub(super) fn fire_timers(&mut self) {
        let next = |core: &mut Self| core.units.timers.pop(core.units.now);
        let slot_of = |core: &Self, timer| core.units.stream_of(timer).qp;
        self.serve(tuning::TIMERS_PER_TURN, next, slot_of, Self::on_timer);
    }

    /// Serves one after the other until there is no `next`, `most` at most.
    #[inline(always)]
    fn serve(
        &mut self,
        most: usize,
        next: impl Fn(&mut Self) -> Option<u32>,
        slot_of: impl Fn(&Self, u32) -> u32,
        serve: impl Fn(&mut Self, u32),
    ) {
        let mut served = 0;
        while served < most
            && let Some(first) = next(self)
        {
            if self.units.crowded {
                served += self.serve_together(first, &next, &slot_of, &serve);
            } else {
                serve(self, first);
                served += 1;
            }
        }
    }

    #[inline(never)]
    fn serve_together(
        &mut self,
        first: u32,
        next: impl Fn(&mut Self) -> Option<u32>,
        slot_of: impl Fn(&Self, u32) -> u32,
        serve: impl Fn(&mut Self, u32),
    ) -> usize {
        let mut list = [first; TOGETHER];
        let mut count = 1;
        while count < TOGETHER
            && let Some(number) = next(self)
        {
            list[count] = number;
            count += 1;
        }
        let list = &list[..count];
        list.iter().for_each(|number| self.qps.prefetch_requester(slot_of(self, *number)));
        list.iter().for_each(|number| serve(self, *number));
        count
    }

    /// The turn of a stream that may be paused, or whose peer's host may have a rate. False if the
    /// stream does not take it: it stands in no queue then, until something puts it back.
    #[cold]
    #[inline(never)]
    pub(super) fn takes_turn(&mut self, stream: StreamId, turn: &mut Scheduled) -> bool {
        let Some(mut qp) = self.qps.get(stream.qp) else { return true };
        if qp::takes_turn(&mut qp, &mut self.units, stream, turn) {
            return true;
        }
        self.units.counters.sched_grants += 1;
        self.units.mux.settle(turn.slot, qp.hot.sched_of(stream), Usage::default(), false);
        false
    }

    /// Such a stream had its turn, and sent so much.
    pub(super) fn charge_turn(&mut self, stream: StreamId, usage: &Usage) {
        if let Some(qp) = self.qps.get(stream.qp) {
            qp::charge_host(&qp, &mut self.units, usage.wire_bytes());
        }
    }

    /// Streams to hosts that may be sent to again.
    #[cold]
    #[inline(never)]
    pub(super) fn open_hosts(&mut self) {
        let Self { units, .. } = self;
        while let Some(number) = units.hosts.as_mut().and_then(|hosts| hosts.pop_open(units.now)) {
            units.mux.put_back(number);
        }
    }

    pub(super) fn on_doorbell(&mut self, slot: u32) {
        let Some(mut qp) = self.qps.get(slot) else {
            self.qps.on_late_doorbell(slot);
            return;
        };
        self.units.counters.doorbells += 1;
        qp.hot.flags.insert(QpFlags::ACTIVE);
        if qp.hot.id.state.flushes_sends() {
            qp::flush_and_deactivate(&mut qp, &mut self.units, None);
            return;
        }
        let requests = qp.cold.requests();
        if qp.is_ready(requests) {
            self.units.wake(requests, qp.hot, true);
        } else {
            self.note_idle(slot);
        }
    }

    fn on_timer(&mut self, timer: u32) {
        if timer == self.units.timer_of_keepalives() {
            return self.fire_keepalives();
        }
        let stream = self.units.stream_of(timer);
        let Some(mut qp) = self.qps.get(stream.qp) else { return };
        let flags = qp.hot.sched_of(stream);
        if flags.contains(SchedFlags::PAUSED) {
            // It is looked at when it goes on.
            flags.remove(SchedFlags::TIMED);
        } else if stream.response {
            qp::on_response_timer(&mut qp, &mut self.units);
        } else {
            qp::on_timer(&mut qp, &mut self.units);
        }
    }

    /// Idle queue pairs that may have to ask for a sign of life. Those left over are due in the
    /// next turn.
    #[cold]
    #[inline(never)]
    fn fire_keepalives(&mut self) {
        for _ in 0..tuning::KEEPALIVES_PER_TURN {
            let Some(slot) = self.units.pop_keepalive() else { break };
            if let Some(mut qp) = self.qps.get(slot) {
                qp::on_keepalive_timer(&mut qp, &mut self.units);
            }
        }
        self.units.await_keepalives();
    }
}
