//! Part of `cargo xtask lint`: the records of decisions in docs/adr have the form that ADRs 1 and
//! 42 ask for.

use std::fs;

use crate::error::{Error, Result};
use crate::repo;

const DIRECTORY: &str = "docs/adr";

/// Fails if a record has another number than its file, or a status of no known form.
pub fn check() -> Result<()> {
    let files = repo::files(&repo::root().join(DIRECTORY), "md")?;
    let newest = files.len();
    let mut wrong = Vec::new();
    if files.is_empty() {
        wrong.push(format!("{DIRECTORY} has no records"));
    }
    for (index, path) in files.iter().enumerate() {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let text = fs::read_to_string(path).map_err(|e| Error::io("read", path, &e))?;
        wrong.extend(
            fault(&name, &text, index + 1, newest).map(|fault| format!("{DIRECTORY}/{name}: {fault}")),
        );
    }
    if wrong.is_empty() { Ok(()) } else { Err(Error(wrong.join("\n"))) }
}

/// What is wrong with a record that should have this number; `newest` is that of the last one.
fn fault(name: &str, text: &str, number: usize, newest: usize) -> Option<String> {
    if !name.starts_with(&format!("{number:04}-")) {
        return Some(format!("the record with number {number} is missing, or a number is there twice"));
    }
    if !text.starts_with(&format!("# {number}. ")) {
        return Some(format!("its heading does not begin with \"# {number}. \""));
    }
    let status = text.lines().find_map(|line| line.strip_prefix("Status: ")).unwrap_or_default();
    (!is_status(status, number, newest)).then(|| {
        format!("\"{status}\" is no status: \"proposed\", \"accepted\", \"accepted; N supersedes part of it\" or \"superseded by N\", where N is a later record")
    })
}

fn is_status(status: &str, number: usize, newest: usize) -> bool {
    let later = |text: &str| text.parse().is_ok_and(|other: usize| other > number && other <= newest);
    let in_part =
        status.strip_prefix("accepted; ").and_then(|rest| rest.strip_suffix(" supersedes part of it"));
    let whole = status.strip_prefix("superseded by ");
    matches!(status, "proposed" | "accepted") || in_part.or(whole).is_some_and(later)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_records_of_this_repository_hold() {
        assert_eq!(check(), Ok(()));
    }

    #[test]
    fn a_record_has_the_number_of_its_file() {
        let text = "# 7. Seven\n\nStatus: accepted\n";
        assert_eq!(fault("0007-seven.md", text, 7, 8), None);
        assert!(fault("0008-seven.md", text, 7, 8).is_some(), "7 is missing");
        assert!(fault("0008-seven.md", text, 8, 8).is_some(), "the heading says 7");
    }

    #[test]
    fn a_status_names_a_later_record() {
        for status in ["proposed", "accepted", "accepted; 9 supersedes part of it", "superseded by 8"] {
            assert!(is_status(status, 7, 9), "{status}");
        }
        assert!(!is_status("superseded by 10", 7, 9), "there is no such record");
        for status in
            ["rejected", "accepted; renamed", "superseded by 7", "accepted; 6 supersedes part of it"]
        {
            assert!(!is_status(status, 7, 9), "{status}");
        }
    }
}
