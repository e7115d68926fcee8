//! Threads of one program that post, poll, create and destroy at once: every completion comes once.

use std::fs;
use std::process::Command;
use std::time::Duration;

use super::{FAULTS, Place, Rows, last_line};
use crate::error::{Error, Result};
use crate::process::Process;

const SOURCE: &str = "xtask/src/unmodified/threads.c";
/// How long they are at work.
const SECONDS: &str = "4";
/// Longest of a row: far more than it takes.
const LIMIT: Duration = Duration::from_secs(90);

pub fn play(rows: &mut Rows<'_>) -> Result<()> {
    rows.play_in_c("threads", &[], |place| run(place, "srnic0 = sim:threads\n"))?;
    for (faults, behind, name) in
        [("", "", ""), (FAULTS, "", " 1 % loss"), (FAULTS, "; order=strict", ", order=strict 1 % loss")]
    {
        rows.play_in_c(&format!("threads, two devices{name}"), &[], |place| {
            let end = |role| place.memif(role, faults, behind);
            run(place, &format!("first = {}\nsecond = {}\n", end("server"), end("client")))
        })?;
    }
    Ok(())
}

fn run(place: &Place<'_>, devices: &str) -> Result<()> {
    let program = place.built(SOURCE, &["-pthread"], &["-libverbs"])?;
    let file = place.dir.join("devices");
    fs::write(&file, devices).map_err(|e| Error::io("write", &file, &e))?;
    let mut command = Command::new(place.tool);
    command.arg("run").arg("--devices").arg(&file).arg("--").arg(&program).arg(SECONDS);
    Process::start("program", command, place.dir)?.finish(LIMIT)?;
    println!("{}", last_line(&place.dir.join("program.out")));
    Ok(())
}
