//! `srnic hostping`: what of this host makes a device slow.

use super::host::{Host, parse_set};
use super::preflight::{Wanted, checks, document, is_fit, text};
use crate::output;
use crate::program;
use clap::{ArgMatches, Parser};
use std::collections::BTreeSet;
use std::process::ExitCode;

/// Says what of this host makes a device slow, and what to do about it
///
/// It sends nothing: it reads what the kernel tells of processors, memory and interface. Exit
/// status: 0 if nothing was found, 1 if something was, 2 if standard output cannot be written.
#[derive(Parser, Debug)]
#[command(version)]
pub struct Cli {
    /// Looks at the governor, NUMA nodes, huge pages, shared cores and the link's MTU
    #[arg(long, required = true)]
    preflight: bool,
    /// The processors that are to poll, as in 2-3,8
    #[arg(long, value_name = "LIST", value_parser = processors)]
    cpus: Option<Processors>,
    /// The interface of an `af_packet:` or `af_xdp:` device
    #[arg(long, value_name = "NAME")]
    interface: Option<String>,
    /// Writes a JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Debug)]
struct Processors(BTreeSet<u32>);

fn processors(text: &str) -> Result<Processors, &'static str> {
    let set = parse_set(text).filter(|set| !set.is_empty());
    set.map(Processors).ok_or("numbers of processors and ranges of them, as in 2-3,8")
}

/// The tool from its parsed command line to its end.
#[must_use]
pub fn main(matches: &ArgMatches) -> ExitCode {
    let cli: Cli = program::args(matches);
    let processors = cli.cpus.map(|Processors(set)| set).unwrap_or_default();
    let checks = checks(&Host::this(), &Wanted { processors, interface: cli.interface });
    let written = if cli.json { output::line(document(&checks)) } else { output::lines(text(&checks)) };
    match written {
        Ok(()) if is_fit(&checks) => ExitCode::SUCCESS,
        Ok(()) => ExitCode::FAILURE,
        Err(error) => {
            error.show();
            ExitCode::from(2)
        }
    }
}
