//! `srnic search`: looks for workloads that the engine does not carry as it should.

mod real;
mod report;

use crate::error::{Error, Result};
use crate::{interrupt, output, program};
use clap::{ArgMatches, Parser};
use indicatif::{ProgressBar, ProgressStyle};
use real::Stage;
use report::Report;
use srnic_workload::judge::judge;
use srnic_workload::play::play_while;
use srnic_workload::scenario::{Scenario, ScenarioError};
use srnic_workload::search::{Point, Search, Strategy, Trial, trial};
use std::cell::RefCell;
use std::process::ExitCode;

/// Looks for workloads that go wrong, in a simulated network
///
/// Each point is a workload between two hosts for 100 us of virtual time: operation, queue pairs,
/// depth, sizes, path MTU, window, elements, regions, completions, batches, congestion control,
/// loss and reordering. The search goes where counters are large that show that a rare path is
/// near. Of each anomaly it finds the features that bring it about, and the line that shows it
/// again. A seed is one search. Ctrl-C shows what there is; of a replay it shows nothing. Exit
/// status: 0 if all is well, 1 if something is not, 2 if it could not be tried or a replay was
/// interrupted.
#[derive(Parser, Debug)]
#[command(version)]
pub struct Cli {
    /// Workloads to look at, without those for the features of an anomaly
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    points: u64,
    /// Everything random comes from it
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Chooses workloads at random, instead of by counters
    #[arg(long)]
    random: bool,
    /// Plays this workload, and says what came of it: a line of a report, or the path of a file
    /// (docs/workloads.md has the language)
    #[arg(long, value_name = "WORKLOAD", conflicts_with_all = ["points", "seed", "random"])]
    replay: Option<String>,
    /// Plays on two engines over memif instead, in two threads, for 5 ms each: what is wrong on any
    /// machine counts, if it is so three times
    #[arg(long)]
    real: bool,
    /// Writes JSON instead of Markdown
    #[arg(long)]
    json: bool,
}

/// The tool from its parsed command line to its end.
#[must_use]
pub fn main(matches: &ArgMatches) -> ExitCode {
    interrupt::verdict_main(|| run(&program::args(matches)))
}

/// Whether all is well.
fn run(cli: &Cli) -> Result<bool> {
    if let Some(workload) = &cli.replay {
        return replay(workload, cli);
    }
    let strategy = if cli.random { Strategy::Random } else { Strategy::Anneal };
    let found = if cli.real {
        let mut stage = Stage::new()?;
        let failure = RefCell::new(None);
        let try_out = |point: &Point| match stage.trial(point) {
            Ok(trial) => Some(trial),
            Err(error) => {
                failure.borrow_mut().get_or_insert(error);
                None
            }
        };
        let found = look(cli, Search::new(strategy, cli.seed, try_out), &|| failure.borrow().is_none());
        match failure.take() {
            None | Some(Error::Interrupted) => found,
            Some(error) => return Err(error),
        }
    } else {
        look(cli, Search::new(strategy, cli.seed, trial), &|| true)
    };
    if cli.json {
        output::line(found.json())?;
    } else {
        output::lines(&found)?;
    }
    Ok(found.anomalies.is_empty())
}

/// Looks until it has seen enough, or Ctrl-C, as long as it `goes_on`.
fn look<T: Into<Option<Trial>>>(
    cli: &Cli,
    mut search: Search<impl FnMut(&Point) -> T>,
    goes_on: &dyn Fn() -> bool,
) -> Report {
    let bar = progress(cli.points);
    while search.points() < cli.points && goes_on() && interrupt::check().is_ok() {
        search.step();
        bar.set_position(search.points());
        bar.set_message(format!("{} found", search.found().len()));
    }
    bar.finish_and_clear();
    Report {
        seed: cli.seed,
        is_real: cli.real,
        points: search.points(),
        minimising: search.minimising(),
        wanted: cli.points,
        anomalies: search.found().to_vec(),
    }
}

fn replay(workload: &str, cli: &Cli) -> Result<bool> {
    let is_line = workload.trim_start().starts_with('{');
    let text = if is_line {
        workload.to_owned()
    } else {
        std::fs::read_to_string(workload).map_err(Error::file("read", workload.as_ref()))?
    };
    let from = if is_line { String::new() } else { format!(" {workload}") };
    let refused = |error: ScenarioError| Error::Options(format!("--replay{from}: {error}"));
    let scenario = Scenario::parse(&text).map_err(refused)?;
    let outcome = if cli.real {
        Stage::new()?.play(&scenario)?
    } else {
        play_while(&scenario, &|| interrupt::check().is_ok()).map_err(refused)?
    };
    interrupt::check()?;
    let findings = if cli.real { real::findings(&scenario, &outcome) } else { judge(&scenario, &outcome) };
    if cli.json {
        output::line(report::outcome_json(&scenario, &outcome, &findings))?;
    } else {
        output::lines(report::outcome_text(&scenario, &outcome, &findings))?;
        if outcome.entries.iter().any(|told| told.requests == 0) {
            let us = scenario.time_us;
            output::lines(format_args!(
                "not every workload had requests that ended within {us} us: time_us is how long it is played\n"
            ))?;
        }
    }
    Ok(findings.is_empty())
}

fn progress(points: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {pos} of {len} workloads, {eta} left; {msg}");
    ProgressBar::new(points).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
