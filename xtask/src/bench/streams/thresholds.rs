//! From which sizes on the bytes of a write go another way.

use std::fmt;

use serde_json::{Value, json};

/// What was measured of writes of one size, by SEND, by WRITE and by READ.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Measured {
    pub size: u64,
    pub gbps: [f64; 3],
    pub micros: [f64; 3],
}

/// The least sizes of writes that go by WRITE and by READ; `None`: none do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Thresholds {
    pub write_from: Option<u64>,
    pub read_from: Option<u64>,
}

impl Thresholds {
    /// The place of the way of writes of this size: 0 by SEND, 1 by WRITE, 2 by READ.
    pub fn way(self, size: u64) -> usize {
        let is_from = |from: Option<u64>| from.is_some_and(|from| size >= from);
        if is_from(self.read_from) { 2 } else { usize::from(is_from(self.write_from)) }
    }

    /// Those of the sizes measured with which the worst size, in throughput or latency, is nearest
    /// to the best way of that size; of several the one that leaves SEND last, and then WRITE.
    pub fn best(measured: &[Measured]) -> Self {
        let sizes = || measured.iter().map(|one| Some(one.size)).rev();
        let mut best = (f64::NEG_INFINITY, Self { write_from: None, read_from: None });
        for write_from in [None].into_iter().chain(sizes()) {
            for read_from in [None].into_iter().chain(sizes()) {
                let thresholds = Self { write_from, read_from };
                let worst = thresholds.worst(measured);
                if worst > best.0 {
                    best = (worst, thresholds);
                }
            }
        }
        best.1
    }

    /// What it reaches of the best way, at the worst size.
    fn worst(self, measured: &[Measured]) -> f64 {
        let reached = |one: &Measured| {
            let way = self.way(one.size);
            let most = one.gbps.iter().copied().fold(0.0, f64::max);
            let least = one.micros.iter().copied().fold(f64::INFINITY, f64::min);
            (one.gbps[way] / most).min(least / one.micros[way])
        };
        measured.iter().map(reached).fold(1.0, f64::min)
    }

    pub fn to_json(self) -> Value {
        json!({ "write_from": self.write_from, "read_from": self.read_from })
    }
}

impl fmt::Display for Thresholds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let from =
            |from: Option<u64>| from.map_or_else(|| "never".to_owned(), |from| format!("from {from} B"));
        write!(f, "WRITE {}, READ {}", from(self.write_from), from(self.read_from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_thresholds_are_those_of_the_worst_size() {
        let one = |size, gbps, micros| Measured { size, gbps, micros };
        let measured = [
            one(64, [4.0, 1.0, 1.0], [1.0, 4.0, 4.0]),
            one(1024, [4.0, 4.1, 1.0], [1.0, 2.0, 4.0]),
            one(4096, [4.0, 8.0, 6.0], [4.0, 3.0, 3.5]),
            one(8192, [4.0, 8.0, 16.0], [8.0, 6.0, 5.0]),
        ];
        let best = Thresholds::best(&measured);
        assert_eq!(best, Thresholds { write_from: Some(4096), read_from: Some(8192) });
        assert_eq!([64, 1024, 4096, 8191, 8192].map(|size| best.way(size)), [0, 0, 1, 1, 2]);
        assert_eq!(best.to_string(), "WRITE from 4096 B, READ from 8192 B");
    }

    #[test]
    fn without_a_better_way_all_is_sent() {
        let measured = [Measured { size: 64, gbps: [2.0; 3], micros: [1.0; 3] }];
        let best = Thresholds::best(&measured);
        assert_eq!(best, Thresholds { write_from: None, read_from: None });
        assert_eq!(best.to_string(), "WRITE never, READ never");
    }
}
