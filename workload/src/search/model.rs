//! What the values of dimensions have to do with a counter, as far as points have shown it.

use super::float;
use super::space::{DIMENSIONS, Point};

/// Passes over all dimensions, of which each corrects what the others had claimed.
const SWEEPS: usize = 4;
/// Points without an effect that each value is thought to have had before: what few points say is
/// believed the less.
const PRIOR: f64 = 2.0;

/// How much each value of each dimension raises a counter, in standard deviations of its ranks.
///
/// An additive model, fitted by backfitting: the effect of a value is the mean of what the values
/// of the other dimensions do not explain. So points that were chosen, and are like each other,
/// mislead it little. Ranks make it blind to the scale of a counter.
#[derive(Clone, Debug)]
pub struct Effects(Vec<Vec<f64>>);

impl Effects {
    /// What `counts`, one of each point, say.
    pub fn of(points: &[Point], counts: &[f64]) -> Self {
        let mut effects: Vec<Vec<f64>> =
            DIMENSIONS.iter().map(|dimension| vec![0.0; dimension.values.len()]).collect();
        let mut unexplained = normal_ranks(counts);
        for _ in 0..SWEEPS {
            for (dimension, effects) in effects.iter_mut().enumerate() {
                let mut sums = vec![(0.0, PRIOR); effects.len()];
                for (point, rest) in points.iter().zip(&unexplained) {
                    let value = usize::from(point.0[dimension]);
                    sums[value].0 += rest + effects[value];
                    sums[value].1 += 1.0;
                }
                let before = effects.clone();
                effects.iter_mut().zip(sums).for_each(|(effect, (sum, count))| *effect = sum / count);
                for (point, rest) in points.iter().zip(&mut unexplained) {
                    let value = usize::from(point.0[dimension]);
                    *rest += before[value] - effects[value];
                }
            }
        }
        Self(effects)
    }

    /// Adds those of another counter, as parts.
    pub fn add(&mut self, other: &Self, part: f64) {
        let all = self.0.iter_mut().flatten().zip(other.0.iter().flatten());
        all.for_each(|(effect, other)| *effect += other * part);
    }

    /// Those of the values of a dimension.
    pub fn of_dimension(&self, dimension: usize) -> &[f64] {
        &self.0[dimension]
    }
}

/// The rank of each count, equal ones sharing theirs, with mean 0 and standard deviation 1.
fn normal_ranks(counts: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..counts.len()).collect();
    order.sort_by(|one, other| counts[*one].total_cmp(&counts[*other]));
    let (mut ranks, mut before) = (vec![0.0; counts.len()], 0);
    for equal in order.chunk_by(|one, other| counts[*one].total_cmp(&counts[*other]).is_eq()) {
        let shared = float(before) + float(equal.len() - 1) / 2.0;
        equal.iter().for_each(|index| ranks[*index] = shared);
        before += equal.len();
    }
    let count = float(counts.len());
    let mean = (count - 1.0) / 2.0;
    let deviation = (ranks.iter().map(|rank| (rank - mean).powi(2)).sum::<f64>() / count).sqrt();
    ranks.iter().map(|rank| (rank - mean) / deviation.max(1e-9)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use simnet::Rng;

    #[test]
    fn ranks_are_shared_by_equals() {
        let ranks = normal_ranks(&[5.0, 1.0, 5.0, 900.0]);
        assert_eq!((ranks[0], ranks[2]), (0.0, 0.0));
        assert!(ranks[1] < 0.0 && (ranks[1] + ranks[3]).abs() < 1e-12, "{ranks:?}");
        assert_eq!(normal_ranks(&[3.0; 4]), [0.0; 4]);
    }

    /// Two dimensions matter, and the points were chosen so that a third goes with one of them.
    #[test]
    fn what_goes_with_a_cause_is_not_taken_for_it() {
        let rng = &mut Rng::new(1);
        let mut points: Vec<Point> = (0..60).map(|_| Point::random(rng)).collect();
        for point in points.iter_mut().filter(|point| point.0[1] >= 5) {
            if rng.below(4) > 0 {
                *point = point.with(7, 3);
            }
        }
        let counts: Vec<f64> = points
            .iter()
            .map(|point| f64::from(u8::from(point.0[1] >= 5) + u8::from(point.0[3] <= 1)))
            .collect();
        let effects = Effects::of(&points, &counts);
        let best = |dimension: usize| {
            let of = effects.of_dimension(dimension);
            (0..of.len()).max_by(|one, other| of[*one].total_cmp(&of[*other])).expect("it has values")
        };
        assert!(best(1) >= 5 && best(3) <= 1, "{effects:?}");
        assert!(effects.of_dimension(7)[3] < effects.of_dimension(1)[5] / 3.0, "{effects:?}");
    }
}
