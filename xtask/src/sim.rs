//! `cargo xtask sim`: the seeded swarm on the deterministic network.

use std::process::Command;

use crate::error::Result;
use crate::repo::{self, cargo};
use crate::setup;

/// Runs `seeds` seeds from `seed` on, and stops at the first that fails.
pub fn run(seed: u64, seeds: u64) -> Result<()> {
    setup::implied(setup::BUILD)?;
    repo::run(optimised(seed, seeds))
}

/// The swarm, built as users' programs are.
pub fn optimised(seed: u64, seeds: u64) -> Command {
    swarm(cargo(&["run", "--quiet", "--release", "-p", "srnic-tests", "--bin", "swarm", "--"]), seed, seeds)
}

/// `program`, which is the swarm or ends in what starts it, on so many seeds from `seed` on.
pub fn swarm(mut program: Command, seed: u64, seeds: u64) -> Command {
    program.args(["--seed", &seed.to_string(), "--seeds", &seeds.to_string()]);
    program
}
