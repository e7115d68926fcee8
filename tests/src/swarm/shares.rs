//! How the queue pairs of a history share their engines.

use super::plan::ConnectionPlan;
use datapath::sched::{PRIORITIES, SchedAttributes, SchedulerConfig};
use simnet::{RigOptions, Rng};

/// Draws a scheduler, and a weight and a priority for each connection.
pub fn draw(rng: &mut Rng, rig: &mut RigOptions, connections: &mut [ConnectionPlan]) {
    rig.scheduler = match rng.below(6) {
        0 => SchedulerConfig::Weighted,
        1 => SchedulerConfig::DeficitRoundRobin,
        2 => SchedulerConfig::StrictPriority { cap_mbps: draw_caps(rng) },
        _ => SchedulerConfig::RoundRobin,
    };
    for connection in connections {
        for options in &mut connection.options {
            let drawn = [1 + rng.index(9), rng.index(PRIORITIES)];
            let [weight, priority] = drawn.map(|number| u8::try_from(number).unwrap_or(1));
            options.scheduling = SchedAttributes { weight, priority };
        }
    }
}

/// Some below, some above what the links carry; the lowest priority has none.
fn draw_caps(rng: &mut Rng) -> [u32; PRIORITIES] {
    let mut caps = [0; PRIORITIES];
    caps[1..].fill_with(|| [0, 100, 5_000, 200_000][rng.index(4)]);
    caps
}
