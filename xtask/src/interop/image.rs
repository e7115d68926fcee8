//! The guest's first and only file system: busybox, the kernel's modules, the stock tools and their
//! libraries.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::cpio::Archive;
use super::packages::Files;
use crate::error::{Error, Result};
use crate::repo::find;
use crate::repo::output;

/// What the guest's kernel needs beyond what is built in. rxe computes its ICRC by a driver of
/// crc32.
const MODULES: &[&str] =
    &["virtio_pci", "virtio_net", "crc32_pclmul", "crc32_generic", "rdma_rxe", "rdma_ucm", "ib_uverbs"];
/// The stock tools, where their packages have them.
const TOOLS: &[&str] = &[
    "usr/bin/ibv_devinfo",
    "usr/bin/ibv_rc_pingpong",
    "usr/bin/ibv_uc_pingpong",
    "usr/bin/ibv_ud_pingpong",
    "usr/bin/ib_send_bw",
    "usr/bin/ib_send_lat",
    "usr/bin/ib_write_bw",
    "usr/bin/ib_write_lat",
    "usr/bin/ib_read_bw",
    "usr/bin/ib_read_lat",
    "usr/bin/ib_atomic_bw",
    "usr/bin/ib_atomic_lat",
    "usr/bin/rping",
];
/// What the C library loads when a thread ends, so that no list of libraries has it. Without it
/// `rping` is aborted.
const LOADED_LATE: &str = "libgcc_s.so.1";
/// What the tools load at run time, and where they look for it.
const PROVIDER: &str = "usr/lib/x86_64-linux-gnu/libibverbs";
const LIBRARIES: &str = "lib/x86_64-linux-gnu";

/// Makes the image from the unpacked packages, unless it is there; returns its file.
pub fn build(place: &Path, files: &Files) -> Result<PathBuf> {
    let image = place.join("image.cpio");
    let init = include_str!("init.sh");
    let stamp = place.join("image.made-of");
    // An image of other parts is made anew.
    let parts = format!("{MODULES:?} {TOOLS:?} {LOADED_LATE}\n{init}");
    if image.exists() && fs::read_to_string(&stamp).is_ok_and(|made_of| made_of == parts) {
        return Ok(image);
    }
    let mut archive = Archive::default();
    archive.file("init", init.as_bytes());
    for (path, content) in [
        ("etc/hosts", "127.0.0.1 localhost\n"),
        ("etc/passwd", "root:x:0:0::/:/bin/sh\n"),
        ("etc/nsswitch.conf", "hosts: files\npasswd: files\n"),
        ("etc/libibverbs.d/rxe.driver", "driver rxe\n"),
    ] {
        archive.file(path, content.as_bytes());
    }
    let busybox = find("busybox").ok_or_else(|| Error::new("there is no busybox"))?;
    archive.file("bin/busybox", &read(&busybox)?);
    add_modules(&mut archive, files)?;
    add_programs(&mut archive, &files.root)?;
    fs::write(&image, archive.finish()).map_err(|e| Error::io("write", &image, &e))?;
    fs::write(&stamp, parts).map_err(|e| Error::io("write", &stamp, &e))?;
    Ok(image)
}

/// The modules with those that they depend on, numbered in the order in which they are loaded.
fn add_modules(archive: &mut Archive, files: &Files) -> Result<()> {
    output(Command::new("depmod").arg("-b").arg(&files.root).arg(&files.release))?;
    let mut loaded: Vec<PathBuf> = Vec::new();
    for module in MODULES {
        let mut show = Command::new("modprobe");
        show.arg("-d").arg(&files.root).args(["-S", &files.release, "--show-depends", module]);
        let needed = output(&mut show)?;
        // Lines are `insmod FILE [options]`, or `builtin NAME`.
        let needed =
            needed.lines().filter_map(|line| line.strip_prefix("insmod ")?.split_whitespace().next());
        for file in needed.map(PathBuf::from) {
            if !loaded.contains(&file) {
                loaded.push(file);
            }
        }
    }
    for (number, file) in loaded.iter().enumerate() {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        archive.file(&format!("modules/{number:02}-{name}"), &read(file)?);
    }
    Ok(())
}

/// The tools, what they load, and all libraries that those need.
fn add_programs(archive: &mut Archive, root: &Path) -> Result<()> {
    let mut programs: Vec<(String, PathBuf)> = TOOLS
        .iter()
        .map(|tool| (tool.replace("usr/bin", "bin"), root.join(tool)))
        .chain([
            ("bin/rdma".to_owned(), root.join("usr/bin/rdma")),
            ("bin/ip".to_owned(), root.join("bin/ip")),
        ])
        .collect();
    let providers = fs::read_dir(root.join(PROVIDER)).map_err(|e| Error::io("list", root, &e))?;
    for file in providers.flatten().map(|entry| entry.path()) {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with("librxe") {
            programs.push((format!("{PROVIDER}/{name}"), file));
        }
    }
    let dirs = library_dirs(root)
        .into_iter()
        .chain(["/lib", "/usr/lib"].map(|dir| PathBuf::from(dir).join("x86_64-linux-gnu")));
    let late = dirs.map(|dir| dir.join(LOADED_LATE)).find(|file| file.exists());
    let mut libraries =
        vec![late.ok_or_else(|| Error(format!("this machine has no {LOADED_LATE}; install libgcc-s1")))?];
    for (path, file) in &programs {
        archive.file(path, &read(file)?);
        for library in libraries_of(root, file)? {
            if !libraries.contains(&library) {
                libraries.push(library);
            }
        }
    }
    for library in libraries {
        let name = library.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let dir = if name.starts_with("ld-linux") { "lib64" } else { LIBRARIES };
        archive.file(&format!("{dir}/{name}"), &read(&library)?);
    }
    Ok(())
}

/// Where the packages have their libraries.
fn library_dirs(root: &Path) -> [PathBuf; 2] {
    [root.join("usr/lib/x86_64-linux-gnu"), root.join(LIBRARIES)]
}

/// The libraries that a program loads, those of the packages before this machine's.
fn libraries_of(root: &Path, program: &Path) -> Result<Vec<PathBuf>> {
    let path = std::env::join_paths(library_dirs(root))
        .map_err(|e| Error(format!("a directory with a colon: {e}")))?;
    let said = output(Command::new("ldd").arg(program).env("LD_LIBRARY_PATH", path))?;
    if let Some(missing) = said.lines().find(|line| line.contains("not found")) {
        return Err(Error(format!("{}: {}", program.display(), missing.trim())));
    }
    let files = said.lines().filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')));
    Ok(files.map(PathBuf::from).collect())
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).map_err(|e| Error::io("read", path, &e))
}
