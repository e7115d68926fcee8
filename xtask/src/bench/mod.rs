//! `cargo xtask bench`: figures, each from interleaved runs of two processes that have a CPU each.

mod against;
mod bracket;
mod chart;
mod claim;
mod compare;
mod contender;
mod fabric;
mod flame;
mod loss;
mod measured;
mod others;
mod samples;
mod scale;
mod stacks;
mod streams;
mod table;
mod unmodified;

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::interrupt;
use crate::machine::Machine;
use crate::repo::RELEASE;
use crate::scratch::Scratch;
use crate::tools::{Run, Tools};

/// What to measure: one of the tasks, or this checkout beside another commit.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, arg_required_else_help = true)]
pub struct Request {
    #[command(subcommand)]
    task: Option<Task>,
    /// Measures the programs of this checkout beside those of another commit, which is built too
    #[arg(long, value_name = "REVISION", required = true)]
    against: Option<String>,
    #[command(flatten)]
    options: Options,
}

/// What to measure.
#[derive(Subcommand)]
enum Task {
    /// srnic beside raw frames on the same port, TCP and UCX on the same machine
    Compare(Options),
    /// Goodput against loss, with selective repeat and with go-back-N
    Loss(Options),
    /// The rate of SENDs against the number of queue pairs, up to 16,000
    Scale(Options),
    /// Byte streams by the size of a write and the way that its bytes go, beside kernel TCP and
    /// QUIC; and programs of others through the tunnel
    Streams(streams::Options),
    /// The paper's large-scale results in virtual time, by `srnic fabric`, beside the paper's words
    Fabric(fabric::Options),
    /// Programs of others over the drop-in libibverbs, beside our tools and beside themselves over
    /// TCP
    Unmodified(Options),
    /// Flame graphs of the sender and the receiver of WRITEs, by perf: where the time goes
    Flame(flame::Options),
}

/// How, and where the results go.
#[derive(Args)]
struct Options {
    /// Fewer and shorter rounds: half a minute in all
    #[arg(long)]
    quick: bool,
    /// Writes the figures to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draws the figures into this file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Takes the programs from this directory instead of building them
    #[arg(long, value_name = "DIRECTORY")]
    tools: Option<PathBuf>,
}

/// A measurement under way.
struct Bench<'a> {
    options: &'a Options,
    tools: Tools,
    scratch: Scratch,
    machine: Machine,
}

/// Rounds of a measurement.
struct Rounds {
    /// Those that are whole.
    done: u64,
    /// What ended them.
    end: Result<()>,
}

/// Builds the programs, and measures.
pub fn run(request: &Request) -> Result<()> {
    match (&request.task, &request.against) {
        (Some(Task::Compare(options)), _) => compare::run(&Bench::new(options)?),
        (Some(Task::Loss(options)), _) => loss::run(&Bench::new(options)?),
        (Some(Task::Scale(options)), _) => scale::run(&Bench::new(options)?),
        (Some(Task::Streams(options)), _) => streams::run(options),
        (Some(Task::Fabric(options)), _) => fabric::run(options),
        (Some(Task::Unmodified(options)), _) => unmodified::run(&Bench::new(options)?),
        (Some(Task::Flame(options)), _) => flame::run(options),
        (None, Some(revision)) => against::run(&Bench::new(&request.options)?, revision),
        (None, None) => Err(Error::new("name what to measure: see `cargo xtask bench --help`")),
    }
}

impl<'a> Bench<'a> {
    fn new(options: &'a Options) -> Result<Self> {
        let tools = match &options.tools {
            Some(directory) => Tools::in_directory(directory),
            None => Tools::build(RELEASE)?,
        };
        interrupt::catch()?;
        Ok(Self { options, tools, scratch: Scratch::new()?, machine: Machine::here() })
    }

    /// Measures `quick` or `whole` rounds, which are counted from 1. An error ends them, but what
    /// the rounds before have shown is not lost: it is to be reported after them. One in the first
    /// round is returned at once.
    fn rounds(&self, [quick, whole]: [u64; 2], mut measure: impl FnMut(u64) -> Result<()>) -> Result<Rounds> {
        let rounds = self.pick(quick, whole);
        for round in 1..=rounds {
            eprintln!("round {round} of {rounds}");
            match measure(round) {
                Err(error) if round == 1 => return Err(error),
                Err(error) => return Ok(Rounds { done: round - 1, end: Err(error) }),
                Ok(()) => {}
            }
        }
        Ok(Rounds { done: rounds, end: Ok(()) })
    }

    /// The first for a quick run, the second for a whole one.
    fn pick(&self, quick: u64, whole: u64) -> u64 {
        if self.options.quick { quick } else { whole }
    }

    fn run(&self, run: &Run<'_>) -> Result<Value> {
        self.tools.run(&self.scratch, self.machine.two_cpus(), run)
    }

    /// Writes `details` with the keys on top and the machine, if a file is named.
    fn write_json(&self, details: &Value, keys: &Map<String, Value>) -> Result<()> {
        let Some(path) = &self.options.json else { return Ok(()) };
        let mut all = keys.clone();
        if let Value::Object(details) = details {
            all.extend(details.clone());
        }
        all.insert("machine".to_owned(), self.machine.to_json());
        fs::write(path, format!("{:#}\n", Value::Object(all))).map_err(|e| Error::io("write", path, &e))
    }

    fn write_svg(&self, draw: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
        self.options.svg.as_deref().map_or(Ok(()), draw)
    }
}
