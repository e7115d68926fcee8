//! What programs find of the devices below `/sys` and `/dev`. There are no such files: the library
//! that `srnic run` has loaded before the C library (`preload/`) asks here, by `calls`.

mod calls;
mod interfaces;
#[cfg(test)]
mod tests;

use crate::address::gid_of;
use crate::device::{self, Device};
use crate::errno::{Errno, Result};
use crate::ucma;
use core::ffi::c_int;
use std::fs::File;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, Seek as _, Write as _};
use std::os::fd::{FromRawFd as _, IntoRawFd as _};

/// The kernel's numbers of the devices of libibverbs.
const MAJOR: u32 = 231;
const MINOR_FIRST: u32 = 192;
/// Those of the connection manager's device; the minor is one that kernels give away.
const MISC_MAJOR: u32 = 10;
const CM_MINOR: u32 = 63;

/// What is at a path.
#[derive(PartialEq, Eq, Debug)]
pub enum Node {
    /// The names in it.
    Directory(Vec<String>),
    /// What it says.
    Text(String),
    /// A character device of that minor number.
    Character(u32),
    /// The connection manager's character device.
    ConnectionManager,
}

/// All that is no directory, of `devices`: the path and what is there.
fn leaves(devices: &[Device]) -> Vec<(String, Node)> {
    let mut leaves =
        vec![("/sys/class/infiniband_verbs/abi_version".to_owned(), Node::Text("6\n".to_owned()))];
    for (index, device) in (0..).zip(devices) {
        of_device(&mut leaves, device, index);
    }
    if !devices.is_empty() {
        // Of the interface of `ucma`.
        leaves.push(("/sys/class/misc/rdma_cm/abi_version".to_owned(), Node::Text("4\n".to_owned())));
        leaves.push(("/dev/infiniband/rdma_cm".to_owned(), Node::ConnectionManager));
    }
    leaves
}

/// What a device of a kernel's has: as much of it as programs look for.
fn of_device(leaves: &mut Vec<(String, Node)>, device: &Device, index: u32) {
    let config = device.config();
    let minor = MINOR_FIRST + index;
    let guid = guid_text(config.guid());
    let own = format!("/sys/class/infiniband/{}", config.name);
    let verbs = format!("/sys/class/infiniband_verbs/uverbs{index}");
    let mut text = |path: String, says: &str| leaves.push((path, Node::Text(format!("{says}\n"))));
    for (file, says) in [
        ("node_type", "1: CA"),
        ("node_desc", "srnic"),
        ("node_guid", guid.as_str()),
        ("sys_image_guid", guid.as_str()),
        ("device/numa_node", "-1"),
        ("ports/1/state", "4: ACTIVE"),
        ("ports/1/phys_state", "5: LinkUp"),
        ("ports/1/link_layer", "Ethernet"),
        ("ports/1/rate", &format!("{} Gb/sec", config.speed)),
        ("ports/1/lid", "0x0"),
        ("ports/1/pkeys/0", "0xffff"),
        ("ports/1/gid_attrs/types/0", "RoCE v2"),
        ("ports/1/gid_attrs/ndevs/0", config.name.as_str()),
    ] {
        text(format!("{own}/{file}"), says);
    }
    if let Some(ip) = config.ip() {
        text(format!("{own}/ports/1/gids/0"), &pairs_text(&gid_of(ip).bytes));
    }
    text(format!("{verbs}/ibdev"), &config.name);
    text(format!("{verbs}/abi_version"), "1");
    text(format!("{verbs}/dev"), &format!("{MAJOR}:{minor}"));
    leaves.push((format!("/dev/infiniband/uverbs{index}"), Node::Character(minor)));
}

/// As sysfs has them: bytes in twos, with colons.
fn pairs_text(bytes: &[u8]) -> String {
    let pairs: Vec<_> = bytes.chunks_exact(2).map(|pair| format!("{:02x}{:02x}", pair[0], pair[1])).collect();
    pairs.join(":")
}

fn guid_text(guid: u64) -> String {
    pairs_text(&guid.to_be_bytes())
}

/// What is at an absolute path, which may have `.`, `..` and empty parts.
pub fn find(path: &str) -> Result<Node> {
    find_among(device::known(), &plain(path))
}

fn find_among(devices: &[Device], path: &str) -> Result<Node> {
    let mut inside = Vec::new();
    for (leaf, node) in leaves(devices) {
        if leaf == path {
            return Ok(node);
        }
        let below = leaf.strip_prefix(path).and_then(|rest| rest.strip_prefix('/'));
        if let Some(name) = below.and_then(|below| below.split('/').next())
            && !inside.iter().any(|known| known == name)
        {
            inside.push(name.to_owned());
        }
    }
    if inside.is_empty() { Err(Errno::NO_ENTRY) } else { Ok(Node::Directory(inside)) }
}

/// The path without `.`, `..` and empty parts. None of its parts is a link.
pub fn plain(path: &str) -> String {
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => _ = parts.pop(),
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

impl Node {
    /// Type and permissions, as `stat` tells them.
    const fn mode(&self) -> u32 {
        match self {
            Self::Directory(_) => libc::S_IFDIR | 0o555,
            Self::Text(_) => libc::S_IFREG | 0o444,
            Self::Character(_) | Self::ConnectionManager => libc::S_IFCHR | 0o666,
        }
    }

    /// What `stat` tells, of the node at a path without detours.
    fn status(&self, path: &str) -> libc::stat {
        // SAFETY: all zeros is a value of the structure.
        let mut status: libc::stat = unsafe { core::mem::zeroed() };
        status.st_mode = self.mode();
        // Who walks through directories knows by it where it was.
        let mut hasher = DefaultHasher::new();
        path.hash(&mut hasher);
        status.st_ino = hasher.finish();
        status.st_nlink = 1;
        status.st_blksize = 4096;
        match self {
            Self::Directory(_) => {}
            Self::Text(text) => status.st_size = text.len().try_into().unwrap_or_default(),
            Self::Character(minor) => status.st_rdev = libc::makedev(MAJOR, *minor),
            Self::ConnectionManager => status.st_rdev = libc::makedev(MISC_MAJOR, CM_MINOR),
        }
        status
    }

    /// A descriptor, as `open` makes it with these flags. Texts are read only, and from a device
    /// there is nothing to read: libibverbs is how programs use it.
    fn open(&self, flags: c_int) -> Result<c_int> {
        match self {
            Self::Directory(_) => Err(Errno::NOT_SUPPORTED),
            Self::Text(_) if flags & libc::O_ACCMODE != libc::O_RDONLY => Err(Errno(libc::EACCES)),
            Self::Text(text) => Ok(file_of(text, flags)?),
            Self::ConnectionManager => ucma::open(flags),
            Self::Character(_) => {
                // SAFETY: it is a C string.
                let fd =
                    unsafe { libc::open(c"/dev/null".as_ptr(), flags & !(libc::O_CREAT | libc::O_EXCL)) };
                if fd < 0 { Err(Errno::last()) } else { Ok(fd) }
            }
        }
    }
}

/// A file in memory that says `text`.
fn file_of(text: &str, flags: c_int) -> io::Result<c_int> {
    let close = if flags & libc::O_CLOEXEC == 0 { 0 } else { libc::MFD_CLOEXEC };
    // SAFETY: it is a C string.
    let fd = unsafe { libc::memfd_create(c"srnic".as_ptr(), close) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new, and nobody else's.
    let mut file = unsafe { File::from_raw_fd(fd) };
    file.write_all(text.as_bytes())?;
    file.rewind()?;
    Ok(file.into_raw_fd())
}
