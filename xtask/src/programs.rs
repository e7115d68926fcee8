//! The programs that `cargo test` builds, several at once.
//!
//! Cargo plays one after the other, and many wait most of their time, for clocks and for peers.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::error::{Error, Result};
use crate::repo;

/// Programs at once.
const LANES: usize = 2;
/// The slowest that are named at the end.
const SLOWEST: usize = 10;
/// Programs that begin first, because they take longest.
const LONG: [&str; 3] =
    ["tests/simnet/tests/curves/main.rs", "datapath/tests/turn_cost.rs", "tests/simnet/tests/protocol.rs"];
/// Programs that find out what is late: nothing else runs beside them.
const ALONE: [&str; 2] = ["benches/tools/tests/hostping.rs", "benches/tools/tests/delays.rs"];

/// A program of tests.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Program {
    /// The file that it is made of, from the root of the repository.
    pub source: String,
    executable: PathBuf,
    /// Where Cargo plays it.
    directory: PathBuf,
}

/// How a program ended.
struct Played {
    source: String,
    took: Duration,
    outcome: Result<()>,
}

impl Program {
    /// Runs those of its tests that the arguments choose.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.executable);
        command.current_dir(&self.directory).env("CARGO_MANIFEST_DIR", &self.directory);
        command
    }
}

/// What `cargo test ..` builds of all that it selects.
pub fn built(mut cargo_test: Command) -> Result<Vec<Program>> {
    cargo_test.args(["--no-run", "--message-format", "json-render-diagnostics"]);
    cargo_test.stderr(std::process::Stdio::inherit());
    Ok(programs(&repo::output(&mut cargo_test)?, &repo::root()))
}

/// The programs among what Cargo says, a JSON object a line.
fn programs(said: &str, root: &Path) -> Vec<Program> {
    let messages = said.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let program = |message: Value| {
        let is_test = message["profile"]["test"].as_bool()?;
        let source = Path::new(message["target"]["src_path"].as_str()?);
        let source = source.strip_prefix(root).unwrap_or(source).to_string_lossy().into_owned();
        let executable = message["executable"].as_str()?.into();
        let directory = Path::new(message["manifest_path"].as_str()?).parent()?.to_owned();
        is_test.then_some(Program { source, executable, directory })
    };
    messages.filter_map(program).collect()
}

/// Plays all, each as `prepare` has it, and says how each ended.
pub fn play(programs: &[Program], prepare: fn(&mut Command)) -> Result<()> {
    if programs.is_empty() {
        return Err(Error::new("there is no program to play"));
    }
    let (alone, mut beside): (Vec<_>, Vec<_>) =
        programs.iter().partition(|program| ALONE.contains(&program.source.as_str()));
    let rank =
        |program: &&Program| LONG.iter().position(|long| *long == program.source).unwrap_or(LONG.len());
    beside.sort_by_key(rank);
    let mut played = in_lanes(beside, LANES, prepare);
    played.extend(in_lanes(alone, 1, prepare));
    println!("\n{}", slowest(&mut played));
    let mut failed = Vec::new();
    for one in &played {
        if let Err(error) = &one.outcome {
            eprintln!("{}: {error}", one.source);
            failed.push(one.source.as_str());
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(Error(format!("failed: {}", failed.join(", ")))) }
}

fn in_lanes(programs: Vec<&Program>, lanes: usize, prepare: fn(&mut Command)) -> Vec<Played> {
    let waiting = Mutex::new(VecDeque::from(programs));
    let played = Mutex::new(Vec::new());
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    thread::scope(|scope| {
        for _ in 0..lanes {
            scope.spawn(|| {
                while let Some(program) = next() {
                    let mut command = program.command();
                    prepare(&mut command);
                    println!("     Playing {}", program.source);
                    let start = Instant::now();
                    let heard = repo::heard(&mut command);
                    let took = start.elapsed();
                    // What a program says is shown in one piece.
                    let mut played = played.lock().unwrap_or_else(PoisonError::into_inner);
                    println!("\n      Played {}", program.source);
                    let outcome = heard.and_then(|heard| heard.show());
                    played.push(Played { source: program.source.clone(), took, outcome });
                }
            });
        }
    });
    played.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// A line for each of the programs that took longest.
fn slowest(played: &mut [Played]) -> String {
    played.sort_by_key(|one| std::cmp::Reverse(one.took));
    let mut text = format!("{} programs; the slowest:", played.len());
    for one in played.iter().take(SLOWEST) {
        let _ = write!(text, "\n{:>7.1} s  {}", one.took.as_secs_f64(), one.source);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = r#"   Compiling streams
{"reason":"compiler-artifact","manifest_path":"/r/streams/Cargo.toml","target":{"src_path":"/r/streams/src/lib.rs"},"profile":{"test":false},"executable":null}
{"reason":"compiler-artifact","manifest_path":"/r/tools/Cargo.toml","target":{"src_path":"/r/tools/src/main.rs"},"profile":{"test":false},"executable":"/t/srnic"}
{"reason":"compiler-artifact","manifest_path":"/r/streams/Cargo.toml","target":{"src_path":"/r/streams/tests/hostile.rs"},"profile":{"test":true},"executable":"/t/hostile-2"}
{"reason":"build-finished","success":true}"#;

    fn shell(source: &str, executable: &str) -> Program {
        Program { source: source.to_owned(), executable: executable.into(), directory: "/".into() }
    }

    #[test]
    fn programs_of_tests_are_found_by_their_files() {
        let expected = Program {
            source: "streams/tests/hostile.rs".to_owned(),
            executable: "/t/hostile-2".into(),
            directory: "/r/streams".into(),
        };
        assert_eq!(programs(SAID, Path::new("/r")), [expected]);
    }

    #[test]
    fn each_program_is_played_and_one_that_fails_is_named() {
        let all = |last| vec![shell("one", "true"), shell(ALONE[0], "true"), shell("three", last)];
        let played = |last| play(&all(last), |_| ());
        assert_eq!(played("true"), Ok(()));
        for last in ["false", "/nonexistent/program"] {
            assert_eq!(played(last).expect_err("one fails").0, "failed: three");
        }
    }

    #[test]
    fn no_program_at_all_is_an_error() {
        assert!(play(&[], |_| ()).is_err());
    }

    #[test]
    fn the_programs_that_are_named_here_are_there() {
        for source in LONG.iter().chain(&ALONE) {
            assert!(repo::root().join(source).is_file(), "{source}");
        }
    }
}
