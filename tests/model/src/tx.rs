//! The sending half of a packet stream (protocol.md 2.4, "Sending"): scoreboard and gates. Its
//! clocks are in `timers`.

use std::collections::VecDeque;

use wire::serial::Psn;

use crate::defects::Defect;
use crate::packet::{Ack, AckKind};
use crate::schedule::Schedule;
use crate::timers::Timers;

/// What the sender believes of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    InFlight,
    Sacked,
    Lost,
}

#[derive(Clone, Copy, Debug)]
struct Sent {
    fate: Fate,
    /// snd_nxt when it was last sent again.
    mark: Option<Psn>,
}

/// Whether the stream may send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flow {
    /// By the gates.
    Open,
    /// The peer has no receive WQE: nothing until then.
    RnrWait {
        /// End of the wait.
        until: u64,
    },
    /// After the wait only `una` is tried.
    RnrProbe,
    /// For good.
    Stopped,
}

/// Counters for the oracles.
#[derive(Clone, Copy, Default, Debug)]
pub struct TxCounters {
    /// Packets sent for the first time.
    pub fresh: u32,
    /// Packets sent again because they were declared lost.
    pub resent: u32,
    /// Retransmission timeouts.
    pub timeouts: u32,
    /// Packets whose marks a timeout cleared: each may be declared lost once more.
    pub amnesty: u32,
}

/// The sending half of a stream.
#[derive(Clone, Debug)]
pub struct TxStream {
    /// The oldest PSN not acknowledged.
    pub una: Psn,
    /// The next PSN never sent.
    pub snd_nxt: Psn,
    /// Congestion window in packets.
    pub cwnd: u32,
    /// May it send.
    pub flow: Flow,
    /// Clocks.
    pub timers: Timers,
    /// Counters.
    pub counters: TxCounters,
    sent: VecDeque<Sent>,
    cap: u32,
    threshold: u32,
    acked_since_decay: u32,
    highest_sack: Option<Psn>,
    obeyed_all_at: Option<Psn>,
    rnr_left: u32,
    rnr_retry: u32,
    rnr_wait: u64,
    rnr_edge: Psn,
    probed: Option<Psn>,
    defect: Option<Defect>,
}

impl TxStream {
    /// A stream whose first packet is `first`.
    #[must_use]
    pub fn new(first: Psn, schedule: &Schedule, defect: Option<Defect>) -> Self {
        Self {
            una: first,
            snd_nxt: first,
            cwnd: schedule.cwnd,
            flow: Flow::Open,
            timers: Timers::new(schedule),
            counters: TxCounters::default(),
            sent: VecDeque::new(),
            cap: schedule.window,
            threshold: 0,
            acked_since_decay: 0,
            highest_sack: None,
            obeyed_all_at: None,
            rnr_left: schedule.rnr_retry,
            rnr_retry: schedule.rnr_retry,
            rnr_wait: schedule.rnr_wait,
            rnr_edge: first,
            probed: None,
            defect,
        }
    }

    /// Packets sent and not acknowledged.
    #[must_use]
    pub fn outstanding(&self) -> u32 {
        self.snd_nxt.steps_from(self.una)
    }

    /// Sent, not acknowledged, not SACKed, not declared lost.
    #[must_use]
    pub fn pipe(&self) -> u32 {
        u32::try_from(self.sent.iter().filter(|s| s.fate == Fate::InFlight).count()).expect("a window")
    }

    fn pipe_open(&self) -> bool {
        let pipe = self.pipe();
        pipe == 0 || pipe < self.cwnd
    }

    fn index(&self, psn: Psn) -> Option<usize> {
        let index = usize::try_from(psn.distance_from(self.una)).ok()?;
        (index < self.sent.len()).then_some(index)
    }

    /// True if a packet never sent before may go now.
    #[must_use]
    pub fn may_send_fresh(&self) -> bool {
        let lost = self.sent.iter().any(|s| s.fate == Fate::Lost);
        self.flow == Flow::Open && !lost && self.outstanding() < self.cap && self.pipe_open()
    }

    /// Sends the next packet, which the caller has.
    pub fn send_fresh(&mut self, now: u64) -> Psn {
        if self.sent.is_empty() {
            self.timers.arm(now);
        }
        self.sent.push_back(Sent { fate: Fate::InFlight, mark: None });
        self.snd_nxt = self.snd_nxt.next();
        self.counters.fresh += 1;
        self.snd_nxt.prev()
    }

