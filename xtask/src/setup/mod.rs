//! `cargo xtask setup`: what the build needs from the system, and how it gets there.

mod apt;
mod needs;
mod plan;

use apt::Privilege;
use needs::{NEEDS, Need};
use plan::Plan;

use crate::error::{Error, Result};

/// Which needs a task has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// What the build cannot do without.
    Build,
    /// That, and the tools which some tests use when they are there.
    Everything,
}

/// A need and what the machine has for it: a version or a place, or why it is missing.
struct Finding {
    need: &'static Need,
    found: Result<String>,
}

/// The task that the user called: shows each need, installs what is missing.
pub fn explicit() -> Result<()> {
    let findings = satisfy(Scope::Everything)?;
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

/// The first step of another task: silent when nothing is missing.
pub fn implied(scope: Scope) -> Result<()> {
    satisfy(scope).map(drop)
}

fn satisfy(scope: Scope) -> Result<Vec<Finding>> {
    let findings = probe(scope);
    match plan::decide(&findings, Privilege::of_this_process, apt::is_here()) {
        Plan::Nothing => return Ok(findings),
        Plan::Install { packages, privilege } => apt::install(&packages, privilege, &findings)?,
        Plan::Refuse(error) => return Err(error),
        Plan::DoWithout(note) => {
            eprintln!("{note}");
            return Ok(findings);
        }
    }
    let findings = probe(scope);
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

fn probe(scope: Scope) -> Vec<Finding> {
    NEEDS
        .iter()
        .filter(|need| scope == Scope::Everything || !need.optional)
        .map(|need| Finding { need, found: (need.probe)() })
        .collect()
}

impl Finding {
    fn is_required_and_missing(&self) -> bool {
        self.found.is_err() && !self.need.optional
    }

    /// Why it is missing; empty if it is there.
    fn reason(&self) -> &str {
        self.found.as_ref().err().map_or("", |error| &error.0)
    }
}
