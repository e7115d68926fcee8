//! When a stream without progress resends, probes, or gives up (protocol.md 2.4, sending).

use super::rtt::{RtoConfig, RttEstimator};
use crate::time::Time;
use core::mem::offset_of;

/// Longest period of a queue pair whose `timeout` is 0: its retransmission timer still needs an
/// upper end.
const RTO_CEILING_NS: u64 = 1_000_000_000;
/// Periods without progress that end the stream even if the peer is heard.
const SILENT_PERIODS_MAX: u8 = 16;
/// Streams with at most this many packets outstanding use the low RTO.
const FEW_OUTSTANDING: u32 = 3;

/// What the queue pair's attributes say about giving up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WatchdogConfig {
    /// `timeout`: a period lasts 4.096 us x 2^timeout; 0 switches off the failure detector, never
    /// the RTO.
    pub timeout: u8,
    /// `retry_cnt`: silent periods that are forgiven.
    pub retry_cnt: u8,
    /// The timers' floors.
    pub rto: RtoConfig,
}

impl WatchdogConfig {
    /// Length of a period in nanoseconds.
    #[must_use]
    pub fn period_ns(&self) -> u64 {
        if self.timeout == 0 { RTO_CEILING_NS } else { 4096 << self.timeout.min(31) }
    }
}

/// What is due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Nothing before this time.
    Wait(Time),
    /// One probe packet.
    TailProbe,
    /// The retransmission timer fired.
    Rto,
    /// Retries are exhausted: RETRY_EXC_ERR.
    Exhausted,
}

/// How often the timers have doubled.
#[derive(Clone, Copy, Debug, Default)]
struct Backoff {
    rto: u8,
    tail: u8,
}

impl Backoff {
    fn max(one: Self, other: Self) -> Self {
        Self { rto: one.rto.max(other.rto), tail: one.tail.max(other.tail) }
    }
}

/// The timers of one TxStream that has something outstanding.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Watchdog {
    // Both first ([`Watchdog::FIRST`]).
    /// Round-trip times of the stream.
    pub rtt: RttEstimator,
    config: WatchdogConfig,
    synced: Time,
    period_start: Time,
    rto_from: Time,
    tail_from: Time,
    backoff: Backoff,
    /// How slow the timers had become before the last progress, since `samples`.
    fired: Backoff,
    /// Samples that `rtt` had when a timer last fired.
    samples: u32,
    /// The peer has since received a packet twice.
    too_fast: bool,
    silent_periods: u8,
    stuck_periods: u8,
}

impl Watchdog {
    /// Bytes from its start that acknowledgements and new packets need.
    pub(crate) const FIRST: usize =
        offset_of!(Self, config) + offset_of!(WatchdogConfig, rto) + size_of::<RtoConfig>();

    /// A watchdog that has seen nothing yet.
    #[must_use]
    pub fn new(config: WatchdogConfig) -> Self {
        Self {
            config,
            rtt: RttEstimator::default(),
            synced: Time::ZERO,
            period_start: Time::ZERO,
            rto_from: Time::ZERO,
            tail_from: Time::ZERO,
            backoff: Backoff::default(),
            fired: Backoff::default(),
            samples: 0,
            too_fast: false,
            silent_periods: 0,
            stuck_periods: 0,
        }
    }

    /// Takes other attributes, as SQD allows; what was counted goes on.
    pub const fn configure(&mut self, config: WatchdogConfig) {
        self.config = config;
    }

    /// The stream made progress, or became busy, at `now`: all counts start again, but for timers
    /// known to be too fast.
    pub fn progress(&mut self, now: Time) {
        let mut fresh = Self { rtt: self.rtt, ..Self::new(self.config) };
        if self.rtt.samples() == self.samples {
            fresh.samples = self.samples;
            fresh.fired = Backoff::max(self.fired, self.backoff);
            fresh.too_fast = self.too_fast;
            fresh.backoff = if self.too_fast { fresh.fired } else { Backoff::default() };
        }
        *self = fresh;
        self.synced = now;
        self.period_start = now;
        self.rto_from = now;
        self.tail_from = now;
    }

