//! Flows: how long they are, when they begin, and between whom.

use crate::clock::Ps;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// Sizes of flows, as knots of their distribution: bytes, and the part of the flows that have at
/// most so many. Linear between.
#[derive(Clone, Copy, Debug)]
pub struct Sizes(&'static [(f64, f64)]);

impl Sizes {
    /// Cache_Follower: flows of a cache tier (Roy et al., SIGCOMM '15), by the knots that
    /// simulators use.
    pub const CACHE_FOLLOWER: Self = Self(&[
        (50.0, 0.0),
        (100.0, 0.031),
        (200.0, 0.048),
        (300.0, 0.116),
        (400.0, 0.223),
        (500.0, 0.28),
        (700.0, 0.35),
        (1e3, 0.374),
        (2e3, 0.437),
        (5e3, 0.467),
        (10e3, 0.478),
        (30e3, 0.501),
        (60e3, 0.517),
        (100e3, 0.533),
        (200e3, 0.592),
        (300e3, 0.648),
        (400e3, 0.678),
        (600e3, 0.714),
        (1e6, 0.718),
        (1.4e6, 0.72),
        (1.7e6, 0.764),
        (2e6, 0.821),
        (2.4e6, 0.89),
        (2.8e6, 0.97),
        (3.2e6, 0.993),
        (3.8e6, 1.0),
    ]);

    /// The size below which a part `of` the flows, 0 to 1, are.
    #[must_use]
    pub fn quantile(&self, of: f64) -> u32 {
        let knots = self.0.windows(2).find(|knots| of <= knots[1].1);
        let Some([(low, before), (high, until)]) = knots else { return self.largest() };
        let part = if until > before { (of - before) / (until - before) } else { 0.0 };
        whole(low + part * (high - low))
    }

    /// Mean size in bytes.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.0.windows(2).map(|knots| (knots[1].1 - knots[0].1) * f64::midpoint(knots[0].0, knots[1].0)).sum()
    }

    /// The largest size.
    #[must_use]
    pub fn largest(&self) -> u32 {
        self.0.last().map_or(1, |knot| whole(knot.0))
    }
}

/// A flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flow {
    /// When it begins.
    pub at: Ps,
    /// Where it goes.
    pub to: u32,
    /// Bytes.
    pub bytes: u32,
}

/// The flows that one host begins: a Poisson process, to every other host equally often.
#[derive(Clone, Debug)]
pub struct Poisson {
    random: Xoshiro256PlusPlus,
    host: u32,
    hosts: u32,
    sizes: Sizes,
    mean_gap_ps: f64,
    at: f64,
}

impl Poisson {
    /// Of `host` among `hosts`, which sends at `load` (0 to 1) of a link of `ps_per_byte`.
    #[must_use]
    pub fn new(seed: u64, (host, hosts): (u32, u32), sizes: Sizes, load: f64, ps_per_byte: u32) -> Self {
        let random = Xoshiro256PlusPlus::seed_from_u64(seed ^ u64::from(host) << 32);
        let mean_gap_ps = sizes.mean() * f64::from(ps_per_byte) / load;
        Self { random, host, hosts, sizes, mean_gap_ps, at: 0.0 }
    }
}

impl Iterator for Poisson {
    type Item = Flow;

    fn next(&mut self) -> Option<Flow> {
        self.at -= self.mean_gap_ps * (1.0 - uniform(&mut self.random)).ln();
        let other = whole(uniform(&mut self.random) * f64::from(self.hosts - 1));
        let to = other + u32::from(other >= self.host);
        let size = uniform(&mut self.random);
        Some(Flow { at: moment(self.at), to, bytes: self.sizes.quantile(size) })
    }
}

/// A number from 0 up to 1, each as likely as any other.
pub(crate) fn uniform(random: &mut impl Rng) -> f64 {
    const BITS: u32 = 53;
    (random.next_u64() >> (64 - BITS)) as f64 / (1_u64 << BITS) as f64
}

/// Without what is behind the point.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "sizes and numbers of hosts fit")]
const fn whole(number: f64) -> u32 {
    number as u32
}

/// Whole picoseconds.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "times are positive, and shorter than 213 days"
)]
const fn moment(ps: f64) -> Ps {
    Ps(ps as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cache_follower_has_its_published_mean() {
        let mean = Sizes::CACHE_FOLLOWER.mean();
        assert!((mean / 686_800.0 - 1.0).abs() < 0.01, "{mean}");
    }

    /// The flows of a host are as many and as large as its load says, and none is to itself.
    #[test]
    fn a_host_sends_at_its_load() {
        let flows: Vec<_> = Poisson::new(3, (5, 16), Sizes::CACHE_FOLLOWER, 0.7, 80).take(40_000).collect();
        let bytes: f64 = flows.iter().map(|flow| f64::from(flow.bytes)).sum();
        let load = bytes * 80.0 / flows.last().expect("some").at.0 as f64;
        assert!((load - 0.7).abs() < 0.02, "{load}");
        assert!(flows.iter().all(|flow| flow.to != 5 && flow.to < 16));
    }
}
