//! Loss or congestion? What round trips and losses say about a path (docs/adr/0029).

use crate::ONE;

/// Least time, in nanoseconds, that a queue must add to a round trip before it counts as one.
const QUEUE_NS_MIN: u32 = 4_000;
/// A round trip may differ from the shortest by this part (1/32) before it counts as queued.
const BASE_PART_LOG2: u32 = 5;
/// So many times the noise are no queue.
const NOISE_TIMES: u64 = 3;
/// Round trips that differ from their mean by more than this, in nanoseconds, are those of threads
/// that wait for a processor: what is above counts as noise.
const SCHEDULING_NS: u32 = 64_000;
/// The shortest round trip is that of the last two periods of 2^33 ns, 8.6 s each: paths change.
const PERIOD_NS_LOG2: u32 = 33;
/// The mean of round trips moves by this part (1/16) for each.
const MEAN_LOG2: u32 = 4;
/// The mean excess of round trips at losses moves by this part (1/8) for each.
const AT_LOSS_LOG2: u32 = 3;
/// Round trips that a trial lasts for: the first may have begun before it.
const TRIAL_SAMPLES: u8 = 4;
/// Samples before a trial: of fewer the shortest says little.
const TRIAL_AFTER: u8 = 16;
/// A trial that makes round trips shorter by this part (1/8) shows a queue.
const TRIAL_PART_LOG2: u32 = 3;
/// Losses of at least so many packets are averaged at once: of fewer a fraction says nothing.
const PACKETS_MIN: u32 = 32;
/// The average of losses moves by this part (1/16) for each window.
const LOSS_GAIN_LOG2: u32 = 4;
/// Losses above this part of the packets are too many to be called random: 8 %, in Q16.
const LOSS_MAX: u32 = ONE * 8 / 100;
/// What a cut takes of the window for losses above that part: so many times the excess.
const RATE_TIMES: u32 = 12;
/// What a cut takes beside the queue's share, as others may not see the queue: so many times that
/// share, and at most this part of the window, in Q16. A queue that is little of the round trip
/// asks for a small cut.
const MORE_TIMES: u32 = 4;
const MORE_MAX: u32 = ONE / 4;
/// Losses above this part make growth careful: 0.25 %, in Q16.
const LOSS_CAREFUL: u32 = ONE / 400;
/// Losses below this part may come with round trips that vary by half: 2 %, in Q16.
const LOSS_TOLERATED: u32 = ONE * 2 / 100;
/// Losses above this part hide how round trips differ: 3 %, in Q16.
const LOSS_NOISY: u32 = ONE * 3 / 100;

/// A round trip: how long it took, and how much of that the network took.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RoundTrip {
    /// In nanoseconds, at least 1.
    total_ns: u32,
    /// Without the time that packet and acknowledgement may have waited at the hosts, in
    /// nanoseconds, at least 1.
    network_ns: u32,
}

impl RoundTrip {
    /// A round trip of `total_ns` nanoseconds. The packet waited at most `peer_ns` at the peer, and
    /// the acknowledgement at most `here_ns` at this host (protocol.md 2.2).
    #[must_use]
    pub fn new(total_ns: u64, peer_ns: u32, here_ns: u64) -> Self {
        let bounded = |ns: u64| u32::try_from(ns).unwrap_or(u32::MAX).max(1);
        let hosts_ns = here_ns.saturating_add(peer_ns.into());
        Self { total_ns: bounded(total_ns), network_ns: bounded(total_ns.saturating_sub(hosts_ns)) }
    }

    /// How long it took, in nanoseconds.
    #[must_use]
    pub const fn total_ns(self) -> u32 {
        self.total_ns
    }

    /// The time that the network took at least, in nanoseconds.
    #[must_use]
    pub const fn network_ns(self) -> u32 {
        self.network_ns
    }
}

/// The round trips of a path: the shortest, a smoothed one, and how much one differs from the next
/// by chance.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PathDelay {
    /// Shortest of this period and of the one before, in nanoseconds; 0: none yet.
    shortest_ns: [u32; 2],
    /// Number of this period, modulo 2^32.
    period: u32,
    /// Smoothed, in nanoseconds; 0: no sample yet.
    smoothed_ns: u32,
    /// Mean difference of two samples in a row, in nanoseconds.
    noise_ns: u32,
    /// The last sample, in nanoseconds.
    last_ns: u32,
    /// Mean of the last samples, some 16, in nanoseconds, and their mean distance from it.
    mean_ns: u32,
    deviation_ns: u32,
    /// By how much round trips at losses are above the mean, in nanoseconds, averaged over some 8
    /// losses.
    at_loss_ns: i32,
    /// A cut whose effect on round trips is being watched.
    trial: Option<Trial>,
    /// There was a trial in this period.
    tried: bool,
    /// Samples taken, up to [`TRIAL_AFTER`].
    samples: u8,
    /// The last marks were those of the peer's host, and not of a switch.
    marked_by_host: bool,
}

