//! Queues: how long packets wait, and how queues share the memory of a switch.

use super::{Check, Effort};
use crate::clock::Ps;
use crate::host::HostError;
use crate::link::{Link, Node};
use crate::packet::{Meta, WIRE_OVERHEAD};
use crate::switch::{Marks, Switch, SwitchConfig};
use crate::workload::uniform;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

/// Packets of one length that come at random wait as long as queueing theory says (M/D/1): rho /
/// (2 (1 - rho)) times what one takes.
pub(super) fn waiting(_: Effort) -> Result<Vec<Check>, HostError> {
    Ok([0.5, 0.7, 0.9]
        .map(|load| {
            let what = format!("waiting at a load of {load}, in packets (M/D/1)");
            Check { what, expected: load / (2.0 * (1.0 - load)), seen: waited(load), limit: 0.03 }
        })
        .to_vec())
}

fn waited(load: f64) -> f64 {
    const COUNT: u64 = 2_000_000;
    let mut link = Link::new(Node::Host(0), Node::Host(1), 80, Ps(0));
    let service = f64::from(1000 + WIRE_OVERHEAD) * 80.0;
    let mut random = Xoshiro256PlusPlus::seed_from_u64(11);
    let (mut at, mut waited) = (0.0, 0.0);
    for _ in 0..COUNT {
        at -= service / load * (1.0 - uniform(&mut random)).ln();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a time")]
        let now = Ps(at as u64);
        waited += link.busy_until.since(now).0 as f64;
        link.send(now, 0, 0, 1000);
    }
    waited / COUNT as f64 / service
}

/// Queues that are always offered more than they send settle at alpha B / (1 + n alpha), the fixed
/// point of the dynamic threshold (Choudhury and Hahne, 1998), to a packet.
pub(super) fn shares_of_the_pool(_: Effort) -> Result<Vec<Check>, HostError> {
    let config = SwitchConfig { marks: Marks::above(u64::MAX), ..SwitchConfig::DEFAULT };
    let alpha = config.alpha.0 as f64 / config.alpha.1 as f64;
    let mut checks = Vec::new();
    for queues in [1, 2, 4, 8, 16_u32] {
        let expected = alpha * config.pool as f64 / (1.0 + f64::from(queues) * alpha);
        let limit = f64::from(u32::from(LEN) + WIRE_OVERHEAD) / expected;
        let what = |seen| Check {
            what: format!("bytes in a full queue, the farthest off of {queues} that share a pool"),
            expected,
            seen,
            limit,
        };
        let queues = backlogs(&config, queues).into_iter().map(what);
        checks.extend(queues.max_by(|one, two| one.deviation().total_cmp(&two.deviation())));
    }
    Ok(checks)
}

const LEN: u16 = 1100;

/// Mean bytes in each of `queues` queues, each of which is offered twice its rate.
fn backlogs(config: &SwitchConfig, queues: u32) -> Vec<f64> {
    let (rounds, last) = (200_000, 1000);
    let mut links: Vec<_> =
        (0..queues).map(|port| Link::new(Node::Switch(0), Node::Host(port), 80, Ps(0))).collect();
    let ports: Vec<_> = (0..queues).collect();
    let mut switch = Switch::default();
    let gap = u64::from(u32::from(LEN) + WIRE_OVERHEAD) * 40;
    let mut sums = vec![0; links.len()];
    for round in 0..rounds {
        for out in 0..queues {
            let now = Ps(round * gap + gap * u64::from(out) / u64::from(queues));
            let meta = Meta { len: LEN, ..Meta::default() };
            if switch.admit(config, now, (&links, &ports, out), &meta) {
                links[out as usize].send(now, out, 0, LEN);
            }
        }
        let now = Ps((round + 1) * gap);
        if round >= rounds - last {
            links.iter().zip(&mut sums).for_each(|(link, sum)| *sum += link.backlog(now));
        }
    }
    sums.into_iter().map(|sum| sum as f64 / last as f64).collect()
}