    /// The peer has received a packet twice. If a timer resent it, the timer was too fast: the path
    /// is longer than it believes, and it will fire before every answer, so that no round trip is
    /// ever measured (RFC 6298, Karn). So the timers stay as slow as they had become, until a round
    /// trip is measured.
    #[cold]
    pub fn received_twice(&mut self) {
        if self.rtt.samples() == self.samples {
            self.too_fast = true;
            self.backoff = Backoff::max(self.fired, self.backoff);
        }
    }

    /// Something is missing at the peer: then packets come twice for other reasons, and timers had
    /// better be fast.
    #[cold]
    pub const fn something_is_missing(&mut self) {
        self.too_fast = false;
        self.fired = Backoff { rto: 0, tail: 0 };
    }

    /// Takes over progress that the fast path noted, if it is news.
    pub fn sync(&mut self, progress_at: Time) {
        if progress_at > self.synced {
            self.progress(progress_at);
        }
    }

    /// How long after the first packet went out the watchdog wants to look, in nanoseconds.
    #[must_use]
    pub fn first_look_ns(&self) -> u64 {
        self.rtt.tail_ns(&self.config.rto).min(self.rtt.rto_low_ns(&self.config.rto))
    }

    /// What is due at `now`, given when the peer was last heard and how many packets are
    /// outstanding. Consumes what it returns: ask again until it says [`Verdict::Wait`].
    pub fn check(&mut self, now: Time, heard_at: Time, outstanding: u32) -> Verdict {
        if let Some(verdict) = self.close_period(now, heard_at) {
            return verdict;
        }
        let rto_at = self.rto_from.after(self.rto_ns(outstanding));
        if now >= rto_at {
            self.rto_from = now;
            self.backoff.rto = self.backoff.rto.saturating_add(1).min(32);
            self.note_firing();
            return Verdict::Rto;
        }
        let tail_at = self.tail_from.after(self.tail_ns());
        if now >= tail_at && tail_at < rto_at {
            self.tail_from = now;
            self.backoff.tail = self.backoff.tail.saturating_add(1).min(32);
            self.note_firing();
            return Verdict::TailProbe;
        }
        let period_at = self.period_start.after(self.config.period_ns());
        let tail_at = if tail_at < rto_at { tail_at } else { rto_at };
        Verdict::Wait(rto_at.min(tail_at).min(period_at))
    }

    /// A timer fired: what was known of earlier firings ends with a sample.
    const fn note_firing(&mut self) {
        if self.samples != self.rtt.samples() {
            self.samples = self.rtt.samples();
            self.fired = Backoff { rto: 0, tail: 0 };
            self.too_fast = false;
        }
    }

    fn close_period(&mut self, now: Time, heard_at: Time) -> Option<Verdict> {
        if now < self.period_start.after(self.config.period_ns()) {
            return None;
        }
        let silent = heard_at < self.period_start;
        self.period_start = now;
        if self.config.timeout == 0 {
            return None;
        }
        self.stuck_periods += 1;
        self.silent_periods += u8::from(silent);
        (self.silent_periods > self.config.retry_cnt || self.stuck_periods >= SILENT_PERIODS_MAX)
            .then_some(Verdict::Exhausted)
    }

    fn rto_ns(&self, outstanding: u32) -> u64 {
        let base = if outstanding <= FEW_OUTSTANDING {
            self.rtt.rto_low_ns(&self.config.rto)
        } else {
            self.rtt.rto_high_ns(&self.config.rto)
        };
        shifted(base, self.backoff.rto).min(self.config.period_ns().max(self.config.rto.low_floor_ns))
    }

    fn tail_ns(&self) -> u64 {
        shifted(self.rtt.tail_ns(&self.config.rto), self.backoff.tail)
    }
}

/// `base << by`, saturating.
fn shifted(base: u64, by: u8) -> u64 {
    base.saturating_mul(1 << by)
}
