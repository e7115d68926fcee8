//! Defects of simulated hosts, to see whether the search finds them.
//!
//! Each does its harm for certain values of some dimensions only. It has a counter of its own, as
//! parts of real hosts have: it rises the more of its conditions hold, long before any harm is
//! done.
//! Without such counters no search can be better than random.

use crate::judge::{judge, signals};
use crate::play::play_with;
use crate::search::{DIMENSIONS, MinimalSet, Point, Trial};
use simnet::{Faults, LinkId, NodeId, Passing, Rig, Verdict};

/// What a defect does to the packets with requests or responses that the first host sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Harm {
    /// One in three is lost.
    Loses,
    /// One in eight is damaged.
    Damages,
    /// One in three comes twice.
    Doubles,
    /// All are late, by two milliseconds.
    Delays,
}

/// A defect.
#[derive(Clone, Debug)]
pub struct Defect {
    /// What it stands for.
    pub name: &'static str,
    harm: Harm,
    /// Dimensions by their names, and the indices of the values with which it does harm.
    range: &'static [(&'static str, &'static [u8])],
}

/// All of them.
pub const ALL: [Defect; 5] = [
    Defect {
        name: "a cache of connections that is too small for small READs",
        harm: Harm::Delays,
        range: &[("op", &[3]), ("qps", &[5, 6]), ("sizes", &[0, 1])],
    },
    Defect {
        name: "long lists of elements that are cut into small packets",
        harm: Harm::Loses,
        range: &[("op", &[0, 1]), ("mtu", &[0]), ("elements", &[3]), ("sizes", &[4, 5])],
    },
    Defect {
        name: "large batches of unsignaled requests",
        harm: Harm::Damages,
        range: &[
            ("op", &[0, 1, 2]),
            ("qps", &[4, 5, 6]),
            ("signaled", &[2]),
            ("batch", &[2]),
            ("depth", &[4, 5, 6]),
        ],
    },
    Defect {
        name: "translations of many regions, both ways",
        harm: Harm::Damages,
        range: &[("regions", &[3]), ("both ways", &[1]), ("mtu", &[4]), ("window", &[0, 1])],
    },
    Defect {
        name: "receives of several elements, deep queues",
        harm: Harm::Doubles,
        range: &[
            ("op", &[2]),
            ("elements", &[2, 3]),
            ("window", &[4, 5]),
            ("loss", &[0]),
            ("reorder", &[0]),
            ("depth", &[4, 5, 6]),
        ],
    },
];

impl Defect {
    /// The set that the search should find.
    ///
    /// # Panics
    /// If a dimension has no such name.
    #[must_use]
    pub fn set(&self) -> MinimalSet {
        let number =
            |name| DIMENSIONS.iter().position(|dimension| dimension.name == name).expect("a dimension");
        let mut set: Vec<_> =
            self.range.iter().map(|(name, values)| (number(*name), values.to_vec())).collect();
        set.sort();
        MinimalSet(set)
    }

    /// How many of its conditions hold, of all.
    fn pressure(&self, point: &Point) -> f64 {
        let set = self.set().0;
        let holding = set.iter().filter(|(dimension, values)| values.contains(&point.0[*dimension])).count();
        #[expect(clippy::cast_precision_loss, reason = "small numbers")]
        let part = holding as f64 / set.len() as f64;
        part
    }

    fn prepare(&self, rig: &mut Rig) {
        let link = LinkId::Up(NodeId(0));
        let every = |nth: u64, verdict| {
            let mut data = 0;
            move |passing: &Passing<'_>| {
                data += u64::from(passing.data_psn().is_some());
                let is_hit = passing.data_psn().is_some() && data % nth == 0;
                if is_hit { verdict } else { Verdict::Pass }
            }
        };
        match self.harm {
            Harm::Loses => rig.net.set_filter(link, Box::new(every(3, Verdict::Drop))),
            Harm::Doubles => rig.net.set_filter(link, Box::new(every(3, Verdict::Duplicate))),
            Harm::Delays => rig.net.set_filter(link, Box::new(every(1, Verdict::Delay(2_000_000)))),
            Harm::Damages => {
                let faults = rig.net.link_mut(link).faults;
                rig.net.set_faults(link, Faults { corrupt_ppm: 125_000, ..faults });
            }
        }
    }
}

/// Plays a point on hosts that have these defects, and their counters.
///
/// # Panics
/// If a point is no scenario.
#[must_use]
pub fn trial(point: &Point, defects: &[Defect]) -> Trial {
    let scenario = point.scenario();
    let prepare = |rig: &mut Rig| {
        defects.iter().filter(|defect| defect.set().contains(point)).for_each(|defect| defect.prepare(rig));
    };
    let outcome = play_with(&scenario, &prepare).expect("a point is a scenario");
    let mut signals = signals(&scenario, &outcome);
    signals.extend(defects.iter().map(|defect| defect.pressure(point)));
    Trial { findings: judge(&scenario, &outcome), signals }
}
