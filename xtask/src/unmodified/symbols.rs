//! The names that the library exports, compared with those of the system's.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use crate::dropin::LIBRARY;
use crate::error::{Error, Result};
use crate::repo;

/// Fails if `ours` lacks a name, with its version, that the system's library has. Versions that are
/// not the default ones are of before 2007, and left out (docs/adr/0054).
pub fn check(ours: &Path) -> Result<()> {
    let theirs = repo::output(Command::new("cc").arg(format!("-print-file-name={LIBRARY}")))?;
    let theirs = Path::new(theirs.trim());
    if !theirs.is_absolute() {
        println!("skipped: the system has no {LIBRARY} to compare with (Debian: libibverbs1)");
        return Ok(());
    }
    let [ours, theirs] = [ours, theirs].map(|library| {
        repo::output(Command::new("readelf").args(["-W", "--dyn-syms"]).arg(library))
            .map(|text| defaults(&text))
    });
    let (ours, theirs) = (ours?, theirs?);
    if theirs.is_empty() {
        return Err(Error::new("the system's library has no versions"));
    }
    let missing: Vec<_> = theirs.difference(&ours).cloned().collect();
    if missing.is_empty() {
        println!("{} names with their versions", theirs.len());
        return Ok(());
    }
    Err(Error(format!("the library lacks {}", missing.join(", "))))
}

/// What a library defines, as `name@@version`.
fn defaults(table: &str) -> BTreeSet<String> {
    table
        .lines()
        .filter_map(|line| {
            let mut fields = line.split_whitespace();
            let (section, name) = (fields.nth(6)?, fields.next()?);
            (section != "UND" && name.contains("@@")).then(|| name.to_owned())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_defined_has_its_version() {
        let table = "   Num:    Value          Size Type    Bind   Vis      Ndx Name\n\
                     1: 0000000000000000     0 FUNC    GLOBAL DEFAULT  UND free@GLIBC_2.2.5 (2)\n\
                     2: 0000000000008a10   120 FUNC    GLOBAL DEFAULT   13 ibv_alloc_pd@@IBVERBS_1.1\n\
                     3: 0000000000009a10   120 FUNC    GLOBAL DEFAULT   13 ibv_alloc_pd@IBVERBS_1.0\n";
        assert_eq!(defaults(table), BTreeSet::from(["ibv_alloc_pd@@IBVERBS_1.1".to_owned()]));
    }
}
