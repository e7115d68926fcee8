//! `srnic hostping`: what of this host, or of the way to a peer, is slower than it should be.

pub mod finding;
pub mod preflight;
pub mod tomography;

use crate::error::Result;
use crate::{interrupt, output, program};
use clap::{ArgMatches, Parser};
use finding::{Findings, Level};
use preflight::Host;
use std::path::Path;
use std::process::ExitCode;
use verbs_api::DeviceSpec;

/// Says what of this host slows polling programs down: settings, cores, memory, the link
///
/// Exit status: 0 if nothing is bad, 1 if something is, 2 if it could not be tried.
#[derive(Parser, Debug)]
#[command(version)]
pub struct Cli {
    /// A device; docs/ports.md has the grammar
    #[arg(short, long)]
    device: Option<DeviceSpec>,
    /// Looks at the settings of the machine only, and sends nothing
    #[arg(long)]
    preflight: bool,
    /// Writes a JSON document
    #[arg(long)]
    json: bool,
}

/// The tool from its parsed command line to its end.
#[must_use]
pub fn main(matches: &ArgMatches) -> ExitCode {
    match run(&program::args(matches)) {
        Ok(Level::Bad) => ExitCode::FAILURE,
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            error.show();
            ExitCode::from(2)
        }
    }
}

fn run(cli: &Cli) -> Result<Level> {
    interrupt::catch()?;
    let settings = Findings(preflight::check(&Host::at(Path::new("/")), cli.device.as_ref()));
    if cli.json {
        output::line(settings.json("links"))?;
    } else {
        output::lines(&settings)?;
    }
    Ok(settings.verdict())
}
