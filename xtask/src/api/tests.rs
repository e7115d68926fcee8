use super::*;

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
