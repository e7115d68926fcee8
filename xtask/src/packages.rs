//! Part of `cargo xtask lint`: the crates that shall be published can be packaged, and the packages
//! of the libraries build by themselves. With `cargo xtask test --all` those of the tools do, too,
//! which takes minutes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::error::{Error, Result};
use crate::repo::{self, cargo};

/// What a package tells its readers, by the keys of `cargo metadata`.
const METADATA: [&str; 6] = ["description", "license", "readme", "rust_version", "keywords", "categories"];

/// What programs depend on, with what it is made of.
const LIBRARIES: [&str; 11] = [
    "cc-dctcp",
    "pmd-bindings",
    "rdma-cm",
    "sr-recovery",
    "srnic-datapath",
    "srnic-icrc",
    "srnic-memif",
    "srnic-packet",
    "srnic-streams",
    "srnic-wire",
    "verbs-api",
];

/// Fails if a crate that shall be published cannot be, or the package of a library does not build.
pub fn check() -> Result<()> {
    let names = names(&published()?)?;
    repo::run(package(&names, &["--no-verify"]))?;
    let is_library = |name: &&String| LIBRARIES.contains(&name.as_str());
    repo::run(package(&names.iter().filter(is_library).cloned().collect::<Vec<_>>(), &[]))
}

/// Fails if the package of a crate that shall be published does not build.
pub fn check_all() -> Result<()> {
    repo::run(package(&names(&published()?)?, &[]))
}

/// The crates that shall be published, of which earlier packages are forgotten.
fn published() -> Result<Vec<Value>> {
    let metadata =
        repo::output(&mut cargo(&["metadata", "--no-deps", "--offline", "--format-version", "1"]))?;
    let metadata: Value =
        serde_json::from_str(&metadata).map_err(|e| Error(format!("cargo metadata: {e}")))?;
    let packages = metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let published: Vec<Value> = packages.iter().filter(|package| is_published(package)).cloned().collect();
    let missing: Vec<String> = published.iter().flat_map(missing).collect();
    if !missing.is_empty() {
        return Err(Error(missing.join("\n")));
    }
    forget_earlier(&published)?;
    Ok(published)
}

fn names(packages: &[Value]) -> Result<Vec<String>> {
    let name = |package: &Value| package["name"].as_str().map(str::to_owned);
    packages.iter().map(name).collect::<Option<_>>().ok_or_else(|| Error::new("a package has no name"))
}

/// Packages these crates. It needs no network: those that depend on each other are found beside
/// each other.
fn package(names: &[String], options: &[&str]) -> Command {
    let mut command = cargo(&["package", "--locked", "--offline", "--allow-dirty", "--quiet"]);
    command.args(options).args(names.iter().flat_map(|name| ["--package", name]));
    // As the workspace's profile `dev`, of which a package knows nothing: what both depend on is
    // built once.
    command.env("CARGO_PROFILE_DEV_DEBUG", "line-tables-only");
    command.env("CARGO_PROFILE_DEV_BUILD_OVERRIDE_DEBUG", "line-tables-only");
    command
}

/// Removes what an earlier check unpacked and built. To Cargo a version of a package never changes:
/// it would build today's packages with those of then.
fn forget_earlier(published: &[Value]) -> Result<()> {
    let cargo_home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = cargo_home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let text = |package: &Value, key: &str| package[key].as_str().unwrap_or_default().to_owned();
    let built = repo::target_directory()?.join("debug/.fingerprint");
    for package in published {
        let prefix = text(package, "name") + "-";
        let unpacked = prefix.clone() + &text(package, "version");
        let mut earlier = Vec::new();
        for registry in home.iter().flat_map(|home| entries(&home.join("registry/src"))) {
            // Those of crates.io have the name of a host; these have none.
            if registry.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"-")) {
                earlier.extend(Some(registry.join(&unpacked)).filter(|unpacked| unpacked.is_dir()));
            }
        }
        if !earlier.is_empty() {
            let of_it = |path: &PathBuf| {
                path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(prefix.as_bytes()))
            };
            earlier.extend(entries(&built).into_iter().filter(of_it));
        }
        for path in earlier {
            fs::remove_dir_all(&path).map_err(|e| Error::io("remove", &path, &e))?;
        }
    }
    Ok(())
}

/// What a directory has; nothing if there is none.
fn entries(directory: &Path) -> Vec<PathBuf> {
    directory.read_dir().into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

/// A manifest says `publish = false`, or nothing.
fn is_published(package: &Value) -> bool {
    package["publish"].is_null()
}

/// What a package does not tell.
fn missing(package: &Value) -> Vec<String> {
    let is_empty = |value: &Value| value.is_null() || value.as_array().is_some_and(Vec::is_empty);
    let name = package["name"].as_str().unwrap_or_default();
    let missing = METADATA.into_iter().filter(|key| is_empty(&package[*key]));
    missing.map(|key| format!("{name}: its Cargo.toml has no {}", key.replace('_', "-"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_a_package_does_not_tell_is_named() {
        let package = json!({
            "name": "wire", "publish": null, "description": "packets", "license": "Apache-2.0",
            "readme": "README.md", "keywords": [], "categories": ["encoding"],
        });
        assert!(is_published(&package) && !is_published(&json!({ "publish": [] })));
        assert_eq!(
            missing(&package),
            ["wire: its Cargo.toml has no rust-version", "wire: its Cargo.toml has no keywords"]
        );
    }
}
