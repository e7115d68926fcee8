//! The perftest-like programs, run as pairs of processes.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::error::{Error, Result};
use crate::process::{Process, free_port, watch};
use crate::repo::{self, RELEASE, cargo};
use crate::scratch::Scratch;
use crate::setup;

/// Longest run of a pair: an order of magnitude more than any takes.
const LIMIT: Duration = Duration::from_secs(100);

/// Where the programs are.
pub struct Tools {
    directory: PathBuf,
}

/// One run of a program: its server, and then its client.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// The program's name.
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
    /// Builds all programs of the checked-out sources.
    pub fn build() -> Result<Self> {
        Self::build_those(&["--bins"], RELEASE)
    }

    /// Builds no more than these: each is linked and optimised as a whole, which takes longer than
    /// to run it.
    pub fn build_only(programs: &BTreeSet<&str>, profile: &str) -> Result<Self> {
        let selected: Vec<&str> = programs.iter().flat_map(|program| ["--bin", program]).collect();
        Self::build_those(&selected, profile)
    }

    fn build_those(selected: &[&str], profile: &str) -> Result<Self> {
        setup::implied(setup::BUILD)?;
        let mut build = cargo(&["build", "--profile", profile, "-p", "srnic-tools"]);
        build.args(selected);
        println!("building the programs; the first time this takes some minutes");
        repo::run(build)?;
        Ok(Self { directory: repo::target_directory()?.join(profile) })
    }

    /// Builds one program for perf, in a target directory of its own, as other flags have
    /// everything built again: with frame pointers, by which stacks are walked, and its functions
    /// as far into the file as into memory, which perf and `addr2line` then count alike.
    pub fn build_for_perf(program: &str) -> Result<Self> {
        setup::implied(setup::BUILD)?;
        let target = repo::target_directory()?.join("flame");
        let mut build = cargo(&["rustc", "--release", "-p", "srnic-tools", "--bin", program]);
        build.args(["--", "-C", "link-arg=-Wl,-z,separate-loadable-segments"]);
        build.env("RUSTFLAGS", "-C force-frame-pointers=yes").env("CARGO_TARGET_DIR", &target);
        repo::run(build)?;
        Ok(Self { directory: target.join("release") })
    }

    /// Takes the programs that are in `directory`.
    pub fn in_directory(directory: &Path) -> Self {
        Self { directory: directory.to_path_buf() }
    }

    /// The path of a program.
    pub fn path(&self, tool: &str) -> PathBuf {
        self.directory.join(tool)
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
            let mut command = launch(side, &self.path(run.tool));
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
    fn a_number_is_found_or_named() {
        let result = json!({ "lat_us": { "p99.9": 7.5 }, "size": "large" });
        assert_eq!(number(&result, "lat_us/p99.9"), Ok(7.5));
        assert!(number(&result, "size").expect_err("no number").0.starts_with("`size` is missing"));
        assert!(number(&result, "lat_us/p50").is_err());
    }
}
