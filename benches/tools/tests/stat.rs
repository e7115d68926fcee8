//! `srnic stat` looks at running tools.

#[expect(dead_code, reason = "what other tests need of it")]
mod support;

use std::fs::File;
use std::io::Read as _;
use std::process::Command;
use std::time::{Duration, Instant};
use support::{LIMIT, Place, Running, srnic};

/// What `srnic stat` shows of the device of `side`.
fn look(place: &Place, side: &str) -> String {
    let mut command = srnic("stat");
    command.arg("--once").arg(place.path(&format!("{side}.stat")));
    let ended = Running::start(command).end();
    ended.assert_success();
    String::from_utf8_lossy(&ended.0.stdout).into_owned()
}

#[test]
fn a_peer_that_hangs_is_shown_and_one_that_goes_on_is_not() {
    let place = Place::new("stat");
    let start = |side: &str| {
        let mut command = srnic("write-bw");
        let [socket, stat] =
            ["memif".to_owned(), format!("{side}.stat")].map(|name| place.path(&name).display().to_string());
        command.args(["-d", &format!("memif:{socket},stat={stat}"), "-p", &place.port.to_string()]);
        command.args(["-D", "600", "-u", "20", "--progress"]).args((side == "client").then_some("127.0.0.1"));
        Running::start(command)
    };
    let (server, mut client) = (start("server"), start("client"));
    client.wait_for("messages in");
    let busy = look(&place, "client");
    assert!(busy.contains("link up, 1 queue pairs") && busy.contains(" RTS "), "{busy}");
    server.signal("-STOP");
    let deadline = Instant::now() + LIMIT;
    loop {
        let table = look(&place, "client");
        if table.contains("peer silent") {
            break;
        }
        assert!(Instant::now() < deadline, "{table}");
        std::thread::sleep(Duration::from_millis(50));
    }
    server.signal("-CONT");
    loop {
        let table = look(&place, "client");
        if !table.contains("peer silent") {
            break;
        }
        assert!(Instant::now() < deadline, "{table}");
    }
    client.signal("-INT");
    drop((server, client));
}

#[test]
fn a_capture_that_is_not_whole_is_counted() {
    let place = Place::new("stat-capture");
    let pcap = place.path("pcap");
    assert!(Command::new("mkfifo").arg(&pcap).status().expect("mkfifo runs").success());
    let start = |side: &str, more: &str| {
        let mut command = srnic("write-bw");
        let device = format!("memif:{}{more}", place.path("memif").display());
        command.args(["-d", &device, "-p", &place.port.to_string(), "-D", "600", "--progress"]);
        command.args((side == "client").then_some("127.0.0.1"));
        Running::start(command)
    };
    let more = format!(",pcap={},stat={}", pcap.display(), place.path("server.stat").display());
    let server = start("server", &more);
    // As if its disk were full behind the header.
    let mut header = [0; 24];
    File::open(&pcap).and_then(|mut file| file.read_exact(&mut header)).expect("the server writes it");
    let mut client = start("client", "");
    client.wait_for("messages in");
    let deadline = Instant::now() + LIMIT;
    while !look(&place, "server").contains(" port_unrecorded\n") {
        assert!(Instant::now() < deadline, "{}", look(&place, "server"));
    }
    drop((server, client));
}

#[test]
fn a_device_that_is_not_there_is_named() {
    let mut command = srnic("stat");
    command.arg("/nowhere/a.stat");
    Running::start(command).end().assert_failed(1, "is the device open, with stat=/nowhere/a.stat?");
    let mut command = srnic("stat");
    command.arg("nowhere");
    Running::start(command).end().assert_failed(2, "a path that begins with / or .");
}
