//! `cargo xtask bench --against REV`: the programs of this checkout beside those of another commit,
//! in turn.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Map, Value, json};

use super::Bench;
use super::bracket::{self, Bracket};
use super::contender::{CONTENDERS, Contender};
use super::samples::median;
use super::table;
use crate::error::{Error, Result};
use crate::repo;
use crate::tools::{PACKAGE, Tools};

/// Another commit, checked out in a directory that goes away with this.
struct Checkout {
    directory: PathBuf,
}

impl Checkout {
    fn new(bench: &Bench<'_>, revision: &str) -> Result<Self> {
        let directory = bench.scratch.path().join("against");
        let mut git = git(&["worktree", "add", "--quiet", "--detach"]);
        repo::run({
            git.arg(&directory).arg(revision);
            git
        })?;
        Ok(Self { directory })
    }

    /// Builds its programs. What they are built from stays in this checkout's target directory, for
    /// the next time.
    fn build(&self) -> Result<Tools> {
        let target = repo::target_directory()?.join("against");
        fs::create_dir_all(&target).map_err(|e| Error::io("create", &target, &e))?;
        let mut cargo = repo::cargo(&["build", "--release", "--bins", "-p", self.package()]);
        cargo.current_dir(&self.directory).env("CARGO_TARGET_DIR", &target);
        repo::run(cargo)?;
        let tools = Tools::in_directory(&target.join("release"));
        let knows_drivers =
            self.directory.join("docs/adr/0047-headers-of-shared-memory-are-copied.md").exists();
        Ok(if knows_drivers { tools } else { tools.before_driver_key() })
    }
}

impl Checkout {
    /// What has the programs: the benchmarks, in commits before docs/adr/0046.
    fn package(&self) -> &'static str {
        let split = self.directory.join("benches/tools").exists();
        if split { PACKAGE } else { "srnic-benches" }
    }
}

impl Drop for Checkout {
    fn drop(&mut self) {
        let mut git = git(&["worktree", "remove", "--force"]);
        git.arg(&self.directory);
        if let Err(error) = repo::run(git) {
            eprintln!("{error}");
        }
    }
}

fn git(args: &[&str]) -> Command {
    let mut git = Command::new("git");
    git.arg("-C").arg(repo::root()).args(args);
    git
}

/// Runs it, prints the table, and writes the file.
pub fn run(bench: &Bench<'_>, revision: &str) -> Result<()> {
    let checkout = Checkout::new(bench, revision)?;
    let theirs = checkout.build()?;
    let mut brackets: Vec<(&Contender, Vec<Bracket>)> =
        CONTENDERS.iter().filter(|contender| contender.is_ours()).map(|ours| (ours, Vec::new())).collect();
    let rounds = bench.rounds([3, 9], |_| {
        for (contender, brackets) in &mut brackets {
            let bracket = bracket::measure(
                || contender.measure(bench, &theirs),
                || contender.measure(bench, &bench.tools),
            )?;
            brackets.extend(bracket);
        }
        Ok(())
    })?;
    let keys = keys(&brackets);
    for (contender, brackets) in &brackets {
        println!("{}", line(contender, revision, brackets));
    }
    println!("\n{}\n{}", table::of_keys(&keys), bench.machine.line());
    let of =
        |brackets: &[Bracket]| brackets.iter().map(|b| json!([b.before, b.of, b.after])).collect::<Value>();
    let all: Value = brackets.iter().map(|(of_key, list)| (of_key.key.to_owned(), of(list))).collect();
    bench.write_json(&json!({ "against": revision, "rounds": rounds.done, "brackets": all }), &keys)?;
    rounds.end
}

/// Medians of ours over theirs: more is better for rates, less for latencies.
fn keys(brackets: &[(&Contender, Vec<Bracket>)]) -> Map<String, Value> {
    let ratio = |brackets: &[Bracket]| median(&brackets.iter().map(Bracket::ratio).collect::<Vec<_>>());
    brackets.iter().map(|(of, list)| (format!("{}_vs_before", of.key), json!(ratio(list)))).collect()
}

fn line(contender: &Contender, revision: &str, brackets: &[Bracket]) -> String {
    let of = |figure: fn(&Bracket) -> f64| median(&brackets.iter().map(figure).collect::<Vec<_>>());
    let [before, now] =
        [of(|b| f64::midpoint(b.before, b.after)), of(|b| b.of)].map(|v| v.unwrap_or(f64::NAN));
    let unit = contender.metric.unit();
    format!("{:40} {before:>10.2} {unit} at {revision}, {now:>10.2} {unit} here", contender.label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_stands_over_theirs() {
        let ours: Vec<_> = CONTENDERS.iter().filter(|contender| contender.is_ours()).collect();
        assert_eq!(
            ours.iter().map(|of| of.key).collect::<Vec<_>>(),
            [
                "bw_dpdk",
                "bw",
                "lat_dpdk",
                "lat",
                "rate_1qp_dpdk",
                "rate_64qp_dpdk",
                "rate_1qp",
                "rate_64qp",
                "rpc_1qp",
                "rpc_1qp_dpdk"
            ]
        );
        let list = vec![Bracket { before: 9.0, of: 12.0, after: 11.0 }];
        let brackets = [(ours[1], list.clone()), (ours[3], Vec::new())];
        let keys = keys(&brackets);
        assert_eq!((&keys["bw_vs_before"], &keys["lat_vs_before"]), (&json!(1.2), &Value::Null));
        assert_eq!(
            line(ours[1], "v0.1", &list),
            "srnic WRITE, 64 KiB                           10.00 Gb/s at v0.1,      12.00 Gb/s here"
        );
    }
}
