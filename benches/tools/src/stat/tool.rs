//! A live view of a running device: its queue pairs, and what each of them waits for.

use crate::error::{Error, Result};
use crate::interrupt;
use crate::output;
use crate::program;
use crate::stat::Snapshot;
use clap::{ArgMatches, Parser};
use std::io::{IsTerminal as _, stdout};
use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, Instant};
use verbs_api::StatAddress;

/// Shows what a device does, and what each of its queue pairs waits for
///
/// The device must have been opened with `stat=`, as in memif:/tmp/a.sock,stat=/tmp/a.stat.
#[derive(Parser, Debug)]
#[command(version)]
pub struct Cli {
    /// Where the device tells it: the value of its `stat=`
    address: StatAddress,
    /// Shows it once, with the counters since the device was opened
    #[arg(long)]
    once: bool,
    /// Seconds between two looks
    #[arg(short, long, default_value_t = 1.0, value_parser = seconds)]
    interval: f64,
    /// Queue pairs shown at most
    #[arg(long, default_value_t = 30)]
    most: usize,
}

fn seconds(text: &str) -> std::result::Result<f64, &'static str> {
    text.parse().ok().filter(|seconds| (0.01..=3600.0).contains(seconds)).ok_or("a number from 0.01 to 3600")
}

/// The tool from its parsed command line to its end.
#[must_use]
pub fn main(matches: &ArgMatches) -> ExitCode {
    interrupt::tool_main(|| run(&program::args(matches)))
}

fn run(cli: &Cli) -> Result<()> {
    let read = || -> Result<Snapshot> {
        let text =
            cli.address.read().map_err(|source| Error::Stat { address: cli.address.to_string(), source })?;
        Ok(Snapshot::parse(&text))
    };
    let mut before = read()?;
    if cli.once {
        return output::lines(before.table(None, cli.most));
    }
    let clear = if stdout().is_terminal() { "\x1b[H\x1b[2J" } else { "" };
    loop {
        let next = Instant::now() + Duration::from_secs_f64(cli.interval);
        while Instant::now() < next {
            if interrupt::check().is_err() {
                return Ok(());
            }
            sleep(next.saturating_duration_since(Instant::now()).min(Duration::from_millis(100)));
        }
        let now = read()?;
        output::line(format_args!("{clear}{}", now.table(Some(&before), cli.most)))?;
        before = now;
    }
}
