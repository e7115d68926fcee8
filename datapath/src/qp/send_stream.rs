//! The sending end of a reliable stream, of requests or of responses: what the slow path and time
//! do to it (protocol.md 2.4, sending). What acknowledgements do is in `feedback`, and how its
//! packets go out in `driver`.

mod driver;

pub(super) use driver::{PacketSource, Stop, resend};

use super::feedback::Feedback;
use crate::counters::{QpCounters, count};
use crate::qp::{Qp, Units};
use crate::sched::SchedFlags;
use crate::stream::{TxRecovery, TxStream, Verdict, Watchdog};
use crate::time::Time;
use cc_dctcp::Controller;
use sr_recovery::{Command, StreamId};
use wire::{Meta, Psn};

/// All that one sending stream has. Of requests it lies in both parts of the queue pair, by how
/// often it is needed; of responses it lies together, for queue pairs that have them.
pub(super) struct SendStream<'a> {
    pub id: StreamId,
    pub tx: &'a mut TxStream,
    pub recovery: &'a mut TxRecovery,
    pub watchdog: &'a mut Watchdog,
    pub controller: &'a mut Controller,
    pub feedback: &'a mut Feedback,
    /// Probes that are due.
    pub probes: &'a mut [Option<Psn>; 2],
    pub sched: &'a mut SchedFlags,
    /// Of the queue pair.
    pub counters: &'a mut QpCounters,
    /// Path MTU in bytes.
    pub pmtu: u16,
}

impl<'a> SendStream<'a> {
    /// That of a queue pair's requests.
    #[inline(always)]
    pub fn of_requests(qp: &'a mut Qp<'_>) -> Self {
        Self {
            id: qp.cold.requests(),
            tx: &mut qp.hot.tx,
            recovery: &mut qp.cold.tx_recovery,
            watchdog: &mut qp.cold.watchdog,
            controller: &mut qp.hot.controller,
            feedback: &mut qp.hot.req.feedback,
            probes: &mut qp.cold.probes,
            sched: &mut qp.hot.sched,
            counters: &mut qp.cold.counters,
            pmtu: qp.hot.id.pmtu,
        }
    }

    /// One of a queue pair's; `None` if it is to send responses and does not give any.
    fn of(qp: &'a mut Qp<'_>, id: StreamId) -> Option<Self> {
        if !id.response {
            return Some(Self::of_requests(qp));
        }
        let responses = qp.cold.responses.as_deref_mut()?;
        Some(responses.stream(qp.hot, &mut qp.cold.counters, id))
    }

    /// Whether something is due again: a probe, or what waits in the RetryQ.
    #[inline(always)]
    pub fn resends(&self) -> bool {
        self.sched.contains(SchedFlags::PROBE) || self.tx.retry_pending() > 0
    }

    /// The controller's window, in whole packets, becomes the stream's.
    pub fn adopt_window(&mut self) {
        super::adopt_window(self.tx, self.controller, self.pmtu);
    }

    /// Applies a decision of the slow path.
    fn obey(&mut self, now: Time, command: &Command) {
        if self.tx.on_command(self.recovery, command) {
            self.tell_loss(now);
        }
    }

    /// An episode of loss begins: the controller hears of it.
    pub fn tell_loss(&mut self, now: Time) {
        self.recovery.tell_loss(self.controller, now);
        self.adopt_window();
    }

    /// The retransmission timer fired: that is counted, and the controller hears of it.
    pub fn tell_timeout(&mut self, units: &mut Units) {
        count!(units, self, rto_fired);
        self.recovery.tell_timeout(self.controller, units.now);
        self.adopt_window();
    }

    /// A tail probe of that packet is due, unless others are.
    pub fn probe_tail(&mut self, units: &mut Units, psn: impl FnOnce(&Self) -> Psn) {
        units.counters.tail_probes += 1;
        if *self.probes == [None; 2] {
            *self.probes = [Some(psn(self)), None];
        }
        self.sched.insert(SchedFlags::PROBE);
    }

