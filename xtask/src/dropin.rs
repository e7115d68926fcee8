//! `cargo xtask dropin`: the library that programs load as `libibverbs.so.1` (docs/adr/0054).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{Error, Result};
use crate::repo::{self, RELEASE, cargo};

const PACKAGE: &str = "dropin";
const PRELOAD_PACKAGE: &str = "dropin-preload";
/// What the loader takes before the C library.
pub const PRELOAD: &str = "libsrnic_preload.so";
/// What the loader looks for.
pub const LIBRARY: &str = "libibverbs.so.1";
/// The versions of its symbols, below the root.
const VERSIONS: &str = "dropin/libibverbs.map";

/// Builds it as it is given to users.
pub fn run() -> Result<()> {
    println!("{}", build(RELEASE)?.display());
    Ok(())
}

/// Builds the library, and what is loaded before the C library with it; returns the directory that
/// they are in, which has nothing else. `srnic run` of the same profile looks for them there.
pub fn build(profile: &str) -> Result<PathBuf> {
    repo::run(cargo(&["build", "--profile", profile, "-p", PACKAGE, "-p", PRELOAD_PACKAGE]))?;
    let place = repo::target_directory()?.join(profile);
    let directory = place.join(PACKAGE);
    fs::create_dir_all(&directory).map_err(|e| Error::io("create", &directory, &e))?;
    let archive = place.join(format!("lib{PACKAGE}.a"));
    replace(&directory.join(LIBRARY), |library| repo::run(link(&archive, library)))?;
    let built = place.join("libdropin_preload.so");
    replace(&directory.join(PRELOAD), |preload| {
        fs::copy(&built, preload).map(drop).map_err(|e| Error::io("copy", &built, &e))
    })?;
    Ok(directory)
}

/// Makes a file anew. Programs that run keep the one that they have loaded.
fn replace(file: &Path, make: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let fresh = file.with_extension("new");
    make(&fresh)?;
    fs::rename(&fresh, file).map_err(|e| Error::io("rename", &fresh, &e))
}

/// rustc gives the linker a version script of its own, before any other: then another one counts
/// for nothing, and says so nowhere. So the C compiler links.
fn link(archive: &Path, library: &Path) -> Command {
    let mut command = Command::new("cc");
    command.arg("-shared").arg("-o").arg(library);
    command.arg(format!("-Wl,--version-script={}", repo::root().join(VERSIONS).display()));
    command.arg("-Wl,--whole-archive").arg(archive).arg("-Wl,--no-whole-archive");
    command.arg(format!("-Wl,-soname,{LIBRARY}"));
    // Calls within the library stay there, whatever else the process has loaded; and what the
    // loader once gave threads and exit handlers of ours it never takes away.
    command.args(["-Wl,-Bsymbolic", "-Wl,-z,nodelete", "-Wl,-z,now", "-Wl,-z,defs", "-Wl,--gc-sections"]);
    command.args(["-lm", "-ldl", "-lpthread", "-lgcc_s"]);
    command
}