/// A cut for a loss that nothing confirmed. A stream that begins while queues are full takes their
/// delay for that of the path: if less in flight makes round trips shorter, there was a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Trial {
    /// The window before, in bytes.
    window_bytes: u32,
    /// The shortest round trip before, in nanoseconds.
    shortest_ns: u32,
    /// Samples to come.
    samples: u8,
}

impl PathDelay {
    /// Takes a round trip that ended at `now_ns`. `lossy` says that losses make samples rare.
    ///
    /// The shortest is that of whole round trips, as the path cannot be longer. The mean is that of
    /// what the network took for certain, as only that can be a queue.
    #[inline]
    pub fn sample(&mut self, now_ns: u64, trip: RoundTrip, lossy: bool) {
        let (path_ns, rtt_ns) = (trip.total_ns, trip.network_ns);
        let period = (now_ns >> PERIOD_NS_LOG2) as u32;
        if self.smoothed_ns == 0 {
            *self = Self {
                shortest_ns: [path_ns; 2],
                period,
                smoothed_ns: rtt_ns,
                last_ns: rtt_ns,
                mean_ns: rtt_ns,
                deviation_ns: rtt_ns / 4,
                ..Self::default()
            };
            return;
        }
        if period != self.period {
            self.shortest_ns = [path_ns, self.shortest_ns[0]];
            self.period = period;
            self.tried = false;
        }
        self.samples += u8::from(self.samples < TRIAL_AFTER);
        self.shortest_ns[0] = self.shortest_ns[0].min(path_ns);
        let step = rtt_ns.abs_diff(self.last_ns);
        if step < self.noise_ns {
            self.noise_ns -= (self.noise_ns - step) >> if lossy { 5 } else { 3 };
        } else if !lossy {
            self.noise_ns += (step - self.noise_ns) >> 3;
        }
        self.last_ns = rtt_ns;
        self.smoothed_ns = towards(self.smoothed_ns, rtt_ns, 2);
        self.deviation_ns = towards(self.deviation_ns, rtt_ns.abs_diff(self.mean_ns), MEAN_LOG2);
        self.mean_ns = towards(self.mean_ns, rtt_ns, MEAN_LOG2);
    }

    /// Returns `true` if a loss that nothing confirms may be answered by a cut, to see what that
    /// does to round trips: once a period.
    #[must_use]
    pub const fn may_try(&self) -> bool {
        !self.tried && self.samples >= TRIAL_AFTER
    }

    /// Such a cut is made, from a window of `window_bytes`.
    pub fn begin_trial(&mut self, window_bytes: u32) {
        self.tried = true;
        self.trial = Some(Trial { window_bytes, shortest_ns: self.shortest_ns(), samples: TRIAL_SAMPLES });
    }

    /// Something else proved congestion: the cut stands.
    pub const fn end_trial(&mut self) {
        self.trial = None;
    }

    /// Marks prove congestion, of a switch or of the peer's host.
    pub const fn note_marks(&mut self, by_host: bool) {
        self.end_trial();
        self.marked_by_host = by_host;
    }

    /// Whether the last marks were those of the peer's host.
    #[must_use]
    pub const fn is_marked_by_host(&self) -> bool {
        self.marked_by_host
    }

    /// Counts a sample of a trial. Returns the window to go back to, in bytes, if round trips did
    /// not become shorter.
    #[inline]
    pub fn judge_trial(&mut self) -> Option<u32> {
        let trial = self.trial.take()?;
        if self.shortest_ns() < trial.shortest_ns - (trial.shortest_ns >> TRIAL_PART_LOG2) {
            return None;
        }
        if trial.samples > 1 {
            self.trial = Some(Trial { samples: trial.samples - 1, ..trial });
            return None;
        }
        Some(trial.window_bytes)
    }

    /// An episode of loss begins.
    pub fn note_loss(&mut self) {
        let above = i64::from(self.last_ns) - i64::from(self.mean_ns);
        let moved = i64::from(self.at_loss_ns) + ((above - i64::from(self.at_loss_ns)) >> AT_LOSS_LOG2);
        self.at_loss_ns = i32::try_from(moved).unwrap_or(i32::MAX);
    }

