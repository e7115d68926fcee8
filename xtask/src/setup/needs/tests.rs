use super::*;
use std::fs;

#[test]
fn dpdk_releases_from_22_11_to_25_11() {
    for version in ["22.11.0", "22.11.11", "23.03.0", "24.07.0-rc1", "24.11.3", "25.11.0", "25.11.2"] {
        assert_eq!(release::supported(version), Ok(()), "{version}");
    }
    for version in ["21.11.9", "22.07.0", "25.12.0", "26.03.0", "22", "", "22.x", "abc"] {
        assert!(release::supported(version).is_err(), "{version}");
    }
    let refused = release::supported("26.03.0").expect_err("it is too new");
    assert_eq!(refused, "DPDK 26.03.0 is not supported: 22.11 to 25.11 are");
}

#[test]
fn a_program_that_is_not_there_is_named() {
    let error = first_line("no-such-program-here", &[]).expect_err("there is none");
    assert_eq!(error.0, "there is no `no-such-program-here`");
}

#[test]
fn a_program_that_fails_does_not_count() {
    assert!(first_line("false", &[]).is_err());
    assert_eq!(first_line("echo", &["one\ntwo"]), Ok("one".to_owned()));
}

#[test]
fn libclang_under_each_of_its_names() {
    let dir = Scratch::new("libclang-names");
    assert_eq!(libclang_in(&dir.0), None);
    fs::write(dir.0.join("libclang-cpp.so.14"), "").expect("a file");
    fs::write(dir.0.join("libclangBasic.a"), "").expect("a file");
    std::os::unix::fs::symlink("gone", dir.0.join("libclang.so")).expect("a dangling link");
    fs::remove_file(dir.0.join("libclang-cpp.so.14")).expect("removed");
    assert_eq!(libclang_in(&dir.0), None, "neither another library nor a dangling link");
    for name in ["libclang.so.1", "libclang-14.so", "libclang-14.so.1"] {
        let file = dir.0.join(name);
        fs::write(&file, "").expect("a file");
        assert_eq!(libclang_in(&dir.0), Some(file.clone()));
        assert_eq!(libclang_in(&file), Some(file.clone()), "LIBCLANG_PATH may name the file");
        fs::remove_file(&file).expect("removed");
    }
}

#[test]
fn the_headers_that_libclang_needs() {
    let dir = Scratch::new("clang-headers");
    assert!(!has_builtin_headers(&dir.0));
    let include = dir.0.join("llvm-14/lib/clang/14.0.6/include");
    fs::create_dir_all(&include).expect("directories");
    assert!(!has_builtin_headers(&dir.0));
    fs::write(include.join("stddef.h"), "").expect("a file");
    assert!(has_builtin_headers(&dir.0));
}

/// A directory of the test's own, removed at its end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("xtask-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("a directory of our own");
        Self(dir)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
