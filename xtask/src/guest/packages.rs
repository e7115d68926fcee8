//! Debian's packages of the guests: fetched once, unpacked beside the build, never installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{Error, Result};
use crate::repo::{self, output};

/// What the guests are made of, beside their kernel.
const PACKAGES: &[&str] = &[
    "libibverbs1",
    "ibverbs-utils",
    "ibverbs-providers",
    "librdmacm1",
    "rdmacm-utils",
    "perftest",
    "libibumad3",
    "libnl-3-200",
    "libnl-route-3-200",
    "libpci3",
    "iproute2",
];
/// What is said where they cannot be had.
pub const MISSING: &str = "skipped: Debian's packages of the guest cannot be had here (apt-get download)";
/// The package that depends on the release's newest kernel.
const KERNEL: &str = "linux-image-amd64";

/// The unpacked packages.
pub struct Files {
    /// The root of their files.
    pub root: PathBuf,
    /// The kernel to boot.
    pub kernel: PathBuf,
    /// Its release, as its directory of modules is called.
    pub release: String,
}

/// Fetches and unpacks the packages, unless that was done before.
pub fn unpack() -> Result<Files> {
    let place = repo::target_directory()?.join("guest");
    let (debs, root, done) = (place.join("debs"), place.join("root"), place.join("unpacked"));
    if !done.exists() {
        for dir in [&debs, &root] {
            fs::create_dir_all(dir).map_err(|e| Error::io("create", dir, &e))?;
        }
        let kernel = kernel_package()?;
        println!("fetching {kernel} {}", PACKAGES.join(" "));
        let mut download = Command::new("apt-get");
        download.args(["download", "-q", "-o", "APT::Sandbox::User=root", &kernel]).args(PACKAGES);
        output(download.current_dir(&debs))?;
        for deb in listed(&debs)? {
            output(Command::new("dpkg").arg("-x").arg(&deb).arg(&root))?;
        }
        fs::write(&done, kernel).map_err(|e| Error::io("write", &done, &e))?;
    }
    let modules = listed(&root.join("lib/modules"))?;
    let release =
        modules.first().and_then(|dir| dir.file_name()).map(|name| name.to_string_lossy().into_owned());
    let release = release.ok_or_else(|| Error::new("the kernel's package has no modules"))?;
    Ok(Files { kernel: root.join(format!("boot/vmlinuz-{release}")), root, release })
}

/// The name of the newest kernel's package, such as `linux-image-6.1.0-13-amd64`.
fn kernel_package() -> Result<String> {
    let depends = output(Command::new("apt-cache").args(["depends", KERNEL]))?;
    let name = depends.lines().find_map(|line| line.trim().strip_prefix("Depends: "));
    name.map(str::to_owned).ok_or_else(|| Error(format!("{KERNEL} depends on no kernel")))
}

/// What is in a directory, in order.
fn listed(dir: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(dir).map_err(|e| Error::io("list", dir, &e))?;
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    Ok(paths)
}
