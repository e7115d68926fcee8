//! The command lines of the tools that fetch: READs and atomics.

use super::{BandwidthArgs, Common};
use crate::perf::atomic::AtomicOp;
use clap::{Args, Parser};

/// What the READ and the atomic tools take.
#[derive(Args, Clone, Copy, Debug)]
pub struct OutstandingArg {
    /// READs or atomics under way at once, of each queue pair; others wait in the queue
    #[arg(short = 'o', long = "outs", value_name = "NUMBER", default_value_t = 16,
          value_parser = clap::value_parser!(u8).range(1..))]
    pub outs: u8,
}

/// Which atomic.
#[derive(Args, Clone, Copy, Debug)]
pub struct AtomicArg {
    /// Which atomic; each counts a word of 8 bytes up by 1
    #[arg(
        short = 'A',
        long = "atomic_type",
        value_name = "TYPE",
        value_enum,
        default_value = "FETCH_AND_ADD"
    )]
    pub atomic_type: AtomicOp,
}

/// Arguments of `srnic read-bw`.
#[derive(Parser, Debug)]
#[command(version)]
pub struct ReadBandwidthArgs {
    /// What the bandwidth tools take.
    #[command(flatten)]
    pub bandwidth: BandwidthArgs,
    /// READs under way.
    #[command(flatten)]
    pub outstanding: OutstandingArg,
}

/// Arguments of `srnic atomic-bw`.
#[derive(Parser, Debug)]
#[command(version)]
pub struct AtomicBandwidthArgs {
    /// What the bandwidth tools take.
    #[command(flatten)]
    pub bandwidth: BandwidthArgs,
    /// Atomics under way.
    #[command(flatten)]
    pub outstanding: OutstandingArg,
    /// Which atomic.
    #[command(flatten)]
    pub atomic: AtomicArg,
}

/// Arguments of `srnic atomic-lat`.
#[derive(Parser, Debug)]
#[command(version)]
pub struct AtomicLatencyArgs {
    /// What all tools take.
    #[command(flatten)]
    pub common: Common,
    /// Which atomic.
    #[command(flatten)]
    pub atomic: AtomicArg,
}
