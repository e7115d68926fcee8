use super::*;

#[test]
fn the_documents_of_this_repository_are_right() {
    assert_eq!(check(), Ok(()));
}

#[test]
fn a_readme_of_too_many_words_is_wrong() {
    assert_eq!(too_long(&"word ".repeat(README_WORDS)), None);
    assert!(too_long(&"word ".repeat(README_WORDS + 1)).is_some_and(|fault| fault.contains("701 words")));
}

#[test]
fn relative_links_and_no_others() {
    let text =
        "[a](one.md), [b](https://example.org/x), [c](../two/#part), [d](#here), ![e](p.svg \"title\")";
    assert_eq!(links(text).collect::<Vec<_>>(), ["one.md", "../two/"]);
}

#[test]
fn paths_start_in_a_directory_of_the_repository() {
    let root = repo::root();
    let text =
        "`xtask/src/gone.rs` and `docs/` but not `drivers/net`, `docs/{a,b}.md`, `xtask`, `/docs/x` or `1/2`";
    assert_eq!(paths(text, &root).collect::<Vec<_>>(), ["xtask/src/gone.rs", "docs/"]);
}

#[test]
fn an_odd_backtick_spoils_only_its_line() {
    assert_eq!(in_backticks("an `odd\nand `a` and `b`").collect::<Vec<_>>(), ["odd", "a", "b"]);
}

#[test]
fn a_row_that_names_a_missing_type_or_file_is_wrong() {
    let text = "# T\n## The boxes of Figure 4\n| box | file | item |\n|---|---|---|\n\
                | A | `xtask/src/docs.rs` | `check_map` | right |\n\
                | B | `xtask/src/docs.rs` | `NoSuchType` | wrong |\n\
                | C | `xtask/src/gone.rs` | `check_map` | wrong |\n\
                ## Next\n| D | `x` | `y` |\n";
    let wrong = check_map(text, "Figure 4", &repo::root()).expect("the table is there");
    assert_eq!(wrong.len(), 2, "{wrong:?}");
    assert!(wrong[0].contains("B: ") && wrong[1].contains("C: "), "{wrong:?}");
}

#[test]
fn a_map_that_went_missing_is_an_error() {
    assert!(check_map("# T\n## Other\n", "Figure 4", &repo::root()).is_err());
    assert!(check_map("# T\n## Figure 4\nwords only\n", "Figure 4", &repo::root()).is_err());
}

#[test]
fn a_rule_whose_function_went_missing_is_wrong() {
    let text = "# T\n## The rules of the protocol\n| rule | file | function |\n|---|---|---|\n\
                | a rule | `xtask/src/docs.rs` | `check_map` | 1.2 |\n\
                | another | `xtask/src/docs.rs` | `renamed` | 1.2 |\n";
    let wrong = check_map(text, TABLES[1], &repo::root()).expect("the table is there");
    assert_eq!(wrong.len(), 1, "{wrong:?}");
    assert!(wrong[0].contains("another: "), "{wrong:?}");
}

#[test]
fn a_definition_is_not_a_mention() {
    assert!(defines("pub struct Engine<P: Port> {", "Engine"));
    assert!(defines("    pub(crate) fn pop(&mut self)", "ScheduleQueue::pop"));
    assert!(!defines("/// the struct Engine\nuse crate::Engine;", "Engine"));
    assert!(!defines("struct EngineStats;", "Engine"));
}
