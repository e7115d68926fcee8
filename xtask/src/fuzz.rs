//! `cargo xtask fuzz`: a hostile peer on the deterministic network.

use crate::error::Result;
use crate::repo::{self, cargo};
use crate::setup;

/// Plays rounds from `seed` on for so many seconds, or one.
pub fn run(seed: u64, seconds: Option<u64>) -> Result<()> {
    setup::implied(setup::BUILD)?;
    let mut command = cargo(&["run", "--quiet", "--release", "-p", "srnic-tests", "--bin", "fuzz", "--"]);
    command.args(["--seed", &seed.to_string()]);
    if let Some(seconds) = seconds {
        command.args(["--seconds", &seconds.to_string()]);
    }
    repo::run(command)
}
