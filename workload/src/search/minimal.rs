//! The smallest set of features that brings an anomaly about.

use super::space::{DIMENSIONS, Point};
use simnet::Rng;
use std::fmt;

/// Points of a value, or of the whole set, that must be anomalous for it to be believed.
const OF_A_VALUE: u32 = 2;
const OF_THE_SET: u32 = 8;
/// Draws of a point that is not known to be anomalous for another reason.
const DRAWS: u32 = 10;

/// For each dimension that matters, the values with which the anomaly is there; those that do not
/// matter are left out.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MinimalSet(pub Vec<(usize, Vec<u8>)>);

impl MinimalSet {
    /// Every feature of a point.
    #[must_use]
    pub fn whole(point: &Point) -> Self {
        Self(point.0.iter().enumerate().map(|(dimension, value)| (dimension, vec![*value])).collect())
    }

    /// The set, a point of it that is anomalous, and how many points were tried on the way there
    /// from `point`. `is_wrong` tries a point, and `is_known` says whether what is wrong there is
    /// known already.
    ///
    /// First as much of the point as possible becomes what another one drawn at random has, so that
    /// it is anomalous for one reason only. Then every value of each dimension is tried, the others
    /// as they are. What that says is doubted by points drawn from the set: a point of it that is
    /// well shows a value, or a dimension, that was taken wrongly.
    pub fn of(
        point: &Point,
        rng: &mut Rng,
        is_known: impl Fn(&Point) -> bool,
        is_wrong: impl FnMut(&Point) -> bool,
    ) -> (Self, Point, u64) {
        let mut tries = Tries { is_known, is_wrong, count: 0, rng };
        let point = tries.reduce(*point);
        let all = (0..DIMENSIONS.len()).map(|dimension| tries.values(&point, dimension)).collect();
        let mut candidate = Candidate { point, values: all };
        tries.confirm(&mut candidate);
        tries.doubt(&mut candidate);
        let (point, count) = (candidate.point, tries.count);
        (candidate.set(), point, count)
    }

    /// Whether a point has all of the features.
    #[must_use]
    pub fn contains(&self, point: &Point) -> bool {
        self.0.iter().all(|(dimension, values)| values.contains(&point.0[*dimension]))
    }
}

/// What may be a set: values of each dimension, of which `point` has one each.
struct Candidate {
    point: Point,
    values: Vec<Vec<u8>>,
}

impl Candidate {
    fn is_free(&self, dimension: usize) -> bool {
        self.values[dimension].len() == DIMENSIONS[dimension].values.len()
    }

    fn set(self) -> MinimalSet {
        let needed = (0..DIMENSIONS.len()).filter(|dimension| !self.is_free(*dimension));
        MinimalSet(needed.map(|dimension| (dimension, self.values[dimension].clone())).collect())
    }

    /// A value of a dimension is not one of the anomaly.
    fn remove(&mut self, dimension: usize, value: u8) {
        self.values[dimension].retain(|other| *other != value);
    }
}

/// Points that are tried.
struct Tries<'a, K, W> {
    is_known: K,
    is_wrong: W,
    count: u64,
    rng: &'a mut Rng,
}

impl<K: Fn(&Point) -> bool, W: FnMut(&Point) -> bool> Tries<'_, K, W> {
    fn is_wrong(&mut self, point: &Point) -> bool {
        self.count += 1;
        (self.is_wrong)(point)
    }

    /// The point with as many values of another one, drawn at random, as leave it anomalous for a
    /// reason that is not known.
    fn reduce(&mut self, mut point: Point) -> Point {
        let other = Point::random(self.rng);
        for dimension in 0..DIMENSIONS.len() {
            let nearer = point.with(dimension, other.0[dimension].into());
            if nearer != point && !(self.is_known)(&nearer) && self.is_wrong(&nearer) {
                point = nearer;
            }
        }
        point
    }

    /// The values of a dimension with which `point` is anomalous.
    fn values(&mut self, point: &Point, dimension: usize) -> Vec<u8> {
        let mut values = Vec::new();
        for value in 0..DIMENSIONS[dimension].values.len() {
            let other = point.with(dimension, value);
            if other == *point || self.is_wrong(&other) {
                values.push(other.0[dimension]);
            }
        }
        values
    }

    /// Values that are not those of the point may be anomalous for another reason: they are tried
    /// where what does not matter is otherwise.
    fn confirm(&mut self, candidate: &mut Candidate) {
        for dimension in 0..DIMENSIONS.len() {
            if candidate.is_free(dimension) {
                continue;
            }
            for value in candidate.values[dimension].clone() {
                let stays = value == candidate.point.0[dimension]
                    || (0..OF_A_VALUE).all(|_| {
                        let with = candidate.point.with(dimension, value.into());
                        let drawn = self.draw(|rng| {
                            let free =
                                (0..DIMENSIONS.len()).filter(|dimension| candidate.is_free(*dimension));
                            free.fold(with, |point, free| {
                                point.with(free, rng.index(DIMENSIONS[free].values.len()))
                            })
                        });
                        self.is_wrong(&drawn)
                    });
                if !stays {
                    candidate.remove(dimension, value);
                }
            }
        }
    }

    /// Points of the set are tried. On the way to one that is well there is a first step behind
    /// which all is well: the dimension of that step matters, and its value is none of the set.
    fn doubt(&mut self, candidate: &mut Candidate) {
        let mut left = OF_THE_SET;
        while left > 0 {
            let drawn = self.draw(|rng| {
                let values = candidate.values.iter().enumerate();
                values.fold(candidate.point, |point, (dimension, values)| {
                    point.with(dimension, values[rng.index(values.len())].into())
                })
            });
            left -= 1;
            if self.is_wrong(&drawn) {
                continue;
            }
            let mut at = candidate.point;
            for dimension in 0..DIMENSIONS.len() {
                let next = at.with(dimension, drawn.0[dimension].into());
                if next != at && !self.is_wrong(&next) {
                    if candidate.is_free(dimension) {
                        candidate.values[dimension] = self.values(&at, dimension);
                        candidate.point = at;
                    } else {
                        candidate.remove(dimension, next.0[dimension]);
                    }
                    break;
                }
                at = next;
            }
        }
    }

    /// A point that `draw` gives, outside of what is known if that is possible.
    fn draw(&mut self, mut draw: impl FnMut(&mut Rng) -> Point) -> Point {
        let mut drawn = draw(self.rng);
        for _ in 0..DRAWS {
            if !(self.is_known)(&drawn) {
                break;
            }
            drawn = draw(self.rng);
        }
        drawn
    }
}

