//! The program `srnic`, and its perftest-like tools as pairs of processes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::error::{Error, Result};
use crate::process::{Process, free_port, watch};
use crate::repo::{self, cargo};
use crate::scratch::Scratch;
use crate::setup;

/// Longest run of a pair: an order of magnitude more than any takes.
const LIMIT: Duration = Duration::from_secs(100);

/// What builds it.
pub const PACKAGE: &str = "srnic-tools";
const PROGRAM: &str = "srnic";

/// Where `srnic` is.
pub struct Tools {
    directory: PathBuf,
}

/// One run of a tool: its server, and then its client.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// The subcommand of `srnic`.
    pub tool: &'a str,
    /// What both sides are given, separated by blanks.
    pub options: &'a str,
    /// What only the client puts before its device: empty, or a `fault:..:` wrapper.
    pub wrapper: &'a str,
    pub over: Over,
}

/// What a pair of programs talks over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Over {
    /// Kernel TCP: no device is given.
    Tcp,
    /// A memif of DPDK's driver.
    Memif,
    /// One whose buffers are lent.
    ZeroCopy,
}

impl Over {
    /// What follows the socket in the device string.
    const fn keys(self) -> &'static str {
        match self {
            Self::ZeroCopy => ",zero-copy=on",
            Self::Tcp | Self::Memif => "",
        }
    }
}

impl Tools {
    /// Builds the program of the checked-out sources.
    pub fn build(profile: &str) -> Result<Self> {
        setup::implied(setup::BUILD)?;
        println!("building srnic; the first time this takes some minutes");
        repo::run(cargo(&["build", "--profile", profile, "-p", PACKAGE]))?;
        Ok(Self { directory: repo::target_directory()?.join(profile) })
    }

    /// Builds the program for perf, in a target directory of its own, as other flags have
    /// everything built again: with frame pointers, by which stacks are walked, and its functions
    /// as far into the file as into memory, which perf and `addr2line` then count alike.
    pub fn build_for_perf() -> Result<Self> {
        setup::implied(setup::BUILD)?;
        let target = repo::target_directory()?.join("flame");
        let mut build = cargo(&["rustc", "--release", "-p", PACKAGE, "--bin", PROGRAM]);
        build.args(["--", "-C", "link-arg=-Wl,-z,separate-loadable-segments"]);
        build.env("RUSTFLAGS", "-C force-frame-pointers=yes").env("CARGO_TARGET_DIR", &target);
        repo::run(build)?;
        Ok(Self { directory: target.join("release") })
    }

    /// Takes the program that is in `directory`.
    pub fn in_directory(directory: &Path) -> Self {
        Self { directory: directory.to_path_buf() }
    }

    /// The path of the program.
    pub fn program(&self) -> PathBuf {
        self.directory.join(PROGRAM)
    }

    /// A subcommand.
    pub fn command(&self, subcommand: &str) -> Command {
        self.launch(subcommand, Command::new)
    }

    /// A subcommand of the program, which is started by what `launch` makes of its path. Commits
    /// before docs/adr/0046 have a program for each.
    fn launch(&self, subcommand: &str, launch: impl FnOnce(PathBuf) -> Command) -> Command {
        let program = self.program();
        if !program.exists() {
            return launch(self.directory.join(format!("srnic_{}", subcommand.replace('-', "_"))));
        }
        let mut command = launch(program);
        command.arg(subcommand);
        command
    }

    /// Runs a pair to its end, each process on a CPU of its own where there are two; what the
    /// client measured.
    pub fn run(&self, scratch: &Scratch, cpus: Option<[usize; 2]>, run: &Run<'_>) -> Result<Value> {
        self.run_by(scratch, cpus, run, &|_, program| Command::new(program))
    }

    /// Runs a pair to its end, as [`run`](Self::run) does, each program started by what `launch`
    /// makes of its side, `server` or `client`, and its path.
    pub fn run_by(
        &self,
        scratch: &Scratch,
        cpus: Option<[usize; 2]>,
        run: &Run<'_>,
        launch: &dyn Fn(&str, &Path) -> Command,
    ) -> Result<Value> {
        let dir = scratch.subdirectory()?;
        let result = self.run_in(&dir, cpus, run, launch);
        fs::remove_dir_all(&dir).map_err(|e| Error::io("remove", &dir, &e))?;
        result.map_err(|error| Error(format!("{} {}: {error}", run.tool, run.options)))
    }

    fn run_in(
        &self,
        dir: &Path,
        cpus: Option<[usize; 2]>,
        run: &Run<'_>,
        launch: &dyn Fn(&str, &Path) -> Command,
    ) -> Result<Value> {
        let port = free_port()?.to_string();
        let json = dir.join("client.json");
        let start = |side: &str, index: usize, wrapper: &str| {
            let mut command = self.launch(run.tool, |program| launch(side, &program));
            command.args(run.options.split_whitespace()).args(["-p", &port]);
            if run.over != Over::Tcp {
                let socket = dir.join("memif");
                command.args(["-d", &format!("{wrapper}memif:{}{}", socket.display(), run.over.keys())]);
            }
            if let Some(cpus) = cpus {
                command.args(["--cpu", &cpus[index].to_string()]);
            }
            if side == "client" {
                command.arg("--json").arg(&json).arg("127.0.0.1");
            }
            Process::start(side, command, dir)
        };
        let mut server = start("server", 0, "")?;
        let mut client = start("client", 1, run.wrapper)?;
        watch(&mut server, &mut client, LIMIT)?;
        let text = fs::read_to_string(&json).map_err(|e| Error::io("read", &json, &e))?;
        serde_json::from_str(&text).map_err(|e| Error(format!("{}: {e}", json.display())))
    }
}

/// A number of a result, by keys with slashes between: `lat_us/p50`.
pub fn number(result: &Value, key: &str) -> Result<f64> {
    let value = result.pointer(&format!("/{key}")).and_then(Value::as_f64);
    value.ok_or_else(|| Error(format!("`{key}` is missing or no number in {result}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_tool_is_a_subcommand_or_in_an_older_commit_a_program() {
        let scratch = Scratch::new().expect("a directory of our own");
        let tools = Tools::in_directory(scratch.path());
        assert_eq!(repo::shown(&tools.command("write-bw")), "srnic_write_bw");
        fs::write(tools.program(), "").expect("written");
        assert_eq!(repo::shown(&tools.command("write-bw")), "srnic write-bw");
    }

    #[test]
    fn a_number_is_found_or_named() {
        let result = json!({ "lat_us": { "p99.9": 7.5 }, "size": "large" });
        assert_eq!(number(&result, "lat_us/p99.9"), Ok(7.5));
        assert!(number(&result, "size").expect_err("no number").0.starts_with("`size` is missing"));
        assert!(number(&result, "lat_us/p50").is_err());
    }
}
