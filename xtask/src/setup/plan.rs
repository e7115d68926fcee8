//! What to do about what is missing: a decision without side effects.

use std::fmt::Write as _;

use super::Finding;
use super::apt::{Privilege, command_line};
use crate::error::Error;

/// What setup does next.
#[derive(PartialEq, Eq, Debug)]
pub enum Plan {
    /// All is there.
    Nothing,
    /// Install these Debian packages.
    Install {
        /// Without duplicates, in the order of the needs.
        packages: Vec<&'static str>,
        /// How we may.
        privilege: Privilege,
    },
    /// Something that the build needs is missing and we may not install it: what the user does.
    Refuse(Error),
    /// Only optional things are missing and we may not install them.
    DoWithout(String),
}

/// Decides from the findings, the privilege (asked for only when something is missing) and whether
/// this system has `apt-get`.
pub fn decide(findings: &[Finding], privilege: impl FnOnce() -> Option<Privilege>, has_apt: bool) -> Plan {
    let missing: Vec<&Finding> = findings.iter().filter(|finding| finding.found.is_err()).collect();
    if missing.is_empty() {
        return Plan::Nothing;
    }
    let packages = packages_of(&missing);
    if has_apt && let Some(privilege) = privilege() {
        return Plan::Install { packages, privilege };
    }
    let mut text = String::from("missing on this machine:");
    for finding in &missing {
        let Finding { need, .. } = finding;
        let optional = if finding.is_required_and_missing() { "" } else { ", optional" };
        let _ = write!(text, "\n  {}: {} (for {}{optional})", need.name, finding.reason(), need.purpose);
    }
    if has_apt {
        let by_root = command_line(&packages, Privilege::Sudo);
        let _ = write!(
            text,
            "\nInstalling it needs root, and `sudo -n` does not give it. Run\n  sudo apt-get update\n  {by_root}"
        );
    } else {
        text.push_str("\nThis system has no apt-get.");
        for finding in &missing {
            let _ = write!(text, "\n  {}", finding.need.by_hand);
        }
    }
    if missing.iter().any(|finding| finding.is_required_and_missing()) {
        text.push_str("\nand then this command again.");
        Plan::Refuse(Error(text))
    } else {
        Plan::DoWithout(text)
    }
}

fn packages_of(missing: &[&Finding]) -> Vec<&'static str> {
    let mut packages = Vec::new();
    for package in missing.iter().flat_map(|finding| finding.need.packages) {
        if !packages.contains(package) {
            packages.push(*package);
        }
    }
    packages
}

#[cfg(test)]
mod tests;
