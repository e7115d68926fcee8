//! `cargo xtask test`: the whole workspace in one build, what builds without DPDK, and models.

use std::path::Path;
use std::process::Command;

use crate::error::Result;
use crate::lint::EVERY_FEATURE;
use crate::repo::{self, CHECKED, cargo};
use crate::steps::Steps;
use crate::{demo, fuzz, packages, programs, setup, sim};

/// Tests of verbs-api over ports that need no DPDK. The whole workspace has the rest again, and
/// lint compiles everything.
const WITHOUT_DPDK: &[&str] =
    &["-p", "verbs-api", "--no-default-features", "--lib", "--test", "engines", "--test", "pair"];

/// Members whose dependencies take longer to build than their tests take: lint compiles them, and
/// `--all` plays them.
const HEAVY: &[&str] = &["srnic-streams-examples", "srnic-bench-quic"];

/// The name of a step.
const HOSTILE: &str = "hostile peer of streams";

/// The variable that fixes the cases of property tests.
const PROPTEST_SEED: &str = "PROPTEST_RNG_SEED";

/// Seeds of the short swarm and of the long one.
const SWARM_SEEDS: (u64, u64) = (1_000, 10_000);

/// A test that is marked `#[ignore]` because it is long.
struct LongRun {
    /// What the table calls it.
    name: &'static str,
    package: &'static str,
    /// The file in the package's `tests/`, without `.rs`, or the directory.
    target: &'static str,
    /// The function.
    test: &'static str,
}

/// By name, because not every ignored test is a long one: some are played by hand, or by another
/// test.
const LONG: &[LongRun] = &[
    LongRun {
        name: "model: a million schedules",
        package: "srnic-model",
        target: "schedules",
        test: "million",
    },
    LongRun {
        name: "peers killed, a hundred each",
        package: "srnic-benches",
        target: "kill",
        test: "a_hundred_victims",
    },
    LongRun {
        name: "every operation, a gibibyte, 1 % loss",
        package: "srnic-benches",
        target: "operations",
        test: "a_gibibyte",
    },
    LongRun {
        name: "a thousand ends each way, 1 % loss",
        package: "srnic-benches",
        target: "leaving",
        test: "a_thousand_ends",
    },
    LongRun {
        name: "soak, a million operations",
        package: "srnic-benches",
        target: "soak",
        test: "nothing_is_left_of_a_million_random_operations",
    },
    LongRun {
        name: "every victim beside every attacker",
        package: "srnic-workload",
        target: "isolate",
        test: "every_victim_keeps_its_share_beside_every_attacker",
    },
];

impl LongRun {
    fn command(&self) -> Command {
        let Self { package, target, test: name, .. } = *self;
        test(&[
            "--release",
            "-p",
            package,
            "--test",
            target,
            "--",
            "--ignored",
            "--exact",
            name,
            "--nocapture",
        ])
    }
}

/// All tests; `all` adds those marked `#[ignore]` because they are long.
pub fn run(all: bool) -> Result<()> {
    setup::implied(setup::TESTS)?;
    let target = repo::target_directory()?;
    let built = target.join(CHECKED);
    let mut steps = Steps::default();
    let mut workspace = Vec::new();
    steps.check("build", || {
        workspace = programs::built(everything(all))?;
        Ok(())
    });
    steps.check("workspace", || programs::play(&workspace, seeded));
    if all {
        steps.command("swarm", sim::optimised(1, SWARM_SEEDS.1));
    } else {
        steps.command("swarm", sim::swarm(Command::new(built.join("swarm")), 1, SWARM_SEEDS.0));
    }
    let others = |steps: &mut Steps| {
        let mut documents = everything(all);
        documents.arg("--doc");
        steps.command("doc tests", documents);
        // What users' own tests run on.
        steps.command("verbs-api without dpdk", test(WITHOUT_DPDK));
        steps.command("loom", loom(&target));
    };
    match fuzz::streams(&workspace, 1, fuzz::STREAMS_SECONDS) {
        Ok(hostile) => steps.beside(HOSTILE, hostile, others),
        Err(error) => {
            steps.check(HOSTILE, || Err(error));
            others(&mut steps);
        }
    }
    if all {
        steps.check("packages of the tools, too", packages::check_all);
        for long in LONG {
            steps.command(long.name, long.command());
        }
    }
    // Last: from here on Ctrl-C is remembered instead of ending us at once.
    steps.check("demo", || demo::run(demo::Source::SMALL, demo::Programs::In(&built)));
    steps.finish()
}

/// Tests of the workspace, optimised, with all assertions. Each call selects what each other does,
/// so that nothing is built twice: Cargo unifies the features of what is selected. That a member
/// builds without the others is for lint to say, which makes packages of them.
fn everything(all: bool) -> Command {
    let mut command = test(&["--profile", CHECKED, "--workspace"]);
    command.args(EVERY_FEATURE);
    let heavy: &[&str] = if all { &[] } else { HEAVY };
    command.args(heavy.iter().flat_map(|member| ["--exclude", *member]));
    command
}

/// `cargo test`, and not nextest: a fresh machine has only the former, and it runs the doc tests.
fn test(args: &[&str]) -> Command {
    let mut command = cargo(&["test", "--no-fail-fast"]);
    command.args(args);
    seeded(&mut command);
    command
}

/// Property tests draw the same cases in each run, or a commit would pass today and fail tomorrow;
/// set `PROPTEST_RNG_SEED`, or run `cargo test`, for others.
fn seeded(command: &mut Command) {
    if std::env::var_os(PROPTEST_SEED).is_none() {
        command.env(PROPTEST_SEED, "1");
    }
}

/// The models for loom, in a target directory of their own: the flag would have everything built
/// again.
fn loom(target: &Path) -> Command {
    let packages = ["-p", "srnic-datapath", "-p", "sr-recovery"];
    let mut command = cargo(&["test", "--no-fail-fast", "--no-default-features", "--lib"]);
    command.args(packages).arg("loom_");
    command.env("RUSTFLAGS", "--cfg loom").env("CARGO_TARGET_DIR", target.join("loom"));
    command
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repo;

    /// A name that matches nothing would pass: `cargo test` runs none and is content.
    #[test]
    fn each_long_run_is_there_and_ignored() {
        let member = |package: &str| match package {
            "srnic-model" => "tests/model",
            "srnic-benches" => "benches",
            "srnic-workload" => "workload",
            other => panic!("where is {other}?"),
        };
        for long in LONG {
            let tests = repo::root().join(member(long.package)).join("tests");
            let one_file = tests.join(long.target).with_extension("rs");
            let file = if one_file.exists() { one_file } else { tests.join(long.target).join("main.rs") };
            let source = std::fs::read_to_string(&file).expect("the file of a long run");
            let (before, _) =
                source.split_once(&format!("fn {}()", long.test)).expect("the function of a long run");
            let attributes = before.rsplit("\n\n").next().unwrap_or_default();
            assert!(attributes.contains("#[ignore"), "{} runs anyway", long.test);
        }
    }
}