    /// Something declared lost waits although the pipe gate is open: never true of the right rules.
    #[must_use]
    pub fn dawdles(&self) -> bool {
        let lost = self.sent.iter().any(|s| s.fate == Fate::Lost);
        self.flow == Flow::Open && lost && self.pipe_open()
    }

    /// Sends again the oldest packet declared lost, if there is one and the pipe gate is open.
    pub fn resend_lost(&mut self) -> Option<Psn> {
        let gated =
            self.defect == Some(Defect::ResendGatedByWindow) && self.outstanding() >= self.cwnd.max(1);
        if self.flow != Flow::Open || !self.pipe_open() || gated {
            return None;
        }
        let index = self.sent.iter().position(|s| s.fate == Fate::Lost)?;
        self.counters.resent += 1;
        Some(self.resend_at(index))
    }

    fn resend_at(&mut self, index: usize) -> Psn {
        let sent = &mut self.sent[index];
        if sent.fate == Fate::Lost {
            sent.fate = Fate::InFlight;
        }
        if self.defect != Some(Defect::NoMarks) {
            sent.mark = Some(self.snd_nxt);
        }
        self.una.add(u32::try_from(index).expect("a window"))
    }

    /// True if an acknowledgement up to `cum` makes sense: una - 1 <= cum < snd_nxt.
    #[must_use]
    pub fn accepts(&self, cum: Psn) -> bool {
        let ahead = cum.distance_from(self.una);
        ahead >= -1 && cum.is_before(self.snd_nxt)
    }

    /// The cumulative part of an ACK or NACK. Returns false if the rest is stale, too.
    pub fn on_ack(&mut self, psn: Psn, ack: &Ack, now: u64) -> bool {
        let cum = ack.cumulative(psn);
        if !self.accepts(cum) {
            return self.defect == Some(Defect::StaleNackObeyed);
        }
        self.retire(cum.next(), now);
        true
    }

    /// The rest: what it says of packets above una. It may come late, when una has moved on.
    pub fn on_evidence(&mut self, psn: Psn, ack: &Ack) {
        if let Some(psn) = ack.duplicate {
            self.on_duplicate(psn);
        }
        if let Some(sack) = ack.sack {
            self.note_sack(sack);
            for i in (0..64).filter(|i| ack.bitmap >> i & 1 == 1) {
                self.note_sack(ack.cumulative(psn).add(2 + i));
            }
            if self.defect == Some(Defect::StaleNackObeyed) && sack.is_before(self.una) {
                self.note_sack(self.snd_nxt.prev());
            }
        } else if ack.kind == AckKind::Nack {
            self.resend_all_from(psn);
        }
        self.detect_losses();
    }

    /// A NACK without SACK, obeyed once per una.
    fn resend_all_from(&mut self, psn: Psn) {
        let again = self.obeyed_all_at == Some(self.una) && self.defect != Some(Defect::ResendAllRepeated);
        let stale = psn != self.una && self.defect != Some(Defect::StaleNackObeyed);
        if !again && !stale {
            self.obeyed_all_at = Some(self.una);
            self.lose_all_before(self.snd_nxt);
        }
    }

    /// Everything below `una` is acknowledged.
    pub fn retire(&mut self, una: Psn, now: u64) {
        let n = una.steps_from(self.una);
        if n == 0 || self.una.distance_from(una) > 0 {
            return;
        }
        self.sent.drain(..usize::try_from(n).expect("a window").min(self.sent.len()));
        self.una = una;
        self.rnr_left = self.rnr_retry;
        if self.highest_sack.is_some_and(|sack| sack.is_before(una)) {
            self.highest_sack = None;
        }
        self.acked_since_decay += n;
        if self.acked_since_decay >= self.cap {
            self.acked_since_decay = 0;
            self.threshold = self.threshold.saturating_sub(1);
        }
        if matches!(self.flow, Flow::RnrWait { .. } | Flow::RnrProbe) {
            self.flow = Flow::Open;
            self.lose_all_before(self.rnr_edge);
        }
        if self.sent.is_empty() {
            self.timers.disarm();
        } else {
            self.timers.arm(now);
        }
    }

    fn note_sack(&mut self, psn: Psn) {
        let Some(index) = self.index(psn) else { return };
        self.sent[index].fate = Fate::Sacked;
        if self.highest_sack.is_none_or(|sack| sack.is_before(psn)) {
            self.highest_sack = Some(psn);
        }
    }

