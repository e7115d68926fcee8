//! A guest's first and only file system: busybox, modules of the kernel's, programs and their
//! libraries.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::cpio::Archive;
use super::packages::Files;
use crate::error::{Error, Result};
use crate::repo::{find, output};

/// What the C library loads when a thread ends, so that no list of libraries has it. Without it
/// `rping` is aborted.
const LOADED_LATE: &str = "libgcc_s.so.1";
const LIBRARIES: &str = "lib/x86_64-linux-gnu";

/// An image in the making.
pub struct Image<'a> {
    files: &'a Files,
    archive: Archive,
    /// What the programs so far load, where it is on this machine.
    libraries: Vec<PathBuf>,
}

impl<'a> Image<'a> {
    /// Busybox, and what it starts with: `setup` is what init does between its beginning and its
    /// end, and sets `ready` to what it says when it is done.
    pub fn new(files: &'a Files, setup: &str) -> Result<Self> {
        let mut archive = Archive::default();
        let init = [include_str!("begin.sh"), setup, include_str!("end.sh")].concat();
        archive.file("init", init.as_bytes());
        let busybox = find("busybox").ok_or_else(|| Error::new("there is no busybox"))?;
        archive.file("bin/busybox", &read(&busybox)?);
        let dirs = library_dirs(&files.root)
            .into_iter()
            .chain(["/lib", "/usr/lib"].map(|dir| PathBuf::from(dir).join("x86_64-linux-gnu")));
        let late = dirs.map(|dir| dir.join(LOADED_LATE)).find(|file| file.exists());
        let late =
            late.ok_or_else(|| Error(format!("this machine has no {LOADED_LATE}; install libgcc-s1")))?;
        Ok(Self { files, archive, libraries: vec![late] })
    }

    /// Adds a file of this text.
    pub fn text(&mut self, path: &str, content: &str) {
        self.archive.file(path, content.as_bytes());
    }

    /// Adds modules of the kernel's with those that they depend on, in a directory of that name,
    /// numbered in the order in which they are loaded.
    pub fn modules(&mut self, directory: &str, modules: &[&str]) -> Result<()> {
        let Files { root, release, .. } = self.files;
        output(Command::new("depmod").arg("-b").arg(root).arg(release))?;
        let mut loaded: Vec<PathBuf> = Vec::new();
        for module in modules {
            let mut show = Command::new("modprobe");
            show.arg("-d").arg(root).args(["-S", release, "--show-depends", module]);
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
            self.archive.file(&format!("{directory}/{number:02}-{}", name_of(file)), &read(file)?);
        }
        Ok(())
    }

    /// Adds a program, or what one loads at run time, at `path`.
    pub fn program(&mut self, path: &str, file: &Path) -> Result<()> {
        self.archive.file(path, &read(file)?);
        self.libraries_of(file)
    }

    /// Adds a library that a program loads at run time by the name `path`. It is one file with the
    /// library that others load: both are the same to the loader.
    pub fn plugin(&mut self, path: &str, file: &Path) -> Result<()> {
        let library = fs::canonicalize(file).map_err(|e| Error::io("find", file, &e))?;
        let soname = soname(&library)?;
        self.archive.link(path, &format!("/{LIBRARIES}/{soname}"));
        self.libraries_of(&library)?;
        let directory = library.parent().unwrap_or(Path::new("/"));
        self.needs(directory.join(soname));
        Ok(())
    }

    /// Writes it.
    pub fn finish(mut self, image: &Path) -> Result<()> {
        for library in &self.libraries {
            let name = name_of(library);
            let dir = if name.starts_with("ld-linux") { "lib64" } else { LIBRARIES };
            self.archive.file(&format!("{dir}/{name}"), &read(library)?);
        }
        fs::write(image, self.archive.finish()).map_err(|e| Error::io("write", image, &e))
    }

    /// Notes the libraries that a program loads, those of the packages before this machine's.
    fn libraries_of(&mut self, program: &Path) -> Result<()> {
        let path = std::env::join_paths(library_dirs(&self.files.root))
            .map_err(|e| Error(format!("a directory with a colon: {e}")))?;
        let said = output(Command::new("ldd").arg(program).env("LD_LIBRARY_PATH", path))?;
        if let Some(missing) = said.lines().find(|line| line.contains("not found")) {
            return Err(Error(format!("{}: {}", program.display(), missing.trim())));
        }
        for line in said.lines() {
            if let Some(file) = line.split_whitespace().find(|word| word.starts_with('/')) {
                self.needs(PathBuf::from(file));
            }
        }
        Ok(())
    }

    /// Of libraries of one name the first counts.
    fn needs(&mut self, library: PathBuf) {
        if self.libraries.iter().all(|other| other.file_name() != library.file_name()) {
            self.libraries.push(library);
        }
    }
}

/// The name by which others load a library, such as `librte_bus_pci.so.23` of the file
/// `librte_bus_pci.so.23.0`.
fn soname(library: &Path) -> Result<String> {
    let name = name_of(library);
    let (stem, version) =
        name.split_once(".so.").ok_or_else(|| Error(format!("{name} has no version in its name")))?;
    Ok(format!("{stem}.so.{}", version.split('.').next().unwrap_or(version)))
}

fn name_of(file: &Path) -> String {
    file.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Where the packages have their libraries.
fn library_dirs(root: &Path) -> [PathBuf; 2] {
    [root.join("usr/lib/x86_64-linux-gnu"), root.join(LIBRARIES)]
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).map_err(|e| Error::io("read", path, &e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_is_loaded_by_the_first_number_of_its_version() {
        assert_eq!(soname(Path::new("/a/librte_x.so.23.0")), Ok("librte_x.so.23".to_owned()));
        assert_eq!(soname(Path::new("librte_x.so.25")), Ok("librte_x.so.25".to_owned()));
        assert!(soname(Path::new("/a/librte_x.so")).is_err());
    }
}
