//! What the engine does on a network in virtual time, rule by rule. One program, as each program is
//! optimised as a whole: that takes longer than its tests run. Those that documents play by name
//! are programs of their own.

mod black_hole;
mod congestion;
mod control;
mod determinism;
mod disorder;
mod elephant;
mod ends;
mod errors;
mod fairness;
mod first_packets;
mod hostile;
mod hostile_reads;
mod keepalive;
mod last_words;
mod lives;
mod long_path;
mod loss;
mod neighbors;
mod network;
mod notifications;
mod ordering;
mod pause;
mod plain;
mod plain_errors;
mod plain_services;
mod read_errors;
mod read_loss;
mod reads;
mod rnr;
mod rxe_replay;
mod shared_memory;
mod slow_path;
mod sqd;
mod srq;
mod unready;
mod unreliable;
mod wall;
mod windows;
mod wraps;
mod write_order;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// A file that is no module here and no program of its own would be tested by nobody.
#[test]
fn each_file_is_played() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let modules = include_str!("protocol.rs");
    let manifest = fs::read_to_string(package.join("Cargo.toml")).expect("a manifest");
    let files = fs::read_dir(package.join("tests")).expect("a directory");
    let files: BTreeSet<_> = files
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.is_dir() || path.extension().is_some_and(|extension| extension == "rs"))
        .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
        .filter(|name| name != "snapshots")
        .collect();
    assert!(files.contains("loss") && files.contains("curves"), "{files:?}");
    for name in files {
        let is_module = modules.lines().any(|line| line == format!("mod {name};"));
        let is_program = manifest.lines().any(|line| line == format!("name = \"{name}\""));
        assert!(is_module != is_program, "tests/{name} is played by nobody, or twice");
    }
}
