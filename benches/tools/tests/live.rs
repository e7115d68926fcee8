//! `srnic stat` in a terminal, over devices that live.

#[path = "support/pty.rs"]
mod pty;
#[expect(dead_code, reason = "what other tests need of it")]
mod support;

use pty::Pty;
use std::path::Path;
use std::process::Stdio;
use support::{Place, Running, srnic};
use verbs_api::{Device, Driver};

/// A device with a queue pair, that tells of itself at `path`.
fn device(path: &Path) -> (Device, verbs_api::ManualQueuePair) {
    let text = format!("sim:live-{},stat={}", std::process::id(), path.display());
    let device = Device::builder().driver(Driver::THREAD).open(&text).expect("a device");
    let cq = device.create_cq(16).expect("a queue");
    let pair = device.alloc_pd().queue_pair(&cq, &cq).create().expect("a queue pair");
    (device, pair)
}

fn stat(path: &Path) -> std::process::Command {
    let mut command = srnic("stat");
    command.args(["--interval", "0.05"]).arg(path);
    command
}

#[test]
fn a_person_looks_at_a_device_that_goes_and_comes_again() {
    let place = Place::new("live");
    let path = place.path("stat");
    let (first, pair) = device(&path);
    let qpn = pair.qpn();
    let mut pty = Pty::start(&stat(&path));
    pty.wait_for("link up  1 queue pairs");
    pty.wait_for(&qpn.to_string());
    assert!(!pty.is_restored(), "the view has the terminal");
    pty.press("\r");
    pty.wait_for("limited by state: it is before RTS");
    pty.resize(12, 50);
    pty.wait_until("the footer in the last row", |screen| {
        screen.rows(0, 50).nth(11).is_some_and(|row| row.starts_with("esc: back"))
    });
    drop((pair, first));
    pty.wait_for("gone: ");
    let again = device(&path);
    pty.wait_until("the other device", |screen| !screen.contents().contains("gone: "));
    pty.press("?");
    pty.wait_for("ctrl-c  quit");
    pty.press("xq");
    assert_eq!(pty.end(), Some(0));
    assert!(pty.is_restored(), "{}", pty.screen().contents());
    drop(again);
}

#[test]
fn signals_leave_the_terminal_as_it_was() {
    let place = Place::new("live-signals");
    let path = place.path("stat");
    let device = device(&path);
    for signal in ["-INT", "-TERM"] {
        let mut pty = Pty::start(&stat(&path));
        pty.wait_for("link up");
        assert!(!pty.is_restored());
        pty.signal(signal);
        assert_eq!(pty.end(), Some(0), "{signal}");
        assert!(pty.is_restored(), "{signal}: {}", pty.screen().contents());
    }
    // By the terminal, which the view does not leave it to.
    let mut pty = Pty::start(&stat(&path));
    pty.wait_for("link up");
    pty.press("\x03");
    assert_eq!(pty.end(), Some(0));
    assert!(pty.is_restored());
    drop(device);
}

#[test]
fn colours_are_there_unless_they_are_unwanted() {
    let place = Place::new("live-colours");
    let path = place.path("stat");
    let device = device(&path);
    for (value, coloured) in [("", true), ("1", false)] {
        let mut command = stat(&path);
        command.env("NO_COLOR", value);
        let mut pty = Pty::start(&command);
        pty.wait_for("q: quit");
        let cells = (0..24).flat_map(|row| (0..80).map(move |column| (row, column)));
        let colours = cells.filter_map(|(row, column)| pty.screen().cell(row, column));
        let colours = colours.filter(|cell| cell.fgcolor() != vt100::Color::Default).count();
        assert_eq!(colours > 0, coloured, "NO_COLOR={value}");
    }
    drop(device);
}

#[test]
fn a_program_reads_documents_and_a_recording_shows_them_again() {
    let place = Place::new("live-json");
    let (path, recording) = (place.path("stat"), place.path("recording"));
    let device = device(&path);
    let mut command = stat(&path);
    command.args(["--json", "--record"]).arg(&recording).stdout(Stdio::piped());
    let watching = Running::start(command);
    // The third look is in the file.
    while std::fs::read_to_string(&recording).map_or(0, |text| text.lines().count()) < 3 {
        std::thread::yield_now();
    }
    watching.signal("-INT");
    let ended = watching.end();
    ended.assert_success();
    let documents = |bytes: &[u8]| -> Vec<serde_json::Value> {
        let text = String::from_utf8_lossy(bytes);
        text.lines().map(|line| serde_json::from_str(line).expect("a document")).collect()
    };
    let live = documents(&ended.0.stdout);
    assert!(live.len() >= 3 && live[0]["rates"].is_null() && live[1]["rates"].is_object(), "{live:?}");
    assert_eq!(live[2]["queue_pairs"][0]["labels"]["state"], "RESET");
    let mut command = srnic("stat");
    command.args(["--json", "--replay"]).arg(&recording);
    let ended = Running::start(command).end();
    ended.assert_success();
    let again = documents(&ended.0.stdout);
    assert_eq!(again[..live.len()], live[..]);

    drop(device);
    let mut command = srnic("stat");
    command.arg("--replay").arg(&recording);
    let mut pty = Pty::start(&command);
    pty.wait_for("link up  1 queue pairs");
    pty.press("q");
    assert_eq!(pty.end(), Some(0));
}
