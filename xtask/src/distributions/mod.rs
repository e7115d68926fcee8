//! `cargo xtask test --distributions`: what a user runs, in chroots of the releases of Debian and
//! Ubuntu that have a DPDK which is supported.
//!
//! The chroots are made of their packages, and the README's steps are taken in each. Chroots and
//! what was built in them stay in the target directory, so that a second run is short.

mod chroot;
mod host;
mod program;
mod release;
mod runs;
mod table;

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::error::{Error, Result};
use crate::repo;
use crate::setup::{self, DISTRIBUTIONS};
use crate::unmodified::SKIPPED;
use chroot::{Chroot, Layer, Network};
use host::Host;
use release::{RELEASES, Release};
use runs::{DPDK_VERSION, RUNS, Run};
use table::{Outcome, Row};

/// Lines of a failed run that are shown.
const LOG_LINES: usize = 30;

/// Every run in each distribution whose name contains `part`, or one line that says why there are
/// none.
pub fn run(part: &str) -> Result<()> {
    let chosen: Vec<&Release> = RELEASES.iter().filter(|release| release.name.contains(part)).collect();
    if chosen.is_empty() {
        let known: Vec<&str> = RELEASES.iter().map(|release| release.name).collect();
        let known = known.join(", ");
        return Err(Error(format!("no distribution is called {part}: there are {known}")));
    }
    setup::implied(DISTRIBUTIONS)?;
    if let Some(reason) = host::cannot_run() {
        println!("skipped: {reason}");
        return Ok(());
    }
    let host = Host::here()?;
    let cache = repo::target_directory()?.join("distributions");
    let rows: Vec<Row> = chosen.into_iter().map(|release| distribution(release, &cache, &host)).collect();
    let names: Vec<&str> = RUNS.iter().map(|run| run.name).collect();
    println!("\n{}", table::text(&names, &rows));
    verdict(&rows)
}

/// All runs in one distribution.
fn distribution(release: &Release, cache: &Path, host: &Host) -> Row {
    let name = release.name;
    let row = |dpdk, outcomes| Row { system: name.to_owned(), dpdk, rust: host.rust.clone(), outcomes };
    let chroot = match Chroot::of(release, cache, host) {
        Ok(chroot) => chroot,
        Err(error) => {
            println!("skipped {name}: its packages cannot be had here: {error}");
            return row(String::new(), vec![Outcome::Skipped; RUNS.len()]);
        }
    };
    let outcomes = RUNS
        .iter()
        .map(|run| if run.is_for(release.suite) { timed(name, &chroot, run) } else { Outcome::Skipped });
    let outcomes = outcomes.collect();
    row(version(&chroot), outcomes)
}

fn timed(name: &str, chroot: &Chroot<'_>, run: &Run) -> Outcome {
    println!("==> {name}: {}", run.name);
    let start = Instant::now();
    let result = play(chroot, run);
    println!("{} s", start.elapsed().as_secs());
    match result {
        Ok(lacks) if lacks.is_empty() => Outcome::Ok,
        Ok(lacks) => {
            lacks.iter().for_each(|line| println!("{line}"));
            Outcome::Partly
        }
        Err(error) => {
            eprintln!("{error}");
            Outcome::Failed
        }
    }
}

/// One run. What it says goes to a file; what it left out, and why, is returned.
fn play(chroot: &Chroot<'_>, run: &Run) -> Result<Vec<String>> {
    program::write(&chroot.place().join("program"))?;
    let log = chroot.place().join(format!("{}.log", run.name.replace(' ', "-")));
    let file = File::create(&log).map_err(|e| Error::io("create", &log, &e))?;
    let errors = file.try_clone().map_err(|e| Error::io("write", &log, &e))?;
    let mut command: Command = chroot.command(run.layer, run.network, &run.script.text());
    command.stdin(Stdio::null()).stdout(file).stderr(errors);
    let status = command.status().map_err(|e| Error(format!("cannot start `unshare`: {e}")))?;
    let said = fs::read(&log).unwrap_or_default();
    if status.success() {
        return Ok(left_out(&String::from_utf8_lossy(&said)));
    }
    Err(Error(format!(
        "{} failed: {status}; the last lines of {}:\n{}\nto begin anew, remove {}",
        run.name,
        log.display(),
        last_lines(&String::from_utf8_lossy(&said)),
        chroot.place().display()
    )))
}

/// The lines of a run that say what it left out, each once.
fn left_out(said: &str) -> Vec<String> {
    let mut lines: Vec<_> =
        said.lines().filter(|line| line.starts_with(SKIPPED)).map(str::to_owned).collect();
    lines.sort();
    lines.dedup();
    lines
}

fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
}

/// That of the chroot's DPDK; empty if there is none.
fn version(chroot: &Chroot<'_>) -> String {
    let said = repo::output(&mut chroot.command(Layer::Kept, Network::Own, DPDK_VERSION));
    said.unwrap_or_default().trim().to_owned()
}

/// An error if a run failed anywhere.
fn verdict(rows: &[Row]) -> Result<()> {
    let failed = |row: &Row| {
        let outcomes = row.outcomes.iter().zip(RUNS);
        let failed = outcomes.filter(|(outcome, _)| **outcome == Outcome::Failed);
        failed.map(|(_, run)| format!("{} on {}", run.name, row.system)).collect::<Vec<_>>()
    };
    let failed: Vec<String> = rows.iter().flat_map(failed).collect();
    if failed.is_empty() { Ok(()) } else { Err(Error(format!("failed: {}", failed.join(", ")))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_failed_is_an_error_and_one_that_was_skipped_is_not() {
        let row = |outcomes| Row {
            system: "Debian 12".to_owned(),
            dpdk: String::new(),
            rust: String::new(),
            outcomes,
        };
        assert!(verdict(&[row(vec![Outcome::Ok, Outcome::Skipped])]).is_ok());
        let failed = verdict(&[row(vec![Outcome::Ok]), row(vec![Outcome::Ok, Outcome::Failed])]);
        assert_eq!(failed.expect_err("one failed").0, "failed: demo on Debian 12");
    }

    #[test]
    fn what_a_run_left_out_is_told() {
        let said = "skipped: b: there is none\nok\nskipped: a: old\n  skipped: no\nskipped: a: old\n";
        assert_eq!(left_out(said), ["skipped: a: old", "skipped: b: there is none"]);
    }

    #[test]
    fn an_unknown_distribution_is_refused_with_those_that_there_are() {
        let error = run("Slackware").expect_err("there is none");
        assert!(error.0.contains("Debian 12, Debian 13, Debian testing, Ubuntu 24.04"), "{error}");
    }
}
