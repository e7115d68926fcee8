//! `cargo xtask bench streams`: byte streams by the size of a write; and, with `--lossy`, streams
//! and programs of others through the tunnel over a path that loses packets.

mod cell;
mod lossy;
mod path;
mod programs;
mod quic;
mod sizes;
mod thresholds;
mod trips;

use clap::Args;

use super::Bench;
use crate::error::Result;

/// What to measure, and where the results go.
#[derive(Args)]
#[group(id = "streams")]
pub struct Options {
    /// Instead: streams, and iperf3, Redis, rsync and a web server through `srnic tunnel`, beside
    /// kernel TCP and QUIC, over a path that loses 1 % and takes half a millisecond each way (as
    /// root)
    #[arg(long)]
    lossy: bool,
    #[command(flatten)]
    rest: super::Options,
}

/// Builds the programs, measures, and tells.
pub fn run(options: &Options) -> Result<()> {
    if options.lossy {
        // What is missing is installed before anything is built.
        lossy::prepare()?;
    }
    let bench = Bench::new(&options.rest)?;
    let quic = quic::Quic::new(options.rest.tools.as_deref())?;
    if options.lossy { lossy::run(&bench, &quic) } else { sizes::run(&bench, &quic) }
}
