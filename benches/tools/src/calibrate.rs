//! `srnic calibrate`: what operations take on this machine.

mod lane;
mod table;

use crate::error::{Error, Result};
use crate::{affinity, interrupt, output, program};
use clap::{ArgMatches, Parser};
use indicatif::{ProgressBar, ProgressStyle};
use lane::{Lane, What};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use table::{Table, Times};

/// Measures what operations take on this machine
///
/// Two devices of this process on one memif, both driven by one thread, so that each time is what
/// both ends take together: WRITEs of 8 bytes, 4 KiB and 64 KiB, READs and atomics of 8 bytes,
/// turns without work, and calls that make and destroy queue pairs and memory regions. Of each the
/// median of the rounds counts. What comes out are costs for the caps of tenants (devices with
/// costs=FILE), and a host for `srnic isolate --costs FILE`.
#[derive(Parser, Debug)]
#[command(version)]
pub struct Cli {
    /// Writes the table to this file, in TOML; without it, to standard output
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Rounds, of which the median counts
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Milliseconds for which each is measured in a round
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    time: u64,
    /// Stays on this CPU
    #[arg(long)]
    cpu: Option<usize>,
    /// Writes JSON to standard output, beside the file
    #[arg(long)]
    json: bool,
}

/// The tool from its parsed command line to its end.
#[must_use]
pub fn main(matches: &ArgMatches) -> ExitCode {
    interrupt::tool_main(|| run(&program::args(matches)))
}

fn run(cli: &Cli) -> Result<()> {
    output::check_file(cli.file.as_deref())?;
    if let Some(cpu) = cli.cpu {
        affinity::stay_on(cpu)?;
    }
    let table = Table::of(&measure(cli)?);
    if let Some(path) = &cli.file {
        std::fs::write(path, table.to_string()).map_err(Error::file("write", path))?;
    }
    match (&cli.file, cli.json) {
        (_, true) => output::line(table.json()),
        (None, false) => output::lines(&table),
        (Some(_), false) => output::lines(table.words()),
    }
}

/// The median of each, in nanoseconds. Rounds go over all of them in turn, so that a machine that
/// changes its speed changes it for all.
fn measure(cli: &Cli) -> Result<Times> {
    let mut lane = Lane::open()?;
    let bar = progress(cli.rounds);
    let mut samples = vec![Vec::new(); What::ALL.len()];
    for _ in 0..cli.rounds {
        for (what, samples) in What::ALL.into_iter().zip(&mut samples) {
            interrupt::check()?;
            samples.push(lane.nanoseconds(what, Duration::from_millis(cli.time))?);
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    let medians = samples.into_iter().map(median).collect::<Vec<_>>();
    Ok(Times::new(|what| medians[what as usize]))
}

/// The middle one; 0 of none.
pub(crate) fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_unstable_by(f64::total_cmp);
    samples.get(samples.len() / 2).copied().unwrap_or(0.0)
}

fn progress(rounds: u32) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {pos} of {len} rounds, {eta} left");
    ProgressBar::new(rounds.into()).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
