//! `cargo xtask fuzz`: a hostile peer on the deterministic network, or one of byte streams.

use std::process::Command;

use crate::error::{Error, Result};
use crate::programs::{self, Program};
use crate::repo::{self, CHECKED, cargo};
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

/// How long a hostile peer of streams plays with the tests.
pub const STREAMS_SECONDS: u64 = 60;

/// The test whose ignored function plays a hostile peer of byte streams.
const STREAMS_TEST: &str = "streams/tests/hostile.rs";

/// Plays a hostile peer of byte streams from `seed` on.
pub fn run_streams(seed: u64, seconds: Option<u64>) -> Result<()> {
    setup::implied(setup::BUILD)?;
    let test = cargo(&["test", "--profile", CHECKED, "-p", "srnic-streams", "--test", "hostile"]);
    repo::run(streams(&programs::built(test)?, seed, seconds.unwrap_or(STREAMS_SECONDS))?)
}

/// One of the programs, as a hostile peer of streams for so many seconds, from `seed` on.
pub fn streams(programs: &[Program], seed: u64, seconds: u64) -> Result<Command> {
    let program = programs.iter().find(|program| program.source == STREAMS_TEST);
    let mut command = program.ok_or_else(|| Error(format!("nothing was built of {STREAMS_TEST}")))?.command();
    command.args(["--ignored", "--exact", "anything_for_a_while", "--nocapture"]);
    command.env("SRNIC_FUZZ_SEED", seed.to_string()).env("SRNIC_FUZZ_SECONDS", seconds.to_string());
    Ok(command)
}
