//! TxStream: the sending end of a reliable packet stream (protocol.md 2.4, sending).
//!
//! The fast path keeps `una`, `nxt` and three counts; which PSNs are SACKed or lost is the slow
//! path's knowledge.

mod ack;
mod go_back;
mod recovery;

pub(crate) use ack::KEEPALIVE_OFFSET;
pub use ack::{AckEffect, AckInfo, AckRefused};
pub use recovery::TxRecovery;

use crate::stream::RecoveryPolicy;
use crate::time::Time;
use crate::tuning::ASK_FLIGHT;
use sr_recovery::{Command, Record};
use wire::Psn;

#[expect(clippy::cast_possible_truncation, reason = "modulo 2^16")]
const fn low(psn: Psn) -> u16 {
    psn.get() as u16
}

/// The round trip that is being measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Timing {
    /// None.
    Off,
    /// It ends when its packet is acknowledged.
    Running,
    /// Something before its packet is missing: it ends with a SACK of its packet, or not at all.
    ExactOnly,
    /// A probe was sent since: it counts from there, for timers only.
    Probed,
}

/// What the scheduler and the in-order acknowledgement path touch.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct TxStream {
    una: Psn,
    nxt: Psn,
    /// Outstanding PSNs at most.
    cap: u16,
    /// SACKed PSNs at or above `una`, as the slow path counted last.
    sacked: u16,
    /// PSNs in the RetryQ.
    retry_pending: u16,
    /// Packets that the congestion window allows.
    cwnd: u16,
    rtt_psn: Psn,
    /// The last new packet that asked for an acknowledgement, modulo 2^16. One that is long ago may
    /// seem outstanding, and the next acknowledgement comes without being asked for.
    asked: u16,
    timing: Timing,
    recovering: bool,
    rtt_sent: Time,
    progress_at: Time,
}

impl TxStream {
    /// Nothing outstanding; the next new packet is `psn`.
    #[must_use]
    pub const fn new(psn: Psn, cap: u16) -> Self {
        Self {
            una: psn,
            nxt: psn,
            cap,
            sacked: 0,
            retry_pending: 0,
            cwnd: cap,
            rtt_psn: psn,
            asked: low(psn).wrapping_sub(1),
            timing: Timing::Off,
            recovering: false,
            rtt_sent: Time::ZERO,
            progress_at: Time::ZERO,
        }
    }

    /// Oldest PSN not acknowledged.
    #[inline]
    #[must_use]
    pub const fn una(&self) -> Psn {
        self.una
    }

    /// Next new PSN.
    #[inline]
    #[must_use]
    pub const fn nxt(&self) -> Psn {
        self.nxt
    }

    /// Outstanding packets.
    #[inline]
    #[must_use]
    pub const fn outstanding(&self) -> u32 {
        self.nxt.steps_from(self.una)
    }

    /// Outstanding packets at most.
    #[must_use]
    pub const fn cap(&self) -> u32 {
        self.cap as u32
    }

    /// Packets that the congestion window allows.
    #[must_use]
    pub const fn cwnd(&self) -> u32 {
        self.cwnd as u32
    }

    /// Packets in the network, as far as known: sent, not acknowledged, not SACKed, not declared
    /// lost.
    #[inline]
    #[must_use]
    pub fn pipe(&self) -> u32 {
        self.outstanding().saturating_sub(u32::from(self.sacked) + u32::from(self.retry_pending))
    }

    /// Packets that wait in the RetryQ.
    #[inline]
    #[must_use]
    pub const fn retry_pending(&self) -> u32 {
        self.retry_pending as u32
    }

    /// True while the slow path keeps a scoreboard.
    #[must_use]
    pub const fn recovering(&self) -> bool {
        self.recovering
    }

    /// When `una` moved last, or the stream became busy.
    #[inline]
    #[must_use]
    pub const fn progress_at(&self) -> Time {
        self.progress_at
    }

    /// The controller's window, in packets; at least one.
    pub fn set_cwnd(&mut self, packets: u32) {
        self.cwnd = u16::try_from(packets).unwrap_or(u16::MAX).max(1);
    }

    /// Whether both gates let a new packet through.
    #[inline]
    #[must_use]
    pub fn may_send_new(&self) -> bool {
        self.room() > 0
    }

    /// New packets that both gates let through now: PSNs left, and room in the pipe. The last of
    /// them closes one: it asks for an acknowledgement.
    #[inline]
    #[must_use]
    pub fn room(&self) -> u32 {
        let numbers = u32::from(self.cap).saturating_sub(self.outstanding());
        numbers.min(u32::from(self.cwnd).saturating_sub(self.pipe()))
    }

