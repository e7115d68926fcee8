//! `cargo xtask demo`: a file from one process to another through the whole stack, without loss and with 1 % of the
//! packets dropped, and its SHA-256 on both sides.

mod interrupt;
mod outcome;
mod payload;
mod scratch;
mod transfer;

use std::fs;
use std::path::{Path, PathBuf};

use outcome::{Outcome, mebibytes};
use scratch::Scratch;
use transfer::Transfer;

use crate::error::{Error, Result};
use crate::repo::{self, cargo};
use crate::setup;

/// Name of a run, and the device wrapper that the sender puts around its port.
const RUNS: &[(&str, &str)] = &[("no loss", ""), ("1 % loss", "fault:loss=1%,seed=7:")];

/// Sends `file`, or one made of this machine's own files, and shows how it went. `tool` replaces the program that
/// moves the file, and then nothing is built.
pub fn run(file: Option<&Path>, tool: Option<&Path>) -> Result<()> {
    let tool = match tool {
        Some(tool) => tool.to_path_buf(),
        None => build()?,
    };
    interrupt::catch()?;
    let scratch = Scratch::new()?;
    let source = match file {
        Some(file) => file.to_path_buf(),
        None => pack(&scratch)?,
    };
    let size = size_of(&source)?;
    scratch.require_space(size)?;
    let sent = payload::digest(&source)?;
    println!("SHA-256 {sent}  {} ({})", source.display(), mebibytes(size));

    let mut outcomes = Vec::new();
    for &(name, wrapper) in RUNS {
        println!("sending: {name}");
        let dir = scratch.subdirectory()?;
        let transfer = Transfer { tool: &tool, source: &source, size, dir: &dir, wrapper };
        let counts = transfer.run()?;
        let received = payload::digest(&transfer.received())?;
        outcomes.push(Outcome { name, size, injects: !wrapper.is_empty(), counts, equal: received == sent });
        fs::remove_dir_all(&dir).map_err(|e| Error::io("remove", &dir, &e))?;
    }
    println!("\n{}", outcome::table(&outcomes));
    outcome::verdict(&outcomes)
}

/// Builds the program that moves the file, and says where it is.
fn build() -> Result<PathBuf> {
    setup::implied(setup::Scope::Build)?;
    repo::run(cargo(&["build", "--release", "-p", "srnic-benches", "--bin", "srnic_file"]))?;
    Ok(repo::target_directory()?.join("release/srnic_file"))
}

fn pack(scratch: &Scratch) -> Result<PathBuf> {
    scratch.require_space(2 * payload::SIZE)?;
    println!("packing files of this machine into one of {}", mebibytes(payload::SIZE));
    let file = scratch.path().join("source");
    payload::pack(&file, &payload::roots())?;
    Ok(file)
}

/// Length of a file in bytes, which must be a file and not be empty.
fn size_of(file: &Path) -> Result<u64> {
    let meta = fs::metadata(file).map_err(|e| Error::io("read", file, &e))?;
    if !meta.is_file() || meta.len() == 0 {
        return Err(Error(format!("{} is not a file, or is empty", file.display())));
    }
    Ok(meta.len())
}
