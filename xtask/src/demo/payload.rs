//! What the demo sends: a file made of real files, because zeros and counters hide misplaced data.

use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest, Sha256};

use super::interrupt;
use crate::error::{Error, Result};

/// Length of the packed file in bytes.
pub const SIZE: u64 = 384 << 20;
/// Least length that the demo accepts where the machine has little.
const SIZE_MIN: u64 = 256 << 20;

/// Where to look for files, in order: what every Linux has, then what every Rust has.
pub fn roots() -> Vec<PathBuf> {
    let mut roots = vec![PathBuf::from("/usr/lib"), PathBuf::from("/usr/share")];
    if let Ok(output) = Command::new("rustc").args(["--print", "sysroot"]).output() {
        roots.push(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()));
    }
    roots
}

/// Packs the files below `roots` one behind the other, each after a line with its path and length, until the whole
/// is [`SIZE`] bytes long. The same files give the same bytes.
pub fn pack(into: &Path, roots: &[PathBuf]) -> Result<u64> {
    let fails = |e: io::Error| Error::io("write", into, &e);
    let mut out = BufWriter::new(File::create(into).map_err(fails)?);
    let mut left = SIZE;
    // A stack, filled in reverse order: files come sorted, a directory's before the next one's.
    let mut stack: Vec<PathBuf> = roots.iter().rev().cloned().collect();
    while let Some(path) = stack.pop() {
        interrupt::check()?;
        // Links are not followed, and what we may not read is left out.
        let Ok(meta) = fs::symlink_metadata(&path) else { continue };
        if meta.is_dir() {
            let entries = fs::read_dir(&path).into_iter().flatten().flatten();
            let mut entries: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
            entries.sort_unstable_by(|a, b| b.cmp(a));
            stack.append(&mut entries);
        } else if meta.is_file()
            && let Ok(file) = File::open(&path)
        {
            let header = format!("{} {}\n", path.display(), meta.len());
            let mut member = header.as_bytes().chain(file).take(left);
            left -= io::copy(&mut member, &mut out).map_err(fails)?;
            if left == 0 {
                break;
            }
        }
    }
    out.flush().map_err(fails)?;
    if SIZE - left < SIZE_MIN {
        return Err(Error::new("this machine has too few files to pack: name one, `cargo xtask demo FILE`"));
    }
    Ok(SIZE - left)
}

/// SHA-256 of a file, in hexadecimal.
pub fn digest(file: &Path) -> Result<String> {
    let fails = |e: io::Error| Error::io("read", file, &e);
    let mut input = File::open(file).map_err(fails)?;
    let mut hasher = Sha256::new();
    let mut block = vec![0; 1 << 20];
    loop {
        interrupt::check()?;
        match input.read(&mut block).map_err(fails)? {
            0 => return Ok(format!("{:x}", hasher.finalize())),
            n => hasher.update(&block[..n]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::scratch::Scratch;

    #[test]
    fn the_digest_is_that_of_the_standard() {
        let scratch = Scratch::new().expect("a directory of our own");
        let file = scratch.path().join("abc");
        fs::write(&file, "abc").expect("written");
        // FIPS 180-4, the one-block example.
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(digest(&file).as_deref(), Ok(abc));

        let tree = scratch.path().join("tree");
        fs::create_dir(&tree).expect("made");
        fs::write(tree.join("small"), "too little").expect("written");
        let error = pack(&scratch.path().join("packed"), &[tree]).expect_err("10 bytes are too few");
        assert!(error.0.contains("too few files"), "{error}");
    }
}
