//! `srnic isolate`: what victims keep beside attackers, without tenants and with them.

mod real;
mod report;

use crate::error::{Error, Result};
use crate::{heat, interrupt, output, program};
use clap::{ArgMatches, Parser};
use indicatif::{ProgressBar, ProgressStyle};
use report::{Beside, Report};
use srnic_workload::isolate::{Matrix, MatrixError, Pair, Played, Policy, Side, Task, run as play};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

/// How long each run on two processes is measured.
const REAL_TIME: Duration = Duration::from_millis(200);

/// Shows what victims keep beside attackers, without tenants and with them
///
/// Both are on one host, in a simulated network: bulk, tiny messages, atomics, thousands of queue
/// pairs, receivers that are not ready, reordering, timeouts, control calls, errors and more, by
/// WRITEs, SENDs and READs of 64 KiB, 4 KiB and 8 bytes. Each victim should keep 0.75 of its share.
/// docs/tenants.md says what each is, and what holds. A seed is one result. Ctrl-C shows what there
/// is. Exit status: 0 if with tenants all victims keep enough, 1 if one does not, 2 if it could not
/// be tried, or not all of it.
#[derive(Parser, Debug)]
#[command(version)]
pub struct Cli {
    /// Only these attackers
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    attackers: Vec<String>,
    /// Only these victims
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    victims: Vec<String>,
    /// Attackers, victims and hosts of your own (docs/tenants.md)
    #[arg(long, value_name = "FILE")]
    matrix: Option<PathBuf>,
    /// Hosts as this file of `srnic calibrate` has them, and costs of operations
    #[arg(long, value_name = "FILE")]
    costs: Option<PathBuf>,
    /// Prints the matrix that is played without --matrix, as a file to begin with
    #[arg(long)]
    print: bool,
    /// Microseconds of virtual time for which each victim is measured; 1,000 in the matrix
    #[arg(long, value_name = "US", value_parser = clap::value_parser!(u32).range(10..=1_000_000))]
    time: Option<u32>,
    /// Everything random comes from it
    #[arg(long)]
    seed: Option<u32>,
    /// Threads that play; results do not depend on their number
    ///
    /// If it is not given: as many as there are CPUs.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: Option<u16>,
    /// Measures six pairs, or those of --attackers and --victims, on two processes over memif, and
    /// shows them beside the simulated ones
    ///
    /// There each entry has 256 queue pairs at most, in the simulation too. It cannot play faults,
    /// control calls and what else docs/tenants.md names.
    #[arg(long)]
    real: bool,
    /// Rounds of --real, of which the median counts
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    #[arg(requires = "real")]
    rounds: u32,
    /// Host 1 of --real, on this socket
    #[arg(long, hide = true, value_name = "SOCKET")]
    peer: Option<PathBuf>,
    /// Its policy
    #[arg(long, hide = true, value_name = "TOML", requires = "peer")]
    policy: Option<String>,
    /// Draws the results as heat maps into a file
    #[arg(long, value_name = "FILE", conflicts_with = "real")]
    svg: Option<PathBuf>,
    /// Writes JSON instead of text
    #[arg(long)]
    json: bool,
}

/// The tool from its parsed command line to its end.
#[must_use]
pub fn main(matches: &ArgMatches) -> ExitCode {
    interrupt::verdict_main(|| run(&program::args(matches)))
}

/// Whether all victims keep enough.
fn run(cli: &Cli) -> Result<bool> {
    if cli.print {
        output::lines(Matrix::STANDARD)?;
        return Ok(true);
    }
    if let Some(socket) = &cli.peer {
        let policy = cli.policy.as_deref().map(Policy::parse).transpose();
        let policy = policy.map_err(|error| Error::Options(error.to_string()))?;
        return real::answer(socket, policy.as_ref()).map(|()| true);
    }
    output::check_file(cli.svg.as_deref())?;
    let refused = |error: MatrixError| Error::Options(error.to_string());
    let whole = matrix(cli)?;
    let matrix = whole.clone().only(&cli.attackers, &cli.victims).map_err(refused)?;
    matrix.check().map_err(refused)?;
    if cli.real {
        return beside_simulated(cli, &whole, &matrix);
    }
    let wanted = matrix.couples().len();
    let pairs = matrix.pairs(&simulated(cli, &matrix, &matrix.tasks()));
    let report = Report { matrix: &matrix, pairs: &pairs, wanted };
    if let Some(path) = &cli.svg {
        std::fs::write(path, heat::svg(&report.maps())).map_err(Error::file("write", path))?;
    }
    if cli.json {
        output::line(report.json())?;
    } else {
        output::lines(report)?;
    }
    verdict(&pairs, wanted)
}