    /// The pipe gate alone; one packet may always go when the pipe is empty.
    #[inline]
    #[must_use]
    pub fn may_resend(&self) -> bool {
        self.pipe() < u32::from(self.cwnd)
    }

    /// Takes the next PSN for a packet sent at `now`.
    #[inline]
    pub fn send_new(&mut self, now: Time) -> Psn {
        let psn = self.nxt;
        if self.una == self.nxt {
            self.progress_at = now;
        }
        if self.timing == Timing::Off {
            self.timing = Timing::Running;
            self.rtt_psn = psn;
            self.rtt_sent = now;
        }
        self.nxt = psn.next();
        psn
    }

    /// Takes the next PSN for a packet that nobody acknowledges (UC, UD): nothing becomes
    /// outstanding.
    #[inline]
    pub const fn send_unacknowledged(&mut self) -> Psn {
        let psn = self.nxt;
        self.nxt = psn.next();
        self.una = self.nxt;
        psn
    }

    /// True if the next new packet closes one of the gates: it asks for an acknowledgement.
    #[inline]
    #[must_use]
    pub fn closes_gate(&self) -> bool {
        self.room() <= 1
    }

    /// Whether the new packet that goes next asks for an acknowledgement: if nothing can follow it
    /// for now (`ends`), and few are in flight or none of them asked. Else an acknowledgement is
    /// under way, which keeps the sender going.
    #[inline]
    #[must_use]
    pub const fn must_ask(&self, ends: bool) -> bool {
        let in_flight = self.outstanding();
        let behind = self.asked.wrapping_sub(low(self.una)) as u32;
        ends && (in_flight < ASK_FLIGHT || behind >= in_flight)
    }

    /// [`TxStream::send_new`] of a packet that asks for an acknowledgement, or does not.
    #[inline]
    pub fn send_new_asking(&mut self, asks: bool, now: Time) -> Psn {
        if asks {
            self.asked = low(self.nxt);
        }
        self.send_new(now)
    }

    /// The PSN of the RetryQ that goes next.
    #[must_use]
    pub fn next_retry(&self, cold: &TxRecovery) -> Option<Psn> {
        cold.retry.lowest(self.una, self.outstanding())
    }

    /// Takes a PSN out of the RetryQ: it was sent again. Returns what the slow path must know.
    pub fn take_retry(&mut self, cold: &mut TxRecovery, psn: Psn) -> Option<Record> {
        cold.retry.remove(psn);
        self.count_retries(cold);
        self.resend(cold, psn)
    }

    /// Sends `psn` again, not through the RetryQ and past both gates: RTO, tail and RNR probes.
    /// Returns what the slow path must know.
    pub fn probe(&mut self, cold: &mut TxRecovery, psn: Psn) -> Option<Record> {
        self.void_rtt(psn);
        if cold.retry.remove(psn) {
            self.count_retries(cold);
        }
        cold.resent(self.recovering, psn, self.nxt)
    }

    /// A probe went out at `now`: the acknowledgement that ends the round trip in progress may be
    /// its answer, so the time counts from here. Too short a sample makes a probe too many; one
    /// with the wait in it makes each wait longer than the one before.
    pub fn restart_rtt(&mut self, now: Time) {
        if matches!(self.timing, Timing::Running | Timing::Probed) {
            self.timing = Timing::Probed;
            self.rtt_sent = now;
        }
    }

    /// Whether a gate is open for what there is to send: the RetryQ, or `has_new_work`.
    #[inline(always)]
    pub(crate) fn may_send(&self, has_new_work: impl FnOnce() -> bool) -> bool {
        (self.retry_pending > 0 && self.may_resend()) || (has_new_work() && self.may_send_new())
    }

    /// The packet that a tail probe resends: the highest outstanding if it is not known to have
    /// arrived, else `una`.
    #[must_use]
    pub fn tail_psn(&self, cold: &TxRecovery) -> Psn {
        let highest = self.nxt.prev();
        if cold.highest_sack == Some(highest) { self.una } else { highest }
    }