    /// Everything un-SACKed that was sent before `edge` goes again.
    fn lose_all_before(&mut self, edge: Psn) {
        let una = self.una;
        for (i, sent) in (0u32..).zip(&mut self.sent) {
            if sent.fate != Fate::Sacked && una.add(i).is_before(edge) {
                *sent = Sent { fate: Fate::Lost, mark: None };
            }
        }
    }

    fn on_duplicate(&mut self, psn: Psn) {
        let answers_probe = self.probed == Some(psn);
        if self.counters.resent > 0 && !answers_probe && self.defect != Some(Defect::ThresholdFixed) {
            self.threshold = (2 * self.threshold + 1).min(31);
        }
    }

    fn detect_losses(&mut self) {
        let Some(highest) = self.highest_sack else { return };
        let threshold = i32::try_from(self.threshold).expect("at most 31");
        let una = self.una;
        for (i, sent) in (0u32..).zip(&mut self.sent) {
            let behind = highest.distance_from(una.add(i)) > threshold;
            let due = sent.mark.is_none_or(|mark| highest.distance_from(mark) >= threshold);
            if sent.fate == Fate::InFlight && behind && due {
                sent.fate = Fate::Lost;
            }
        }
    }

    /// The retransmission timeout: `una` even if SACKed, and the highest outstanding PSN if not
    /// SACKed.
    pub fn on_timeout(&mut self) -> [Option<Psn>; 2] {
        self.counters.timeouts += 1;
        self.counters.amnesty += self.outstanding();
        for sent in &mut self.sent {
            sent.mark = None;
        }
        if self.probe_is_gated() {
            return [None, None];
        }
        let first = match self.defect {
            Some(Defect::RtoSkipsSackedUna) => self.sent.iter().position(|s| s.fate != Fate::Sacked),
            _ => (!self.sent.is_empty()).then_some(0),
        };
        let last = self.sent.len().checked_sub(1).filter(|&i| i > 0 && self.sent[i].fate != Fate::Sacked);
        [first, last].map(|index| index.map(|index| self.resend_at(index)))
    }

    /// The tail probe: the highest un-SACKed PSN, else `una`.
    pub fn on_tail_probe(&mut self) -> Option<Psn> {
        if self.sent.is_empty() || self.probe_is_gated() {
            return None;
        }
        let index = self.sent.iter().rposition(|s| s.fate != Fate::Sacked).unwrap_or(0);
        let psn = self.resend_at(index);
        self.probed = Some(psn);
        Some(psn)
    }

    /// The peer misses responses: `una` goes again.
    pub fn resend_una(&mut self) -> Option<Psn> {
        (!self.sent.is_empty()).then(|| self.resend_at(0))
    }

    fn probe_is_gated(&self) -> bool {
        self.defect == Some(Defect::ProbeGatedByPipe) && !self.pipe_open()
    }

    /// Timers are stopped although packets are outstanding: only ever true of a mutant.
    #[must_use]
    pub fn sleeps(&self) -> bool {
        self.defect == Some(Defect::TimersStoppedBySack) && self.sent.iter().all(|s| s.fate == Fate::Sacked)
    }

    /// RNR NAK for `epsn`, all below it already retired. Returns false if the retries are used up.
    pub fn on_rnr(&mut self, epsn: Psn, now: u64) -> bool {
        let waiting = matches!(self.flow, Flow::RnrWait { .. });
        let ignored = waiting && self.defect != Some(Defect::RnrCountedDuringWait);
        if epsn != self.una || self.sent.is_empty() || self.flow == Flow::Stopped || ignored {
            return true;
        }
        if self.rnr_left == 0 {
            return false;
        }
        if self.rnr_retry != 7 {
            self.rnr_left -= 1;
        }
        self.flow = Flow::RnrWait { until: now + self.rnr_wait };
        self.rnr_edge = self.snd_nxt;
        self.timers.disarm();
        true
    }

    /// The RNR wait is over: `una` goes again, alone.
    pub fn on_rnr_wait_over(&mut self, now: u64) -> Option<Psn> {
        self.flow = Flow::RnrProbe;
        self.timers.arm(now);
        (!self.sent.is_empty()).then(|| self.resend_at(0))
    }

    /// Sends nothing any more and forgets what is outstanding.
    pub fn stop(&mut self) {
        self.flow = Flow::Stopped;
        self.sent.clear();
        self.snd_nxt = self.una;
        self.timers.disarm();
    }
}
