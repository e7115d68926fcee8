//! `srnic pcap` over captures of Linux soft-RoCE, as they are and spoilt.

#[expect(dead_code, reason = "what other tests need of it")]
mod support;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Output;
use support::srnic;

const FILE_HEADER: usize = 24;
const RECORD_HEADER: usize = 16;

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/rxe").join(name)
}

fn run(files: &[PathBuf]) -> Output {
    srnic("pcap").args(files).output().expect("the tool runs")
}

fn explain(files: &[PathBuf]) -> Output {
    srnic("pcap").arg("--explain").args(files).output().expect("the tool runs")
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Counts what one capture has that was changed.
fn run_spoilt(name: &str, spoil: impl FnOnce(&mut Vec<u8>)) -> Output {
    spoilt(name, run, spoil)
}

/// Runs what `tool` does over one capture that was changed.
fn spoilt(name: &str, tool: fn(&[PathBuf]) -> Output, spoil: impl FnOnce(&mut Vec<u8>)) -> Output {
    let mut file = std::fs::read(data("rc_pingpong.pcap")).expect("the capture");
    spoil(&mut file);
    let path = std::env::temp_dir().join(format!("srnic_pcap-{}-{name}", std::process::id()));
    std::fs::write(&path, file).expect("a file of our own");
    let output = tool(std::slice::from_ref(&path));
    std::fs::remove_file(&path).expect("it is still there");
    output
}

/// Where the records of a capture begin whose frames hold RoCEv2 over IPv4, with the frame's
/// length.
fn roce_records(file: &[u8]) -> Vec<(usize, usize)> {
    let mut records = Vec::new();
    let mut at = FILE_HEADER;
    while at < file.len() {
        let len = u32::from_le_bytes(file[at + 8..at + 12].try_into().expect("four bytes")) as usize;
        let frame = &file[at + RECORD_HEADER..at + RECORD_HEADER + len];
        if frame.len() > 42
            && frame[12..14] == [8, 0]
            && frame[23] == 17
            && frame[36..38] == 4791_u16.to_be_bytes()
        {
            records.push((at, len));
        }
        at += RECORD_HEADER + len;
    }
    records
}

#[test]
fn every_capture_of_soft_roce_is_clean_and_counted_as_another_tool_did() {
    let index = std::fs::read_to_string(data("INDEX.txt")).expect("the index");
    let mut captures = 0;
    for line in index.lines().filter(|line| !line.starts_with('#')) {
        let columns: Vec<&str> = line.split('|').collect();
        let expected: BTreeMap<u8, u64> = columns[1]
            .split_whitespace()
            .filter_map(|entry| entry.split_once(':'))
            .map(|(opcode, count)| (opcode.parse().expect("an opcode"), count.parse().expect("a count")))
            .collect();
        let output = run(&[data(columns[0].trim())]);
        let text = text(&output);
        assert_eq!(output.status.code(), Some(0), "{line}: {text}");
        let rows = text.lines().filter_map(|line| line.trim().strip_prefix("0x"));
        let counted: BTreeMap<u8, u64> = rows
            .map(|row| {
                let fields: Vec<&str> = row.split_whitespace().collect();
                assert_eq!(fields[2], "plain");
                (u8::from_str_radix(fields[0], 16).expect("an opcode"), fields[3].parse().expect("a count"))
            })
            .collect();
        assert_eq!(counted, expected, "{line}");
        let total: u64 = expected.values().sum();
        assert!(text.contains(&format!("{total} RoCEv2 packets")), "{text}");
        captures += 1;
    }
    assert_eq!(captures, 13);
}

#[test]
fn one_bit_of_one_payload_is_a_wrong_icrc() {
    let output = run_spoilt("icrc", |file| {
        let (at, len) = roce_records(file)[5];
        file[at + RECORD_HEADER + len - 5] ^= 1;
    });
    let text = text(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("1 with a wrong ICRC") && text.contains(": the ICRC is wrong"), "{text}");
}

#[test]
fn an_opcode_that_does_not_exist_cannot_be_parsed() {
    let output = run_spoilt("opcode", |file| {
        let (at, _) = roce_records(file)[0];
        file[at + RECORD_HEADER + 42] = 0x1F;
    });
    let text = text(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("1 that cannot be parsed") && text.contains("opcode 0x1f"), "{text}");
}

#[test]
fn a_frame_that_was_cut_is_not_called_clean() {
    let output = run_spoilt("cut", |file| {
        let (at, len) = roce_records(file)[0];
        let original = u32::try_from(len + 1).expect("a short frame");
        file[at + 12..at + 16].copy_from_slice(&original.to_le_bytes());
    });
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output).contains("1 that were not captured whole"), "{}", text(&output));
}

