//! Every controller in one table, for docs/congestion.md:
//! `cargo test -p srnic-simnet --test curves -- --ignored --nocapture`.

use crate::crowd::Crowd;
use crate::path::{Control, Path};
use crate::random_loss::{FIXED, SHIPPED};
use datapath::qp::attr::{CongestionAlgorithm, CongestionTuning, LossResponse};

const SEED: u64 = 1;
const LASTS_NS: u64 = 50_000_000;

fn with(algorithm: CongestionAlgorithm, loss_response: LossResponse) -> Control {
    (algorithm, CongestionTuning { loss_response, ..CongestionTuning::DEFAULT })
}

#[test]
#[ignore = "a table, not a test"]
fn every_controller_in_one_table() {
    use CongestionAlgorithm::{Dcqcn, Dctcp, Swift};
    let rows = [
        ("DCTCP, as shipped", SHIPPED),
        ("DCTCP, halving", with(Dctcp, LossResponse::HalvePerEpisode)),
        ("DCTCP, deaf to losses", with(Dctcp, LossResponse::None)),
        ("Swift", with(Swift, LossResponse::ConfirmedByDelay)),
        ("DCQCN", with(Dcqcn, LossResponse::ConfirmedByDelay)),
        ("fixed window", FIXED),
    ];
    let path = Path { rtt_ns: 10_000, gbps: 100, window: 110, jitter_ns: 0 };
    let lossless = path.goodput(FIXED, 0, SEED);
    let drop_tail = Crowd::new(16, 64);
    let marking = Crowd { mark_frames: Some(20), ..Crowd::new(16, 256) };
    let both = Crowd { loss_ppm: 10_000, ..marking.clone() };
    for (name, control) in rows {
        print!("| {name} |");
        for loss_ppm in [1_000, 10_000, 50_000] {
            print!(" {:.2} |", path.goodput(control, loss_ppm, SEED) / lossless);
        }
        for crowd in [&drop_tail, &marking, &both] {
            let shares = crowd.shares(control, SEED, LASTS_NS);
            print!(" {:.2} / {:.0} % / {:.2} |", shares.goodput, 100.0 * shares.resent, shares.jain);
        }
        println!();
    }
}
