//! `srnic perftest`: this project's end of a run against the stock tools of perftest and
//! libibverbs, in plain RoCEv2.
//!
//! It speaks their side channels, byte for byte, and does what they expect of a peer;
//! docs/interop.md says which versions it has met.

mod cli;
mod link;
mod messages;
mod pair;
mod perftest;
mod pingpong;
mod side;
mod traffic;

use crate::error::Result;
use crate::interrupt;
use crate::output;
use crate::program;
use clap::ArgMatches;
pub use cli::Args;
use cli::Test;
use side::Side;
use std::process::ExitCode;
use verbs_api::Device;

/// The tool from its parsed command line to its end.
#[must_use]
pub fn main(matches: &ArgMatches) -> ExitCode {
    let args: Args = program::args(matches);
    interrupt::tool_main(|| run(&args).and_then(output::line))
}

fn run(args: &Args) -> Result<String> {
    args.check()?;
    let device = Device::builder().open_spec(&args.device)?;
    let mut side = Side::open(&device, args)?;
    let outcome = match args.test {
        Test::Pingpong => pingpong::run(&device, &mut side, args),
        _ => perftest::run(&device, &mut side, args),
    };
    if outcome.is_err() {
        let counted = device.counters();
        for (name, count) in counted.iter().filter(|(_, count)| *count > 0) {
            eprintln!("{name} {count}");
        }
    }
    outcome
}
