//! Part of `cargo xtask lint`: no line of a comment is longer than 100 columns, and no doc comment
//! begins with words that another item must explain.
//!
//! rustfmt's stable options do not wrap comments. rustdoc shows each item by itself, so a doc
//! comment must not begin with "The same": a reader does not see what came before it.

use std::fs;
use std::path::PathBuf;

use crate::error::{Error, Result};
use crate::repo;

const COLUMNS: usize = 100;
const NO_REFERENCE: &str = "The same";
/// Languages by the extension of their files, and what a comment begins with in each. The longer
/// markers of a language come first.
const LANGUAGES: [(&str, &[&str]); 4] =
    [("rs", &["///", "//!", "//"]), ("toml", &["#"]), ("sh", &["#"]), ("lua", &["--"])];

/// Fails if a comment is too long or does not stand alone.
pub fn check() -> Result<()> {
    let root = repo::root();
    let mut wrong = Vec::new();
    for (extension, markers) in LANGUAGES {
        for path in sources(extension)? {
            let shown = path.strip_prefix(&root).unwrap_or(&path).to_string_lossy().into_owned();
            let text = fs::read_to_string(&path).map_err(|e| Error::io("read", &path, &e))?;
            let found = faults(&text, markers);
            wrong.extend(found.map(|(line, fault)| format!("{shown}:{line}: {fault}")));
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(Error(wrong.join("\n"))) }
}

/// All files of the repository with this extension, those directly at its root included.
fn sources(extension: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for directory in repo::directories()? {
        found.extend(repo::files(&directory, extension)?);
    }
    let root = repo::root();
    let entries = fs::read_dir(&root).map_err(|e| Error::io("list", &root, &e))?;
    let files = entries.flatten().map(|entry| entry.path()).filter(|path| path.is_file());
    found.extend(files.filter(|path| path.extension().is_some_and(|its| its == extension)));
    Ok(found)
}

/// What is wrong with the comments of a text, by line, counted from 1.
fn faults<'a>(text: &'a str, markers: &'a [&str]) -> impl Iterator<Item = (usize, String)> + 'a {
    let mut before = "";
    let mut in_code = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let marker = marker(line, markers);
        let begins = marker != before;
        if begins {
            in_code = false;
        }
        before = marker;
        if marker.is_empty() {
            return None;
        }
        let said = line.trim_start()[marker.len()..].trim_start();
        in_code ^= said.starts_with("```");
        fault(line, said, marker, begins, in_code).map(|fault| (index + 1, fault))
    })
}

fn fault(line: &str, said: &str, marker: &str, begins: bool, in_code: bool) -> Option<String> {
    let columns = line.chars().count();
    // A row of a table, and a word that is longer than a line, cannot be broken.
    let breaks = !in_code && !said.starts_with('|') && said.contains(' ');
    if columns > COLUMNS && breaks {
        return Some(format!("a comment of {columns} columns; at most {COLUMNS}"));
    }
    let is_doc = marker.len() == 3;
    (is_doc && begins && said.starts_with(NO_REFERENCE))
        .then(|| format!("a doc comment that begins with \"{NO_REFERENCE}\"; say what the item itself is"))
}

/// What the comment begins with that fills this line; empty if none does.
fn marker<'a>(line: &str, markers: &'a [&str]) -> &'a str {
    let line = line.trim_start();
    markers.iter().copied().find(|marker| line.starts_with(marker)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<usize> {
        faults(text, LANGUAGES[0].1).map(|(line, _)| line).collect()
    }

    #[test]
    fn the_comments_of_this_repository_hold() {
        assert_eq!(check(), Ok(()));
    }

    #[test]
    fn a_comment_of_a_hundred_columns_is_long_enough() {
        let comment = |words: usize, rest: &str| format!("    // {}{rest}\n", "word ".repeat(words));
        assert!(lines(&comment(18, "abc")).is_empty());
        assert_eq!(lines(&comment(18, "abcd")), [1]);
        assert!(lines(&format!("code(\"{}\");", "word ".repeat(30))).is_empty());
    }

    #[test]
    fn what_cannot_be_broken_may_be_longer() {
        let long = "x".repeat(120);
        let row = "| word ".repeat(20);
        assert!(lines(&format!("// {long}\n/// {row}\n")).is_empty());
        assert!(lines(&format!("/// ```\n/// a {long}\n/// ```\n")).is_empty());
        assert_eq!(lines(&format!("/// ```\n/// a {long}\n/// ```\n/// a {long}\n")), [4]);
    }

    #[test]
    fn a_doc_comment_does_not_point_to_another() {
        assert_eq!(lines("/// One.\nfn a() {}\n/// The same of b.\nfn b() {}\n"), [3]);
        assert!(lines("/// One.\n/// The same again.\nfn a() {}\n").is_empty());
        assert!(lines("// The same way.\n").is_empty());
    }
}
