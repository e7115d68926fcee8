//! `cargo xtask test`: each crate tested as it is used, then all of them together.

use std::process::Command;

use crate::error::Result;
use crate::repo::cargo;
use crate::setup;
use crate::steps::Steps;

/// Crates that are tested alone, in the order of their dependencies, with the arguments that select them.
///
/// Building the workspace unifies features, so a crate that builds only there would go unseen; and `datapath`
/// without DPDK is what users' own tests run on.
const ALONE: &[(&str, &[&str])] = &[
    ("wire", &["-p", "wire"]),
    ("cc-dctcp", &["-p", "cc-dctcp"]),
    ("sr-recovery", &["-p", "sr-recovery"]),
    ("datapath without dpdk", &["-p", "datapath", "--no-default-features"]),
    ("simnet", &["-p", "simnet"]),
    // Optimised: it lives on the number of schedules that it gets through.
    ("model", &["-p", "srnic-model", "--release"]),
];

/// Members of the workspace that depend on no optional feature of another member: the run alone says it all.
const SAID: &[&str] = &["wire", "cc-dctcp", "sr-recovery", "simnet", "srnic-model"];

/// All tests; `all` adds those marked `#[ignore]` because they are long.
pub fn run(all: bool) -> Result<()> {
    setup::implied(setup::Scope::Everything)?;
    let mut steps = Steps::default();
    for (name, args) in ALONE {
        steps.command(name, test(args));
    }
    let mut workspace = vec!["--workspace"];
    workspace.extend(SAID.iter().flat_map(|member| ["--exclude", *member]));
    steps.command("workspace", test(&workspace));
    if all {
        steps.command("long runs", test(&["--workspace", "--release", "--", "--ignored"]));
    }
    steps.finish()
}

/// `cargo test`, and not nextest: a fresh machine has only the former, and it runs the doc tests.
fn test(args: &[&str]) -> Command {
    let mut command = cargo(&["test", "--no-fail-fast"]);
    command.args(args);
    command
}
