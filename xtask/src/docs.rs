//! Part of `cargo xtask lint`: what the documents name must exist.
//!
//! A map that is wrong is worse than none. Checked are, in README.md, CHANGELOG.md and docs/:
//! relative links, paths in backticks that start with a directory of the repository, and, in the
//! tables that map the paper's Figure 4 and the rules of the protocol, that each file defines the
//! type or function that its row names. And the README asks for the Rust that Cargo asks for, and
//! is short.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::repo;

/// The document that has the tables of names, files and items.
const MAP: &str = "docs/architecture.md";
/// What the headings of those tables contain: the paper's boxes, and the protocol's rules.
const TABLES: [&str; 2] = ["Figure 4", "rules of the protocol"];

/// Words of the README at most, as `wc -w` counts them.
const README_WORDS: usize = 700;

/// Checks all documents of the repository.
pub fn check() -> Result<()> {
    let root = repo::root();
    let mut wrong = Vec::new();
    let mut mapped = false;
    for document in documents(&root)? {
        let text = fs::read_to_string(&document).map_err(|e| Error::io("read", &document, &e))?;
        let name = document.strip_prefix(&root).unwrap_or(&document).display().to_string();
        let dir = document.parent().unwrap_or(&root);
        let in_document = links(&text)
            .filter(|link| !dir.join(link).exists())
            .map(|link| format!("{name}: the link to `{link}` leads nowhere"))
            .chain(
                paths(&text, &root)
                    .filter(|path| !root.join(path).exists())
                    .map(|path| format!("{name}: there is no `{path}`")),
            );
        wrong.extend(in_document);
        if name == "README.md" {
            wrong.extend(too_long(&text));
        }
        if name == MAP {
            for table in TABLES {
                wrong.extend(check_map(&text, table, &root)?);
            }
            mapped = true;
        }
    }
    wrong.extend(check_rust_version(&root)?);
    if !mapped {
        wrong.push(format!("there is no {MAP}"));
    }
    if wrong.is_empty() { Ok(()) } else { Err(Error(wrong.join("\n"))) }
}

fn documents(root: &Path) -> Result<Vec<PathBuf>> {
    let mut found = vec![root.join("README.md"), root.join("CHANGELOG.md")];
    found.extend(repo::files(&root.join("docs"), "md")?);
    found.sort();
    Ok(found)
}

/// Targets of relative Markdown links, without their fragment.
fn links(text: &str) -> impl Iterator<Item = &str> {
    text.split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next())
        .map(|target| target.split('#').next().unwrap_or_default())
        .filter(|target| !target.is_empty() && !target.contains("://") && !target.contains(' '))
}

/// Words in backticks that are a path in this repository: `directory/..`, with a directory that is
/// there.
fn paths<'a>(text: &'a str, root: &'a Path) -> impl Iterator<Item = &'a str> {
    in_backticks(text).filter(move |word| {
        let is_path = word.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c));
        is_path
            && word.split_once('/').is_some_and(|(first, _)| !first.is_empty() && root.join(first).is_dir())
    })
}

fn in_backticks(text: &str) -> impl Iterator<Item = &str> {
    text.lines().flat_map(|line| line.split('`').skip(1).step_by(2))
}

/// Says that a README has too many words.
fn too_long(readme: &str) -> Option<String> {
    let words = readme.split_whitespace().count();
    let fault = || format!("README.md: {words} words, at most {README_WORDS}: move some to docs/");
    (words > README_WORDS).then(fault)
}

/// The README names the oldest Rust that builds the workspace.
fn check_rust_version(root: &Path) -> Result<Option<String>> {
    let read = |name: &str| {
        let path = root.join(name);
        fs::read_to_string(&path).map_err(|e| Error::io("read", &path, &e))
    };
    let manifest = read("Cargo.toml")?;
    let version = manifest
        .lines()
        .find_map(|line| line.strip_prefix("rust-version = "))
        .map(|version| version.trim_matches('"'))
        .ok_or_else(|| Error::new("Cargo.toml has no rust-version"))?;
    let wanted = format!("Rust {version} or newer");
    Ok((!read("README.md")?.contains(&wanted)).then(|| format!("README.md: does not say \"{wanted}\"")))
}

/// The rows of the map that are wrong. A document without the table is wrong altogether.
fn check_map(text: &str, table: &str, root: &Path) -> Result<Vec<String>> {
    let section = text
        .split("\n## ")
        .find(|section| section.lines().next().is_some_and(|heading| heading.contains(table)))
        .ok_or_else(|| Error(format!("{MAP} has no section about {table}")))?;
    let mut rows = 0;
    let mut wrong = Vec::new();
    for (name, path, item) in section.lines().filter_map(row) {
        rows += 1;
        let found = fs::read_to_string(root.join(path)).is_ok_and(|source| defines(&source, item));
        if !found {
            wrong.push(format!("{MAP}: {name}: `{path}` does not define `{item}`"));
        }
    }
    if rows == 0 {
        return Err(Error(format!("{MAP}: the section about {table} has no table")));
    }
    Ok(wrong)
}

/// A row `| name | `path` | `item` | .. |`.
fn row(line: &str) -> Option<(&str, &str, &str)> {
    let mut cells = line.strip_prefix('|')?.split('|').map(str::trim);
    let name = cells.next()?;
    let path = cells.next()?.strip_prefix('`')?.strip_suffix('`')?;
    let item = cells.next()?.strip_prefix('`')?.strip_suffix('`')?;
    Some((name, path, item))
}

/// Returns `true` if Rust source defines an item of this name. `Type::method` asks for the method.
fn defines(source: &str, item: &str) -> bool {
    let item = item.rsplit("::").next().unwrap_or(item);
    source.lines().filter(|line| !line.trim_start().starts_with("//")).any(|line| {
        let words: Vec<&str> =
            line.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty()).collect();
        words.windows(2).any(|pair| {
            matches!(pair[0], "struct" | "enum" | "trait" | "type" | "fn" | "mod" | "const" | "static")
                && pair[1] == item
        })
    })
}

#[cfg(test)]
mod tests;
