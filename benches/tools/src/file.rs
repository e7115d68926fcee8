//! Sends a file to another process by RDMA WRITEs, straight into the mapped output file.
//!
//! The two sides agree over TCP (queue pairs, memory, length); the bytes go over the device.

mod cli;
mod recv;
mod report;
mod send;

use crate::{interrupt, program};
use clap::ArgMatches;
pub use cli::Cli;
use cli::Verb;
use std::process::ExitCode;

/// What both sides begin with on the side channel. Then the sender says `file` and `endpoint`, the
/// receiver `region` and `endpoint`, unless the file is empty; after the transfer the receiver says
/// `received` and the sender `done`.
const VERSION: &str = "srnic_file 1";

/// The tool from its parsed command line to its end.
#[must_use]
pub fn main(matches: &ArgMatches) -> ExitCode {
    let cli: Cli = program::args(matches);
    interrupt::tool_main(|| match &cli.verb {
        Verb::Recv(args) => recv::run(args),
        Verb::Send(args) => send::run(args),
    })
}
