//! Ends that libraries do not like: unloading, forking, exiting without closing anything, being
//! killed, and threads that are cancelled.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::cases::End;
use super::{FAULTS, Place, Rows, pair, wait_for};
use crate::error::{Error, Result};
use crate::listening;
use crate::process::{Process, free_port};

const SOURCE: &str = "xtask/src/unmodified/ends.c";
const CANCEL: &str = "xtask/src/unmodified/cancel.c";
/// Longest of a row: far more than it takes.
const LIMIT: Duration = Duration::from_secs(60);
/// Pairs that exit without closing anything.
const EXITS: u32 = 20;

/// What has both ends in one process, and what the table calls it.
const ALONE: [(&str, &str); 3] = [
    ("unload", "library unloaded and loaded again"),
    ("unload-open", "library unloaded with an open device"),
    ("fork", "fork with an open device"),
];

pub fn play(rows: &mut Rows<'_>) -> Result<()> {
    for (mode, name) in ALONE {
        rows.play_in_c(name, &[], |place| {
            let mut command = place.command(&built(place)?.to_string_lossy(), "sim:ends");
            command.arg(mode);
            Process::start(mode, command, place.dir)?.finish(LIMIT)
        })?;
    }
    for (poll, name) in [("", ""), (",poll=inline", ", poll=inline")] {
        rows.play_in_c(&format!("threads cancelled{name}"), &[], |place| cancelled(place, poll))?;
    }
    rows.play_in_c("exit without close", &[], |place| exits(place, false))?;
    rows.play_in_c("exit without close 1 % loss", &[], |place| exits(place, true))?;
    rows.play_in_c("peer killed", &[], killed)
}

/// Threads that wait for events are cancelled.
fn cancelled(place: &Place<'_>, poll: &str) -> Result<()> {
    let program = place.built(CANCEL, &["-pthread"], &["-libverbs"])?;
    let command = place.command(&program.to_string_lossy(), &format!("sim:cancel{poll}"));
    Process::start("program", command, place.dir)?.finish(LIMIT)
}

/// The program, which finds the library when it runs.
fn built(place: &Place<'_>) -> Result<PathBuf> {
    place.built(SOURCE, &[], &["-ldl"])
}

/// Every message arrives, though its sender exits as soon as it is complete.
fn exits(place: &Place<'_>, is_lossy: bool) -> Result<()> {
    let program = built(place)?;
    for run in 1..=EXITS {
        exchange(place, &program, if is_lossy { Some(run) } else { None })
            .map_err(|error| Error(format!("run {run}: {error}")))?;
    }
    Ok(())
}

fn exchange(place: &Place<'_>, program: &Path, seed: Option<u32>) -> Result<()> {
    let port = free_port()?;
    pair(place, LIMIT, |end| {
        let (role, mode) = if end == End::Server { ("server", "receive") } else { ("client", "send") };
        let faults = seed.map_or_else(String::new, |seed| {
            FAULTS.replace("seed=7", &format!("seed={}", 2 * seed + u32::from(end == End::Server)))
        });
        let mut command = place.command(&program.to_string_lossy(), &place.memif(role, &faults, ""));
        command.args([mode, &port.to_string()]);
        (command, port)
    })
}

/// A sender whose peer is killed hears of it, and others may use the memif afterwards.
fn killed(place: &Place<'_>) -> Result<()> {
    let program = built(place)?;
    let port = free_port()?;
    let side = |role: &str, mode: &str| {
        let mut command = place.command(&program.to_string_lossy(), &place.memif(role, "", ""));
        command.args([mode, &port.to_string()]);
        command
    };
    let mut victim = Process::start("victim", side("server", "drain"), place.dir)?;
    listening::wait(&mut victim, port, LIMIT)?;
    let mut sender = Process::start("sender", side("client", "flood"), place.dir)?;
    wait_for(&mut sender, &place.dir.join("sender.out"), "began", LIMIT)?;
    // Without warning.
    drop(victim);
    sender.finish(LIMIT)?;
    print!("{}", fs::read_to_string(place.dir.join("sender.out")).unwrap_or_default());
    exchange(place, &program, None)
}
