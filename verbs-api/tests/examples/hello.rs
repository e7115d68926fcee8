//! The program of the README is the example `hello`, and two of it talk.

use super::talk;

#[test]
fn the_readme_shows_the_example() {
    let readme = include_str!("../../../README.md");
    assert!(
        readme.contains(include_str!("../../examples/hello.rs")),
        "copy verbs-api/examples/hello.rs to it"
    );
}

#[test]
fn two_of_it_talk() {
    for (said, peer) in talk("hello").iter().zip(["client", "server"]) {
        assert!(said.contains("RecvRdmaWithImm 1: IBV_WC_SUCCESS: success\n"), "{said}");
        assert!(said.contains("RdmaWrite 2: IBV_WC_SUCCESS: success\n"), "{said}");
        assert!(said.ends_with(&format!("hello from the {peer}\n")), "{said}");
    }
}