    /// Asks the watchdog until it is content; `heard_at` is when the peer was heard last. If the
    /// packets behind `una` are `kept_back`, the tail probe is of `una`. Returns when to look
    /// again, or `None` if the retries are exhausted.
    pub fn watch(&mut self, units: &mut Units, heard_at: Time, kept_back: bool) -> Option<Time> {
        self.watchdog.sync(self.tx.progress_at());
        loop {
            match self.watchdog.check(units.now, heard_at, self.tx.outstanding()) {
                Verdict::Wait(until) => return Some(until),
                Verdict::TailProbe => self.probe_tail(units, |stream| {
                    if kept_back { stream.tx.una() } else { stream.tx.tail_psn(stream.recovery) }
                }),
                Verdict::Rto => {
                    self.tell_timeout(units);
                    let (probes, record) = self.tx.on_rto(self.recovery);
                    *self.probes = probes;
                    self.sched.insert(SchedFlags::PROBE);
                    units.tell_slow_path(record);
                }
                Verdict::Exhausted => return None,
            }
        }
    }

    /// The probe of `psn` went out, whose META is `meta`.
    fn note_probe(&mut self, units: &mut Units, psn: Psn, meta: Option<Meta>) {
        let record = self.tx.probe(self.recovery, psn);
        if let Some(meta) = meta {
            self.recovery.note_probe(meta);
        }
        self.tx.restart_rtt(units.now);
        units.tell_slow_path(record);
    }

    /// Nothing is probed any more.
    pub fn cancel_probes(&mut self) {
        *self.probes = [None; 2];
        self.sched.remove(SchedFlags::PROBE);
    }

    /// Forgets everything outstanding.
    pub fn forget(&mut self, units: &mut Units) {
        let record = self.tx.abandon(self.recovery);
        units.tell_slow_path(record);
        self.cancel_probes();
    }

    /// Ends the stream: RESET or ERR.
    pub fn stop(&mut self, units: &mut Units) {
        self.forget(units);
        self.sched.remove(SchedFlags::LIFE);
        units.timers.disarm(units.number_of(self.id));
    }

    /// If something is outstanding, its timer must stand in the wheel. It is looked at when it
    /// fires, not before.
    #[inline(always)]
    pub fn arm(&mut self, units: &mut Units) {
        if self.tx.outstanding() > 0 && !self.sched.contains(SchedFlags::TIMED) {
            self.arm_anew(units);
        }
    }

    /// Its timer fires as if something had gone out now.
    #[inline(always)]
    pub fn arm_anew(&mut self, units: &mut Units) {
        self.arm_at(units, units.now.after(self.watchdog.first_look_ns()));
    }

    /// Its timer fires at that time.
    #[inline(always)]
    pub fn arm_at(&mut self, units: &mut Units, at: Time) {
        self.sched.insert(SchedFlags::TIMED);
        units.timers.arm(units.number_of(self.id), at);
    }
}

impl Qp<'_> {
    /// Applies a decision of the slow path about what one of its streams sent.
    pub fn on_command(&mut self, units: &mut Units, id: StreamId, command: &Command) {
        if let Some(mut stream) = SendStream::of(self, id) {
            stream.obey(units.now, command);
            self.wake(id, units);
        }
    }

    /// Wakes one of its streams if it became ready.
    #[inline(always)]
    pub fn wake(&mut self, id: StreamId, units: &mut Units) {
        let ready = self.is_ready(id);
        units.wake(id, self.hot, ready);
    }

    /// Ready, as the event mux means it: a probe is due, or there is work and its gate is open.
    #[inline(always)]
    pub fn is_ready(&self, id: StreamId) -> bool {
        if id.response {
            let sched = self.hot.responses_sched;
            return self.cold.responses.as_deref().is_some_and(|responses| responses.is_ready(sched));
        }
        super::requester::is_ready(self)
    }
}
