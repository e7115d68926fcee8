//! Hosts that take time for what they receive, and lose what finds their ring full; and what tells
//! senders of that: marks, and rates for peer hosts.

use super::plan::Plan;
use super::weather::Change;
use datapath::sched::HostRateConfig;
use simnet::{HostModel, NodeId, Rng};

/// Drawn by a generator of its own, which leaves the histories of `seeds.txt` as they were.
const SLOW_HOSTS: u64 = 49;
/// What slow hosts take for a frame, in nanoseconds.
const FRAME_NS: [u64; 3] = [200, 1_000, 4_000];

/// Draws slow hosts for some histories: what is lost in their rings is no frame that a link lost,
/// so that a tidy or a calm history has none.
pub fn draw(plan: &mut Plan) {
    let rng = &mut Rng::new(plan.seed ^ SLOW_HOSTS << 32);
    if rng.below(4) > 0 || plan.tidy || plan.weather.is_empty() {
        return;
    }
    plan.rig.port.rx_ring = [32, 128, 512, usize::MAX][rng.index(4)];
    plan.rig.host_marks_ns = [0, 5_000, 20_000][rng.index(3)];
    plan.rig.host_rates = match rng.below(3) {
        0 => None,
        1 => Some(HostRateConfig::DEFAULT),
        _ => Some(HostRateConfig { target_ns: 5_000, ..HostRateConfig::DEFAULT }),
    };
    for _ in 0..1 + rng.below(3) {
        let node = NodeId(rng.index(plan.nodes));
        let host = HostModel {
            frame_ns: FRAME_NS[rng.index(FRAME_NS.len())],
            byte_ps: [0, 100, 1_000][rng.index(3)],
            atomic_ns: [0, 2_000][rng.index(2)],
        };
        let from = rng.below(plan.storm_ns);
        plan.weather.push((from, Change::Host(node, host)));
        if rng.below(2) == 0 {
            let to = from + rng.below(plan.storm_ns);
            plan.weather.push((to, Change::Host(node, HostModel::default())));
        }
    }
    plan.weather.sort_by_key(|(at, _)| *at);
}
