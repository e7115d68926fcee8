//! Where the repository is, and how its tools are called.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::error::{Error, Result};

/// The profile of programs that are measured or given to users.
pub const RELEASE: &str = "release";

/// The profile of programs that tests run: optimised, too, but built in a fraction of the time.
pub const CHECKED: &str = "checked";

/// The repository's root.
pub fn root() -> PathBuf {
    // Cargo sets the variable for `cargo run`; a binary called directly falls back on where it was
    // built.
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    manifest.parent().map_or_else(|| manifest.clone(), Path::to_path_buf)
}

/// `cargo ARGS..` in the repository's root, by the cargo that runs us.
pub fn cargo(args: &[&str]) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(args).current_dir(root());
    command
}

/// Where Cargo puts what it builds.
pub fn target_directory() -> Result<PathBuf> {
    let output = cargo(&["metadata", "--no-deps", "--format-version", "1"])
        .output()
        .map_err(|e| Error(format!("cannot start `cargo metadata`: {e}")))?;
    serde_json::from_slice::<serde_json::Value>(&output.stdout)
        .ok()
        .and_then(|metadata| metadata["target_directory"].as_str().map(PathBuf::from))
        .ok_or_else(|| {
            Error(format!("`cargo metadata` failed: {}", String::from_utf8_lossy(&output.stderr).trim()))
        })
}

/// The files of a directory and below whose names end in `.extension`, sorted; not those that Cargo
/// writes into a `target`.
pub fn files(directory: &Path, extension: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(directory) = directories.pop() {
        let entries = std::fs::read_dir(&directory).map_err(|e| Error::io("list", &directory, &e))?;
        for path in entries.flatten().map(|entry| entry.path()) {
            if path.is_dir() {
                // Cargo's, not ours: the fuzz targets are a workspace of their own.
                directories.extend((!path.ends_with("target")).then_some(path));
            } else if path.extension().is_some_and(|found| found == extension) {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// The directories of the repository that hold its files: what is built, and what is hidden, is in
/// others.
pub fn directories() -> Result<Vec<PathBuf>> {
    let root = root();
    let entries = std::fs::read_dir(&root).map_err(|e| Error::io("list", &root, &e))?;
    let is_ours = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        path.is_dir() && !name.starts_with('.') && name != "target"
    };
    Ok(entries.flatten().map(|entry| entry.path()).filter(is_ours).collect())
}

/// Where a program is.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let more = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(more).map(|dir| dir.join(program)).find(|file| file.is_file())
}

/// Runs `command` to its end, with our own input and output.
pub fn run(mut command: Command) -> Result<()> {
    let status = command
        .status()
        .map_err(|e| Error(format!("cannot start `{}`: {e}", command.get_program().display())))?;
    if status.success() { Ok(()) } else { Err(Error(format!("`{}` failed: {status}", shown(&command)))) }
}

/// A command that has come to its end, and what it said.
pub struct Heard {
    command: String,
    output: Output,
}

impl Heard {
    /// Shows what it said; an error if it failed.
    pub fn show(&self) -> Result<()> {
        print!("{}", String::from_utf8_lossy(&self.output.stdout));
        eprint!("{}", String::from_utf8_lossy(&self.output.stderr));
        let status = self.output.status;
        if status.success() { Ok(()) } else { Err(Error(format!("`{}` failed: {status}", self.command))) }
    }
}

/// Runs `command` to its end, and keeps what it says.
pub fn heard(command: &mut Command) -> Result<Heard> {
    let output = command
        .output()
        .map_err(|e| Error(format!("cannot start `{}`: {e}", command.get_program().display())))?;
    Ok(Heard { command: shown(command), output })
}

/// What a command says, if it succeeds.
pub fn output(command: &mut Command) -> Result<String> {
    let Heard { command, output } = heard(command)?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(Error(format!("`{command}` failed: {}: {said}", output.status)))
}

/// The command as a person would type it.
pub fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let mut text = program.file_name().unwrap_or(program.as_os_str()).to_string_lossy().into_owned();
    for arg in command.get_args() {
        text.push(' ');
        text.push_str(&arg.to_string_lossy());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_holds_the_workspace() {
        let manifest = std::fs::read_to_string(root().join("Cargo.toml")).expect("a manifest at the root");
        assert!(manifest.contains("[workspace]"));
    }

    #[test]
    fn the_target_directory_holds_this_test() {
        let target = target_directory().expect("cargo metadata works");
        let me = std::env::current_exe().expect("we are a file");
        assert!(me.starts_with(&target), "{} is not below {}", me.display(), target.display());
    }

    #[test]
    fn a_failing_command_is_named_in_the_error() {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "exit 3"]);
        let error = run(command).expect_err("the command fails");
        assert_eq!(error.0, "`sh -c exit 3` failed: exit status: 3");
    }

    #[test]
    fn a_command_that_is_not_there_is_an_error() {
        let error = run(Command::new("/nonexistent/tool")).expect_err("there is no such tool");
        assert!(error.0.starts_with("cannot start `/nonexistent/tool`"), "{error}");
    }
}
