//! UCX's own benchmark, over the library and over TCP.

use super::{Network, ROLES, over_library, pair};
use crate::bench::others::{UCX_OVER_TCP, column};
use crate::bench::unmodified::Stage;
use crate::error::{Error, Result};
use crate::unmodified::ucx;
use std::process::Command;

const SMALL: u64 = 8;
const LARGE: u64 = 65_536;
const ROUND_TRIPS: u64 = 30_000;
const MESSAGES: u64 = 20_000;

/// Half a round trip of a tagged message in the middle, in microseconds.
pub fn latency(stage: &Stage<'_>, network: Network) -> Result<f64> {
    column(&run(stage, network, "tag_lat", SMALL, ROUND_TRIPS)?, "50.0_percentile_lat")
}

/// Tagged messages, in Gb/s.
pub fn bandwidth(stage: &Stage<'_>, network: Network) -> Result<f64> {
    let rate = column(&run(stage, network, "tag_bw", LARGE, MESSAGES)?, "overall_mr")?;
    Ok(rate * LARGE as f64 * 8e-9)
}

fn run(stage: &Stage<'_>, network: Network, test: &str, size: u64, iters: u64) -> Result<String> {
    let iters = iters * stage.bench.pick(1, 3);
    let said = pair(stage, |dir, side, port| {
        let mut command = Command::new("ucx_perftest");
        match network {
            Network::Ours => over_library(&mut command, stage, dir, ROLES[side]),
            Network::Kernel => {
                command.envs(UCX_OVER_TCP);
            }
        }
        command.args(ucx::alone()).args(["-p", &port.to_string()]);
        if let Some(cpus) = stage.bench.machine.two_cpus() {
            command.args(["-c", &cpus[side].to_string()]);
        }
        if side == 1 {
            command.args(["127.0.0.1", "-v", "-f", "-w", "1000", "-t", test]);
            command.args(["-s", &size.to_string(), "-n", &iters.to_string()]);
        }
        command
    });
    said.map_err(|error| Error(format!("ucx_perftest {test} over {network:?}: {error}")))
}
