//! Standard output and result files. The one may be a pipe whose reader has left, or a full disk;
//! the other a path where nobody can write, which is better known before an hour of measuring than
//! behind it.

use crate::error::{Error, Result};
use core::fmt;
use rustix::fs::{Access, access};
use std::fs::{OpenOptions, metadata};
use std::io::{self, ErrorKind, Write as _, stdout};
use std::path::Path;

/// Writes a line to standard output.
///
/// # Errors
/// [`Error::Output`].
pub fn line(text: impl fmt::Display) -> Result<()> {
    lines(format_args!("{text}\n"))
}

/// Writes lines to standard output, each of which has its end.
///
/// # Errors
/// [`Error::Output`].
pub fn lines(text: impl fmt::Display) -> Result<()> {
    let mut out = stdout().lock();
    write!(out, "{text}").and_then(|()| out.flush()).map_err(Error::Output)
}

/// Whether a file can be written later on, as far as that can be known without a trace of the
/// question.
///
/// # Errors
/// [`Error::File`].
pub fn check_file(path: Option<&Path>) -> Result<()> {
    path.map_or(Ok(()), |path| can_write(path).map_err(Error::file("write", path)))
}

fn can_write(path: &Path) -> io::Result<()> {
    match metadata(path) {
        Ok(found) if found.is_file() => OpenOptions::new().append(true).open(path).map(drop),
        Ok(found) if found.is_dir() => Err(ErrorKind::IsADirectory.into()),
        // Opening a pipe would wait for its reader.
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            let parent = parent.unwrap_or(Path::new("."));
            if let Ok(target) = path.read_link() {
                return can_write(&parent.join(target));
            }
            if path.as_os_str().is_empty() || path.as_os_str().as_encoded_bytes().ends_with(b"/") {
                return Err(error);
            }
            Ok(access(parent, Access::WRITE_OK | Access::EXEC_OK)?)
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_leaves_no_trace() {
        let dir = std::env::temp_dir().join(format!("srnic-output-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a directory of our own");
        let file = dir.join("old");
        std::fs::write(&file, "kept").expect("written");
        check_file(Some(&file)).expect("it can be written");
        assert_eq!(std::fs::read(&file).expect("it is there"), b"kept");
        check_file(Some(&dir.join("new"))).expect("it can be made");
        assert!(!dir.join("new").exists());
        let (good, bad) = (dir.join("good"), dir.join("bad"));
        std::os::unix::fs::symlink("new", &good).expect("made");
        check_file(Some(&good)).expect("the link's target can be made");
        std::os::unix::fs::symlink("missing/new", &bad).expect("made");
        let (nothing, no_directory) = ("".into(), dir.join("new/"));
        for impossible in [dir.clone(), dir.join("missing/new"), file.join("new"), bad, nothing, no_directory]
        {
            check_file(Some(&impossible)).expect_err("nobody can write there");
        }
        check_file(None).expect("nothing is to be written");
        std::fs::remove_dir_all(&dir).expect("ours");
    }
}
