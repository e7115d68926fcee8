//! `cargo xtask demo`: bandwidth and latency of verified data between two processes, beside raw
//! frames on the same port and kernel TCP; then a file, without loss and with 1 % of the packets
//! dropped, and its SHA-256 on both sides.

mod figures;
mod outcome;
pub mod payload;
mod transfer;

use std::fs;
use std::path::{Path, PathBuf};

use outcome::{Outcome, mebibytes};
use transfer::Transfer;

use crate::error::{Error, Result};
use crate::interrupt;
use crate::repo::RELEASE;
use crate::scratch::Scratch;
use crate::tools::Tools;

/// Name of a run, and the device wrapper that the sender puts around its port.
const RUNS: &[(&str, &str)] = &[("no loss", ""), ("1 % loss", "fault:loss=1%,seed=7:")];

/// What the demo sends.
#[derive(Clone, Copy)]
pub enum Source<'a> {
    /// A file of the user's.
    File(&'a Path),
    /// A file of so many bytes, made of this machine's own files.
    Packed(u64),
}

impl<'a> Source<'a> {
    /// The user's file, or a packed one of 384 MiB.
    pub fn of(file: Option<&'a Path>) -> Self {
        file.map_or(Self::Packed(384 << 20), Self::File)
    }

    /// A packed file that is long enough to lose packets, and takes a second to send: for `cargo
    /// xtask test`.
    pub const SMALL: Self = Self::Packed(32 << 20);
}

/// The `srnic` that the demo runs.
#[derive(Clone, Copy)]
pub enum Programs<'a> {
    /// That of a directory; nothing is built.
    In(&'a Path),
    /// That of the sources, which is built as users are given it.
    Built,
}

impl<'a> Programs<'a> {
    /// That of a directory, or else of the sources.
    pub fn of(directory: Option<&'a Path>) -> Self {
        directory.map_or(Self::Built, Self::In)
    }
}

/// Measures, sends a file, and shows how it went.
pub fn run(source: Source<'_>, programs: Programs<'_>) -> Result<()> {
    let tools = match programs {
        Programs::In(directory) => Tools::in_directory(directory),
        Programs::Built => Tools::build(RELEASE)?,
    };
    interrupt::catch()?;
    let scratch = Scratch::new()?;
    let source = match source {
        Source::File(file) => file.to_path_buf(),
        Source::Packed(size) => pack(&scratch, size)?,
    };
    let mut rows = figures::measure(&tools, &scratch)?;
    let outcomes = send(&tools, &scratch, &source)?;
    rows.extend(outcomes.iter().map(outcome::Row::of_file));
    println!("\n{}", outcome::table(&rows));
    outcome::verdict(&outcomes)
}

/// Sends a file in each of the ways.
fn send(tools: &Tools, scratch: &Scratch, source: &Path) -> Result<Vec<Outcome>> {
    let size = size_of(source)?;
    scratch.require_space(size)?;
    let sent = payload::digest(source)?;
    println!("SHA-256 {sent}  {} ({})", source.display(), mebibytes(size));
    let mut outcomes = Vec::new();
    for &(name, wrapper) in RUNS {
        println!("sending: {name}");
        let dir = scratch.subdirectory()?;
        let transfer = Transfer { tools, source, size, dir: &dir, wrapper };
        let counts = transfer.run()?;
        let received = payload::digest(&transfer.received())?;
        outcomes.push(Outcome { name, size, injects: !wrapper.is_empty(), counts, equal: received == sent });
        fs::remove_dir_all(&dir).map_err(|e| Error::io("remove", &dir, &e))?;
    }
    Ok(outcomes)
}

fn pack(scratch: &Scratch, size: u64) -> Result<PathBuf> {
    scratch.require_space(2 * size)?;
    println!("packing files of this machine into one of {}", mebibytes(size));
    let file = scratch.path().join("source");
    payload::pack(&file, &payload::roots(), size)?;
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
