//! The smallest set of features that brings an anomaly about.

use super::space::{DIMENSIONS, Point};
use std::fmt;

/// For each dimension that matters, the values with which the anomaly is there; those that do not
/// matter are left out.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MinimalSet(pub Vec<(usize, Vec<u8>)>);

impl MinimalSet {
    /// Tries every other value of each dimension, the others as in `point`; `is_there` says
    /// whether the anomaly is there. Returns how many points were tried, too.
    pub fn of(point: &Point, mut is_there: impl FnMut(&Point) -> bool) -> (Self, u64) {
        let (mut needed, mut tried) = (Vec::new(), 0);
        for (dimension, Point(values)) in (0..DIMENSIONS.len()).map(|dimension| (dimension, *point)) {
            let here = values[dimension];
            let mut with = Vec::new();
            for value in 0..DIMENSIONS[dimension].values.len() {
                let other = point.with(dimension, value);
                tried += u64::from(other != *point);
                if other == *point {
                    with.push(here);
                } else if is_there(&other) {
                    with.push(other.0[dimension]);
                }
            }
            if with.len() < DIMENSIONS[dimension].values.len() {
                needed.push((dimension, with));
            }
        }
        (Self(needed), tried)
    }

    /// Whether a point has all of the features.
    #[must_use]
    pub fn contains(&self, point: &Point) -> bool {
        self.0.iter().all(|(dimension, values)| values.contains(&point.0[*dimension]))
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
        let (set, tried) = MinimalSet::of(&point, inside);
        assert_eq!(set.0, [(0, vec![0, 3]), (1, vec![5, 6]), (3, vec![0, 1])]);
        assert_eq!(set.to_string(), "op = write or read, qps >= 32, sizes <= 64");
        let others: usize = DIMENSIONS.iter().map(|dimension| dimension.values.len() - 1).sum();
        assert_eq!(tried, others as u64);
        assert!(set.contains(&point) && !set.contains(&point.with(1, 4)));
        assert_eq!(MinimalSet::of(&point, |_| true).0.to_string(), "anything");
    }
}
