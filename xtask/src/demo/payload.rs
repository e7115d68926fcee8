//! What the demo sends: a file made of real files, because zeros and counters hide misplaced data.

use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest, Sha256};

use crate::error::{Error, Result};
use crate::interrupt;

/// Where to look for files, in order: what every Linux has, then what every Rust has.
pub fn roots() -> Vec<PathBuf> {
    let mut roots = vec![PathBuf::from("/usr/lib"), PathBuf::from("/usr/share")];
    if let Ok(output) = Command::new("rustc").args(["--print", "sysroot"]).output() {
        roots.push(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()));
    }
    roots
}

/// Packs the files below `roots` one behind the other, each after a line with its path and length,
/// until the whole is `size` bytes long. The same files give the same bytes.
pub fn pack(into: &Path, roots: &[PathBuf], size: u64) -> Result<()> {
    let fails = |e: io::Error| Error::io("write", into, &e);
    let mut out = BufWriter::new(File::create(into).map_err(fails)?);
    let mut left = size;
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
    if left > 0 {
        return Err(Error::new("this machine has too few files to pack: name one, `cargo xtask demo FILE`"));
    }
    Ok(())
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
    use crate::scratch::Scratch;

    #[test]
    fn a_digest_is_that_of_the_standard_and_packing_repeats_itself() {
        let scratch = Scratch::new().expect("a directory of our own");
        let file = scratch.path().join("abc");
        fs::write(&file, "abc").expect("written");
        // FIPS 180-4, the one-block example.
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(digest(&file).as_deref(), Ok(abc));

        let tree = scratch.path().join("tree");
        fs::create_dir_all(tree.join("b")).expect("made");
        fs::write(tree.join("a"), "first").expect("written");
        fs::write(tree.join("b/c"), "second").expect("written");
        fs::write(tree.join("d"), "third").expect("written");
        std::os::unix::fs::symlink("a", tree.join("link")).expect("made");
        let t = tree.display();
        let all = format!("{t}/a 5\nfirst{t}/b/c 6\nsecond{t}/d 5\nthird");
        let packed = scratch.path().join("packed");
        let pack = |size| {
            pack(&packed, std::slice::from_ref(&tree), size).map(|()| fs::read(&packed).expect("packed"))
        };
        assert_eq!(pack(all.len() as u64).as_deref(), Ok(all.as_bytes()), "sorted, without links");
        assert_eq!(pack(9).as_deref(), Ok(&all.as_bytes()[..9]), "cut at the size");
        let error = pack(all.len() as u64 + 1).expect_err("there is no more");
        assert!(error.0.contains("too few files"), "{error}");
    }
}
