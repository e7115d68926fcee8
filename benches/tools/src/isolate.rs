//! `srnic isolate`: what victims keep beside attackers, without tenants and with them.

mod real;
mod report;

use crate::error::{Error, Result};
use crate::{heat, interrupt, output, program};
use clap::{ArgMatches, Parser};
use indicatif::{ProgressBar, ProgressStyle};
use report::{Beside, Report};
use srnic_workload::isolate::{Matrix, MatrixError, Pair, Policy, Side, Task, run as play};
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
/// be tried.
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
    #[arg(long)]
    real: bool,
    /// Rounds of --real, of which the median counts
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Host 1 of --real, on this socket
    #[arg(long, hide = true, value_name = "SOCKET")]
    peer: Option<PathBuf>,
    /// Its policy
    #[arg(long, hide = true, value_name = "TOML", requires = "peer")]
    policy: Option<String>,
    /// Draws the results as heat maps into a file
    #[arg(long, value_name = "FILE")]
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
    let matrix = matrix(cli)?;
    if cli.real {
        return beside_simulated(cli, &matrix);
    }
    let wanted = matrix.attacker.len() * matrix.victim.len();
    let threads =
        cli.threads.map_or_else(|| thread::available_parallelism().map_or(1, NonZero::get), usize::from);
    let bar = progress(matrix.tasks().len());
    let played = play(&matrix, threads, |done| {
        bar.set_position(done as u64);
        interrupt::check().is_ok()
    });
    bar.finish_and_clear();
    let pairs = matrix.pairs(&played);
    let report = Report { matrix: &matrix, pairs: &pairs, wanted };
    if let Some(path) = &cli.svg {
        std::fs::write(path, heat::svg(&report.maps())).map_err(Error::file("write", path))?;
    }
    if cli.json {
        output::line(report.json())?;
    } else {
        output::lines(report)?;
    }
    Ok(pairs.iter().all(|pair| pair.holds()[1]))
}

/// Pairs on two processes, and in virtual time.
fn beside_simulated(cli: &Cli, matrix: &Matrix) -> Result<bool> {
    let number = |sides: &[Side], name: &str| sides.iter().position(|side| side.name == name);
    let all = || {
        let victims = 0..matrix.victim.len();
        (0..matrix.attacker.len()).flat_map(move |attacker| victims.clone().map(move |v| (attacker, v)))
    };
    let known = real::PAIRS.iter().filter_map(|(attacker, victim)| {
        Some((number(&matrix.attacker, attacker)?, number(&matrix.victim, victim)?))
    });
    let chosen = !cli.attackers.is_empty() || !cli.victims.is_empty() || cli.matrix.is_some();
    let pairs: Vec<_> = if chosen { all().collect() } else { known.collect() };
    let bar = progress(pairs.len() * 3 * cli.rounds as usize);
    let plan = real::Plan { rounds: cli.rounds, time: REAL_TIME };
    let measured = real::measure(matrix, &pairs, plan, &bar)?;
    bar.finish_and_clear();
    let simulated = simulated(matrix, &pairs[..measured.len()]);
    let told = Beside { measured: &measured, simulated: &simulated };
    if cli.json {
        output::line(told.json())?;
    } else {
        output::lines(told)?;
    }
    Ok(measured.iter().all(|pair| pair.holds()[1]))
}

/// These pairs, in virtual time.
fn simulated(matrix: &Matrix, pairs: &[(usize, usize)]) -> Vec<Pair> {
    let one = |(attacker, victim): &(usize, usize)| {
        let runs = [(None, false), (Some(*attacker), false), (Some(*attacker), true)];
        let tasks = runs.map(|(attacker, policy)| Task { attacker, victim: *victim, policy });
        let played = tasks.into_iter().filter_map(|task| Some((task, matrix.play(task)?)));
        matrix.pairs(&played.collect::<Vec<_>>())
    };
    pairs.iter().flat_map(one).collect()
}

fn matrix(cli: &Cli) -> Result<Matrix> {
    let refused = |error: MatrixError| Error::Options(error.to_string());
    let bad = |path: &Path, error: MatrixError| Error::Options(format!("{}: {error}", path.display()));
    let read = |path: &Path| std::fs::read_to_string(path).map_err(Error::file("read", path));
    let mut matrix = Matrix::standard();
    if let Some(path) = &cli.matrix {
        matrix = Matrix::parse(&read(path)?).map_err(|error| bad(path, error))?;
    }
    if let Some(path) = &cli.costs {
        matrix.calibrate(&read(path)?).map_err(|error| bad(path, error))?;
    }
    let mut matrix = matrix.only(&cli.attackers, &cli.victims).map_err(refused)?;
    matrix.time_us = cli.time.unwrap_or(matrix.time_us);
    matrix.seed = cli.seed.unwrap_or(matrix.seed);
    matrix.check().map_err(refused)?;
    Ok(matrix)
}

fn progress(runs: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {pos} of {len} runs, {eta} left");
    ProgressBar::new(runs as u64).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
