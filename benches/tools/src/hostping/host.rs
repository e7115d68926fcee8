//! What the kernel tells of a host, below `/sys` and `/proc`.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

/// A host, by the directory that has its `sys` and `proc`.
pub struct Host(pub PathBuf);

impl Host {
    /// This one.
    pub fn this() -> Self {
        Self("/".into())
    }

    /// The text of a file, without blanks at its ends; `None` if it cannot be read.
    pub fn text(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.0.join(path)).ok().map(|text| text.trim().to_owned())
    }

    /// The number in a file.
    pub fn number(&self, path: &str) -> Option<i64> {
        self.text(path)?.parse().ok()
    }

    /// The set in a file, such as `0-3,8`.
    pub fn set(&self, path: &str) -> Option<BTreeSet<u32>> {
        parse_set(&self.text(path)?)
    }

    /// The number behind a name in `/proc/meminfo`.
    pub fn memory(&self, name: &str) -> Option<i64> {
        let text = self.text("proc/meminfo")?;
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.split_whitespace().next()?.parse().ok()
    }

    /// The processors that run.
    pub fn processors(&self) -> BTreeSet<u32> {
        self.set("sys/devices/system/cpu/online").unwrap_or_default()
    }
}

/// Numbers and ranges with commas between.
pub fn parse_set(text: &str) -> Option<BTreeSet<u32>> {
    let mut set = BTreeSet::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if last.checked_sub(first)? > 65_536 {
            return None;
        }
        set.extend(first..=last);
    }
    Some(set)
}
