//! The examples, each by the one command that its documentation gives.

/// The store's memory, which only tests can look at while it changes.
#[path = "../examples/kv/slot.rs"]
mod slot;
#[expect(dead_code, reason = "what other tests need of it")]
#[path = "../tools/tests/support/mod.rs"]
mod support;

use slot::{BUCKET, Entry, Found, SLOT, Slot, bucket_of, find, place};
use std::path::{Path, PathBuf};
use std::process::Command;
use support::{Place, Running};

/// An example's program, which `cargo test` has built.
fn example(name: &str) -> Command {
    let test = std::env::current_exe().expect("we run");
    let profile: PathBuf = test.parent().and_then(Path::parent).expect("target/PROFILE/deps/..").into();
    Command::new(profile.join("examples").join(name))
}

#[test]
fn four_ranks_on_a_switch_that_loses_one_percent_add_to_the_bit() {
    let place = Place::new("allreduce");
    let mut command = example("allreduce");
    // Not a multiple of the number of ranks.
    command.args("--ranks 4 --elements 200003 --rounds 3 --loss 1% --port".split(' '));
    command.arg(place.port.to_string());
    let ended = Running::start(command).end();
    ended.assert_success();
    let out = String::from_utf8_lossy(&ended.0.stdout).into_owned();
    assert_eq!(out.matches("each right to the bit").count(), 4, "{out}");
    let resent = out.lines().filter_map(|line| line.split_whitespace().rev().nth(3)?.parse::<u64>().ok());
    assert!(resent.sum::<u64>() > 10, "{out}");
}

/// With two ranks and one step a round, a rank that is a round ahead of its neighbour is the rule.
#[test]
fn a_rank_may_be_a_round_ahead() {
    let place = Place::new("allreduce-two");
    let mut command = example("allreduce");
    command
        .args("--ranks 2 --elements 10 --rounds 50 --loss 0% --port".split(' '))
        .arg(place.port.to_string());
    Running::start(command).end().assert_success();
}

#[test]
fn a_rank_that_finds_no_place_fails_the_whole() {
    let place = Place::new("allreduce-taken");
    let _taken = std::net::TcpListener::bind(("127.0.0.2", place.port)).expect("it was free");
    let mut command = example("allreduce");
    command.args(["--ranks", "2", "--elements", "10", "--port", &place.port.to_string()]);
    let ended = Running::start(command).end();
    ended.assert_failed(1, &format!("the side channel to 127.0.0.2:{}: cannot listen", place.port));
}

#[test]
fn the_store_loses_nothing_when_a_client_is_killed() {
    let place = Place::new("kv");
    let mut command = example("kv");
    command.args(["--operations", "4000", "--meet", &format!("127.0.0.1:{}", place.port)]);
    let ended = Running::start(command).end();
    ended.assert_success();
    let out = String::from_utf8_lossy(&ended.0.stdout).into_owned();
    assert!(out.contains("killing client 2"), "{out}");
    assert!(out.contains("client 0: 4000 operations") && out.contains("client 1: 4000 operations"), "{out}");
    assert!(!out.contains("client 2: "), "{out}");
    let keys = out.lines().find_map(|line| line.strip_prefix("all ")?.split(' ').next()?.parse::<u32>().ok());
    // The two that went on PUT 400 times or so each, the third a hundred times at least.
    assert!(keys > Some(200), "{out}");
}

/// A replicated log of 20,000 records, without loss and with 1 %, and what else it was told.
fn replog(place: &Place, more: &[&str]) -> support::Ended {
    let mut command = example("replog");
    command.args(["--records", "20000", "--size", "300", "--rounds", "1"]).args(more);
    command.arg("--json").arg(place.path("json"));
    Running::start(command).end()
}

