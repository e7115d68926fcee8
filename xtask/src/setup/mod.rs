//! `cargo xtask setup`: what the build needs from the system, and how it gets there.

mod apt;
mod needs;
mod plan;

use apt::Privilege;
pub use needs::verbs_in_c;
use needs::{NEEDS, Need};
use plan::Plan;

use crate::error::{Error, Result};

/// What a need is for. Only the build cannot do without.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// The build.
    Build,
    /// Tests that use a tool when it is there.
    Tests,
    /// perf, and programs of others that `bench compare` measures us beside.
    Bench,
    /// Programs that `bench streams --lossy` carries through the tunnel.
    Carried,
    /// The virtual machine that Linux soft-RoCE runs in.
    Interop,
    /// Verbs programs of others.
    Unmodified,
    /// What makes chroots of other distributions.
    Distributions,
}

/// What every task needs.
pub const BUILD: &[Scope] = &[Scope::Build];
/// What the tests need, if all are to run.
pub const TESTS: &[Scope] = &[Scope::Build, Scope::Tests];
/// What programs carried through the tunnel need.
pub const CARRIED: &[Scope] = &[Scope::Build, Scope::Tests, Scope::Carried];
/// What the runs against Linux soft-RoCE need.
pub const INTEROP: &[Scope] = &[Scope::Build, Scope::Tests, Scope::Interop];
/// What the runs of programs of others need. They need no DPDK.
pub const UNMODIFIED: &[Scope] = &[Scope::Unmodified];

/// What chroots of other distributions need.
pub const DISTRIBUTIONS: &[Scope] = &[Scope::Tests, Scope::Distributions];
/// A need and what the machine has for it: a version or a place, or why it is missing.
struct Finding {
    need: &'static Need,
    found: Result<String>,
}

/// The task that the user called: shows each need, installs what is missing.
pub fn explicit(wanted: &[(bool, Scope)]) -> Result<()> {
    let mut scopes = TESTS.to_vec();
    scopes.extend(wanted.iter().filter(|(wanted, _)| *wanted).map(|(_, scope)| *scope));
    let findings = satisfy(&scopes)?;
    for finding in &findings {
        match &finding.found {
            Ok(found) => println!("{:18} {found}", finding.need.name),
            Err(missing) => {
                println!("{:18} {missing} (optional: {})", finding.need.name, finding.need.purpose);
            }
        }
    }
    Ok(())
}

/// Returns `true` if this process may do everything.
pub fn is_root() -> bool {
    Privilege::of_this_process() == Some(Privilege::Root)
}

/// The first step of another task: silent when nothing is missing.
pub fn implied(scopes: &[Scope]) -> Result<()> {
    satisfy(scopes).map(drop)
}

fn satisfy(scopes: &[Scope]) -> Result<Vec<Finding>> {
    let findings = probe(scopes);
    match plan::decide(&findings, Privilege::of_this_process, apt::is_here()) {
        Plan::Nothing => return Ok(findings),
        Plan::Install { packages, privilege } => apt::install(&packages, privilege, &findings)?,
        Plan::Refuse(error) => return Err(error),
        Plan::DoWithout(note) => {
            eprintln!("{note}");
            return Ok(findings);
        }
    }
    let findings = probe(scopes);
    match findings.iter().find(|finding| finding.is_required_and_missing()) {
        None => Ok(findings),
        Some(finding) => Err(Error(format!(
            "the packages are installed, and still there is no usable {}: {}\n{}",
            finding.need.name,
            finding.reason(),
            finding.need.by_hand,
        ))),
    }
}

fn probe(scopes: &[Scope]) -> Vec<Finding> {
    let needs = NEEDS.iter().filter(|need| scopes.contains(&need.scope));
    needs.map(|need| Finding { need, found: (need.probe)() }).collect()
}

impl Finding {
    fn is_required_and_missing(&self) -> bool {
        self.found.is_err() && self.need.scope == Scope::Build
    }

    /// Why it is missing; empty if it is there.
    fn reason(&self) -> &str {
        self.found.as_ref().err().map_or("", |error| &error.0)
    }
}
