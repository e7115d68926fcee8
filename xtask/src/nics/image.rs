//! The guests' file system: `srnic`, and the drivers of DPDK's that it loads.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{Error, Result};
use crate::guest::image::Image;
use crate::guest::packages::Files;
use crate::repo::output;

/// What the guest's kernel needs beyond what is built in; vfio-pci loads nothing by itself.
const MODULES: &[&str] = &["virtio_pci", "virtio_net", "uio_pci_generic", "vfio_iommu_type1", "vfio_pci"];
/// The plugins of DPDK's that are wanted, of the hundreds that there are.
const PLUGINS: [&str; 6] = [
    "librte_bus_pci",
    "librte_bus_vdev",
    "librte_mempool_ring",
    "librte_net_virtio",
    "librte_net_e1000",
    "librte_net_vmxnet3",
];

/// Makes the image; returns its file.
pub fn build(place: &Path, files: &Files, program: &Path) -> Result<PathBuf> {
    let mut image = Image::new(files, include_str!("init.sh"))?;
    image.modules("modules", MODULES)?;
    image.program("bin/srnic", program)?;
    let directory = plugins()?;
    for plugin in PLUGINS {
        let file = newest(&directory, plugin)?;
        // Where EAL looks for it.
        let path = file.strip_prefix("/").unwrap_or(&file).display().to_string();
        image.plugin(&path, &file)?;
    }
    let file = place.join("image.cpio");
    image.finish(&file)?;
    Ok(file)
}

/// Where DPDK keeps its plugins: `dpdk/pmds-23.0` below its libraries.
fn plugins() -> Result<PathBuf> {
    let libraries = output(Command::new("pkg-config").args(["--variable=libdir", "libdpdk"]))?;
    let place = Path::new(libraries.trim()).join("dpdk");
    let entries = fs::read_dir(&place).map_err(|e| Error::io("list", &place, &e))?;
    let mut found: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    found.sort();
    found.pop().ok_or_else(|| Error(format!("{} has no plugins of DPDK", place.display())))
}

/// The file of a plugin itself, such as `librte_bus_pci.so.23.0`, and no link to it.
fn newest(directory: &Path, plugin: &str) -> Result<PathBuf> {
    let link = directory.join(format!("{plugin}.so"));
    fs::canonicalize(&link).map_err(|e| Error::io("find", &link, &e)).map(|file| match file.file_name() {
        Some(name) => directory.join(name),
        None => file,
    })
}
