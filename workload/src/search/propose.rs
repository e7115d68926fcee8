//! The next point: annealing, one counter after the other.
//!
//! What earlier points say of a counter is put together in a model ([`Effects`]). A chain of
//! points raises a counter: each value of a dimension is the likelier the more it raises the
//! counter, at the temperature of the chain's beginning hardly, at that of its end much. Where a
//! counter does not care, others may: they pull as well, each half as much as the one before.

use super::model::Effects;
use super::space::{DIMENSIONS, Point};
use super::{float, unit};
use simnet::Rng;
use std::collections::HashSet;

/// Points at random, before anything is known of counters.
const FIRST: usize = 24;
/// Points of a chain.
const CHAIN: u32 = 2;
/// The temperature at the beginning and at the end of a chain, in standard deviations of ranks.
const TEMPERATURES: (f64, f64) = (0.3, 0.05);
/// Counters that pull, and how much each does beside the one before.
const PULLING: usize = 3;
const FOLLOWS: f64 = 0.5;

/// What is known, and where the chain is.
#[derive(Debug, Default)]
pub struct Proposer {
    points: Vec<Point>,
    /// The counts of all points, by counter.
    counts: Vec<Vec<f64>>,
    seen: HashSet<Point>,
    /// Chains that each counter has led.
    chains: Vec<u32>,
    chain: Option<Chain>,
}

#[derive(Debug)]
struct Chain {
    effects: Effects,
    step: u32,
}

impl Proposer {
    /// A point to look at.
    pub fn propose(&mut self, rng: &mut Rng) -> Point {
        if self.points.len() < FIRST {
            return Point::random(rng);
        }
        if self.chain.as_ref().is_none_or(|chain| chain.step >= CHAIN) {
            self.chain = self.begin();
        }
        let Some(chain) = &self.chain else { return Point::random(rng) };
        let temperature = temperature(chain.step);
        let weight = |effect: &f64| (effect / temperature).min(60.0).exp();
        let mut point = Point::random(rng);
        for dimension in 0..DIMENSIONS.len() {
            let weights: Vec<f64> = chain.effects.of_dimension(dimension).iter().map(weight).collect();
            point = point.with(dimension, draw(&weights, rng));
        }
        point
    }

    /// Whether the point has been looked at.
    pub fn has_seen(&self, point: &Point) -> bool {
        self.seen.contains(point)
    }

    /// The last proposal is of no use: the chain comes nearer to its end.
    pub const fn pass_over(&mut self) {
        if let Some(chain) = &mut self.chain {
            chain.step += 1;
        }
    }

    /// Takes what a point gave.
    pub fn learn(&mut self, point: &Point, signals: &[f64]) {
        self.points.push(*point);
        self.seen.insert(*point);
        self.counts.resize(signals.len(), Vec::new());
        self.chains.resize(signals.len(), 0);
        self.counts.iter_mut().zip(signals).for_each(|(counts, count)| counts.push(*count));
        self.pass_over();
    }

    /// A chain led by the counter that has led the fewest; of those the one that varies most.
    fn begin(&mut self) -> Option<Chain> {
        let mut order: Vec<(u32, f64, usize)> = self
            .counts
            .iter()
            .enumerate()
            .map(|(counter, counts)| (self.chains[counter], variation(counts), counter))
            .filter(|(_, variation, _)| *variation > 0.0)
            .collect();
        order.sort_by(|one, other| one.0.cmp(&other.0).then(other.1.total_cmp(&one.1)));
        let mut counters = order.iter().map(|(_, _, counter)| *counter).take(PULLING);
        let leading = counters.next()?;
        self.chains[leading] += 1;
        let of = |counter: usize| Effects::of(&self.points, &self.counts[counter]);
        let mut effects = of(leading);
        let mut part = FOLLOWS;
        for counter in counters {
            effects.add(&of(counter), part);
            part *= FOLLOWS;
        }
        Some(Chain { effects, step: 0 })
    }
}

/// Standard deviation over mean.
fn variation(counts: &[f64]) -> f64 {
    let count = float(counts.len());
    let mean = counts.iter().sum::<f64>() / count;
    let deviation = (counts.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count).sqrt();
    deviation / mean.abs().max(1e-9)
}

fn temperature(step: u32) -> f64 {
    let (first, last) = TEMPERATURES;
    first * (last / first).powf(f64::from(step) / f64::from(CHAIN - 1))
}

fn draw(weights: &[f64], rng: &mut Rng) -> usize {
    let mut left = unit(rng) * weights.iter().sum::<f64>();
    let found = weights.iter().position(|weight| {
        left -= weight;
        left < 0.0
    });
    found.unwrap_or(weights.len() - 1)
}