    /// Applies an acknowledgement.
    ///
    /// # Errors
    /// [`AckRefused`] if it lies outside what is outstanding; nothing changed then.
    #[inline(always)]
    pub fn on_ack(
        &mut self,
        cold: &mut TxRecovery,
        now: Time,
        ack: &AckInfo,
    ) -> Result<AckEffect, AckRefused> {
        let Ok(acked) = u32::try_from(ack.next.distance_from(self.una)) else {
            return Err(AckRefused::Stale);
        };
        if acked > self.outstanding() {
            return Err(AckRefused::Beyond);
        }
        let mut effect = AckEffect { acked, ..AckEffect::default() };
        if acked > 0 {
            self.retire(cold, ack.next, now, &mut effect);
        }
        if self.recovering || ack.is_special() {
            effect = self.on_ack_in_trouble(cold, *ack, effect);
        }
        Ok(effect)
    }

    /// Applies a decision of the slow path about this stream. True if it begins an episode of loss,
    /// which the controller may react to: a packet was lost that was sent after the last episode
    /// began. What was meant for another life changes nothing.
    pub fn on_command(&mut self, cold: &mut TxRecovery, command: &Command) -> bool {
        match *command {
            Command::Lost { generation, first, last, .. } if generation == cold.generation => {
                let Some((first, last)) = self.outstanding_part(first, last) else { return false };
                cold.retry.insert(first, last);
                self.count_retries(cold);
                cold.loss_rate.count(last.steps_from(first) + 1, self.nxt.get(), u32::from(self.cwnd));
                let begins = cold.episode_end.is_none_or(|end| !last.is_before(end));
                if begins {
                    cold.episode_end = Some(self.nxt);
                }
                begins
            }
            Command::Found { generation, first, last, .. } if generation == cold.generation => {
                if let Some((first, last)) = self.outstanding_part(first, last) {
                    cold.retry.retire(first, last.next());
                    self.count_retries(cold);
                }
                false
            }
            Command::Scoreboard { generation, seq, sacked, clean, .. } if generation == cold.generation => {
                self.sacked = u16::try_from(sacked.min(self.outstanding())).unwrap_or(u16::MAX);
                if clean && seq == cold.seq {
                    self.recovering = false;
                    self.sacked = 0;
                    cold.highest_sack = None;
                    cold.episode_end = None;
                }
                false
            }
            _ => false,
        }
    }

    /// The retransmission timer fired. Returns the packets to resend as probes: `una`, even if it
    /// is SACKed, and the highest outstanding if it is not; nothing else is declared lost.
    /// Go-back-N puts everything else into the RetryQ; `una` is a probe there too, because the
    /// RetryQ waits while the probe of an RNR wait is out.
    pub fn on_rto(&mut self, cold: &mut TxRecovery) -> ([Option<Psn>; 2], Option<Record>) {
        if self.una == self.nxt {
            return ([None, None], None);
        }
        if cold.policy == RecoveryPolicy::GoBackN {
            self.go_back(cold);
            cold.retry.remove(self.una);
            self.count_retries(cold);
            return ([Some(self.una), None], None);
        }
        let highest = self.nxt.prev();
        let second = (highest != self.una && cold.highest_sack != Some(highest)).then_some(highest);
        let record = self.recovering.then(|| Record::Rto {
            stream: cold.stream,
            generation: cold.generation,
            seq: cold.next_seq(),
        });
        ([Some(self.una), second], record)
    }

    /// An RNR wait ended and `una` moved: everything un-SACKed that was sent before the RNR NAK, up
    /// to `until`, is lost.
    pub fn resend_until(&mut self, cold: &mut TxRecovery, until: Psn) -> Option<Record> {
        if until.distance_from(self.una) <= 0 {
            return None;
        }
        if cold.policy == RecoveryPolicy::GoBackN {
            self.go_back(cold);
            return None;
        }
        self.recovering = true;
        Some(cold.resend_all(self, self.una, until.prev()))
    }

    /// Forgets everything outstanding: RESET or ERR. Returns what the slow path must know.
    pub fn abandon(&mut self, cold: &mut TxRecovery) -> Option<Record> {
        let was_recovering = core::mem::take(&mut self.recovering);
        let record =
            was_recovering.then_some(Record::TxClose { stream: cold.stream, generation: cold.generation });
        cold.generation = cold.generation.wrapping_add(1);
        cold.retry.clear();
        cold.highest_sack = None;
        cold.episode_end = None;
        cold.forget_probes();
        *self = Self { cwnd: self.cwnd, ..Self::new(self.nxt, self.cap) };
        record
    }

