//! Debian's package manager.

use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};

use super::Finding;
use crate::error::{Error, Result};
use crate::repo;

/// How we may install packages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Privilege {
    /// We are root.
    Root,
    /// Through `sudo`, without a password.
    Sudo,
}

impl Privilege {
    /// What this process has; `None` if it may install nothing.
    pub fn of_this_process() -> Option<Self> {
        // /proc/self belongs to the effective user.
        if std::fs::metadata("/proc/self").is_ok_and(|me| me.uid() == 0) {
            return Some(Self::Root);
        }
        succeeds("sudo", &["-n", "true"]).then_some(Self::Sudo)
    }
}

/// Returns `true` if this system has apt-get.
pub fn is_here() -> bool {
    succeeds("apt-get", &["--version"])
}

/// Options of every call: another apt may hold the lock for a while, and a package may want to ask
/// something.
const OPTIONS: &[&str] = &["-y", "-o", "DPkg::Lock::Timeout=120"];

/// Installs `packages`. Those of optional needs are tried on their own if all together fail.
pub fn install(packages: &[&str], privilege: Privilege, findings: &[Finding]) -> Result<()> {
    println!("installing {}", packages.join(" "));
    // A fresh machine has no package lists, an old one has stale ones. A failing mirror need not
    // matter: the installation says whether it does.
    if let Err(error) = repo::run(apt_get(privilege, "update", &[])) {
        eprintln!("{error}");
    }
    let Err(error) = repo::run(apt_get(privilege, "install", packages)) else {
        return Ok(());
    };
    let required: Vec<&str> = findings
        .iter()
        .filter(|finding| finding.is_required_and_missing())
        .flat_map(|finding| finding.need.packages.iter().copied())
        .collect();
    let failed = |error: Error| {
        Error(format!(
            "{error}\nRun `{}` by hand and look at what it says.",
            command_line(packages, privilege)
        ))
    };
    if required.len() == packages.len() {
        return Err(failed(error));
    }
    eprintln!("{error}; trying without the optional packages");
    if required.is_empty() {
        return Ok(());
    }
    repo::run(apt_get(privilege, "install", &required)).map_err(failed)
}

fn apt_get(privilege: Privilege, verb: &str, packages: &[&str]) -> Command {
    let mut command = match privilege {
        Privilege::Root => Command::new("env"),
        Privilege::Sudo => {
            let mut sudo = Command::new("sudo");
            sudo.args(["-n", "env"]);
            sudo
        }
    };
    // Through `env`, because sudo drops the environment.
    command.args(["DEBIAN_FRONTEND=noninteractive", "apt-get", verb]).args(OPTIONS);
    if verb == "install" {
        command.arg("--no-install-recommends").args(packages);
    }
    command.stdin(Stdio::null());
    command
}

/// The installation as a person would type it.
pub fn command_line(packages: &[&str], privilege: Privilege) -> String {
    let sudo = if privilege == Privilege::Sudo { "sudo " } else { "" };
    format!("{sudo}apt-get install -y --no-install-recommends {}", packages.join(" "))
}

fn succeeds(program: &str, args: &[&str]) -> bool {
    Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn apt_never_asks_and_waits_for_the_lock() {
        let command = repo::shown(&apt_get(Privilege::Sudo, "install", &["tshark"]));
        assert_eq!(
            command,
            "sudo -n env DEBIAN_FRONTEND=noninteractive apt-get install -y -o DPkg::Lock::Timeout=120 \
             --no-install-recommends tshark"
        );
        let command = repo::shown(&apt_get(Privilege::Root, "update", &["ignored"]));
        assert_eq!(
            command,
            "env DEBIAN_FRONTEND=noninteractive apt-get update -y -o DPkg::Lock::Timeout=120"
        );
    }

    #[test]
    fn a_person_types_it_shorter() {
        assert_eq!(
            command_line(&["gcc", "libdpdk-dev"], Privilege::Root),
            "apt-get install -y --no-install-recommends gcc libdpdk-dev"
        );
    }
}
