//! What the preloaded library calls. Each call returns minus an errno if it fails
//! (preload/src/ours.rs).

use super::{Node, find, plain};
use crate::argument::Out;
use crate::errno::{Errno, Result};
use core::ffi::{CStr, c_char, c_int};

/// A path as Rust has it.
fn text(path: &CStr) -> Result<&str> {
    // None of ours has other characters.
    path.to_str().map_err(|_| Errno::NO_ENTRY)
}

/// An entry of a directory.
fn entry_of(name: &str) -> libc::dirent {
    // SAFETY: all zeros is a value of the structure.
    let mut entry: libc::dirent = unsafe { core::mem::zeroed() };
    // Some readers leave out what has no number.
    entry.d_ino = 1;
    entry.d_type = libc::DT_UNKNOWN;
    entry.d_reclen = size_of::<libc::dirent>().try_into().unwrap_or_default();
    let room = entry.d_name.len() - 1;
    for (to, from) in entry.d_name[..room].iter_mut().zip(name.bytes()) {
        *to = from.cast_signed();
    }
    entry
}

exports! {
    fn srnic_path_open(path: &CStr, flags: c_int) -> c_int = negative {
        find(text(path)?)?.open(flags)
    }

    fn srnic_path_stat(path: &CStr, status: Out<libc::stat>) -> c_int = negative {
        let path = plain(text(path)?);
        status.set(find(&path)?.status(&path));
        Ok(0)
    }

    fn srnic_path_entry(path: &CStr, index: usize, entry: Out<libc::dirent>) -> c_int = negative {
        let Node::Directory(names) = find(text(path)?)? else { return Err(Errno(libc::ENOTDIR)) };
        let all = [".", ".."].into_iter().chain(names.iter().map(String::as_str));
        let Some(name) = all.into_iter().nth(index) else { return Ok(0) };
        entry.set(entry_of(name));
        Ok(1)
    }

    fn srnic_path_real(path: &CStr, real: Out<[c_char; libc::PATH_MAX as usize]>) -> c_int = negative {
        let path = plain(text(path)?);
        find(&path)?;
        if path.len() >= libc::PATH_MAX as usize {
            return Err(Errno(libc::ENAMETOOLONG));
        }
        real.set(crate::device::chars(&path));
        Ok(0)
    }
}
