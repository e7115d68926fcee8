//! The build script with a pkg-config that finds other releases of DPDK.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The build script of this crate that was built last: it lies beside the directory that it wrote
/// into.
fn build_script() -> PathBuf {
    let builds = Path::new(env!("OUT_DIR")).parent().and_then(Path::parent).expect("target/debug/build");
    let entries = fs::read_dir(builds).expect("cargo made it").flatten();
    let scripts = entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("pmd-bindings-"))
        .map(|entry| entry.path().join("build-script-main"));
    let built = |script: &PathBuf| fs::metadata(script).and_then(|meta| meta.modified()).ok();
    scripts.filter(|script| script.exists()).max_by_key(built).expect("cargo built it")
}

/// What the build script says where DPDK has this version.
fn refused(version: &str) -> String {
    let directory = std::env::temp_dir().join(format!("pmd-release-{version}-{}", std::process::id()));
    fs::create_dir_all(&directory).expect("a directory");
    let pkg_config = directory.join("pkg-config");
    let script = format!("#!/bin/sh\ncase \"$*\" in *--modversion*) echo {version} ;; *) exit 1 ;; esac\n");
    fs::write(&pkg_config, script).expect("written");
    fs::set_permissions(&pkg_config, fs::Permissions::from_mode(0o755)).expect("ours");
    let mut command = Command::new(build_script());
    command.env("PKG_CONFIG", &pkg_config).env("OUT_DIR", &directory);
    command.env("TARGET", "x86_64-unknown-linux-gnu").env("HOST", "x86_64-unknown-linux-gnu");
    let output = command.output().expect("it starts");
    fs::remove_dir_all(&directory).expect("it is ours");
    assert!(!output.status.success(), "a fake has no headers");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn another_release_of_dpdk_is_refused_by_name_with_those_that_are_supported() {
    for version in ["21.11.9", "26.03.0"] {
        let said = refused(version);
        let expected = format!("error: DPDK {version} is not supported: 22.11 to 25.11 are");
        assert!(said.contains(&expected), "{said}");
    }
}

#[test]
fn a_supported_release_fails_for_what_it_lacks() {
    for version in ["22.11.0", "25.11.2"] {
        let said = refused(version);
        assert!(said.contains("DPDK was not found") && !said.contains("is not supported"), "{said}");
    }
}
