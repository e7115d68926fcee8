//! Decides what happens to each frame: the only place that draws random numbers.

use super::config::{FaultConfig, Probability};
use super::rule::{BlackHole, Picker};
use super::stats::LaneStats;
use crate::time::Time;
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// The first number of SplitMix64 from `seed`.
fn mixed(seed: u64) -> u64 {
    SplitMix64::seed_from_u64(seed).next_u64()
}

/// What happens to a frame that is not lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pass {
    /// Send it twice.
    pub duplicate: bool,
    /// Hold it back.
    pub hold_back: bool,
    /// Mark it CE, if it is ECN-capable.
    pub mark: bool,
    /// Flip a bit: which one, modulo the number there are.
    pub flip: Option<u64>,
}

/// The two directions: their random numbers are told apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// What the engine sends.
    Tx,
    /// What it receives.
    Rx,
}

/// The faults of one direction. Every frame draws the same count of random numbers, so which frames
/// are lost does not depend on which other faults are on.
#[derive(Debug)]
pub struct Judge {
    random: SplitMix64,
    picker: Picker,
    hole: Option<BlackHole>,
    /// When the first frame came.
    began: Option<Time>,
    loss: Probability,
    burst: Probability,
    burst_end: Probability,
    burst_max_ns: u64,
    /// While there is a burst: when it ends at the latest.
    burst_until: Option<Time>,
    dup: Probability,
    reorder: Probability,
    corrupt: Probability,
    ecn: Probability,
}

impl Judge {
    /// The judge of one direction.
    pub fn new(config: &FaultConfig, side: Side) -> Self {
        let (stream, loss) = match side {
            Side::Tx => (1, config.loss_tx),
            Side::Rx => (2, config.loss_rx),
        };
        let stream_seed = mixed(config.seed ^ mixed(stream));
        Self {
            random: SplitMix64::seed_from_u64(stream_seed),
            picker: Picker::new(&config.drop),
            hole: config.hole,
            began: None,
            loss: loss.unwrap_or(config.loss),
            burst: config.burst,
            burst_end: Probability::one_in(config.burst_len),
            burst_max_ns: config.burst_max_ns,
            burst_until: None,
            dup: config.dup,
            reorder: config.reorder,
            corrupt: config.corrupt,
            ecn: config.ecn,
        }
    }

    /// The fate of the next frame, which comes `now`; `None`: it is lost, and `stats` says by what.
    pub fn judge(&mut self, now: Time, frame: &[u8], stats: &mut LaneStats) -> Option<Pass> {
        let [loss, burst, dup, reorder, ecn, corrupt, bit] = core::array::from_fn(|_| self.random.next_u64());
        let pass = Pass {
            duplicate: self.dup.hits(dup),
            hold_back: self.reorder.hits(reorder),
            mark: self.ecn.hits(ecn),
            flip: self.corrupt.hits(corrupt).then_some(bit),
        };
        let elapsed_ns = now.since(*self.began.get_or_insert(now));
        if self.picker.picks(frame) {
            stats.picked += 1;
            return None;
        }
        if self.hole.is_some_and(|hole| hole.swallows(elapsed_ns)) {
            stats.hole_lost += 1;
            return None;
        }
        // A burst loses the frame that begins it and ends with the first loss that says so, a mean
        // of `burst_len`, or when its time is over.
        let begun = self.burst_until.filter(|until| now < *until);
        if begun.is_some() || self.burst.hits(burst) {
            let until = begun.unwrap_or_else(|| now.after(self.burst_max_ns));
            self.burst_until = (!self.burst_end.hits(burst.rotate_left(32))).then_some(until);
            stats.burst_lost += 1;
            return None;
        }
        if self.loss.hits(loss) {
            stats.lost += 1;
            return None;
        }
        Some(pass)
    }
}
