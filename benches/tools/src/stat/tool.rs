//! A live view of running devices: their queue pairs, and what each of them waits for.

use super::history::History;
use super::record::{Recorder, Recording};
use super::source::{self, Look, Source};
use super::{json, live, text};
use crate::error::{Error, Result};
use crate::interrupt;
use crate::output;
use crate::program;
use clap::{ArgMatches, Parser};
use std::io::{IsTerminal as _, stdin, stdout};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc::{RecvTimeoutError, TryRecvError};
use std::time::Duration;
use verbs_api::StatAddress;

/// Shows what devices do, and what each of their queue pairs waits for
///
/// A device must have been opened with `stat=`, as in memif:/tmp/a.sock,stat=/tmp/a.stat. In a
/// terminal it is a view that `?` explains and `q` ends; elsewhere it is a table at each look.
#[derive(Parser, Debug)]
#[command(version)]
pub struct Cli {
    /// Where each device tells it: the value of its `stat=`
    #[arg(required_unless_present = "replay", conflicts_with = "replay", value_name = "ADDRESS")]
    addresses: Vec<StatAddress>,
    /// Shows each device once as a table, with the counters since it was opened
    #[arg(long)]
    once: bool,
    /// Writes a JSON document a line for each look, with rates since the look before
    #[arg(long)]
    json: bool,
    /// Seconds between two looks
    #[arg(short, long, default_value_t = 1.0, value_parser = seconds)]
    interval: f64,
    /// Queue pairs shown at most, in a table
    #[arg(long, default_value_t = 30)]
    most: usize,
    /// Writes all looks to a file
    #[arg(long, value_name = "FILE", conflicts_with = "replay")]
    record: Option<PathBuf>,
    /// Shows the looks of a file that `--record` has written
    #[arg(long, value_name = "FILE")]
    replay: Option<PathBuf>,
}

pub(crate) fn seconds(text: &str) -> std::result::Result<f64, &'static str> {
    text.parse().ok().filter(|seconds| (0.01..=3600.0).contains(seconds)).ok_or("a number from 0.01 to 3600")
}

/// The tool from its parsed command line to its end.
#[must_use]
pub fn main(matches: &ArgMatches) -> ExitCode {
    interrupt::tool_main(|| run(&program::args(matches)))
}

impl Cli {
    /// Whether a person looks at a terminal, and has not asked for something else.
    fn is_live(&self) -> bool {
        !self.once && !self.json && stdout().is_terminal() && stdin().is_terminal()
    }

    fn source(&self) -> Result<Source> {
        match &self.replay {
            Some(path) => source::replay(Recording::read(path)?, !self.is_live()),
            None => source::watch(&self.addresses, Duration::from_secs_f64(self.interval)),
        }
    }
}

fn run(cli: &Cli) -> Result<()> {
    let mut recorder = cli.record.as_deref().map(Recorder::create).transpose()?;
    let Source { addresses, looks } = cli.source()?;
    let mut record = |addresses: &[String], look: &Look| {
        recorder.as_mut().map_or(Ok(()), |recorder| recorder.add(&addresses[look.device], look))
    };
    if cli.is_live() {
        let names = addresses.clone();
        return live::run(addresses, || match looks.try_recv() {
            Ok(look) => record(&names, &look).map(|()| Some(look)),
            // At the end of a recording the last look stays.
            Err(TryRecvError::Empty | TryRecvError::Disconnected) => Ok(None),
        });
    }
    let mut printer = Printer::new(cli, addresses);
    while !printer.is_done() && interrupt::check().is_ok() {
        match looks.recv_timeout(Duration::from_millis(100)) {
            Ok(look) => {
                record(printer.addresses(), &look)?;
                printer.print(look)?;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    Ok(())
}

/// Writes looks to standard output.
struct Printer<'a> {
    cli: &'a Cli,
    addresses: Vec<String>,
    history: History,
    /// Looks until now.
    looks: usize,
}

impl<'a> Printer<'a> {
    fn new(cli: &'a Cli, addresses: Vec<String>) -> Self {
        Self { cli, history: History::new(addresses.iter().cloned()), addresses, looks: 0 }
    }

    fn addresses(&self) -> &[String] {
        &self.addresses
    }

    /// Whether `--once` has been done.
    const fn is_done(&self) -> bool {
        self.cli.once && self.looks >= self.addresses.len()
    }

    fn print(&mut self, look: Look) -> Result<()> {
        let device = look.device;
        if self.cli.replay.is_none()
            && let Err(source) = look.answer
        {
            return Err(Error::Stat { address: self.addresses[device].clone(), source });
        }
        self.looks += 1;
        live::note(&mut self.history, look);
        let track = &self.history.tracks[device];
        // Of a recording, looks that failed are gaps.
        if track.trouble().is_some() {
            return Ok(());
        }
        let Some(now) = track.now() else { return Ok(()) };
        match (self.cli.json, self.cli.once, track.before()) {
            (true, _, _) => output::line(json::document(track)),
            (false, true, _) => output::lines(text::table(now, None, self.cli.most)),
            // The first look is what the next ones count from.
            (false, false, None) => Ok(()),
            (false, false, before) => output::line(text::table(now, before, self.cli.most)),
        }
    }
}
