//! Part of `cargo xtask lint`: the public APIs of the crates that programs are written against are
//! those recorded in their public-api.txt.
//!
//! One line for each public item, from the sources: what lib.rs and its public modules define or
//! export, wherever it is defined, with public fields, variants, methods and implemented traits.
//! Items of a module begin with its name. Items that macros make are recorded as the macros' input.
//! A change of the API is thus a line of the diff.

mod items;
mod modules;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::repo;
use items::Export;
use modules::Module;

/// The crates whose APIs are recorded, by their directories.
const RECORDED: [&str; 2] = ["verbs-api", "streams"];
/// The crates that those show items of.
const OTHERS: [(&str, &str); 3] =
    [("datapath", "datapath/src"), ("rdma_cm", "rdma-cm/src"), ("wire", "datapath/wire/src")];

/// Fails if a recorded API is another than that of the sources.
pub fn check() -> Result<()> {
    RECORDED.into_iter().try_for_each(|directory| {
        let path = record_of(directory);
        let recorded = fs::read_to_string(&path).map_err(|e| Error::io("read", &path, &e))?;
        let changes = difference(&recorded, &listing(&repo::root(), directory)?);
        if changes.is_empty() {
            return Ok(());
        }
        let changes = changes.join("\n");
        Err(Error(format!(
            "the public API of {directory} is not the recorded one:\n{changes}\n\
             if it is meant to be so, record it with `cargo xtask api` and say so in CHANGELOG.md"
        )))
    })
}

/// Records the APIs of the sources.
pub fn record() -> Result<()> {
    RECORDED.into_iter().try_for_each(|directory| {
        let path = record_of(directory);
        fs::write(&path, listing(&repo::root(), directory)?).map_err(|e| Error::io("write", &path, &e))
    })
}

fn record_of(directory: &str) -> PathBuf {
    repo::root().join(directory).join("public-api.txt")
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

/// What is public of the crate in `directory`, sorted.
fn listing(root: &Path, directory: &str) -> Result<String> {
    let own = format!("{directory}/src");
    let modules = modules::of(&root.join(&own))?;
    let mut lines = Vec::new();
    for (number, module) in modules.iter().enumerate() {
        let prefix: String = module.path.iter().map(|name| format!("{name} :: ")).collect();
        let shown = exported(root, &own, &modules, number)?;
        lines.extend(shown.into_iter().map(|line| format!("{prefix}{line}")));
    }
    lines.sort();
    lines.dedup();
    Ok(lines.join("\n") + "\n")
}

/// The lines of one of the modules of a crate, whose sources are in `own`, without its name.
fn exported(root: &Path, own: &str, modules: &[Module], number: usize) -> Result<Vec<String>> {
    let module = &modules[number];
    let mut lines: Vec<String> = module.exports.iter().filter_map(Export::renamed).collect();
    for (from, names) in by_crate(&module.exports) {
        let other = OTHERS.iter().find(|(other, _)| Some(*other) == from);
        let (place, found) = match other {
            Some((_, directory)) => {
                let sources = modules::sources(&root.join(directory))?;
                (*directory, lines_of(&sources, &names)?)
            }
            None => (own, own_lines(modules, number, &names)?),
        };
        let defined = |name: &str| found.iter().any(|line| line.split(' ').any(|word| word == name));
        if let Some(name) = names.iter().find(|name| !defined(name)) {
            return Err(Error(format!("{} exports {name}, which {place} does not define", module.name(own))));
        }
        lines.extend(found);
    }
    Ok(lines)
}

/// Lines for `names` of one module, from all of the crate's files: methods may be in the file of
/// another module. What that one calls so is another item.
fn own_lines(modules: &[Module], number: usize, names: &[String]) -> Result<Vec<String>> {
    let mut lines = Vec::new();
    for (other, module) in modules.iter().enumerate() {
        let another = |name: &&String| other != number && module.exports.iter().any(|e| e.name == **name);
        let names: Vec<String> = names.iter().filter(|name| !another(name)).cloned().collect();
        lines.extend(lines_of(&module.sources, &names)?);
    }
    Ok(lines)
}

fn lines_of(files: &[PathBuf], names: &[String]) -> Result<Vec<String>> {
    let mut lines = Vec::new();
    for file in files {
        lines.extend(items::of(&parse(file)?, names));
    }
    Ok(lines)
}

/// The exported names by the crate that defines them; none is the module's own.
fn by_crate(exports: &[Export]) -> BTreeMap<Option<&str>, Vec<String>> {
    let mut found: BTreeMap<_, Vec<String>> = BTreeMap::new();
    for export in exports {
        found.entry(export.from.as_deref()).or_default().push(export.name.clone());
    }
    found
}

fn parse(path: &Path) -> Result<syn::File> {
    let text = fs::read_to_string(path).map_err(|e| Error::io("read", path, &e))?;
    syn::parse_file(&text).map_err(|e| Error(format!("cannot parse {}: {e}", path.display())))
}
