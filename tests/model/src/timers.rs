//! The clocks of a sending stream: retransmission timeout, tail probe, and the patience that
//! retry_cnt measures.

use crate::schedule::Schedule;

/// Counts periods of `timeout` without progress (protocol.md 2.4, "retry_cnt").
#[derive(Clone, Debug)]
pub struct Patience {
    period: Option<u64>,
    retry_cnt: u32,
    ends_at: Option<u64>,
    heard: bool,
    silent: u32,
    stalled: u32,
}

/// Periods without progress, though not without packets, that a stream survives.
const STALLED_MAX: u32 = 16;

impl Patience {
    /// Full patience, not running.
    #[must_use]
    pub fn new(schedule: &Schedule) -> Self {
        Self {
            period: schedule.patience,
            retry_cnt: schedule.retry_cnt,
            ends_at: None,
            heard: false,
            silent: 0,
            stalled: 0,
        }
    }

    /// Progress was made: counting starts afresh.
    pub fn restart(&mut self, now: u64) {
        self.ends_at = self.period.map(|period| now + period);
        (self.heard, self.silent, self.stalled) = (false, 0, 0);
    }

    /// Nothing is expected.
    pub fn stop(&mut self) {
        self.ends_at = None;
    }

    /// A packet came from the peer.
    pub fn hear(&mut self) {
        self.heard = true;
    }

    /// End of the current period.
    #[must_use]
    pub fn deadline(&self) -> Option<u64> {
        self.ends_at
    }

    /// Counts a period that has ended. Returns false if that was the last.
    pub fn is_left(&mut self, now: u64) -> bool {
        if self.ends_at.is_none_or(|at| now < at) {
            return true;
        }
        self.ends_at = self.period.map(|period| now + period);
        self.stalled += 1;
        self.silent += u32::from(!self.heard);
        self.heard = false;
        self.silent <= self.retry_cnt && self.stalled < STALLED_MAX
    }
}

/// What a clock asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Alarm {
    /// Nothing yet.
    Quiet,
    /// The retransmission timeout.
    Timeout,
    /// The tail probe.
    TailProbe,
    /// The retries are used up.
    GiveUp,
}

/// The clocks of one stream; they run while packets are outstanding and no RNR wait is on.
#[derive(Clone, Debug)]
pub struct Timers {
    /// For retry_cnt.
    pub patience: Patience,
    rto: u64,
    rto_max: u64,
    tail: Option<u64>,
    backoff: u64,
    timeout_at: Option<u64>,
    tail_backoff: u64,
    tail_at: Option<u64>,
}

impl Timers {
    /// Clocks that do not run.
    #[must_use]
    pub fn new(schedule: &Schedule) -> Self {
        Self {
            patience: Patience::new(schedule),
            rto: schedule.rto,
            rto_max: schedule.patience.unwrap_or(schedule.rto * 64).max(schedule.rto),
            tail: schedule.tail_probe,
            backoff: schedule.rto,
            timeout_at: None,
            tail_backoff: 0,
            tail_at: None,
        }
    }

    /// (Re)starts all clocks, without backoff.
    pub fn arm(&mut self, now: u64) {
        self.patience.restart(now);
        self.backoff = self.rto;
        self.timeout_at = Some(now + self.rto);
        self.tail_backoff = self.tail.unwrap_or(0);
        self.tail_at = self.tail.map(|tail| now + tail);
    }

    /// Stops all clocks.
    pub fn disarm(&mut self) {
        self.patience.stop();
        self.timeout_at = None;
        self.tail_at = None;
    }

    /// When to look again.
    #[must_use]
    pub fn deadline(&self) -> Option<u64> {
        [self.timeout_at, self.tail_at, self.patience.deadline()].into_iter().flatten().min()
    }

    /// The most urgent alarm due at `now`, which is thereby handled.
    pub fn poll(&mut self, now: u64) -> Alarm {
        if !self.patience.is_left(now) {
            self.disarm();
            return Alarm::GiveUp;
        }
        if self.timeout_at.is_some_and(|at| at <= now) {
            self.backoff = (self.backoff * 2).min(self.rto_max);
            self.timeout_at = Some(now + self.backoff);
            return Alarm::Timeout;
        }
        if self.tail_at.is_some_and(|at| at <= now) {
            self.tail_backoff *= 2;
            let next = now + self.tail_backoff;
            self.tail_at = Some(next).filter(|&at| self.timeout_at.is_none_or(|timeout| at < timeout));
            return Alarm::TailProbe;
        }
        Alarm::Quiet
    }
}