/// The features, such as `op = read, qps >= 32`.
impl fmt::Display for MinimalSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("anything");
        }
        for (number, (dimension, values)) in self.0.iter().enumerate() {
            let comma = if number == 0 { "" } else { ", " };
            let dimension = &DIMENSIONS[*dimension];
            let word = |value: u8| dimension.word(dimension.values[usize::from(value)]);
            let (Some(&first), Some(&last)) = (values.first(), values.last()) else { continue };
            let is_run = values.windows(2).all(|pair| pair[0] + 1 == pair[1]);
            let is_number = !matches!(dimension.name, "op" | "congestion" | "both ways");
            write!(f, "{comma}{} ", dimension.name)?;
            if first == last {
                write!(f, "= {}", word(first))?;
            } else if is_run && is_number && usize::from(last) + 1 == dimension.values.len() {
                write!(f, ">= {}", word(first))?;
            } else if is_run && is_number && first == 0 {
                write!(f, "<= {}", word(last))?;
            } else {
                let words: Vec<String> = values.iter().map(|value| word(*value)).collect();
                write!(f, "= {}", words.join(" or "))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_box_is_found_whole() {
        let inside = |point: &Point| point.0[1] >= 5 && point.0[3] <= 1 && [0, 3].contains(&point.0[0]);
        let point = Point([0, 6, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        let (set, ended, tried) = MinimalSet::of(&point, &mut Rng::new(1), |_| false, inside);
        assert_eq!(set.0, [(0, vec![0, 3]), (1, vec![5, 6]), (3, vec![0, 1])]);
        assert_eq!(set.to_string(), "op = write or read, qps >= 32, sizes <= 64");
        assert!(tried < 90 && inside(&ended) && set.contains(&ended), "{tried} to {ended}");
        assert!(set.contains(&point) && !set.contains(&point.with(1, 4)));
        assert_eq!(MinimalSet::of(&point, &mut Rng::new(1), |_| false, |_| true).0.to_string(), "anything");
    }

    /// A point that is anomalous for two reasons at once gives one of them, whole, and the other
    /// one is given once that is known.
    #[test]
    fn two_reasons_are_told_apart() {
        let boxes = [
            MinimalSet(vec![(0, vec![0, 1]), (3, vec![4, 5]), (4, vec![0]), (6, vec![3])]),
            MinimalSet(vec![(0, vec![0, 1, 2]), (1, vec![4, 5, 6]), (8, vec![2]), (10, vec![1])]),
        ];
        for seed in 0..200 {
            let rng = &mut Rng::new(seed);
            let mut point = Point::random(rng);
            for (dimension, values) in boxes.iter().rev().flat_map(|set| &set.0) {
                point = point.with(*dimension, values[rng.index(values.len())].into());
            }
            let wrong = |point: &Point| boxes.iter().any(|set| set.contains(point));
            let (first, ended, _) = MinimalSet::of(&point, rng, |_| false, wrong);
            assert!(boxes.contains(&first), "seed {seed}: {first}");
            assert!(first.contains(&ended), "seed {seed}: {first} at {ended}");
            // The next point that is found lies in the other one only.
            let other = boxes.iter().find(|set| **set != first).expect("two");
            let outside = (0..).map(|_| {
                let values = other.0.iter();
                values.fold(Point::random(rng), |point, (dimension, values)| {
                    point.with(*dimension, values[0].into())
                })
            });
            let point = outside.take(1000).find(|point| !first.contains(point)).expect("there are such");
            let (second, ..) = MinimalSet::of(&point, rng, |point| first.contains(point), wrong);
            assert_eq!(&second, other, "seed {seed}");
        }
    }
}
