//! The next point: annealing, one counter after the other.
//!
//! A chain of points raises one counter. A step draws values of a part of the dimensions, and a
//! value is the likelier the larger the counter was with it at earlier points: at a high
//! temperature hardly, at a low one much. A point that is better becomes the next one's start, and
//! at a high temperature one that is worse may, too.

use super::space::{DIMENSIONS, Point};
use simnet::Rng;

/// Points at random, before anything is known of counters.
const FIRST: usize = 48;
/// Points of a chain.
const CHAIN: u32 = 6;
/// The temperature at the beginning and at the end of a chain, in standard deviations.
const TEMPERATURES: (f64, f64) = (0.6, 0.08);
/// Part of the dimensions that a step draws again.
const REDRAWN: f64 = 0.7;

/// What is known, and where the chain is.
#[derive(Debug, Default)]
pub struct Proposer {
    points: Vec<(Point, Vec<f64>)>,
    chain: Option<Chain>,
    /// Chains that each counter has had.
    chains: Vec<u32>,
}

#[derive(Debug)]
struct Chain {
    counter: usize,
    step: u32,
    at: Point,
    value: f64,
}

/// Mean and standard deviation of a counter.
#[derive(Clone, Copy)]
struct Spread {
    mean: f64,
    deviation: f64,
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
        let spread = self.spread(chain.counter);
        let mut point = chain.at;
        for (number, dimension) in DIMENSIONS.iter().enumerate() {
            if unit(rng) < REDRAWN {
                let weights =
                    self.weights(chain.counter, number, dimension.values.len(), spread, temperature);
                point = point.with(number, draw(&weights, rng));
            }
        }
        point
    }

    /// The last proposal is of no use: the chain comes nearer to its end.
    pub const fn pass_over(&mut self) {
        if let Some(chain) = &mut self.chain {
            chain.step += 1;
        }
    }

    /// Takes what a point gave.
    pub fn learn(&mut self, point: &Point, signals: &[f64], rng: &mut Rng) {
        self.points.push((*point, signals.to_vec()));
        self.chains.resize(signals.len(), 0);
        let Some(counter) = self.chain.as_ref().map(|chain| chain.counter) else { return };
        let deviation = self.spread(counter).deviation;
        let Some(chain) = &mut self.chain else { return };
        let worse = chain.value - signals.get(counter).copied().unwrap_or(0.0);
        if worse <= 0.0 || unit(rng) < (-worse / (deviation * temperature(chain.step))).exp() {
            (chain.at, chain.value) = (*point, chain.value - worse);
        }
        chain.step += 1;
    }

    /// A chain of the counter that has had the fewest, and of those the one that varies most. It
    /// begins at the best point that is known.
    fn begin(&mut self) -> Option<Chain> {
        let variation = |counter: usize| {
            let Spread { mean, deviation } = self.spread(counter);
            deviation / mean.abs().max(1e-9)
        };
        let varying = (0..self.chains.len()).filter(|counter| variation(*counter) > 0.0);
        let order = |counter: &usize| (core::cmp::Reverse(self.chains[*counter]), variation(*counter));
        let counter = varying.max_by(|one, other| {
            let (one, other) = (order(one), order(other));
            one.0.cmp(&other.0).then(one.1.total_cmp(&other.1))
        })?;
        self.chains[counter] += 1;
        let best = self.points.iter().max_by(|one, other| one.1[counter].total_cmp(&other.1[counter]))?;
        Some(Chain { counter, step: 0, at: best.0, value: best.1[counter] })
    }

    fn spread(&self, counter: usize) -> Spread {
        let count = float(self.points.len());
        let values = || self.points.iter().map(|(_, signals)| signals[counter]);
        let mean = values().sum::<f64>() / count;
        let deviation = (values().map(|value| (value - mean).powi(2)).sum::<f64>() / count).sqrt();
        Spread { mean, deviation }
    }

    /// How likely each value of a dimension is.
    fn weights(
        &self,
        counter: usize,
        dimension: usize,
        values: usize,
        Spread { mean, deviation }: Spread,
        temperature: f64,
    ) -> Vec<f64> {
        let mut sums = vec![(0.0, 0.0); values];
        for (point, signals) in &self.points {
            let (sum, count) = &mut sums[usize::from(point.0[dimension])];
            *sum += signals[counter] - mean;
            *count += 1.0;
        }
        // One more point of the mean: what few points say is believed the less.
        let effect = |(sum, count): (f64, f64)| sum / (count + 1.0) / deviation.max(1e-12);
        sums.into_iter().map(|sum| (effect(sum) / temperature).min(60.0).exp()).collect()
    }
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

/// From 0 up to 1.
fn unit(rng: &mut Rng) -> f64 {
    float(usize::try_from(rng.below(1 << 30)).unwrap_or(0)) / f64::from(1 << 30)
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
const fn float(count: usize) -> f64 {
    count as f64
}
