//! The program of the README is the example `first`, and it runs.

use super::{said, start};

#[test]
fn the_readme_shows_the_example() {
    let readme = include_str!("../../../README.md");
    let example = include_str!("../../examples/first.rs");
    assert!(readme.contains(example), "copy verbs-api/examples/first.rs to it");
}

#[test]
fn it_writes_through_loss() {
    assert_eq!(said(start("first", &[])), "IBV_WC_SUCCESS: success: hello\n");
}
