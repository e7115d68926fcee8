//! The README's program, as a package outside the repository.

use std::fs;
use std::path::Path;

use crate::error::{Error, Result};
use crate::repo;

/// What is around the README's lines of Cargo.toml.
const PACKAGE: &str =
    "[package]\nname = \"program\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[dependencies]\n";

/// Builds it where there is no DPDK, and runs it.
pub const SCRIPT: &str = "
for program in pkg-config clang llvm-config; do
    if command -v $program; then echo \"$program is here: this shows nothing\"; exit 1; fi
done
cd /program
export CARGO_TARGET_DIR=/target/program
cargo build
/target/program/debug/program | tee /tmp/said
grep --quiet ': hello$' /tmp/said
";

/// Writes the package into a directory. Its Cargo.lock is ours, so that it needs no other crates.
pub fn write(directory: &Path) -> Result<()> {
    let root = repo::root();
    let read = |name: &str| {
        let path = root.join(name);
        fs::read_to_string(&path).map_err(|e| Error::io("read", &path, &e))
    };
    let readme = read("README.md")?;
    let missing = |language| Error(format!("README.md has no block of {language}"));
    let dependencies = block(&readme, "toml").ok_or_else(|| missing("toml"))?;
    let source = block(&readme, "rust").ok_or_else(|| missing("rust"))?;
    let files = [
        ("Cargo.toml", format!("{PACKAGE}{dependencies}")),
        ("src/main.rs", source.to_owned()),
        ("Cargo.lock", read("Cargo.lock")?),
    ];
    for (name, text) in files {
        let path = directory.join(name);
        fs::create_dir_all(path.parent().unwrap_or(directory))
            .and_then(|()| fs::write(&path, text))
            .map_err(|e| Error::io("write", &path, &e))?;
    }
    Ok(())
}

/// The first block of code in a language.
fn block<'a>(text: &'a str, language: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&format!("\n```{language}\n"))?;
    rest.split_once("```").map(|(block, _)| block)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_readme_has_a_program_and_what_it_depends_on() {
        let readme = fs::read_to_string(repo::root().join("README.md")).expect("it is there");
        assert!(block(&readme, "toml").expect("dependencies").starts_with("verbs-api = "));
        assert!(block(&readme, "rust").expect("a program").contains("fn main()"));
        assert_eq!(block(&readme, "cobol"), None);
    }
}