#[test]
fn a_replicated_log_is_the_leaders_everywhere_though_a_follower_is_killed() {
    let place = Place::new("replog");
    let ended = replog(&place, &[]);
    ended.assert_success();
    let out = String::from_utf8_lossy(&ended.0.stdout).into_owned();
    assert!(out.contains("every log of every run is that of its leader"), "{out}");
    let json = place.json("json");
    for (which, run) in json["rounds"][0].as_array().expect("two runs").iter().enumerate() {
        // Killed when three tenths were committed, before the second half was begun; six were when
        // it was started again.
        let (had, of) = (run["rejoined_with"].as_u64(), run["rejoined_of"].as_u64());
        assert!(had > Some(0) && had <= Some(10_000) && of >= Some(12_000), "run {which}: {json}");
        assert!(run["rate"].as_f64() > Some(0.0), "run {which}: {json}");
        // 20,000 records to two, of which one frame in a hundred is lost.
        assert!(which == 0 || run["resent"].as_u64() > Some(200), "{json}");
    }
}

#[test]
fn a_record_that_is_damaged_is_not_taken() {
    let ended = replog(&Place::new("replog-checksum"), &["--sabotage", "checksum"]);
    ended.assert_failed(1, "record 100 has a wrong checksum");
}

/// The negative control of what the log relies on: a tail word by a WRITE of more than 64 bytes
/// overtakes a record that was lost, and only such a one.
#[test]
fn a_tail_word_that_is_not_in_order_is_found_out() {
    let place = Place::new("replog-no-loss");
    replog(&place, &["--sabotage", "order", "--loss", "0%"]).assert_success();
    let ended = replog(&Place::new("replog-order"), &["--sabotage", "order", "--loss", "5%"]);
    ended.assert_failed(1, "there is record");
}

#[test]
fn a_log_that_differs_in_one_bit_is_found_in_the_end() {
    let ended = replog(&Place::new("replog-log"), &["--sabotage", "log"]);
    ended.assert_failed(1, "of the follower's log is 0x");
}

fn entry(version: u64, value: &[u8]) -> Entry {
    Entry { version, key: 7, value: value.to_vec() }
}

#[test]
fn a_slot_that_is_half_old_and_half_new_is_seen() {
    let (old, new) = (entry(1, &[1; 104]).encode(), entry(2, &[2; 104]).encode());
    assert_eq!(Slot::decode(&old), Slot::Entry(entry(1, &[1; 104])));
    for cut in 1..SLOT {
        let mut torn = new;
        torn[cut..].copy_from_slice(&old[cut..]);
        let expected = if torn == old {
            Slot::Entry(entry(1, &[1; 104]))
        } else if torn == new {
            Slot::Entry(entry(2, &[2; 104]))
        } else {
            Slot::Torn
        };
        assert_eq!(Slot::decode(&torn), expected, "cut at {cut}");
    }
    let mut first = [0; SLOT];
    first[..64].copy_from_slice(&new[..64]);
    assert_eq!(Slot::decode(&first), Slot::Torn, "the first value of a slot");
    let mut length = old;
    length[16..20].copy_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(Slot::decode(&length), Slot::Torn);
}

#[test]
fn a_bucket_has_a_place_for_each_key_until_it_is_full() {
    let mut bucket = [0; BUCKET];
    assert_eq!(find(&bucket, 1), Found::Missing);
    for key in 1..=4 {
        let (index, slot) = place(&bucket, key).expect("room");
        assert_eq!(slot, Slot::Empty);
        let bytes = Entry { version: 1, key, value: vec![0; 3] }.encode();
        bucket[index * SLOT..][..SLOT].copy_from_slice(&bytes);
    }
    assert_eq!(place(&bucket, 5), None);
    let third = Entry { version: 1, key: 3, value: vec![0; 3] };
    assert_eq!(place(&bucket, 3), Some((2, Slot::Entry(third.clone()))));
    // What is torn may be any key but those that are whole.
    bucket[SLOT - 1] ^= 1;
    assert_eq!((find(&bucket, 3), find(&bucket, 1)), (Found::Entry(third), Found::Torn));
    assert_eq!(find(&bucket, 9), Found::Torn);
    assert!(bucket_of(1, 16) < 16 && bucket_of(9, 0) == 0);
}
