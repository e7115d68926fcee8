//! What the chroots take from this machine: Rust, Cargo's registry, and the right to make them.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{Error, Result};
use crate::repo::{self, cargo, output};
use crate::setup;

/// The programs that make a chroot and enter it.
const PROGRAMS: [&str; 4] = ["mmdebstrap", "unshare", "chroot", "ip"];

/// What the chroots share.
pub struct Host {
    /// The toolchain that runs us, with `bin/cargo`.
    pub toolchain: PathBuf,
    /// Cargo's registry, with every crate of Cargo.lock.
    pub registry: PathBuf,
    /// The version of rustc.
    pub rust: String,
}

impl Host {
    /// Looks for it, and fetches the crates.
    pub fn here() -> Result<Self> {
        let said = |args: &[&str]| output(Command::new("rustc").args(args).current_dir(repo::root()));
        let toolchain = PathBuf::from(said(&["--print", "sysroot"])?.trim());
        let version = said(&["--version", "--verbose"])?;
        let line = |name: &str| version.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let known = |name: &str| line(name).ok_or_else(|| Error(format!("rustc does not say its {name}")));
        let rust = known("release:")?.to_owned();
        // Those of other systems would take a network each time.
        repo::run(cargo(&["fetch", "--locked", "--quiet", "--target", known("host:")?]))?;
        let registry = cargo_home()?.join("registry");
        Ok(Self { toolchain, registry, rust })
    }
}

fn cargo_home() -> Result<PathBuf> {
    let named = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let at_home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".cargo"));
    named.or_else(at_home).ok_or_else(|| Error::new("neither CARGO_HOME nor HOME is set"))
}

/// Why there can be no chroot here.
pub fn cannot_run() -> Option<String> {
    if !setup::is_root() {
        return Some("chroots of other distributions take root".to_owned());
    }
    let missing = PROGRAMS.into_iter().find(|program| repo::find(program).is_none());
    if let Some(program) = missing {
        return Some(format!("chroots of other distributions take `{program}`"));
    }
    let sysroot = output(Command::new("rustc").args(["--print", "sysroot"])).unwrap_or_default();
    // Its libraries are those of this distribution.
    let of_the_system = || "the chroots take a Rust of rustup's, which runs on every distribution".to_owned();
    (sysroot.trim() == "/usr").then(of_the_system)
}
