//! Programs of the package registry that tasks need, each in one version, in the target directory.

use std::fs;
use std::path::PathBuf;

use crate::error::Result;
use crate::repo::{self, cargo};

/// A program, which is built when it is first needed: that takes some minutes.
pub fn installed(name: &str, version: &str) -> Result<PathBuf> {
    let root = repo::target_directory()?.join(format!("tools/{name}-{version}"));
    let program = root.join("bin").join(name);
    if program.exists() {
        return Ok(program);
    }
    let build = root.join("build");
    let mut install = cargo(&["install", name, "--locked", "--quiet", "--version", version, "--root"]);
    install.arg(&root).env("CARGO_TARGET_DIR", &build);
    // It runs for a second: to optimise it would take longer than it ever saves.
    install.env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0").env("CARGO_PROFILE_RELEASE_LTO", "off");
    install.env("CARGO_PROFILE_RELEASE_DEBUG", "false");
    println!("installing {name} {version}, once");
    repo::run(install)?;
    // What is left is some hundred megabytes that nobody needs.
    let _ = fs::remove_dir_all(&build);
    Ok(program)
}
