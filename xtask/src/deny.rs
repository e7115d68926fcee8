//! Part of `cargo xtask lint`: cargo-deny looks at what the workspace depends on, by the rules of
//! deny.toml.
//!
//! The database of advisories is no package: where it cannot be fetched that is said, and the rest
//! is checked: docs/adr/0035.

use std::path::PathBuf;
use std::process::Command;

use crate::error::{Error, Result};
use crate::registry;
use crate::repo;

const VERSION: &str = "0.20.2";
/// What cargo-deny says when the database of advisories cannot be had.
const NO_DATABASE: &str = "failed to fetch advisory database";

/// Fails if a dependency has a license, a source or a version that deny.toml does not allow, or a
/// known vulnerability.
pub fn check() -> Result<()> {
    let program = registry::installed("cargo-deny", VERSION)?;
    repo::run(checking(&program, &["bans", "licenses", "sources"]))?;
    let mut advisories = checking(&program, &["advisories"]);
    let output = advisories.output().map_err(|e| Error(format!("cannot start cargo-deny: {e}")))?;
    let said = String::from_utf8_lossy(&output.stderr);
    match advice(output.status.success(), &said) {
        Advice::Clean => println!("advisories ok"),
        Advice::Unknown => println!(
            "advisories NOT checked: their database, which is no package, cannot be fetched from this machine"
        ),
        Advice::Bad => return Err(Error(format!("an advisory concerns a dependency:\n{said}"))),
    }
    Ok(())
}

fn checking(program: &PathBuf, what: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(["--log-level", "error", "check", "--hide-inclusion-graph"]).args(what);
    command.current_dir(repo::root());
    command
}

/// What the advisories say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Advice {
    Clean,
    Bad,
    Unknown,
}

fn advice(succeeded: bool, said: &str) -> Advice {
    match succeeded {
        true => Advice::Clean,
        false if said.contains(NO_DATABASE) => Advice::Unknown,
        false => Advice::Bad,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_that_cannot_be_fetched_is_no_advisory() {
        let offline =
            "[ERROR] failed to fetch advisory database https://example.org with cli: failed to clone";
        assert_eq!(advice(false, offline), Advice::Unknown);
        assert_eq!(advice(false, "error[vulnerability]: a crate"), Advice::Bad);
        assert_eq!(advice(true, ""), Advice::Clean);
    }
}
