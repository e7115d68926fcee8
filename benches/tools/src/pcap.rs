//! Looks at captures: packets by opcode, wrong ICRCs, and packets that cannot be parsed or sent
//! again bit for bit; or what happened to each connection.

use crate::capture::{self, Census, Explain};
use crate::output;
use crate::program;
use clap::{ArgMatches, Parser};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use wire::encap::ROCE_UDP_PORT;

/// Counts the RoCEv2 packets of captures by opcode; checks each ICRC, and parses and emits each
/// packet again
///
/// With `--explain` it says of each connection what was lost, reordered, sent again and why, and
/// which rules of the protocol were broken. Exit status: 0 if everything is as it should be, 1 if
/// a packet is not or was not captured whole, or a rule was broken, 2 if a file cannot be read, or
/// standard output cannot be written.
#[derive(Parser)]
#[command(version)]
pub struct Cli {
    /// Captures of Ethernet frames, pcap or pcapng
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// UDP port of RoCEv2
    #[arg(long, default_value_t = ROCE_UDP_PORT)]
    udp_port: u16,
    /// Tells what happened to each connection; give the captures of both ends, if there are two
    #[arg(long)]
    explain: bool,
    /// Writes a JSON document
    #[arg(long, requires = "explain")]
    json: bool,
}

/// The tool from its parsed command line to its end.
#[must_use]
pub fn main(matches: &ArgMatches) -> ExitCode {
    let cli: Cli = program::args(matches);
    if cli.explain {
        return explain(&cli);
    }
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

/// Explains all files together, up to where one cannot be read.
fn explain(cli: &Cli) -> ExitCode {
    let mut explain = Explain::new(cli.udp_port);
    let mut whole = true;
    for path in &cli.files {
        explain.begin();
        let mut read = || -> Result<(), Box<dyn std::error::Error>> {
            let file = std::fs::read(path)?;
            Ok(capture::for_each(&file, |frame| explain.add(frame))?)
        };
        if let Err(error) = read() {
            program::say(format_args!("{}: {error}", path.display()));
            whole = false;
        }
    }
    let report = explain.report();
    let written = if cli.json { output::line(report.json()) } else { output::lines(&report) };
    if let Err(error) = &written {
        error.show();
    }
    match (whole && written.is_ok(), report.is_clean()) {
        (false, _) => ExitCode::from(2),
        (true, false) => ExitCode::FAILURE,
        (true, true) => ExitCode::SUCCESS,
    }
}
