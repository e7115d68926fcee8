//! Sends a file to another process by RDMA WRITEs, straight into the mapped output file.
//!
//! The two sides agree over TCP (queue pairs, memory, length); the bytes go over the device.

mod cli;
mod recv;
mod report;
mod send;

use clap::Parser as _;
use cli::{Cli, Verb};
use srnic_tools::interrupt;
use std::process::ExitCode;

/// What both sides begin with on the side channel. Then the sender says `file` and `endpoint`, the
/// receiver `region` and `endpoint`, unless the file is empty; after the transfer the receiver says
/// `received` and the sender `done`.
const VERSION: &str = "srnic_file 1";

fn main() -> ExitCode {
    let cli = Cli::parse();
    interrupt::tool_main("srnic_file", || match &cli.verb {
        Verb::Recv(args) => recv::run(args),
        Verb::Send(args) => send::run(args),
    })
}
