//! `srnic latency`: where the time of operations goes.

use super::report::Report;
use super::{explain, json, text};
use crate::error::{Error, Result};
use crate::interrupt;
use crate::output;
use crate::program;
use crate::screen::Screen;
use crate::stat::{Look, Source, watch};
use clap::{ArgMatches, Parser};
use std::io::{IsTerminal as _, stdin, stdout};
use std::process::ExitCode;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;
use verbs_api::StatAddress;

/// Shows where the time of send requests goes: which part waits for what
///
/// The device must have been opened with `stat=` and `latency=`, as in
/// memif:/tmp/a.sock,stat=/tmp/a.stat,latency=64. In a terminal it is a view that `q` ends;
/// elsewhere it is a table at each look. The first look shows what was sampled since the device was
/// opened, and each other one what was since the look before.
#[derive(Parser, Debug)]
#[command(version)]
pub struct Cli {
    /// Where the device tells it: the value of its `stat=`
    address: StatAddress,
    /// Shows once what was sampled since the device was opened
    #[arg(long)]
    once: bool,
    /// Writes a JSON document a line for each look
    #[arg(long)]
    json: bool,
    /// Tells of the last operations that took longer than the device's `slow=`, in sentences
    #[arg(long, conflicts_with = "json")]
    explain: bool,
    /// Seconds between two looks
    #[arg(short, long, default_value_t = 1.0, value_parser = crate::stat::seconds)]
    interval: f64,
    /// Rows shown at most
    #[arg(long, default_value_t = 10)]
    most: usize,
}

/// The tool from its parsed command line to its end.
#[must_use]
pub fn main(matches: &ArgMatches) -> ExitCode {
    interrupt::tool_main(|| run(&program::args(matches)))
}

impl Cli {
    /// Whether a person looks at a terminal, and has not asked for something else.
    fn is_live(&self) -> bool {
        !self.once && !self.json && !self.explain && stdout().is_terminal() && stdin().is_terminal()
    }

    /// What a look has shown.
    fn report(&self, look: Look) -> Result<(f64, Report)> {
        let address = self.address.to_string();
        let told = match look.answer {
            Ok(told) => told,
            Err(source) => return Err(Error::Stat { address, source }),
        };
        let report = Report::parse(&told);
        if report.one_in > 0.0 { Ok((look.time, report)) } else { Err(Error::NotSampled { address }) }
    }
}

fn run(cli: &Cli) -> Result<()> {
    let addresses = std::slice::from_ref(&cli.address);
    let Source { looks, .. } = watch(addresses, Duration::from_secs_f64(cli.interval))?;
    let mut screen = cli.is_live().then(Screen::open).transpose()?;
    let mut before: Option<Report> = None;
    while interrupt::check().is_ok() {
        match looks.recv_timeout(Duration::from_millis(50)) {
            Ok(look) => {
                let (time, now) = cli.report(look)?;
                let since = before.as_ref().map(|before| now.since(before));
                show(cli, screen.as_mut(), time, &now, since.as_ref())?;
                if cli.once || cli.explain {
                    return Ok(());
                }
                before = Some(now);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
        if screen.is_some() && Screen::is_left()? {
            return Ok(());
        }
    }
    Ok(())
}

/// Shows a look: all of it at the first one, and then what is new.
fn show(
    cli: &Cli,
    screen: Option<&mut Screen>,
    time: f64,
    now: &Report,
    since: Option<&Report>,
) -> Result<()> {
    let shown = since.unwrap_or(now);
    match screen {
        _ if cli.json => output::line(json::document(&cli.address.to_string(), time, shown)),
        _ if cli.explain => output::lines(explain::sentences(now)),
        Some(screen) => {
            screen.show(&format!("{}   q: quit\n\n{}", cli.address, text::table(shown, cli.most)))
        }
        None => output::line(text::table(shown, cli.most)),
    }
}
