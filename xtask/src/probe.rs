//! `cargo xtask probe-capsule`: whether the crates that bind to DPDK still do not build, as
//! docs/adr/0002-pmd-bindings.md says. It builds them from crates.io, in a directory of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{Error, Result};
use crate::repo;
use crate::scratch::Scratch;
use crate::setup;

/// What an attempt gives the build.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Help {
    Nothing,
    /// The paths and flags of DPDK's headers.
    Headers,
    /// Those, and an empty header in the place of one that DPDK no longer has.
    EmptyKni,
}

/// A build that fails, and by what one knows that it failed as it did.
struct Attempt {
    package: &'static str,
    version: &'static str,
    help: Help,
    /// Part of its output.
    sign: &'static str,
}

const ATTEMPTS: &[Attempt] = &[
    Attempt { package: "capsule", version: "0.1.5", help: Help::Nothing, sign: "rte_errno.h: No such file" },
    Attempt { package: "capsule", version: "0.1.5", help: Help::Headers, sign: "'rte_kni.h' file not found" },
    Attempt { package: "capsule", version: "0.1.5", help: Help::EmptyKni, sign: "error[E0588]: packed type" },
    Attempt { package: "dpdk-sys", version: "0.1.5", help: Help::Nothing, sign: "x86_64-linux-musl-gcc" },
];
/// Lines of an attempt's output that are shown, and characters of each.
const SHOWN: (usize, usize) = (6, 120);

/// Tries each; an error if one builds, or fails in another way.
pub fn run() -> Result<()> {
    setup::implied(setup::BUILD)?;
    let scratch = Scratch::new()?;
    let mut surprises = Vec::new();
    for attempt in ATTEMPTS {
        let title = attempt.title();
        println!("==> {title}");
        let output = attempt
            .command(scratch.path())?
            .output()
            .map_err(|e| Error(format!("cannot start cargo: {e}")))?;
        let said = String::from_utf8_lossy(&output.stderr);
        complaints(&said).for_each(|line| println!("    {line}"));
        if output.status.success() {
            surprises.push(format!("{title} builds"));
        } else if !said.contains(attempt.sign) {
            surprises.push(format!("{title} fails, but nothing says `{}`", attempt.sign));
        }
    }
    if surprises.is_empty() {
        println!("None of them builds: docs/adr/0002-pmd-bindings.md holds.");
        return Ok(());
    }
    let surprises = surprises.join("; ");
    Err(Error(format!("docs/adr/0002-pmd-bindings.md needs another look: {surprises}")))
}

/// The lines of a build's output that say what is wrong, the beginning of the first of them.
fn complaints(output: &str) -> impl Iterator<Item = String> {
    let says = |line: &&str| {
        let wrong = ["error", "FAIL", "not found"].iter().any(|word| line.contains(word));
        wrong && !line.starts_with("Compiling") && !line.starts_with("Downloaded")
    };
    let (lines, length) = SHOWN;
    output
        .lines()
        .map(str::trim)
        .filter(says)
        .take(lines)
        .map(move |line| line.chars().take(length).collect())
}

impl Attempt {
    fn title(&self) -> String {
        let Self { package, version, .. } = self;
        let help = match self.help {
            Help::Nothing => "",
            Help::Headers => ", told where DPDK's headers are",
            Help::EmptyKni => ", given an empty rte_kni.h as well",
        };
        format!("{package} {version}{help}")
    }

    /// Builds a library that depends on the package.
    fn command(&self, scratch: &Path) -> Result<Command> {
        let project = scratch.join(self.package);
        write(&project.join("src/lib.rs"), "")?;
        write(&project.join("Cargo.toml"), &self.manifest())?;
        let mut command = repo::cargo(&["build"]);
        command
            .current_dir(&project)
            .env("CARGO_TARGET_DIR", project.join("target"))
            .env("CARGO_TERM_COLOR", "never");
        if self.help != Help::Nothing {
            let mut paths = header_paths()?;
            if self.help == Help::EmptyKni {
                write(&project.join("kni/rte_kni.h"), "")?;
                paths.push(project.join("kni"));
            }
            let list = |separator: &str, before: &str| {
                let parts: Vec<String> =
                    paths.iter().map(|path| format!("{before}{}", path.display())).collect();
                parts.join(separator)
            };
            command.env("CFLAGS", list(" ", "-I") + " -include rte_config.h").env("CPATH", list(":", ""));
        }
        Ok(command)
    }

    fn manifest(&self) -> String {
        let Self { package, version, .. } = self;
        format!(
            "[package]\nname = \"try-{package}\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n\
             [dependencies]\n{package} = \"={version}\"\n\n[workspace]\n"
        )
    }
}

/// Where pkg-config says that DPDK's headers are.
fn header_paths() -> Result<Vec<PathBuf>> {
    let output =
        Command::new("pkg-config").args(["--cflags-only-I", "--keep-system-cflags", "libdpdk"]).output();
    let output = output.map_err(|e| Error(format!("cannot start pkg-config: {e}")))?;
    let flags = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(flags.split_whitespace().filter_map(|flag| flag.strip_prefix("-I")).map(PathBuf::from).collect())
}

fn write(path: &Path, text: &str) -> Result<()> {
    let directory = path.parent().unwrap_or(path);
    fs::create_dir_all(directory).map_err(|e| Error::io("create", directory, &e))?;
    fs::write(path, text).map_err(|e| Error::io("write", path, &e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_complaints_are_shown() {
        let output =
            "  Compiling thiserror\nerror: failed to run\n  x.c:1: fatal error: y.h: No such file\nnote: z\n";
        let shown: Vec<String> = complaints(output).collect();
        assert_eq!(shown, ["error: failed to run", "x.c:1: fatal error: y.h: No such file"]);
    }

    #[test]
    fn the_record_tells_of_each_attempt() {
        let record =
            fs::read_to_string(repo::root().join("docs/adr/0002-pmd-bindings.md")).expect("the record");
        for attempt in ATTEMPTS {
            assert!(
                record.contains(&format!("`{}` {}", attempt.package, attempt.version)),
                "{}",
                attempt.title()
            );
            assert!(record.contains(attempt.sign), "{}", attempt.sign);
        }
    }
}
