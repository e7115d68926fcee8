//! The public modules of a crate, and the files that each consists of.

use std::path::{Path, PathBuf};

use syn::{Item, Visibility};

use super::items::{self, Export};
use super::{OTHERS, parse};
use crate::error::Result;
use crate::repo;

/// The root of a crate, or a public module in a file of its own.
pub struct Module {
    /// The names that lead to it; none for the root.
    pub path: Vec<String>,
    /// What it defines and exports.
    pub exports: Vec<Export>,
    /// Its files, without those of public modules in it.
    pub sources: Vec<PathBuf>,
}

impl Module {
    /// Its name in messages, of the crate whose sources are in `own`.
    pub fn name(&self, own: &str) -> String {
        if self.path.is_empty() {
            format!("{own}/lib.rs")
        } else {
            format!("{own}: {}", self.path.join("::"))
        }
    }
}

/// All of the crate whose sources are in a directory, the root first.
pub fn of(directory: &Path) -> Result<Vec<Module>> {
    let mut found = Vec::new();
    descend(&mut found, Vec::new(), &directory.join("lib.rs"), directory)?;
    Ok(found)
}

/// Adds the module that `file` begins, with the rest of it in `directory`, and those in it.
fn descend(found: &mut Vec<Module>, path: Vec<String>, file: &Path, directory: &Path) -> Result<()> {
    let parsed = parse(file)?;
    let inner = public_modules(&parsed);
    let mut files = if directory.exists() { sources(directory)? } else { Vec::new() };
    files.retain(|source| {
        let within = source.strip_prefix(directory).unwrap_or(source).with_extension("");
        !within.iter().next().is_some_and(|first| inner.iter().any(|name| first == name.as_str()))
    });
    if !path.is_empty() {
        files.push(file.to_owned());
    }
    let crates: Vec<&str> = OTHERS.iter().map(|(name, _)| *name).collect();
    let exports = items::exports(&parsed, &crates);
    found.push(Module { path: path.clone(), exports, sources: files });
    for name in inner {
        let place = directory.join(&name);
        let beside = place.with_extension("rs");
        let file = if beside.exists() { beside } else { place.join("mod.rs") };
        descend(found, [path.clone(), vec![name]].concat(), &file, &place)?;
    }
    Ok(())
}

/// Those that have files of their own.
fn public_modules(file: &syn::File) -> Vec<String> {
    let names = file.items.iter().filter_map(|item| match item {
        Item::Mod(item) if matches!(item.vis, Visibility::Public(_)) && item.content.is_none() => {
            Some(item.ident.to_string())
        }
        _ => None,
    });
    names.collect()
}

/// The Rust files below a directory, without tests.
pub fn sources(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut found = repo::files(directory, "rs")?;
    let is_test = |path: &PathBuf| {
        let within = path.strip_prefix(directory).unwrap_or(path).with_extension("");
        within.iter().any(|name| name == "tests")
    };
    found.retain(|path| !is_test(path));
    Ok(found)
}