    /// Losses come when round trips are long, more than chance would have it.
    const fn losses_follow_delay(&self) -> bool {
        4 * self.at_loss_ns as i64 > 5 * self.deviation_ns as i64
    }

    /// The shortest round trip of the last periods, in nanoseconds; 0: none yet.
    #[must_use]
    pub fn shortest_ns(&self) -> u32 {
        self.shortest_ns[0].min(self.shortest_ns[1])
    }

    /// The part of a round trip that is spent in queues, beyond what noise explains, in Q16.
    #[must_use]
    pub fn queue_share(&self, loss_rate: u32) -> u32 {
        let base = u64::from(self.shortest_ns());
        let noise = self.noise_ns.max(self.deviation_ns.saturating_sub(SCHEDULING_NS));
        let explained =
            base + (base >> BASE_PART_LOG2) + u64::from(QUEUE_NS_MIN) + NOISE_TIMES * u64::from(noise);
        let smoothed = u64::from(self.smoothed_ns);
        if loss_rate < LOSS_TOLERATED && smoothed < explained + base / 2 && !self.losses_follow_delay() {
            return 0;
        }
        share(smoothed.saturating_sub(explained), smoothed)
    }
}

/// `part` of `whole`, in Q16.
fn share(part: u64, whole: u64) -> u32 {
    u32::try_from((part << 16).checked_div(whole).unwrap_or(0)).unwrap_or(ONE)
}

/// Moves `value` towards `sample` by 1/2^`log2` of their distance.
const fn towards(value: u32, sample: u32, log2: u32) -> u32 {
    if sample < value { value - ((value - sample) >> log2) } else { value + ((sample - value) >> log2) }
}

/// The fraction of a stream's packets that is lost, averaged over windows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LossRate {
    /// The average as a fraction of 2^16 (Q16).
    average: u32,
    /// Packets lost since `from`.
    lost: u32,
    /// PSN with which this window of packets began.
    from: u32,
}

impl LossRate {
    /// `lost` packets were lost when the next new one was `next_psn`, of 24 bits, with a window of
    /// `window` packets.
    pub fn count(&mut self, lost: u32, next_psn: u32, window: u32) {
        self.lost = self.lost.saturating_add(lost);
        let sent = next_psn.wrapping_sub(self.from) & 0xFF_FFFF;
        let window = window.max(PACKETS_MIN);
        if sent < window {
            return;
        }
        let fraction = u32::try_from((u64::from(self.lost) << 16) / u64::from(sent)).unwrap_or(ONE).min(ONE);
        let windows = (sent / window).min(1 << LOSS_GAIN_LOG2);
        let (average, windows) = (i64::from(self.average), i64::from(windows));
        let moved = average + (((i64::from(fraction) - average) * windows) >> LOSS_GAIN_LOG2);
        self.average = u32::try_from(moved).unwrap_or(0);
        (self.lost, self.from) = (0, next_psn);
    }

    /// In Q16.
    #[must_use]
    pub const fn average(&self) -> u32 {
        self.average
    }

    /// Returns `true` if so many packets are lost that samples of round trips are rare.
    #[must_use]
    pub const fn is_noisy(&self) -> bool {
        self.average > LOSS_NOISY
    }
}

/// Packets were lost: what is known of the path says whether that is congestion.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LossEvent {
    /// Time, in nanoseconds of the caller's clock.
    pub now_ns: u64,
    /// The part of a round trip that is spent in queues, in Q16.
    pub queue_share: u32,
    /// The part of the packets that is lost, in Q16.
    pub loss_rate: u32,
    /// Nothing confirms it, but a cut shall show whether there is a queue.
    pub trial: bool,
}

impl LossEvent {
    /// The fraction that a window loses by a loss that delay confirms, in Q16. It is five times the
    /// queue's part of the round trip, but at most that part and a quarter, and at most half.
    /// Without a queue it is 0, unless more is lost than any lossy link loses.
    #[must_use]
    pub fn confirmed_cut(&self) -> u32 {
        let more = (MORE_TIMES * self.queue_share).min(MORE_MAX);
        let by_delay = (self.queue_share + more).min(ONE / 2);
        let by_rate = (RATE_TIMES * self.loss_rate.saturating_sub(LOSS_MAX)).min(ONE / 2);
        let by_trial = if self.trial { ONE / 2 } else { 0 };
        by_delay.max(by_rate).max(by_trial)
    }

    /// Losses are frequent enough for a window to grow with care.
    #[must_use]
    pub const fn is_careful(&self) -> bool {
        self.loss_rate > LOSS_CAREFUL
    }
}

#[cfg(test)]
pub(crate) mod tests;
