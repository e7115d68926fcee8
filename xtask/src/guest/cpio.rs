//! An archive in the `newc` format, as the kernel unpacks it into its first file system.

use std::collections::BTreeSet;

const DIRECTORY: u32 = 0o040_755;
const FILE: u32 = 0o100_755;
const LINK: u32 = 0o120_777;

/// An archive in the making.
#[derive(Default)]
pub struct Archive {
    bytes: Vec<u8>,
    directories: BTreeSet<String>,
    entries: u32,
}

impl Archive {
    /// Adds an executable file, and the directories that it is in. `path` has no slash at its
    /// start.
    pub fn file(&mut self, path: &str, content: &[u8]) {
        self.directories_of(path);
        self.entry(path, FILE, content);
    }

    /// Adds a symbolic link to `target`, and the directories that it is in.
    pub fn link(&mut self, path: &str, target: &str) {
        self.directories_of(path);
        self.entry(path, LINK, target.as_bytes());
    }

    fn directories_of(&mut self, path: &str) {
        for (at, _) in path.match_indices('/') {
            self.directory(&path[..at]);
        }
    }

    /// Adds a directory, unless it is there; the one that it is in must be.
    pub fn directory(&mut self, path: &str) {
        if self.directories.insert(path.to_owned()) {
            self.entry(path, DIRECTORY, &[]);
        }
    }

    /// The whole archive.
    pub fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[]);
        self.bytes
    }

    fn entry(&mut self, name: &str, mode: u32, content: &[u8]) {
        self.entries += 1;
        // Number, mode, user, group, links, time, size, four device numbers, length of the name,
        // checksum.
        let fields =
            [self.entries as usize, mode as usize, 0, 0, 1, 0, content.len(), 0, 0, 0, 0, name.len() + 1, 0];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes.extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
    }

    /// Names and contents begin at multiples of four.
    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_aligned_and_directories_come_once_and_first() {
        let mut archive = Archive::default();
        archive.file("a/b/one", b"12345");
        archive.file("a/b/two", b"");
        archive.link("a/c/three", "/a/b/one");
        let bytes = archive.finish();
        let at =
            |name: &[u8]| bytes.windows(name.len()).position(|window| window == name).expect("it is there");
        let names: [&[u8]; 7] =
            [b"a\0", b"a/b\0", b"a/b/one\0", b"a/b/two\0", b"a/c\0", b"a/c/three\0", b"TRAILER!!!\0"];
        assert!(names.map(at).is_sorted());
        // The magic and thirteen fields of eight digits.
        const HEADER: usize = 110;
        for name in names {
            assert_eq!((at(name) - HEADER) % 4, 0);
            assert_eq!(&bytes[at(name) - HEADER..][..6], b"070701");
        }
        let link = at(b"a/c/three\0");
        assert_eq!(&bytes[link - HEADER + 6 + 8..][..8], b"0000a1ff", "its mode");
        assert_eq!(&bytes[link + 10..][..8], b"/a/b/one");
        assert_eq!(bytes.windows(4).filter(|window| window == b"a/b\0").count(), 1);
        assert_eq!(bytes.len() % 4, 0);
        let file = at(b"a/b/one\0");
        assert_eq!(&bytes[file - HEADER + 6 + 6 * 8..][..8], b"00000005", "its size");
        assert_eq!(&bytes[file + 8..][..0], b"");
    }
}
