//! Part of `cargo xtask lint`: the public API of verbs-api is the one recorded in
//! verbs-api/public-api.txt.
//!
//! One line for each public item, from the sources: what lib.rs exports, wherever it is defined,
//! with public fields, variants, methods and implemented traits. Items that macros make are
//! recorded as the macros' input. A change of the API is thus a line of the diff.

mod items;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::repo;

const RECORD: &str = "verbs-api/public-api.txt";
const OWN: &str = "verbs-api/src";
/// The crates that verbs-api shows items of.
const OTHERS: [(&str, &str); 3] =
    [("datapath", "datapath/src"), ("rdma_cm", "rdma-cm/src"), ("wire", "datapath/wire/src")];

/// Fails if the recorded API is another than that of the sources.
pub fn check() -> Result<()> {
    let path = repo::root().join(RECORD);
    let recorded = fs::read_to_string(&path).map_err(|e| Error::io("read", &path, &e))?;
    let changes = difference(&recorded, &listing(&repo::root())?);
    if changes.is_empty() {
        return Ok(());
    }
    let changes = changes.join("\n");
    Err(Error(format!(
        "the public API of verbs-api is not the recorded one:\n{changes}\n\
         if it is meant to be so, record it with `cargo xtask api` and say so in CHANGELOG.md"
    )))
}

/// Records the API of the sources.
pub fn record() -> Result<()> {
    let path = repo::root().join(RECORD);
    fs::write(&path, listing(&repo::root())?).map_err(|e| Error::io("write", &path, &e))
}

/// Lines that are in one of both only.
fn difference(recorded: &str, found: &str) -> Vec<String> {
    let only = |sign: &'static str, these: &str, those: &str| -> Vec<String> {
        let there: Vec<&str> = those.lines().collect();
        let lines = these.lines().filter(|line| !there.contains(line));
        lines.map(|line| format!("{sign} {line}")).collect()
    };
    [only("-", recorded, found), only("+", found, recorded)].concat()
}

fn listing(root: &Path) -> Result<String> {
    let crates: Vec<&str> = OTHERS.iter().map(|(name, _)| *name).collect();
    let exports = items::exports(&parse(&root.join(OWN).join("lib.rs"))?, &crates);
    let mut lines = Vec::new();
    for (directory, names) in by_directory(exports) {
        for file in sources(&root.join(directory))? {
            lines.extend(items::of(&parse(&file)?, &names));
        }
        for name in &names {
            let defined = lines.iter().any(|line| line.split(' ').any(|word| word == name));
            if !defined {
                return Err(Error(format!("{OWN}/lib.rs exports {name}, which {directory} does not define")));
            }
        }
    }
    lines.sort();
    lines.dedup();
    Ok(lines.join("\n") + "\n")
}

/// The exported names by where they are defined.
fn by_directory(exports: Vec<(String, String)>) -> BTreeMap<&'static str, Vec<String>> {
    let mut found: BTreeMap<_, Vec<String>> = BTreeMap::new();
    for (from, name) in exports {
        let other = OTHERS.iter().find(|(other, _)| *other == from);
        found.entry(other.map_or(OWN, |(_, directory)| *directory)).or_default().push(name);
    }
    found
}

fn parse(path: &Path) -> Result<syn::File> {
    let text = fs::read_to_string(path).map_err(|e| Error::io("read", path, &e))?;
    syn::parse_file(&text).map_err(|e| Error(format!("cannot parse {}: {e}", path.display())))
}

/// The Rust files below a directory, without tests.
fn sources(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut found = repo::files(directory, "rs")?;
    let is_test = |path: &PathBuf| {
        let within = path.strip_prefix(directory).unwrap_or(path).with_extension("");
        within.iter().any(|name| name == "tests")
    };
    found.retain(|path| !is_test(path));
    Ok(found)
}
