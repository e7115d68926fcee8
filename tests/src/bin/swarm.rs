//! The seeded swarm: many random histories on the deterministic network (testing.md 12).

use clap::Parser;
use srnic_tests::swarm::{Campaign, Plan};
use std::process::ExitCode;
use std::thread;

/// Plays random histories and checks every byte and every completion
#[derive(Parser)]
struct Arguments {
    /// First seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many seeds, counting up from the first
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// Threads; as many as there are processors without it
    #[arg(long)]
    jobs: Option<usize>,
    /// A line of progress after so many seeds
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    every: u64,
    /// Say what each seed decides, and play nothing
    #[arg(long)]
    plan: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if arguments.plan {
        for number in 0..arguments.seeds {
            println!("{}", Plan::draw(arguments.seed.wrapping_add(number)));
        }
        return ExitCode::SUCCESS;
    }
    let jobs = arguments.jobs.or_else(|| thread::available_parallelism().ok().map(usize::from)).unwrap_or(1);
    let campaign = Campaign { first: arguments.seed, count: arguments.seeds, jobs: jobs.max(1) };
    let result = campaign.run(|totals| {
        if totals.seeds.is_multiple_of(arguments.every) {
            println!("{} seeds, {} operations, {} packets", totals.seeds, totals.operations, totals.packets);
        }
    });
    match result {
        Ok(totals) => {
            println!(
                "{} seeds from {} held: {} operations, {} packets, {} faults; healed within {} us; trace hash {:016x}",
                totals.seeds,
                arguments.seed,
                totals.operations,
                totals.packets,
                totals.faults,
                totals.healed_ns_max / 1000,
                totals.hash,
            );
            ExitCode::SUCCESS
        }
        Err(failure) => {
            println!("{failure}");
            ExitCode::FAILURE
        }
    }
}
