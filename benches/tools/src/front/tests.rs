use super::*;
use std::collections::BTreeSet;

#[test]
fn the_whole_command_line_is_consistent() {
    command().debug_assert();
    for subcommand in ALL {
        of_link(subcommand).debug_assert();
    }
}

#[test]
fn each_subcommand_has_a_link_and_no_two_share_one() {
    let links: BTreeSet<String> = ALL.iter().map(Subcommand::link).collect();
    assert_eq!(links.len(), ALL.len());
    for subcommand in ALL {
        let called = Subcommand::of_link(&subcommand.link()).expect("its own link");
        assert_eq!(called.name, subcommand.name);
    }
    assert_eq!(Subcommand::of_link("srnic_write_bw").expect("perftest's name").name, "write-bw");
}

#[test]
fn other_names_call_no_subcommand() {
    for name in ["srnic", "", "write_bw", "srnic_", "srnic_write-bw", "srnic-write-bw", "srnic_write_bw.old"]
    {
        assert!(Subcommand::of_link(name).is_none(), "{name}");
    }
}

#[test]
fn help_of_each_subcommand_mentions_its_name() {
    let mut command = command();
    command.build();
    for Subcommand { name, .. } in ALL {
        let help = command.find_subcommand_mut(name).expect("it is one").render_long_help().to_string();
        assert!(help.contains(&format!("Usage: srnic {name} ")), "{name}: {help}");
    }
    for subcommand in ALL {
        let help = of_link(subcommand).render_long_help().to_string();
        assert!(help.contains(&format!("Usage: {} ", subcommand.link())), "{help}");
    }
}

#[test]
fn help_of_each_measurement_has_both_of_its_commands() {
    let mut command = command();
    command.build();
    let mut examples = |name: &str| {
        let help = command.find_subcommand_mut(name).expect("it is one").render_help().to_string();
        help.lines().filter(|line| line.starts_with("  srnic")).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(
        examples("read-lat"),
        ["  srnic read-lat -d memif:/tmp/a.sock", "  srnic read-lat -d memif:/tmp/a.sock 127.0.0.1"]
    );
    assert_eq!(examples("tcp-bw"), ["  srnic tcp-bw", "  srnic tcp-bw 127.0.0.1"]);
    assert!(examples("stat").is_empty());
    let by_link = of_link(Subcommand::of_name("raw-bw").expect("it is one")).render_help().to_string();
    assert!(by_link.ends_with("  srnic_raw_bw -d memif:/tmp/a.sock 127.0.0.1\n"), "{by_link}");
}

#[test]
fn the_devices_in_the_list_are_devices() {
    let text = DEVICES.replace("DEVICE ", "memif:/tmp/a.sock ");
    let devices = text.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    let read: Vec<_> = devices.map(|device| device.parse::<verbs_api::DeviceSpec>()).collect();
    assert!(read.len() == 3 && read.iter().all(Result::is_ok), "{read:?}");
}

#[test]
fn the_list_has_each_subcommand_once_and_in_its_group() {
    let help = command().render_help().to_string();
    let place = |text: &str| {
        let places: Vec<_> = help.match_indices(text).map(|(at, _)| at).collect();
        assert_eq!(places.len(), 1, "{text}: {help}");
        places[0]
    };
    let headings = Group::ALL.map(|group| place(&format!("\n{}:\n", group.title())));
    assert!(headings.is_sorted());
    for subcommand in ALL {
        let at = place(&format!("\n  {:<11} ", subcommand.name));
        let above = headings.iter().rposition(|heading| *heading < at).expect("below a heading");
        assert_eq!(Group::ALL[above], subcommand.group, "{}", subcommand.name);
    }
    let longest = help.lines().map(|line| line.chars().count()).max().unwrap_or_default();
    assert!(longest <= 100, "{longest}: {help}");
}

#[test]
fn a_mistyped_subcommand_is_answered_with_the_nearest() {
    let error = command().try_get_matches_from(["srnic", "write-bm"]).expect_err("there is none");
    assert_eq!(error.kind(), ErrorKind::InvalidSubcommand);
    assert!(error.to_string().contains("'write-bw'"), "{error}");
}

#[test]
fn the_document_of_the_tools_has_each_subcommand() {
    let document = include_str!("../../../../docs/tools.md");
    let words = || document.split('`').filter_map(|code| code.strip_prefix("srnic "));
    for subcommand in ALL {
        let named = words().any(|code| code.split_whitespace().next() == Some(subcommand.name));
        assert!(named, "docs/tools.md does not say what `srnic {}` is", subcommand.name);
    }
    let mut command = command();
    command.build();
    let is_known =
        |code: &&str| code.split(' ').next().is_some_and(|name| command.find_subcommand(name).is_some());
    let unknown: Vec<_> = words().filter(|code| !is_known(code)).collect();
    assert!(unknown.is_empty(), "docs/tools.md has tools that are none: {unknown:?}");
}

#[test]
fn what_clap_cannot_know_is_told_with_its_error() {
    let said = |line: &str| {
        let error = command().try_get_matches_from(line.split(' ')).expect_err("refused");
        with_tip(error).to_string()
    };
    for (line, tip) in [
        ("srnic write-bw", "tip: `-d memif:/tmp/a.sock` joins two processes"),
        ("srnic run true", "tip: `-d memif:/tmp/a.sock` joins two processes"),
        ("srnic stat", "tip: this is the path that a device was opened with"),
        ("srnic write-bw -d memif:/tmp/a.sock -s 64K", "tip: this takes a whole number in digits"),
        ("srnic write-bw -d memif:/tmp/a.sock --cpu one", "tip: this takes a whole number in digits"),
    ] {
        assert!(said(line).contains(tip), "{line}: {}", said(line));
    }
    for line in ["srnic write-bw -d memif:/tmp/a.sock -s 0", "srnic lab", "srnic write-bw -d foo"] {
        assert!(!said(line).contains("tip:"), "{line}: {}", said(line));
    }
}
