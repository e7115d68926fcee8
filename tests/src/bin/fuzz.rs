//! The hostile peer, for as long as one wants (testing.md 13).

use clap::Parser;
use srnic_tests::fuzz::{Report, round};
use std::time::{Duration, Instant};

/// Plays rounds of a hostile peer against live engines; ends at the first that fails
#[derive(Parser)]
struct Arguments {
    /// First seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many rounds, unless `--seconds` says how long
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    /// As many rounds as fit
    #[arg(long)]
    seconds: Option<u64>,
    /// Frames of a round
    #[arg(long, default_value_t = 2000)]
    frames: u32,
}

fn main() {
    let arguments = Arguments::parse();
    let started = Instant::now();
    let mut report = Report::default();
    let goes_on = |report: &Report| match arguments.seconds {
        Some(seconds) => started.elapsed() < Duration::from_secs(seconds),
        None => report.rounds < arguments.rounds,
    };
    while goes_on(&report) {
        report.add(&round(arguments.seed.wrapping_add(report.rounds), arguments.frames));
        if report.rounds.is_multiple_of(200) {
            println!("{} rounds, {} hostile frames", report.rounds, report.frames);
        }
    }
    println!("{} rounds from seed {} held: {} hostile frames", report.rounds, arguments.seed, report.frames);
    for (name, count) in report.counters.iter().filter(|(name, _)| name.starts_with("drop_")) {
        println!("{count:12} {name}");
    }
}
