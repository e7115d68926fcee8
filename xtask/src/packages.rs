//! Part of `cargo xtask lint`: the crates that shall be published can be packaged, and each package
//! builds by itself.

use serde_json::Value;

use crate::error::{Error, Result};
use crate::repo::{self, cargo};

/// What a package tells its readers, by the keys of `cargo metadata`.
const METADATA: [&str; 7] =
    ["description", "license", "repository", "readme", "rust_version", "keywords", "categories"];

/// Fails if a crate that shall be published cannot be. It needs no network: packages that depend on
/// each other are found beside each other.
pub fn check() -> Result<()> {
    let metadata =
        repo::output(&mut cargo(&["metadata", "--no-deps", "--offline", "--format-version", "1"]))?;
    let metadata: Value =
        serde_json::from_str(&metadata).map_err(|e| Error(format!("cargo metadata: {e}")))?;
    let packages = metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let published: Vec<&Value> = packages.iter().filter(|package| is_published(package)).collect();
    let missing: Vec<String> = published.iter().flat_map(|package| missing(package)).collect();
    if !missing.is_empty() {
        return Err(Error(missing.join("\n")));
    }
    let names = published.iter().filter_map(|package| package["name"].as_str());
    let mut command = cargo(&["package", "--locked", "--offline", "--allow-dirty", "--quiet"]);
    command.args(names.flat_map(|name| ["--package", name]));
    repo::run(command)
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
            "repository": "https://..", "readme": "README.md", "keywords": [], "categories": ["encoding"],
        });
        assert!(is_published(&package) && !is_published(&json!({ "publish": [] })));
        assert_eq!(
            missing(&package),
            ["wire: its Cargo.toml has no rust-version", "wire: its Cargo.toml has no keywords"]
        );
    }
}
