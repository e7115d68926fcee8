use super::*;
use crate::scratch::Scratch;

#[test]
fn the_recorded_api_is_that_of_the_sources() {
    assert_eq!(check(), Ok(()));
}

fn lines(text: &str) -> Vec<String> {
    items::of(&syn::parse_str(text).expect("Rust"), &["A".to_owned()])
}

#[test]
fn public_parts_of_exported_items_and_no_others() {
    let text = "/// Doc.\n#[derive(Clone)] #[must_use] pub struct A<'a> { /// Doc.\n pub b: &'a u8, c: u8 } pub struct B;\n\
        impl A<'_> { pub const fn d(&self) -> u8 { 1 } fn e(&self) {} pub(crate) fn f() {} }\n\
        impl Drop for A<'_> { fn drop(&mut self) {} } impl B { pub fn g() {} }";
    assert_eq!(
        lines(text),
        [
            "struct A < 'a > derive (Clone)",
            "A :: pub b : & 'a u8",
            "A < '_ > :: const fn d (& self) -> u8",
            "impl Drop for A < '_ >"
        ]
    );
}

#[test]
fn variants_traits_and_macros() {
    assert_eq!(
        lines("#[non_exhaustive] pub enum A { /// Doc.\n #[error(\"x\")] B { /// Doc.\n c: u8 }, D }"),
        ["enum A non_exhaustive", "A :: B { c : u8 }", "A :: D"]
    );
    assert_eq!(lines("pub trait A { fn b(&self) { body() } }"), ["trait A", "A :: fn b (& self)"]);
    assert_eq!(
        lines("make! { /// Doc.\n pub struct A : u8 { const B = 1; } }"),
        ["make ! { pub struct A : u8 { const B = 1 ; } }"]
    );
}

#[test]
fn what_changed_is_named() {
    assert_eq!(difference("a\nb\n", "b\nc\n"), ["- a", "+ c"]);
}

/// A crate with a public module, which has methods of the root's types and a type that is called as
/// one of them.
#[test]
fn modules_are_followed_and_names_are_told_apart() {
    let scratch = Scratch::new().expect("a directory of our own");
    let sources = scratch.path().join("a/src");
    let write = |name: &str, text: &str| {
        let file = sources.join(name);
        fs::create_dir_all(file.parent().expect("not the root")).expect("created");
        fs::write(file, text).expect("written");
    };
    write("lib.rs", "mod hidden; pub mod raw; pub use hidden::{Pair, Unit as One};");
    write(
        "hidden.rs",
        "pub struct Pair; impl Pair { pub fn post(&self) {} } pub struct Unit; pub struct Lost;",
    );
    write("raw.rs", "mod inner; pub use inner::Pair; pub const MOST: u8 = 3; pub fn free() {} fn own() {}");
    write(
        "raw/inner.rs",
        "pub struct Pair; impl Pair { pub fn modify(&self) {} } impl Unit { pub fn raw(&self) {} }",
    );
    assert_eq!(
        listing(scratch.path(), "a").expect("a crate").lines().collect::<Vec<_>>(),
        [
            "Pair :: fn post (& self)",
            "Unit :: fn raw (& self)",
            "raw :: Pair :: fn modify (& self)",
            "raw :: const MOST : u8 = 3",
            "raw :: fn free ()",
            "raw :: struct Pair",
            "struct Pair",
            "struct Unit",
            "use Unit as One",
        ]
    );
    write("raw.rs", "pub use crate::hidden::Gone;");
    let error = listing(scratch.path(), "a").expect_err("nobody defines it").0;
    assert!(error.contains("a/src: raw exports Gone, which a/src does not define"), "{error}");
}
