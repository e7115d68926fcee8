//! `cargo xtask test`: each crate tested as it is used, then all of them together.

use std::process::Command;

use crate::error::Result;
use crate::lint::EVERY_FEATURE;
use crate::repo::{self, CHECKED, RELEASE, cargo};
use crate::steps::Steps;
use crate::{demo, fuzz, packages, setup, sim};

/// Crates that are tested alone, in the order of their dependencies, with the arguments that select
/// them.
///
/// Building the workspace unifies features, so a crate that builds only there would go unseen; and
/// what has no DPDK in it is what users' own tests run on.
const ALONE: &[(&str, &[&str])] = &[
    ("wire", &["-p", "srnic-wire"]),
    // Optimised: what the compiler makes of its loops decides how often a byte is read. As tests
    // are compiled otherwise, it runs with the whole workspace.
    ("icrc", &["-p", "srnic-icrc", "--profile", CHECKED]),
    ("cc-dctcp", &["-p", "cc-dctcp"]),
    ("sr-recovery", &["-p", "sr-recovery"]),
    ("rdma-cm", &["-p", "rdma-cm"]),
    ("datapath without dpdk", &["-p", "srnic-datapath", "--no-default-features", "--config", OPTIMISED]),
    // The rest of it is the same code, and was just run.
    ("datapath's dpdk ports", &["-p", "srnic-datapath", "--features", "dpdk", "--lib", "port::dpdk"]),
    ("simnet", &["-p", "srnic-simnet", "--config", OPTIMISED]),
    // What goes over every port; the whole workspace has the rest again, and everything was
    // compiled by lint.
    ("verbs-api without dpdk", WITHOUT_DPDK),
    // Optimised: it lives on the number of schedules that it gets through.
    ("model", &["-p", "srnic-model", "--profile", CHECKED]),
    // Optimised: simulated time is bought with instructions.
    ("fabric", &["-p", "srnic-fabric", "--profile", CHECKED]),
    ("workload", &["-p", "srnic-workload", "--features", "planted", "--profile", CHECKED]),
    (
        "incast of streams",
        &["-p", "srnic-tests", "--profile", CHECKED, "--test", "incast", "--", "--ignored"],
    ),
];

/// What has the engine optimised, with all assertions.
const OPTIMISED: &str = "tests/simnet/optimised.toml";

/// Tests of verbs-api over ports that need no DPDK.
const WITHOUT_DPDK: &[&str] = &[
    "-p",
    "verbs-api",
    "--no-default-features",
    "--lib",
    "--test",
    "categories",
    "--test",
    "engines",
    "--test",
    "pair",
];

/// Members of the workspace to whose tests the others add nothing: the run alone says it all.
const SAID: &[&str] = &[
    "srnic-wire",
    "cc-dctcp",
    "sr-recovery",
    "rdma-cm",
    "srnic-datapath",
    "srnic-simnet",
    "srnic-model",
    "srnic-fabric",
    "srnic-workload",
];

/// Members whose dependencies take longer to build than their tests take: lint compiles them, and
/// `--all` plays them.
const HEAVY: &[&str] = &["srnic-streams-examples", "srnic-bench-quic"];

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
    let mut steps = Steps::default();
    for (name, args) in ALONE {
        steps.command(name, test(args));
    }
    for (package, features) in LOOM {
        steps.command(&format!("{package} under loom"), loom(package, features));
    }
    let mut workspace = vec!["--workspace"];
    workspace.extend(EVERY_FEATURE);
    let heavy: &[&str] = if all { &[] } else { HEAVY };
    workspace.extend(SAID.iter().chain(heavy).flat_map(|member| ["--exclude", *member]));
    steps.command("workspace", test(&workspace));
    let (seeds, profile) = if all { (SWARM_SEEDS.1, RELEASE) } else { (SWARM_SEEDS.0, CHECKED) };
    steps.command("swarm", sim::swarm(1, seeds, profile));
    steps.command("hostile peer of streams", fuzz::streams(1, fuzz::STREAMS_SECONDS));
    if all {
        steps.check("packages of the tools, too", packages::check_all);
        for long in LONG {
            steps.command(long.name, long.command());
        }
    }
    // Last: from here on Ctrl-C is remembered instead of ending us at once.
    steps.check("demo", || demo::run(demo::Source::SMALL, demo::Programs::Built(CHECKED)));
    steps.finish()
}

/// `cargo test`, and not nextest: a fresh machine has only the former, and it runs the doc tests.
///
/// Property tests draw the same cases in each run, or a commit would pass today and fail tomorrow;
/// set `PROPTEST_RNG_SEED`, or run `cargo test`, for others.
fn test(args: &[&str]) -> Command {
    let mut command = cargo(&["test", "--no-fail-fast"]);
    command.args(args);
    if std::env::var_os(PROPTEST_SEED).is_none() {
        command.env(PROPTEST_SEED, "1");
    }
    command
}

/// What has models for loom, and with which features.
const LOOM: [(&str, &[&str]); 2] = [("srnic-datapath", &["--no-default-features"]), ("sr-recovery", &[])];

/// The models of a package, in a target directory of their own: the flag would have everything
/// built again.
fn loom(package: &str, features: &[&str]) -> Command {
    let mut command = cargo(&["test", "-p", package, "--lib", "loom_"]);
    command.args(features);
    command.env("RUSTFLAGS", "--cfg loom").env("CARGO_TARGET_DIR", repo::root().join("target/loom"));
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

    #[test]
    fn what_was_run_alone_is_a_member_and_not_run_twice() {
        for member in SAID {
            assert!(ALONE.iter().any(|(_, args)| args.contains(member)), "{member} is not tested at all");
        }
    }
}
