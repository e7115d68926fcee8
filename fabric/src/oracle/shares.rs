//! Shares of long flows: max-min fair, as water filling finds them.
//!
//! Windows of DCTCP share so where switches mark ever more packets as queues grow. Where they mark
//! all above one threshold, a flow that waits at two places, or comes in other bursts than its
//! neighbors, is marked more often than its share: that is shown beside it, and its limit only says
//! that it does not grow.

use super::{Check, Effort};
use crate::clock::Ps;
use crate::host::HostError;
use crate::packet::WIRE_OVERHEAD;
use crate::plan::{Changes, Plan};
use crate::scheme::Scheme;
use crate::switch::Marks;
use crate::topology::FatTree;
use crate::workload::{Flow, Workload, uniform, whole};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

/// Hosts of the network, all at one switch.
const HOSTS: u32 = 16;
/// Flows in it.
const FLOWS: usize = 20;
/// Gigabits a second of each link.
const RATE: f64 = 100.0;

/// From no packet at 20 KB to all at 200 KB.
const PROPORTIONAL: Marks = Marks { from: 20_000, until: 200_000, most: 1 << 16 };

/// What flows' rates differ from their max-min shares: in the mean of all networks, and in the one
/// that is the farthest off.
pub(super) fn max_min(effort: Effort) -> Result<Vec<Check>, HostError> {
    let marks = [
        ("marks in proportion", PROPORTIONAL, [0.1, 0.15]),
        ("one threshold", Marks::above(96 << 10), [0.2, 0.25]),
    ];
    let mut checks = Vec::new();
    for (name, marks, limits) in marks {
        let networks =
            (1..=effort.seeds).map(|seed| deviation(seed, marks)).collect::<Result<Vec<_>, _>>()?;
        let mean = networks.iter().sum::<f64>() / networks.len() as f64;
        let worst = networks.iter().copied().fold(0.0, f64::max);
        for (which, seen, limit) in [("mean", mean, limits[0]), ("worst", worst, limits[1])] {
            let networks = effort.seeds;
            let what = format!(
                "1 + mean deviation of {FLOWS} flows from max-min, {which} of {networks} networks, {name}"
            );
            checks.push(Check { what, expected: 1.0, seen: 1.0 + seen, limit });
        }
    }
    Ok(checks)
}

/// The mean deviation of a network, where switches mark so.
fn deviation(seed: u64, marks: Marks) -> Result<f64, HostError> {
    let pairs = pairs(seed);
    let (shares, rates) = (water_filling(&pairs), rates(seed, &pairs, marks)?);
    let off = shares.iter().zip(&rates).map(|(share, rate)| (rate / share - 1.0).abs()).sum::<f64>();
    Ok(off / FLOWS as f64)
}

/// Senders and receivers of flows, drawn at random.
fn pairs(seed: u64) -> Vec<(u32, u32)> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut draw = |below: u32| whole(uniform(&mut random) * f64::from(below));
    let pair = |_| {
        let (from, other) = (draw(HOSTS), draw(HOSTS - 1));
        (from, other + u32::from(other >= from))
    };
    (0..FLOWS).map(pair).collect()
}

/// Max-min shares of flows that are limited by the links of their hosts: the link with the least
/// for each of its flows gives them that, again and again.
fn water_filling(pairs: &[(u32, u32)]) -> Vec<f64> {
    let mut left = vec![RATE; 2 * HOSTS as usize];
    let links = |(from, to): (u32, u32)| [from as usize, (HOSTS + to) as usize];
    let mut shares = vec![None; pairs.len()];
    while shares.contains(&None) {
        let open = |link: usize| {
            pairs
                .iter()
                .zip(&shares)
                .filter(|(pair, share)| share.is_none() && links(**pair).contains(&link))
                .count()
        };
        let levels = left.iter().enumerate().filter(|(link, _)| open(*link) > 0);
        let level = levels
            .map(|(link, left)| (left / open(link) as f64, link))
            .min_by(|one, two| one.0.total_cmp(&two.0));
        let Some((level, link)) = level else { break };
        for (pair, share) in pairs.iter().zip(&mut shares) {
            if share.is_none() && links(*pair).contains(&link) {
                *share = Some(level);
                links(*pair).iter().for_each(|link| left[*link] -= level);
            }
        }
    }
    shares.into_iter().map(|share| share.unwrap_or(0.0)).collect()
}

/// Gigabits a second that each flow has of its links, frames and all.
fn rates(seed: u64, pairs: &[(u32, u32)], marks: Marks) -> Result<Vec<f64>, HostError> {
    let Some(tree) = FatTree::of_hosts(HOSTS) else { return Ok(Vec::new()) };
    let flow =
        |(from, to)| Workload::Flows(vec![(from, Flow { at: Ps(0), to, bytes: u32::MAX, workload: 0 })]);
    let plan = Plan {
        workloads: pairs.iter().map(|pair| flow(*pair)).collect(),
        warm_up: Ps::from_ns(2_000_000),
        time: Ps::from_ns(6_000_000),
        drain: Ps(0),
        seed,
        changes: Changes { messages: Some((16_384, 16)), marks: Some(marks), ..Changes::default() },
        ..Plan::new(Scheme::Srnic, tree)
    };
    let config = plan.config();
    let mtu = config.host.mtu();
    let frame = config.host.frames().data(mtu) + WIRE_OVERHEAD;
    let mut fabric = plan.fabric(config, 1)?;
    let rates = plan.play(&mut fabric, |_| true)?;
    let of = |(number, _)| rates.gbps(number) * f64::from(frame) / f64::from(mtu);
    Ok((0..).zip(pairs).map(of).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two flows into one host have half of its link each, and who sends one of them has the rest
    /// of its own link for another.
    #[test]
    fn water_fills() {
        let shares = water_filling(&[(0, 2), (1, 2), (0, 3), (4, 3), (5, 3), (6, 7)]);
        let third = RATE / 3.0;
        for (share, expected) in shares.into_iter().zip([RATE / 2.0, RATE / 2.0, third, third, third, RATE]) {
            assert!((share - expected).abs() < 1e-9, "{share} instead of {expected}");
        }
    }
}
