//! `cargo xtask sim`: the seeded swarm on the deterministic network.

use std::process::Command;

use crate::error::Result;
use crate::repo::{self, RELEASE, cargo};
use crate::setup;

/// Runs `seeds` seeds from `seed` on, and stops at the first that fails.
pub fn run(seed: u64, seeds: u64) -> Result<()> {
    setup::implied(setup::BUILD)?;
    repo::run(swarm(seed, seeds, RELEASE))
}

/// The command that runs the swarm, built with `profile`.
pub fn swarm(seed: u64, seeds: u64, profile: &str) -> Command {
    let mut command =
        cargo(&["run", "--quiet", "--profile", profile, "-p", "srnic-tests", "--bin", "swarm", "--"]);
    command.args(["--seed", &seed.to_string(), "--seeds", &seeds.to_string()]);
    command
}
