//! Short programs that end while their peer may still ask: none of it ends with an error.

use std::time::Duration;

use super::cases::End;
use super::{Place, Rows, pair};
use crate::error::{Error, Result};
use crate::process::free_port;

const PROGRAM: &str = "ibv_rc_pingpong";
/// Runs, each with losses of its own.
const RUNS: u32 = 1000;
/// Longest of one run: far more than it takes.
const LIMIT: Duration = Duration::from_secs(120);
/// How often it is said how far they are.
const SAY_EVERY: u32 = 100;
/// What a program says that ran out of retries.
const EXCEEDED: &str = "retry";

pub fn play(rows: &mut Rows<'_>) -> Result<()> {
    let name = format!("{RUNS} short {PROGRAM} 1 % loss");
    rows.play(&name, &[PROGRAM], |place| {
        let mut failures = Vec::new();
        for run in 1..=RUNS {
            if let Err(error) = short(place, run) {
                eprintln!("run {run}: {error}");
                failures.push(error);
            }
            crate::interrupt::check()?;
            if run % SAY_EVERY == 0 {
                println!("{run} runs, {} failed", failures.len());
            }
        }
        let exceeded = failures.iter().filter(|error| error.0.contains(EXCEEDED)).count();
        match failures.len() {
            0 => Ok(()),
            failed => Err(Error(format!("{failed} of {RUNS} failed, {exceeded} for retries exceeded"))),
        }
    })
}

/// One run, whose frames are lost by its number.
fn short(place: &Place<'_>, run: u32) -> Result<()> {
    let port = free_port()?;
    pair(place, LIMIT, |end| {
        let (role, seed) = if end == End::Server { ("server", 2 * run) } else { ("client", 2 * run + 1) };
        let faults = format!("fault:loss=1%,seed={seed}:");
        let mut command = place.command(PROGRAM, &place.memif(role, &faults, ""));
        command.args(["-g", "0", "-n", "20", "-p", &port.to_string()]);
        (command, port)
    })
}
