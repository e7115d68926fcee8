//! `cargo xtask lint`: everything that is wrong without running anything.

use crate::error::Result;
use crate::repo::cargo;
use crate::steps::Steps;
use crate::{api, comments, cycles, deny, docs, packages, records, sections, setup};

/// The features that no member switches on.
pub const EVERY_FEATURE: [&str; 2] =
    ["--features", "verbs-api/tokio,srnic-streams/tokio,srnic-workload/planted"];

/// Runs all checks: formatting, clippy on the whole workspace with all features and on what builds
/// without DPDK, rustdoc, the documents' references, the form of decisions and comments, imports in
/// circles, the public API, dependencies, and packages.
pub fn run() -> Result<()> {
    setup::implied(setup::BUILD)?;
    let mut steps = Steps::default();
    steps.command("format", cargo(&["fmt", "--all", "--check"]));
    let mut all = cargo(&["clippy", "--workspace", "--all-targets"]);
    all.args(EVERY_FEATURE).args(["--", "-D", "warnings"]);
    steps.command("clippy", all);
    // On its own: in the workspace other crates switch the `dpdk` feature on. With futures, and
    // without tokio.
    let mut without_dpdk =
        cargo(&["clippy", "-p", "srnic-datapath", "-p", "verbs-api", "--no-default-features"]);
    without_dpdk.args(["--features", "verbs-api/async", "--all-targets", "--", "-D", "warnings"]);
    steps.command("clippy without dpdk", without_dpdk);
    let mut doc = cargo(&["doc", "--workspace", "--no-deps", "--document-private-items"]);
    doc.args(EVERY_FEATURE).env("RUSTDOCFLAGS", "-D warnings");
    steps.command("rustdoc", doc);
    steps.check("documents", docs::check);
    steps.check("decisions", records::check);
    steps.check("sections", sections::check);
    steps.check("comments", comments::check);
    steps.check("import cycles", cycles::check);
    steps.check("public API", api::check);
    steps.check("dependencies", deny::check);
    steps.check("packages", packages::check);
    steps.finish()
}