#[test]
fn a_file_that_is_no_capture_is_an_error() {
    let output = run(&[data("INDEX.txt")]);
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("neither a pcap nor a pcapng file"), "{error}");
    assert_eq!(run(&[data("missing.pcap")]).status.code(), Some(2));
}

#[test]
fn of_a_capture_that_breaks_off_is_told_what_it_has() {
    let output = run_spoilt("broken-off", |file| file.truncate(file.len() - 1));
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("a record is cut off"), "{error}");
    assert!(text(&output).contains(" frames"), "{}", text(&output));
}

#[test]
fn a_capture_is_explained_to_people_and_programs() {
    let loss = data("rc_pingpong_loss5.pcap");
    let told = srnic("pcap").arg("--explain").arg(&loss).output().expect("the tool runs");
    assert_eq!(told.status.code(), Some(0), "{}", text(&told));
    assert!(text(&told).contains(" lost") && text(&told).contains("no rule was broken"), "{}", text(&told));
    let json = srnic("pcap").args(["--explain", "--json"]).arg(&loss).output().expect("the tool runs");
    let document: serde_json::Value = serde_json::from_slice(&json.stdout).expect("it is JSON");
    assert_eq!(document["violations"], 0);
    let lost = document["connections"][0]["streams"].as_array().expect("streams").iter();
    assert!(lost.map(|stream| stream["lost"].as_u64().expect("a count")).sum::<u64>() > 0, "{document}");
}

#[test]
fn an_acknowledgement_of_what_was_never_sent_is_a_broken_rule() {
    let mut file = std::fs::read(data("rc_pingpong.pcap")).expect("the capture");
    let ack = |record: &&(usize, usize)| file[record.0 + RECORD_HEADER + 42] == 0x11;
    let records = roce_records(&file);
    let (at, len) = *records.iter().filter(ack).nth(3).expect("acknowledgements");
    let frame = &mut file[at + RECORD_HEADER..at + RECORD_HEADER + len];
    // The second byte of the PSN: 256 packets on. The ICRC covers the packet from its IP header on.
    frame[52] = frame[52].wrapping_add(1);
    wire::icrc::seal(&mut frame[14..]);
    let path = std::env::temp_dir().join(format!("srnic_pcap-beyond-{}", std::process::id()));
    std::fs::write(&path, file).expect("a file of our own");
    let output = srnic("pcap").arg("--explain").arg(&path).output().expect("the tool runs");
    std::fs::remove_file(&path).expect("it is still there");
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(text(&output).contains("BROKEN RULE, protocol.md 2.4"), "{}", text(&output));
}

/// What is not as it should be is no success of an explanation, either.
#[test]
fn what_cannot_be_explained_is_told_and_no_success() {
    type Spoil = fn(&mut Vec<u8>);
    let spoils: [(&str, Spoil, &str); 3] = [
        (
            "explain-icrc",
            |file| {
                let (at, len) = roce_records(file)[5];
                file[at + RECORD_HEADER + len - 5] ^= 1;
            },
            "1 packets have a wrong ICRC",
        ),
        (
            "explain-opcode",
            |file| {
                let (at, _) = roce_records(file)[0];
                file[at + RECORD_HEADER + 42] = 0x1F;
            },
            "1 frames cannot be parsed",
        ),
        (
            "explain-cut",
            |file| {
                let (at, len) = roce_records(file)[0];
                let original = u32::try_from(len + 1).expect("a short frame");
                file[at + 12..at + 16].copy_from_slice(&original.to_le_bytes());
            },
            "1 frames were not captured whole",
        ),
    ];
    for (name, spoil, words) in spoils {
        let output = spoilt(name, explain, spoil);
        assert_eq!(output.status.code(), Some(1), "{name}: {}", text(&output));
        assert!(text(&output).contains(words), "{name}: {}", text(&output));
    }
}
