//! Sends a file to another process by RDMA WRITEs, straight into the mapped output file.
//!
//! The two sides agree over TCP on 127.0.0.1 (queue pairs, memory, length); the bytes go over the device.

mod channel;
mod cli;
mod error;
mod interrupt;
mod pump;
mod recv;
mod report;
mod send;

use clap::Parser as _;
use cli::{Cli, Verb};
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = interrupt::catch().and_then(|()| match &cli.verb {
        Verb::Recv(args) => recv::run(args),
        Verb::Send(args) => send::run(args),
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("srnic_file: {error}");
            error.exit_code()
        }
    }
}
