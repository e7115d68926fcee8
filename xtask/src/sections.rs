//! Part of `cargo xtask lint`: each section of docs/protocol.md that a source file or a document
//! names is there.
//!
//! Names are written as "protocol.md 1.2", and further ones behind that as ", 1.3" or "and 2.4".

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use crate::error::{Error, Result};
use crate::repo;

const DOCUMENT: &str = "docs/protocol.md";
const NAMED: &str = "protocol.md ";

/// Fails if a section is named that is not there.
pub fn check() -> Result<()> {
    let root = repo::root();
    let read = |path: &std::path::Path| fs::read_to_string(path).map_err(|e| Error::io("read", path, &e));
    let document = read(&root.join(DOCUMENT))?;
    let there = headings(&document);
    let mut wrong = Vec::new();
    for path in naming()? {
        let text = read(&path)?;
        let shown = path.strip_prefix(&root).unwrap_or(&path).display();
        for (number, line) in text.lines().enumerate() {
            let missing = named(line).filter(|section| !there.contains(*section));
            wrong.extend(
                missing.map(|section| format!("{shown}:{}: {DOCUMENT} has no section {section}", number + 1)),
            );
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(Error(wrong.join("\n"))) }
}

/// What may name a section: sources and documents, but not this file, whose tests name any.
fn naming() -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for directory in repo::directories()? {
        for extension in ["rs", "md", "lua"] {
            found.extend(repo::files(&directory, extension)?);
        }
    }
    found.retain(|path| !path.ends_with("xtask/src/sections.rs"));
    Ok(found)
}

/// The numbers of the sections of a document.
fn headings(text: &str) -> BTreeSet<&str> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let numbers = headings.filter_map(|line| line.trim_start_matches('#').split_whitespace().next());
    numbers.map(|number| number.trim_end_matches('.')).collect()
}

/// The sections that a line names.
fn named(line: &str) -> impl Iterator<Item = &str> {
    line.split(NAMED).skip(1).flat_map(|rest| {
        let mut rest = Some(rest);
        std::iter::from_fn(move || {
            let (section, behind) = section(rest?)?;
            rest = [", ", " and "].iter().find_map(|link| behind.strip_prefix(link));
            Some(section)
        })
    })
}

/// A number of the form n.n at the beginning of a text, and what is behind it.
fn section(text: &str) -> Option<(&str, &str)> {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let major = digits(text);
    let minor = digits(text[major..].strip_prefix('.')?);
    (major > 0 && minor > 0).then(|| text.split_at(major + 1 + minor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sections_that_this_repository_names_are_there() {
        assert_eq!(check(), Ok(()));
    }

    #[test]
    fn a_line_names_one_section_or_several() {
        let all = |line| named(line).collect::<Vec<_>>();
        assert_eq!(all("as in protocol.md 1.12."), ["1.12"]);
        assert_eq!(all("(protocol.md 1.3, 1.5 and 1.8), and protocol.md 2.4"), ["1.3", "1.5", "1.8", "2.4"]);
        assert_eq!(all("protocol.md 2.4, 16 times"), ["2.4"]);
        assert!(all("docs/protocol.md says so; protocol.md 1").is_empty());
    }

    #[test]
    fn only_headings_are_sections() {
        let there = headings("# P\n## 2. Dialect\n### 2.4 Streams\n2.9 is not\n");
        assert!(there.contains("2.4") && there.contains("2") && !there.contains("2.9"));
    }
}
