//! Looks at captures: packets by opcode, wrong ICRCs, and packets that cannot be parsed or sent
//! again bit for bit.

use crate::capture::{self, Census};
use crate::output;
use crate::program;
use clap::{ArgMatches, Parser};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use wire::encap::ROCE_UDP_PORT;

/// Counts the RoCEv2 packets of captures by opcode; checks each ICRC, and parses and emits each
/// packet again
///
/// Exit status: 0 if everything is as it should be, 1 if a packet is not, 2 if a file cannot be
/// read, or standard output cannot be written.
#[derive(Parser)]
#[command(version)]
pub struct Cli {
    /// Captures of Ethernet frames, pcap or pcapng
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// UDP port of RoCEv2
    #[arg(long, default_value_t = ROCE_UDP_PORT)]
    udp_port: u16,
}

/// The tool from its parsed command line to its end.
#[must_use]
pub fn main(matches: &ArgMatches) -> ExitCode {
    let cli: Cli = program::args(matches);
    let mut clean = true;
    for path in &cli.files {
        let (census, end) = census(path, cli.udp_port);
        // What was in front of a spot that cannot be read counts.
        if (end.is_ok() || census.frames > 0)
            && let Err(error) = output::lines(format_args!("{}: {census}", path.display()))
        {
            error.show();
            return ExitCode::from(2);
        }
        if let Err(error) = end {
            program::say(format_args!("{}: {error}", path.display()));
            return ExitCode::from(2);
        }
        clean &= census.is_clean();
    }
    if clean { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What the file has, up to where it cannot be read.
fn census(path: &Path, udp_port: u16) -> (Census, Result<(), Box<dyn std::error::Error>>) {
    let mut census = Census::new(udp_port);
    let mut count = || {
        let file = std::fs::read(path)?;
        Ok(capture::for_each(&file, |frame| census.add(frame))?)
    };
    let end = count();
    (census, end)
}
