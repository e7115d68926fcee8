//! The cold part of a TxStream: what it needs when something went wrong.

use super::{AckInfo, TxStream};
use crate::stream::{RecoveryPolicy, RetryQueue};
use crate::time::Time;
use cc_dctcp::{Controller, LossEvent, LossRate, PathDelay, RoundTrip};
use sr_recovery::{Generation, Record, StreamId};
use wire::{Meta, Psn};

/// Highest reorder threshold, in packets.
const THRESHOLD_MAX: u8 = 31;

/// The cold part: what a stream needs when something went wrong.
#[derive(Debug)]
pub struct TxRecovery {
    pub(super) stream: StreamId,
    pub(super) generation: Generation,
    pub(super) policy: RecoveryPolicy,
    pub(super) retry: RetryQueue,
    /// Records written since the stream was made; the slow path's verdicts name the last one they
    /// know.
    pub(super) seq: u16,
    pub(super) threshold: u8,
    /// The threshold decays when `una` passes this.
    pub(super) decay_at: Psn,
    pub(super) highest_sack: Option<Psn>,
    /// `nxt` when an episode of losses began; a loss found once `una` is there begins another.
    pub(super) episode_end: Option<Psn>,
    /// `una` for which a NACK without SACK was obeyed.
    pub(super) obeyed_at: Option<Psn>,
    /// `nxt` at the last retransmission; a duplicate reported until one window later was our doing.
    pub(super) resent_until: Option<Psn>,
    /// Round trips of the path, for telling a loss from congestion.
    pub(crate) path: PathDelay,
    /// Which part of the packets is lost.
    pub(crate) loss_rate: LossRate,
    /// META of the two packets that were probed last, which is as many as one timeout sends.
    probed: [Option<Meta>; 2],
}

impl TxRecovery {
    /// The cold part of a stream that has at most `cap` packets outstanding.
    #[must_use]
    pub fn new(
        stream: StreamId,
        generation: Generation,
        cap: u16,
        policy: RecoveryPolicy,
        first: Psn,
    ) -> Self {
        Self {
            stream,
            generation,
            policy,
            retry: RetryQueue::new(cap),
            seq: 0,
            threshold: 0,
            decay_at: first,
            highest_sack: None,
            episode_end: None,
            obeyed_at: None,
            resent_until: None,
            path: PathDelay::default(),
            loss_rate: LossRate::default(),
            probed: [None; 2],
        }
    }

    /// An episode of loss begins: the controller hears of it, and what is known of the path.
    pub(crate) fn tell_loss(&mut self, controller: &mut Controller, now: Time) {
        self.path.note_loss();
        let mut event = self.loss_event(now);
        if event.confirmed_cut() > 0 {
            self.path.end_trial();
        } else if self.path.may_try() && controller.confirms_losses() {
            self.path.begin_trial(controller.cwnd_bytes());
            event.trial = true;
        }
        controller.on_loss_episode(&event);
    }

    /// The retransmission timer fired: the controller hears of it, and what is known of the path.
    pub(crate) fn tell_timeout(&self, controller: &mut Controller, now: Time) {
        controller.on_rto(&self.loss_event(now));
    }

    /// A round trip ended at `now`; the controller takes back a cut that was for nothing.
    #[inline]
    pub(crate) fn note_round_trip(&mut self, controller: &mut Controller, now: Time, trip: RoundTrip) {
        self.path.sample(now.0, trip, self.loss_rate.is_noisy());
        if let Some(window_bytes) = self.path.judge_trial() {
            controller.restore(window_bytes);
        }
    }

    fn loss_event(&self, now: Time) -> LossEvent {
        let loss_rate = self.loss_rate.average();
        LossEvent { now_ns: now.0, queue_share: self.path.queue_share(loss_rate), loss_rate, trial: false }
    }

    /// Number of the stream's life; belongs to the slot and survives RESET.
    #[must_use]
    pub const fn generation(&self) -> Generation {
        self.generation
    }

    /// Bytes on the heap.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.retry.bytes()
    }

    /// A probe with this META went out: a duplicate that its answer reports says nothing about the
    /// network.
    pub const fn note_probe(&mut self, meta: Meta) {
        self.probed = [Some(meta), self.probed[0]];
    }

    /// The life of these probes is over.
    pub(super) const fn forget_probes(&mut self) {
        self.probed = [None; 2];
    }

    /// Whether an acknowledgement reports a duplicate that was no probe of ours (docs/adr/0003,
    /// rule 8).
    pub(super) fn is_news_of_duplicate(&self, ack: &AckInfo) -> bool {
        let of_probe = ack.echo.is_some() && self.probed.contains(&ack.echo);
        ack.duplicate && !of_probe && !ack.answers_keepalive()
    }

    /// A duplicate after a retransmission means that the network reorders: wait longer next time;
    /// forget slowly.
    pub(super) fn adapt_threshold(&mut self, stream: &TxStream, duplicate: bool) {
        // `una` is at most a window before either PSN that is remembered, so that farther ahead is
        // behind, however many PSNs ago.
        let cap = u32::from(stream.cap);
        let ahead = self.decay_at.steps_from(stream.una);
        if self.threshold > 0 && !(1..=cap).contains(&ahead) {
            let windows = 1 + stream.una.steps_from(self.decay_at) / cap.max(1);
            self.threshold = self.threshold.saturating_sub(u8::try_from(windows).unwrap_or(u8::MAX));
            self.decay_at = stream.nxt;
        }
        let Some(until) = self.resent_until else { return };
        if until.add(cap).steps_from(stream.una) > 2 * cap {
            self.resent_until = None;
        } else if duplicate {
            self.threshold = (2 * self.threshold + 1).min(THRESHOLD_MAX);
            self.decay_at = stream.nxt;
            self.resent_until = None;
        }
    }

    pub(super) fn next_seq(&mut self) -> u16 {
        self.seq = self.seq.wrapping_add(1);
        self.seq
    }

    pub(super) fn resent(&mut self, recovering: bool, psn: Psn, snd_nxt: Psn) -> Option<Record> {
        recovering.then(|| Record::Resent {
            stream: self.stream,
            generation: self.generation,
            seq: self.next_seq(),
            psn,
            snd_nxt,
        })
    }

    pub(super) fn resend_all(&mut self, stream: &TxStream, first: Psn, last: Psn) -> Record {
        Record::ResendAll {
            stream: self.stream,
            generation: self.generation,
            seq: self.next_seq(),
            una: stream.una,
            snd_nxt: stream.nxt,
            first,
            last,
        }
    }
}
