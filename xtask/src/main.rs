//! One command for everything that a person runs: `cargo xtask setup | lint | api | test | sim |
//! fuzz | demo | dropin | dist | bench | probe-capsule`.
//!
//! This crate has few dependencies, because it must build on a machine that has nothing but Rust
//! and a linker: installing the rest is its own first task.
#![forbid(unsafe_code)]

mod api;
mod bench;
mod comments;
mod cycles;
mod demo;
mod deny;
mod dist;
mod distributions;
mod docs;
mod dropin;
mod error;
mod fuzz;
mod guest;
mod interop;
mod interrupt;
mod lint;
mod listening;
mod machine;
mod netns;
mod nics;
mod packages;
mod probe;
mod process;
mod programs;
mod records;
mod registry;
mod repo;
mod scratch;
mod sections;
mod setup;
mod sim;
mod steps;
mod test;
mod tools;
mod unmodified;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use error::Result;

/// srnic: SRNIC, a lossy-RDMA NIC, in software
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", version)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Check what the build needs, and install what is missing (Debian packages: as root or by
    /// `sudo -n`)
    Setup {
        /// Also perf, and the programs of others that `bench compare` measures us beside
        #[arg(long)]
        bench: bool,
        /// Also QEMU and what else the runs against Linux soft-RoCE take
        #[arg(long)]
        interop: bool,
        /// Also the verbs programs that run unmodified
        #[arg(long)]
        unmodified: bool,
    },
    /// Formatting, clippy with warnings as errors, rustdoc, and the paths that the documents name
    Lint,
    /// Run the tests, each crate as it is used
    Test {
        /// Add the long runs: hours of schedules and seeds instead of minutes
        #[arg(long)]
        all: bool,
        /// Only the runs against Linux soft-RoCE in a virtual machine, which take root and QEMU; of
        /// them those whose name contains NAME, if it is given
        #[arg(long, value_name = "NAME", num_args = 0..=1, default_missing_value = "", conflicts_with = "all")]
        interop: Option<String>,
        /// Only the programs of others over the drop-in libibverbs (docs/unmodified.md); of them
        /// those whose name contains NAME, if it is given
        #[arg(long, value_name = "NAME", num_args = 0..=1, default_missing_value = "", conflicts_with_all = ["all", "interop", "distributions", "nics"])]
        unmodified: Option<String>,
        /// Only what a user runs, in chroots of releases of Debian and Ubuntu, which take root; in
        /// those whose name contains NAME, if it is given
        #[arg(
            long, value_name = "NAME", num_args = 0..=1, default_missing_value = "",
            conflicts_with_all = ["all", "interop", "nics"]
        )]
        distributions: Option<String>,
        /// Only the runs on NICs that QEMU has, between two virtual machines; of them those whose
        /// name (MODEL DRIVER MTU) contains NAME, if it is given
        #[arg(long, value_name = "NAME", num_args = 0..=1, default_missing_value = "", conflicts_with_all = ["all", "interop"])]
        nics: Option<String>,
    },
    /// Run the seeded swarm on the deterministic network; a seed replays its run exactly
    Sim {
        /// First seed
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// How many seeds, counting up from the first
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
        seeds: u64,
    },
    /// Let a hostile peer speak raw packets to live engines on the deterministic network
    Fuzz {
        /// Instead let one send anything over byte streams, for a minute without --seconds
        #[arg(long)]
        streams: bool,
        /// First seed
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// As many rounds as fit; one without it
        #[arg(long)]
        seconds: Option<u64>,
    },
    /// Record the public APIs of verbs-api and srnic-streams, which `lint` compares
    Api,
    /// Show that the crates `capsule` and `dpdk-sys` do not build against this DPDK
    /// (docs/adr/0002-pmd-bindings.md)
    ProbeCapsule,
    /// Measure two processes beside raw frames and TCP, and send a file from one to the other
    /// through loss; all verified
    Demo {
        /// The file; without it, one of 384 MiB made of this machine's own files
        file: Option<PathBuf>,
        /// Directory of programs that take the place of ours
        #[arg(long, hide = true)]
        tools: Option<PathBuf>,
    },
    /// Build the libibverbs.so.1 that lets verbs programs run on srnic as they are
    /// (docs/unmodified.md)
    Dropin,
    /// Build what is given to people: the program with its links, manual pages and completions, and
    /// a Debian package, all in target/dist
    Dist,
    /// Measure: bandwidth, latency and rates beside what else there is
    Bench(bench::Request),
}

fn main() -> ExitCode {
    match run(Cli::parse().task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> Result<()> {
    match task {
        Task::Setup { bench, interop, unmodified } => setup::explicit(&[
            (bench, setup::Scope::Bench),
            (interop, setup::Scope::Interop),
            (unmodified, setup::Scope::Unmodified),
        ]),
        Task::Lint => lint::run(),
        Task::Test { interop: Some(part), .. } => interop::run(&part),
        Task::Test { unmodified: Some(part), .. } => unmodified::run(&part),
        Task::Test { distributions: Some(part), .. } => distributions::run(&part),
        Task::Test { nics: Some(part), .. } => nics::run(&part),
        Task::Test { all, .. } => test::run(all),
        Task::Sim { seed, seeds } => sim::run(seed, seeds),
        Task::Fuzz { streams: true, seed, seconds } => fuzz::run_streams(seed, seconds),
        Task::Fuzz { seed, seconds, .. } => fuzz::run(seed, seconds),
        Task::Dropin => dropin::run(),
        Task::Dist => dist::run(),
        Task::Bench(request) => bench::run(&request),
        Task::Api => api::record(),
        Task::ProbeCapsule => probe::run(),
        Task::Demo { file, tools } => {
            demo::run(demo::Source::of(file.as_deref()), demo::Programs::of(tools.as_deref()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn an_unknown_task_is_an_error() {
        assert!(Cli::try_parse_from(["cargo xtask", "frobnicate"]).is_err());
    }

    #[test]
    fn a_bench_has_a_task_or_another_commit() {
        let parses = |args: &[&str]| Cli::try_parse_from([&["cargo xtask", "bench"], args].concat()).is_ok();
        assert!(parses(&["compare", "--quick"]) && parses(&["--against", "v0.1", "--quick"]));
        assert!(!parses(&[]) && !parses(&["--quick"]) && !parses(&["--against"]));
        assert!(!parses(&["--against", "v0.1", "compare"]));
        assert!(parses(&["flame", "--out", "figures"]) && !parses(&["flame"]));
    }

    #[test]
    fn sim_refuses_zero_seeds() {
        assert!(Cli::try_parse_from(["cargo xtask", "sim", "--seed", "7", "--seeds", "0"]).is_err());
    }
}
