//! What belongs to `srnic` where it is installed: links, manual pages, completions of shells.

#[cfg(test)]
mod tests;

use crate::error::{Error, Result};
use crate::subcommands::ALL;
use crate::{front, interrupt, output, program};
use clap::Subcommand;
use clap_complete::Shell;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// A subcommand that is about the program itself.
#[derive(Subcommand, Debug)]
pub enum Install {
    /// Makes a link to this program for each subcommand: srnic_write_bw is srnic write-bw
    Link {
        /// Where the links go, such as ~/.cargo/bin
        directory: PathBuf,
    },
    /// Writes the manual pages
    #[command(hide = true)]
    Man {
        /// Where they go; it is made if it is not there
        directory: PathBuf,
    },
    /// Prints what a shell needs to complete command lines
    #[command(hide = true)]
    Completions {
        /// The shell
        shell: Shell,
    },
}

/// Does it.
#[must_use]
pub fn main(task: &Install) -> ExitCode {
    program::call("srnic".to_owned());
    interrupt::tool_main(|| match task {
        Install::Link { directory } => link(directory),
        Install::Man { directory } => man(directory),
        Install::Completions { shell } => output::lines(completions(*shell)),
    })
}

/// A link of each subcommand's name; what has such a name and is no link is left alone.
fn link(directory: &Path) -> Result<()> {
    let program = std::env::current_exe().map_err(Error::file("find", Path::new("/proc/self/exe")))?;
    let target = target(&program, directory);
    for name in ALL.iter().map(|subcommand| subcommand.link()) {
        let link = directory.join(name);
        point(&link, &target).map_err(Error::file("link", &link))?;
    }
    output::line(format_args!("{} links to {} in {}", ALL.len(), program.display(), directory.display()))
}

/// How a link in `directory` names the program: by its name alone where that is beside it, so that
/// both may move together.
fn target(program: &Path, directory: &Path) -> PathBuf {
    let here = directory.canonicalize().ok().filter(|here| program.parent() == Some(here));
    here.and(program.file_name()).map_or_else(|| program.to_owned(), PathBuf::from)
}

/// Has `link` point to `program`, and not to what it pointed to before.
fn point(link: &Path, program: &Path) -> std::io::Result<()> {
    match fs::read_link(link) {
        Ok(_) => fs::remove_file(link)?,
        // It is a file of its own, as programs of earlier versions are.
        Err(error) if error.kind() == ErrorKind::InvalidInput => {
            return Err(std::io::Error::new(ErrorKind::AlreadyExists, "it is there and no link; remove it"));
        }
        Err(_) => {}
    }
    symlink(program, link)
}

/// A page for the program and for each subcommand, as `srnic-write-bw.1`, and one for each link,
/// as `srnic_write_bw.1`, that leads to it.
fn man(directory: &Path) -> Result<()> {
    fs::create_dir_all(directory).map_err(Error::file("create", directory))?;
    clap_mangen::generate_to(front::command(), directory)
        .map_err(Error::file("write pages to", directory))?;
    for subcommand in ALL {
        let page = directory.join(format!("{}.1", subcommand.link()));
        // A page of `man` may consist of the name of another, below the directory of all sections.
        let other = format!(".so man1/srnic-{}.1\n", subcommand.name);
        fs::write(&page, other).map_err(Error::file("write", &page))?;
    }
    Ok(())
}

/// What a shell reads.
fn completions(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut front::command(), "srnic", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}
