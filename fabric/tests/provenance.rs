//! Every parameter of every scheme stands in docs/fabric.md, and says where it comes from.

use srnic_fabric::plan::Plan;
use srnic_fabric::scheme::Scheme;
use srnic_fabric::topology::FatTree;
use std::collections::{BTreeMap, BTreeSet};

const DOCUMENT: &str = include_str!("../../docs/fabric.md");
const TAGS: [&str; 3] = ["published", "cited", "assumed"];

/// The names of a value's fields that are not structures themselves, from how `Debug` shows it.
fn fields(shown: &str) -> BTreeSet<String> {
    let is_name = |letter: char| letter.is_ascii_lowercase() || letter == '_';
    let mut names = BTreeSet::new();
    for (at, _) in shown.match_indices(": ") {
        let value = shown[at + 2..].split([',', '}']).next().unwrap_or_default();
        let name = shown[..at].rsplit(|letter| !is_name(letter)).next().unwrap_or_default();
        if !value.contains('{') {
            names.insert(name.to_owned());
        }
    }
    names
}

/// The parameters of the document's table, each with what its last column says.
fn documented() -> BTreeMap<String, String> {
    let section = DOCUMENT.split("\n## Parameters\n").nth(1).expect("a section");
    let rows = section.split("\n## ").next().expect("its text").lines().filter(|line| line.starts_with('|'));
    let mut found = BTreeMap::new();
    for row in rows {
        let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
        let (Some(first), Some(last)) = (cells.first(), cells.last()) else { continue };
        for name in first.split('`').skip(1).step_by(2) {
            found.insert(name.to_owned(), (*last).to_owned());
        }
    }
    found
}

/// What is wrong with the parameters that `shown` has.
fn complaints(shown: &str, documented: &BTreeMap<String, String>) -> Vec<String> {
    let wrong = |name: &String| match documented.get(name) {
        None => Some(format!("{name} is not in docs/fabric.md, \"Parameters\"")),
        Some(source) if !TAGS.iter().any(|tag| source.starts_with(tag)) => {
            Some(format!("{name} has no tag: it must begin with one of {TAGS:?}"))
        }
        Some(_) => None,
    };
    fields(shown).iter().filter_map(wrong).collect()
}

#[test]
fn every_parameter_has_a_source() {
    let tree = FatTree::of_hosts(64).expect("a size of the figure");
    for scheme in Scheme::ALL {
        let plan = Plan::new(scheme, tree);
        let shown = format!("{plan:?} {:?}", plan.config());
        assert_eq!(complaints(&shown, &documented()), Vec::<String>::new(), "{}", scheme.name());
    }
}

/// A parameter that nobody wrote down, and one without a tag, are found.
#[test]
fn a_parameter_without_a_source_is_found() {
    #[derive(Debug)]
    #[expect(dead_code, reason = "`Debug` shows them")]
    struct Odd {
        window: u32,
        luck: u32,
        untagged: Option<u32>,
    }
    let mut documented = documented();
    documented.insert("untagged".to_owned(), "somebody said so".to_owned());
    let shown = format!("{:?}", Odd { window: 1, luck: 2, untagged: Some(3) });
    let complaints = complaints(&shown, &documented);
    assert_eq!(complaints.len(), 2, "{complaints:?}");
    assert!(complaints[0].starts_with("luck") && complaints[1].starts_with("untagged"), "{complaints:?}");
}
