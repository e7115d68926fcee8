//! `cargo xtask dist`: what people are given who do not build it: the program with its links,
//! manual pages and completions, the drop-in libibverbs, and a Debian package with all of that.

mod depends;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::dropin;
use crate::error::{Error, Result};
use crate::registry;
use crate::repo::{self, RELEASE};
use crate::tools::{PACKAGE, Tools};

const CARGO_DEB: &str = "3.8.0";
/// Where it goes, below the root: the package's metadata names it, too.
const PLACE: &str = "target/dist";
/// What programs of others load, in a directory that the loader does not look at by itself.
const LIBRARIES: &str = "lib";
/// Each shell, and what it calls the file for `srnic`.
const COMPLETIONS: [(&str, &str); 3] = [("bash", "srnic"), ("zsh", "_srnic"), ("fish", "srnic.fish")];

/// Builds all of it.
pub fn run() -> Result<()> {
    need("dpkg-shlibdeps", "dpkg-dev")?;
    need("strip", "binutils")?;
    let built = Tools::build(RELEASE)?.program();
    let place = repo::root().join(PLACE);
    if place.exists() {
        fs::remove_dir_all(&place).map_err(|e| Error::io("remove", &place, &e))?;
    }
    let bin = directory(&place, "bin")?;
    let program = bin.join("srnic");
    fs::copy(&built, &program).map_err(|e| Error::io("write", &program, &e))?;
    repo::run(with_argument(&program, "link", &bin))?;
    repo::run(with_argument(&program, "man", &directory(&place, "man")?))?;
    for (shell, name) in COMPLETIONS {
        let file = directory(&place, shell)?.join(name);
        let script = repo::output(Command::new(&program).args(["completions", shell]))?;
        fs::write(&file, script).map_err(|e| Error::io("write", &file, &e))?;
    }
    libraries(&directory(&place, LIBRARIES)?)?;
    repo::run(package(&registry::installed("cargo-deb", CARGO_DEB)?, &place))?;
    let package = repo::files(&place, "deb")?.pop().ok_or_else(|| Error::new("cargo-deb made no package"))?;
    depends::merge(&package)?;
    check(&place, &package)
}

/// What programs of others load, without what only a debugger reads.
fn libraries(directory: &Path) -> Result<()> {
    let built = dropin::build(RELEASE)?;
    for entry in fs::read_dir(&built).map_err(|e| Error::io("list", &built, &e))?.flatten() {
        let library = directory.join(entry.file_name());
        fs::copy(entry.path(), &library).map_err(|e| Error::io("write", &library, &e))?;
        let mut strip = Command::new("strip");
        strip.arg("--strip-unneeded").arg(&library);
        repo::run(strip)?;
    }
    Ok(())
}

/// The package has every file beside it, the dissector and the dashboard.
fn check(place: &Path, package: &Path) -> Result<()> {
    let listing = repo::output(Command::new("dpkg-deb").arg("--contents").arg(package))?;
    let missing = missing(&listing, &names(place)?);
    if missing.is_empty() {
        println!("{}", package.display());
        return Ok(());
    }
    Err(Error(format!("{} lacks {}", package.display(), missing.join(", "))))
}

/// What is to be in the package, by the names of files.
fn names(place: &Path) -> Result<Vec<String>> {
    let mut names: Vec<String> =
        ["srnic.lua", "srnic.json", "copyright", "changelog.Debian"].map(str::to_owned).into();
    for directory in ["bin", "man", LIBRARIES].into_iter().chain(COMPLETIONS.map(|(shell, _)| shell)) {
        let directory = place.join(directory);
        let entries = fs::read_dir(&directory).map_err(|e| Error::io("list", &directory, &e))?;
        names.extend(entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()));
    }
    Ok(names)
}

/// Those that `dpkg-deb --contents` does not list: compressed ones end in `.gz`, and behind a link
/// stands where it leads.
fn missing(listing: &str, names: &[String]) -> Vec<String> {
    let paths = listing.lines().filter_map(|line| line.split(" -> ").next()?.rsplit('/').next());
    let listed: BTreeSet<&str> = paths.map(|name| name.strip_suffix(".gz").unwrap_or(name)).collect();
    names.iter().filter(|name| !listed.contains(name.as_str())).cloned().collect()
}

fn directory(place: &Path, name: &str) -> Result<PathBuf> {
    let directory = place.join(name);
    fs::create_dir_all(&directory).map_err(|e| Error::io("create", &directory, &e))?;
    Ok(directory)
}

fn with_argument(program: &Path, subcommand: &str, argument: &Path) -> Command {
    let mut command = Command::new(program);
    command.arg(subcommand).arg(argument);
    command
}

/// The package, by the metadata of the tools' Cargo.toml, of the program that was just built.
fn package(cargo_deb: &Path, place: &Path) -> Command {
    let mut command = Command::new(cargo_deb);
    command.args("--no-build --strip --quiet --compress-system --multiarch foreign".split(' '));
    command.args(["--package", PACKAGE, "--output"]);
    command.arg(place).current_dir(repo::root());
    command
}

/// A program without which cargo-deb would make another package than this.
fn need(program: &str, package: &str) -> Result<()> {
    let found = repo::output(Command::new(program).arg("--version"));
    let missing = |_| Error(format!("there is no `{program}`: install Debian's package {package}"));
    found.map(drop).map_err(missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_package_lacks_is_found() {
        let listing = "-rwxr-xr-x root/root  9 2026-11-26 07:00 ./usr/bin/srnic\n\
                       lrwxrwxrwx root/root  0 2026-11-26 07:00 ./usr/bin/srnic_ping -> srnic\n\
                       -rw-r--r-- root/root  9 2026-11-26 07:00 ./usr/share/man/man1/srnic-ping.1.gz\n";
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        assert!(missing(listing, &names(&["srnic", "srnic_ping", "srnic-ping.1"])).is_empty());
        assert_eq!(missing(listing, &names(&["srnic", "srnic_stat", "srnic.1"])), ["srnic_stat", "srnic.1"]);
    }

    #[test]
    fn the_packages_changelog_begins_with_this_version() {
        let changelog = repo::root().join("benches/tools/debian/changelog");
        let changelog = fs::read_to_string(changelog).expect("it is there");
        let version = concat!("srnic (", env!("CARGO_PKG_VERSION"), "-1) ");
        assert!(changelog.starts_with(version), "no entry {version}: {changelog}");
    }

    #[test]
    fn the_package_takes_what_is_made() {
        let manifest = repo::root().join("benches/tools/Cargo.toml");
        let manifest = fs::read_to_string(manifest).expect("the tools' own");
        for (directory, _) in COMPLETIONS.iter().chain(&[("bin", ""), ("man", ""), (LIBRARIES, "")]) {
            assert!(manifest.contains(&format!("\"../../{PLACE}/{directory}/")), "{directory}");
        }
    }
}
