//! Loss is not congestion: what a stream keeps when packets are lost at random each way
//! (docs/adr/0029).

use crate::path::{Control, Path, median};
use datapath::qp::attr::{CongestionAlgorithm, CongestionTuning, LossResponse};

const SEEDS: u64 = 3;
const ONE_PERCENT: u32 = 10_000;
const FIVE_PERCENT: u32 = 50_000;

pub const FIXED: Control = (CongestionAlgorithm::Fixed, CongestionTuning::DEFAULT);
/// What a queue pair runs if nobody chooses.
pub const SHIPPED: Control = (CongestionAlgorithm::Dctcp, CongestionTuning::DEFAULT);
pub const HALVING: Control = (
    CongestionAlgorithm::Dctcp,
    CongestionTuning { loss_response: LossResponse::HalvePerEpisode, ..CongestionTuning::DEFAULT },
);

const fn path(rtt_ns: u64, gbps: u64, window: u16) -> Path {
    Path { rtt_ns, gbps, window, jitter_ns: 0 }
}

/// Windows below, at and above the product of each path.
const PATHS: [Path; 13] = [
    path(2_000, 100, 8),
    path(2_000, 100, 22),
    path(2_000, 100, 64),
    path(10_000, 100, 32),
    path(10_000, 100, 110),
    path(10_000, 100, 500),
    path(50_000, 10, 32),
    path(50_000, 10, 55),
    path(50_000, 10, 256),
    path(1_000_000, 10, 64),
    path(1_000_000, 10, 1_024),
    path(1_000_000, 10, 4_096),
    path(1_000_000, 25, 1_024),
];

/// Goodput of the seeds, in order.
fn goodputs(path: &Path, control: Control, loss_ppm: u32) -> Vec<f64> {
    (1..=SEEDS).map(|seed| path.goodput(control, loss_ppm, seed)).collect()
}

/// The median over the seeds of what `control` keeps of what the fixed window keeps, and what that
/// keeps without loss.
fn kept(path: &Path, control: Control, loss_ppm: u32) -> (f64, f64) {
    let fixed = goodputs(path, FIXED, loss_ppm);
    let ratios = goodputs(path, control, loss_ppm).into_iter().zip(&fixed).map(|(ours, fixed)| ours / fixed);
    let lossless = path.goodput(FIXED, 0, 1);
    (median(ratios.collect()), median(fixed) / lossless)
}

#[test]
fn one_packet_in_a_hundred_costs_next_to_nothing_by_default() {
    for path in PATHS {
        let (kept, fixed) = kept(&path, SHIPPED, ONE_PERCENT);
        println!("{path:?}: {kept:.3} of the fixed window, which keeps {fixed:.3}");
        assert!(kept >= 0.95, "{path:?}: {kept}");
        assert!(fixed >= 0.93, "{path:?}: {fixed}");
    }
}

#[test]
fn five_in_a_hundred_cost_what_they_cost_a_fixed_window() {
    for path in PATHS {
        let (kept, fixed) = kept(&path, SHIPPED, FIVE_PERCENT);
        println!("{path:?}: {kept:.3} of the fixed window, which keeps {fixed:.3}");
        assert!(kept >= 0.9, "{path:?}: {kept}");
    }
}

/// Up to half a round trip in all: a quarter each way.
#[test]
fn jitter_is_not_congestion() {
    for path in PATHS.map(|path| Path { jitter_ns: path.rtt_ns / 4, ..path }) {
        let (kept, fixed) = kept(&path, SHIPPED, ONE_PERCENT);
        println!("{path:?}: {kept:.3} of the fixed window, which keeps {fixed:.3}");
        assert!(kept >= 0.9, "{path:?}: {kept}");
    }
}

/// The negative control: a controller that halves for each loss.
#[test]
fn halving_loses_most_of_the_rate() {
    for path in [PATHS[2], PATHS[5], PATHS[8], PATHS[10]] {
        let (kept, _) = kept(&path, HALVING, ONE_PERCENT);
        assert!(kept < 0.4, "{path:?}: {kept}");
    }
}
