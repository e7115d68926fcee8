//! Part of `cargo xtask lint`: no import closes a circle between modules of the engine.
//!
//! The modules are those directly in [`SOURCES`]. What imports what is read from the sources, tests
//! left out: every path that begins at the crate. An import is in a circle if there is a way back.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use quote::ToTokens as _;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use crate::error::{Error, Result};
use crate::repo;

const SOURCES: &str = "datapath/src";

/// An import: who, and what.
type Import = (String, String);

/// Fails if there is an import in a circle.
pub fn check() -> Result<()> {
    let found = in_circles(&imports(&repo::root().join(SOURCES))?);
    let shown = |(from, to): &Import| {
        format!(
            "{from} -> {to}: there is a way back, so these modules import each other: move what both need \
             below them"
        )
    };
    let wrong: Vec<_> = found.iter().map(shown).collect();
    if wrong.is_empty() { Ok(()) } else { Err(Error(format!("{SOURCES}:\n{}", wrong.join("\n")))) }
}

/// All imports between modules of a crate.
fn imports(sources: &Path) -> Result<BTreeSet<Import>> {
    let mut found = BTreeSet::new();
    for file in repo::files(sources, "rs")? {
        let within = file.strip_prefix(sources).unwrap_or(&file);
        let Some(place) = place(within) else { continue };
        let text = fs::read_to_string(&file).map_err(|e| Error::io("read", &file, &e))?;
        let parsed = syn::parse_file(&text).map_err(|e| Error(format!("{}: {e}", file.display())))?;
        let items = parsed.items.into_iter().filter(|item| !is_test(item));
        for item in items {
            for to in named(item.to_token_stream(), place.len()) {
                found.insert((place[0].clone(), to));
            }
        }
    }
    let modules: BTreeSet<String> = found.iter().map(|(from, _)| from.clone()).collect();
    found.retain(|(from, to)| from != to && modules.contains(to));
    Ok(found)
}

/// The module that a file is, from the crate down; `None` for the crate itself and for tests.
fn place(file: &Path) -> Option<Vec<String>> {
    let file = PathBuf::from(file).with_extension("");
    let names = file.components().filter_map(|part| match part {
        Component::Normal(name) => name.to_str().map(str::to_owned),
        _ => None,
    });
    let mut names: Vec<_> = names.collect();
    if names.last().is_some_and(|name| name == "mod") {
        names.pop();
    }
    let is_left_out = names.iter().any(|name| name == "tests" || name == "test_pair") || names == ["lib"];
    (!names.is_empty() && !is_left_out).then_some(names)
}

fn is_test(item: &syn::Item) -> bool {
    let attributes = match item {
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        _ => return false,
    };
    let cfg = attributes.iter().filter(|attribute| attribute.path().is_ident("cfg"));
    cfg.into_iter().any(|cfg| cfg.to_token_stream().to_string().replace(' ', "").contains("(test"))
}

/// The modules of the crate that code names, `depth` modules below the crate.
fn named(code: TokenStream, depth: usize) -> Vec<String> {
    let tokens: Vec<TokenTree> = code.into_iter().collect();
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let supers = (0..).take_while(|count| is_segment(&tokens, at + 3 * count, "super")).count();
        let behind = match () {
            () if is_segment(&tokens, at, "crate") => Some(at + 3),
            () if supers == depth && depth > 0 => Some(at + 3 * supers),
            () => None,
        };
        match tokens.get(behind.unwrap_or(usize::MAX)) {
            Some(TokenTree::Ident(name)) => found.push(name.to_string()),
            Some(TokenTree::Group(group)) => found.extend(first_names(group.stream())),
            _ => {}
        }
        if let TokenTree::Group(group) = &tokens[at] {
            found.extend(named(group.stream(), depth));
        }
        at = behind.unwrap_or(at + 3 * supers).max(at + 1);
    }
    found
}

/// Returns `true` if `name` and two colons are there.
fn is_segment(tokens: &[TokenTree], at: usize, name: &str) -> bool {
    let is_colon = |at| matches!(tokens.get(at), Some(TokenTree::Punct(punct)) if punct.as_char() == ':');
    matches!(tokens.get(at), Some(TokenTree::Ident(ident)) if ident == name)
        && is_colon(at + 1)
        && is_colon(at + 2)
}

/// The first names of the paths in braces.
fn first_names(group: TokenStream) -> Vec<String> {
    let mut begins = true;
    let mut found = Vec::new();
    for token in group {
        match token {
            TokenTree::Ident(name) if begins => found.push(name.to_string()),
            TokenTree::Punct(punct) if punct.as_char() == ',' => {
                begins = true;
                continue;
            }
            TokenTree::Group(group) => debug_assert!(group.delimiter() == Delimiter::Brace),
            _ => {}
        }
        begins = false;
    }
    found
}

/// The imports from which there is a way back.
fn in_circles(imports: &BTreeSet<Import>) -> BTreeSet<Import> {
    let mut reached: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (from, to) in imports {
        reached.entry(from).or_default().insert(to);
    }
    loop {
        let before: usize = reached.values().map(BTreeSet::len).sum();
        for from in reached.keys().copied().collect::<Vec<_>>() {
            let further: BTreeSet<&str> =
                reached[from].iter().filter_map(|to| reached.get(to)).flatten().copied().collect();
            reached.entry(from).or_default().extend(further);
        }
        if reached.values().map(BTreeSet::len).sum::<usize>() == before {
            break;
        }
    }
    let is_back = |from: &str, to: &str| reached.get(to).is_some_and(|reached| reached.contains(from));
    imports.iter().filter(|(from, to)| is_back(from, to)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn import(from: &str, to: &str) -> Import {
        (from.to_owned(), to.to_owned())
    }

    fn names(code: &str, depth: usize) -> Vec<String> {
        named(code.parse().expect("code"), depth)
    }

    #[test]
    fn the_engine_has_no_circle() {
        assert_eq!(check(), Ok(()));
    }

    #[test]
    fn only_what_has_a_way_back_is_in_a_circle() {
        let imports = [("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("e", "a")];
        let imports = imports.map(|(from, to)| import(from, to)).into();
        let circles = [("a", "b"), ("b", "c"), ("c", "a")].map(|(from, to)| import(from, to)).into();
        assert_eq!(in_circles(&imports), circles);
    }

    #[test]
    fn paths_from_the_crate_are_imports_wherever_they_stand() {
        let code =
            "use crate::queue::Ring; use crate::{qp::{A, B}, time::Time}; fn f() { g(crate::port::X) }";
        assert_eq!(names(code, 1), ["queue", "qp", "time", "port"]);
        assert_eq!(names("use super::sched::Flags; use super::super::memory::Table;", 2), ["memory"]);
        assert_eq!(names("use super::sched::Flags;", 1), ["sched"]);
        assert!(names("use self::x::Y; use std::io; use super::*;", 2).is_empty());
    }

    #[test]
    fn tests_are_left_out() {
        assert_eq!(
            place(Path::new("qp/plain/transmit.rs")),
            Some(vec!["qp".into(), "plain".into(), "transmit".into()])
        );
        assert_eq!(place(Path::new("qp/tests.rs")), None);
        assert_eq!(place(Path::new("lib.rs")), None);
        let file = syn::parse_file("#[cfg(test)] mod tests { use crate::x; } use crate::y;").expect("code");
        assert_eq!(file.items.iter().map(is_test).collect::<Vec<_>>(), [true, false]);
    }
}