/// Whether all victims keep enough with tenants.
///
/// # Errors
/// [`Error::Interrupted`] if all do that were tried, and others were not.
fn verdict(pairs: &[Pair], wanted: usize) -> Result<bool> {
    let holds = pairs.iter().all(|pair| pair.holds()[1]);
    if holds && pairs.len() < wanted { Err(Error::Interrupted) } else { Ok(holds) }
}

/// Pairs on two processes, and in virtual time.
fn beside_simulated(cli: &Cli, whole: &Matrix, matrix: &Matrix) -> Result<bool> {
    let number = |sides: &[Side], name: &str| sides.iter().position(|side| side.name == name);
    let known = real::PAIRS.iter().filter_map(|(attacker, victim)| {
        Some((number(&matrix.attacker, attacker)?, number(&matrix.victim, victim)?))
    });
    let chosen = !cli.attackers.is_empty() || !cli.victims.is_empty() || cli.matrix.is_some();
    let couples = if chosen { matrix.couples() } else { known.collect() };
    real::check(whole, matrix, &couples)?;
    let matrix = real::cut(matrix);
    let bar = progress(couples.len() * 3 * cli.rounds as usize);
    let plan = real::Plan { rounds: cli.rounds, time: REAL_TIME };
    let measured = real::measure(&matrix, &couples, plan, &bar)?;
    bar.finish_and_clear();
    let tasks = Matrix::tasks_of(&couples[..measured.len()]);
    let simulated = matrix.pairs(&simulated(cli, &matrix, &tasks));
    let told = Beside { measured: &measured, simulated: &simulated, wanted: couples.len() };
    if cli.json {
        output::line(told.json())?;
    } else {
        output::lines(told)?;
    }
    verdict(&measured, couples.len())
}

/// Plays runs in virtual time; once Ctrl-C comes, those that are done are returned.
fn simulated(cli: &Cli, matrix: &Matrix, tasks: &[Task]) -> Vec<(Task, Played)> {
    if interrupt::check().is_err() {
        return Vec::new();
    }
    let threads =
        cli.threads.map_or_else(|| thread::available_parallelism().map_or(1, NonZero::get), usize::from);
    let bar = progress(tasks.len());
    let played = play(matrix, tasks, threads, |done| {
        bar.set_position(done as u64);
        interrupt::check().is_ok()
    });
    bar.finish_and_clear();
    played
}

/// Attackers and victims, of which not all need be chosen.
fn matrix(cli: &Cli) -> Result<Matrix> {
    let bad = |path: &Path, error: MatrixError| Error::Options(format!("{}: {error}", path.display()));
    let read = |path: &Path| std::fs::read_to_string(path).map_err(Error::file("read", path));
    let mut matrix = Matrix::standard();
    if let Some(path) = &cli.matrix {
        matrix = Matrix::parse(&read(path)?).map_err(|error| bad(path, error))?;
    }
    if let Some(path) = &cli.costs {
        matrix.calibrate(&read(path)?).map_err(|error| bad(path, error))?;
    }
    matrix.time_us = cli.time.unwrap_or(matrix.time_us);
    matrix.seed = cli.seed.unwrap_or(matrix.seed);
    Ok(matrix)
}

fn progress(runs: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {pos} of {len} runs, {eta} left");
    ProgressBar::new(runs as u64).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use srnic_workload::scenario::Scenario;

    #[test]
    fn what_was_not_tried_is_no_success() {
        let pair = |on: f64| Pair {
            attacker: "bulk".to_owned(),
            victim: "read-8".to_owned(),
            needs: 0.75,
            alone: 20.0,
            guaranteed: 10.0,
            off: 1.0,
            on,
            reason: None,
            scenario: Scenario::default(),
        };
        assert!(matches!(verdict(&[], 1), Err(Error::Interrupted)));
        assert!(matches!(verdict(&[pair(9.0)], 2), Err(Error::Interrupted)));
        assert!(matches!(verdict(&[pair(9.0)], 1), Ok(true)));
        assert!(matches!(verdict(&[pair(1.0)], 2), Ok(false)));
    }
}
