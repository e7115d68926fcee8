//! The guest's file system: the kernel's soft-RoCE, and the stock tools.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::guest::image::Image;
use crate::guest::packages::Files;

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
    "usr/bin/rdma",
    "bin/ip",
];
/// What the tools load at run time, and where they look for it.
const PROVIDER: &str = "usr/lib/x86_64-linux-gnu/libibverbs";

/// Makes the image from the unpacked packages; returns its file.
pub fn build(place: &Path, files: &Files) -> Result<PathBuf> {
    let mut image = Image::new(files, include_str!("init.sh"))?;
    for (path, content) in [
        ("etc/hosts", "127.0.0.1 localhost\n"),
        ("etc/passwd", "root:x:0:0::/:/bin/sh\n"),
        ("etc/nsswitch.conf", "hosts: files\npasswd: files\n"),
        ("etc/libibverbs.d/rxe.driver", "driver rxe\n"),
    ] {
        image.text(path, content);
    }
    image.modules("modules", MODULES)?;
    for tool in TOOLS {
        image.program(&tool.replace("usr/bin", "bin"), &files.root.join(tool))?;
    }
    let provider = files.root.join(PROVIDER);
    let entries = fs::read_dir(&provider).map_err(|e| Error::io("list", &provider, &e))?;
    for file in entries.flatten().map(|entry| entry.path()) {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with("librxe") {
            image.program(&format!("{PROVIDER}/{name}"), &file)?;
        }
    }
    let file = place.join("image.cpio");
    image.finish(&file)?;
    Ok(file)
}