    /// Everything below `next` is acknowledged.
    #[inline(always)]
    fn retire(&mut self, cold: &mut TxRecovery, next: Psn, now: Time, effect: &mut AckEffect) {
        if self.retry_pending > 0 {
            self.retire_retries(cold, next);
        }
        self.end_round_trip(next, effect);
        self.una = next;
        self.progress_at = now;
        // The slow path recounts; until then the SACKed may not outnumber the outstanding.
        self.sacked = self.sacked.min(u16::try_from(self.outstanding()).unwrap_or(u16::MAX));
    }

    /// Ends the round trip in progress, if its packet is before `next`, up to where all is
    /// acknowledged.
    #[inline(always)]
    fn end_round_trip(&mut self, next: Psn, effect: &mut AckEffect) {
        if self.timing != Timing::Off && self.rtt_psn.is_before(next) {
            effect.rtt_sent = (self.timing != Timing::ExactOnly).then_some(self.rtt_sent);
            effect.rtt_exact = self.timing == Timing::Running;
            self.timing = Timing::Off;
        }
    }

    #[cold]
    #[inline(never)]
    fn retire_retries(&mut self, cold: &mut TxRecovery, next: Psn) {
        cold.retry.retire(self.una, next);
        self.count_retries(cold);
    }

    /// By value: references would keep what every acknowledgement says and does from living in
    /// registers.
    #[cold]
    #[inline(never)]
    fn on_ack_in_trouble(&mut self, cold: &mut TxRecovery, ack: AckInfo, mut effect: AckEffect) -> AckEffect {
        cold.adapt_threshold(self, cold.is_news_of_duplicate(&ack));
        if ack.resend_all && cold.obeyed_at != Some(self.una) && self.una != self.nxt {
            cold.obeyed_at = Some(self.una);
            if cold.policy == RecoveryPolicy::GoBackN {
                effect.loss = true;
                self.go_back(cold);
            } else {
                self.recovering = true;
                effect.record = Some(cold.resend_all(self, self.una, self.nxt.prev()));
            }
            return effect;
        }
        if cold.policy == RecoveryPolicy::GoBackN {
            return effect;
        }
        let sack = ack.sack.filter(|psn| !psn.is_before(self.una) && psn.is_before(self.nxt));
        if sack.is_none() && !self.recovering {
            return effect;
        }
        self.recovering = true;
        if self.timing != Timing::Off && sack == Some(self.rtt_psn) {
            effect.rtt_sent = Some(self.rtt_sent);
            effect.rtt_exact = self.timing != Timing::Probed;
            self.timing = Timing::Off;
        }
        if let Some(psn) = sack
            && cold.highest_sack.is_none_or(|highest| highest.is_before(psn))
        {
            cold.highest_sack = Some(psn);
        }
        effect.record = Some(Record::Ack {
            stream: cold.stream,
            generation: cold.generation,
            seq: cold.next_seq(),
            una: self.una,
            snd_nxt: self.nxt,
            sack,
            bitmap_base: ack.bitmap_base,
            bitmap: ack.bitmap,
            threshold: cold.threshold,
        });
        effect
    }

    /// What of `first..=last` is outstanding.
    fn outstanding_part(&self, first: Psn, last: Psn) -> Option<(Psn, Psn)> {
        let first = if first.is_before(self.una) { self.una } else { first };
        let last = if last.is_before(self.nxt) { last } else { self.nxt.prev() };
        (!last.is_before(first)).then_some((first, last))
    }

    /// Go-back-N: everything outstanding is to be sent again.
    fn go_back(&mut self, cold: &mut TxRecovery) {
        cold.retry.insert(self.una, self.nxt.prev());
        self.count_retries(cold);
    }

    fn resend(&mut self, cold: &mut TxRecovery, psn: Psn) -> Option<Record> {
        self.void_rtt(psn);
        cold.resent_until = Some(self.nxt);
        cold.resent(self.recovering, psn, self.nxt)
    }

    /// A packet sent twice gives no round-trip time (Karn). Of one behind it the cumulative
    /// acknowledgement does not, since it waits for the repair, and a timeout learned from timeouts
    /// would only grow; a SACK of that very packet does.
    fn void_rtt(&mut self, psn: Psn) {
        if self.rtt_psn.is_before(psn) {
            return;
        }
        self.timing = match self.timing {
            Timing::Running | Timing::ExactOnly if self.rtt_psn != psn => Timing::ExactOnly,
            _ => Timing::Off,
        };
    }

    fn count_retries(&mut self, cold: &TxRecovery) {
        self.retry_pending = u16::try_from(cold.retry.len()).unwrap_or(u16::MAX);
    }
}
