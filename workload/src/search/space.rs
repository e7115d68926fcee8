//! The points of the search: a value of each dimension, and the scenario that they make.

use crate::scenario::{Entry, Faults, Link, Op, Scenario};
use simnet::Rng;
use srnic_fabric::file::SizesFile;
use std::fmt;

/// A dimension of the search, by its key in the language.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Dimension {
    /// Its key.
    pub name: &'static str,
    /// Its values, in order. Those of `op` are numbers of operations.
    pub values: &'static [f64],
}

/// The operations, in the order of their values.
const OPS: [Op; 5] = [Op::Write, Op::WriteImm, Op::Send, Op::Read, Op::Atomic];
/// Names of the congestion controllers, in the order of their values.
const CONTROLLERS: [&str; 3] = ["fixed", "dctcp", "swift"];
/// Bytes that all queue pairs have outstanding at most: more would take long to simulate.
const OUTSTANDING: u32 = 1 << 17;
/// Of the links, in 10^9 bits a second: what 100 us carry is simulated in a millisecond.
const GBPS: f64 = 10.0;

/// All dimensions.
pub const DIMENSIONS: [Dimension; 14] = [
    Dimension { name: "op", values: &[0.0, 1.0, 2.0, 3.0, 4.0] },
    Dimension { name: "qps", values: &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0] },
    Dimension { name: "depth", values: &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0] },
    Dimension { name: "sizes", values: &[8.0, 64.0, 256.0, 1024.0, 4096.0, 16_384.0] },
    Dimension { name: "mtu", values: &[256.0, 512.0, 1024.0, 2048.0, 4096.0] },
    Dimension { name: "window", values: &[8.0, 16.0, 32.0, 64.0, 128.0, 512.0] },
    Dimension { name: "elements", values: &[1.0, 2.0, 4.0, 8.0] },
    Dimension { name: "regions", values: &[1.0, 4.0, 16.0, 64.0] },
    Dimension { name: "signaled", values: &[1.0, 4.0, 16.0] },
    Dimension { name: "batch", values: &[1.0, 4.0, 16.0] },
    Dimension { name: "both ways", values: &[0.0, 1.0] },
    Dimension { name: "congestion", values: &[0.0, 1.0, 2.0] },
    Dimension { name: "loss", values: &[0.0, 0.001, 0.01] },
    Dimension { name: "reorder", values: &[0.0, 0.01] },
];

/// A value of each dimension, by its index.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Point(pub [u8; DIMENSIONS.len()]);

impl Point {
    /// Each value as likely as any other.
    #[must_use]
    pub fn random(rng: &mut Rng) -> Self {
        Self(DIMENSIONS.map(|dimension| index(rng.index(dimension.values.len()))))
    }

    /// The value of a dimension; 0 for one that is none.
    #[must_use]
    pub fn value(&self, dimension: usize) -> f64 {
        let values = DIMENSIONS.get(dimension).map_or(&[][..], |dimension| dimension.values);
        let index = self.0.get(dimension).copied().unwrap_or(0);
        values.get(usize::from(index)).copied().unwrap_or(0.0)
    }

    /// This point with another value of a dimension.
    #[must_use]
    pub fn with(mut self, dimension: usize, value: usize) -> Self {
        if let Some(index_of) = self.0.get_mut(dimension) {
            *index_of = index(value);
        }
        self
    }

    /// The scenario of the point.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole numbers of the table")]
    pub fn scenario(&self) -> Scenario {
        let [
            op,
            qps,
            depth,
            sizes,
            mtu,
            window,
            elements,
            regions,
            signaled,
            batch,
            both,
            congestion,
            loss,
            reorder,
        ] = core::array::from_fn(|dimension| self.value(dimension));
        let (qps, sizes) = (qps as u32, sizes as u32);
        let depth = (depth as u32).min((OUTSTANDING / (qps * sizes)).max(1));
        let entry = Entry {
            op: OPS[op as usize],
            qps,
            depth,
            sizes: SizesFile::Bytes(sizes),
            mtu: mtu as u32,
            window: window as u16,
            elements: elements as u32,
            regions: regions as u32,
            signaled: (signaled as u32).min(depth),
            batch: (batch as u32).min(depth),
            congestion: CONTROLLERS[congestion as usize].to_owned(),
            ..Entry::default()
        };
        let back = Entry { from: 1, to: 0, ..entry.clone() };
        let workload = if both > 0.0 { vec![entry, back] } else { vec![entry] };
        let faults = Faults { loss, reorder, ..Faults::default() };
        let link = Link { gbps: GBPS, ..Link::default() };
        Scenario { link, faults, workload, ..Scenario::default() }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a dimension has few values")]
const fn index(value: usize) -> u8 {
    value as u8
}

impl Dimension {
    /// A value as the language writes it.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index of the table")]
    pub fn word(&self, value: f64) -> String {
        let of =
            |words: &[&str]| words.get(value as usize).map_or_else(String::new, |word| (*word).to_owned());
        match self.name {
            "op" => OPS.get(value as usize).map_or_else(String::new, Op::to_string),
            "congestion" => of(&CONTROLLERS),
            "both ways" => of(&["no", "yes"]),
            _ => value.to_string(),
        }
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, dimension) in DIMENSIONS.iter().enumerate() {
            let comma = if number == 0 { "" } else { ", " };
            write!(f, "{comma}{} = {}", dimension.name, dimension.word(self.value(number)))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_point_is_a_scenario() {
        let rng = &mut Rng::new(1);
        for _ in 0..2_000 {
            let point = Point::random(rng);
            let scenario = point.scenario();
            assert_eq!(scenario.check(), Ok(()), "{point}");
            assert_eq!(Scenario::parse(&scenario.to_string()), Ok(scenario));
        }
    }
}
