//! docs/troubleshooting.md by the letter: sick systems, and what its commands say of them.

#[expect(dead_code, reason = "what other tests need of it")]
mod support;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};
use support::{LIMIT, Place, Running, srnic};

/// Fails unless the document has the command, and a row of what it says.
#[track_caller]
fn assert_in_document(command: &str, says: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/troubleshooting.md");
    let text = fs::read_to_string(path).expect("the document");
    for wanted in [format!("\n{command}"), format!("\n| `{says}`")] {
        assert!(text.contains(&wanted), "{wanted}");
    }
}

fn start(subcommand: &str, arguments: &[&str]) -> Running {
    let mut command = srnic(subcommand);
    command.args(arguments).env_remove("SRNIC_LOG");
    Running::start(command)
}

/// What a command writes to standard output, and whether it succeeded.
fn output(subcommand: &str, arguments: &[&str]) -> (String, bool) {
    let ended = start(subcommand, arguments).end();
    (String::from_utf8_lossy(&ended.0.stdout).into_owned(), ended.0.status.success())
}

/// What `srnic stat --once` says of the device that tells it at `name`, once it is open.
fn stat(place: &Place, name: &str) -> String {
    let path = place.path(name).display().to_string();
    let deadline = Instant::now() + LIMIT;
    loop {
        let (text, is_open) = output("stat", &["--once", &path]);
        if is_open {
            return text;
        }
        assert!(Instant::now() < deadline, "{path} does not open");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Looks until `srnic stat` says it, which the document has in a row.
#[track_caller]
fn stat_comes_to_say(place: &Place, name: &str, says: &str) {
    assert_in_document("srnic stat --once ", says);
    let deadline = Instant::now() + LIMIT;
    loop {
        let text = stat(place, name);
        if text.contains(says) {
            return;
        }
        assert!(Instant::now() < deadline, "{text}");
    }
}

fn memif(place: &Place, more: &str) -> String {
    format!("memif:{},{more}", place.path("socket").display())
}

/// A client that tells what it does, with more in its device string.
fn client(place: &Place, more: &str) -> String {
    memif(place, &format!("role=client,stat={}{more}", place.path("stat").display()))
}

#[test]
fn a_server_that_is_not_there_is_named() {
    let place = Place::new("trouble-nobody");
    let _client = start("ping", &["-d", &client(&place, "")]);
    stat_comes_to_say(&place, "stat", "nobody listens at");
    let _server = start("ping", &["-d", &memif(&place, "role=server")]);
    let deadline = Instant::now() + LIMIT;
    while !stat(&place, "stat").contains("link up") {
        assert!(Instant::now() < deadline);
    }
}

#[test]
fn two_mtus_are_named() {
    let place = Place::new("trouble-mtu");
    let _server = start("ping", &["-d", &memif(&place, "role=server")]);
    let _client = start("ping", &["-d", &client(&place, ",mtu=1500")]);
    stat_comes_to_say(&place, "stat", "the server has mtu=");
}

/// A measurement between two processes that goes on, and its server.
fn traffic(place: &Place, options: &[&str]) -> (Running, Running) {
    let port = place.port.to_string();
    let common = ["-p", &port, "-D", "600", "-u", "20", "--progress"];
    let side = |device: &str, host: &[&str]| {
        start("write-bw", &[&["-d", device], &common[..], options, host].concat())
    };
    let server = side(&memif(place, "role=server"), &[]);
    let mut client = side(&client(place, ""), &["127.0.0.1"]);
    client.wait_for("messages in");
    (server, client)
}

#[test]
fn a_peer_that_is_stopped_is_silent() {
    let place = Place::new("trouble-silent");
    let (server, _client) = traffic(&place, &[]);
    server.signal("-STOP");
    stat_comes_to_say(&place, "stat", "peer silent");
    server.signal("-CONT");
}

#[test]
fn a_window_of_one_packet_is_no_credit() {
    let place = Place::new("trouble-window");
    let (_server, _client) = traffic(&place, &["--cc", "fixed", "--window", "1", "-s", "65536"]);
    stat_comes_to_say(&place, "stat", "no credit");
}

/// What the captures of both ends of a finite run say.
fn explained(place: &Place, faults: &str) -> String {
    let capture = |side: &str| place.path(&format!("{side}.pcap")).display().to_string();
    let port = place.port.to_string();
    let side = |role: &str, faults: &str, host: &[&str]| {
        let device = format!("{faults}{}", memif(place, &format!("role={role},pcap={}", capture(role))));
        start(
            "write-bw",
            &[&["-d", &device, "-p", &port, "-n", "200", "-u", "20", "-s", "4096"], host].concat(),
        )
    };
    let server = side("server", "", &[]);
    side("client", faults, &["127.0.0.1"]).end().assert_success();
    server.end().assert_success();
    output("pcap", &["--explain", &capture("client"), &capture("server")]).0
}

#[test]
fn a_packet_that_the_network_lost_is_told() {
    assert_in_document("srnic pcap --explain ", "lost");
    let text = explained(&Place::new("trouble-loss"), "fault:drop=data@100,dir=tx:");
    assert!(text.contains("network: 1 lost"), "{text}");
    let text = explained(&Place::new("trouble-no-loss"), "");
    // Acknowledgements that come when the client has left are lost in every run.
    assert!(!text.contains("network:"), "{text}");
}

#[test]
fn a_quota_is_told() {
    assert_in_document("srnic hostping --preflight", "quota");
    let place = Place::new("trouble-quota");
    let write = |path: &str, text: &str| {
        let path = place.path("root").join(path);
        fs::create_dir_all(path.parent().expect("it has one")).expect("a directory of our own");
        fs::write(path, text).expect("written");
    };
    write("proc/self/status", "Cpus_allowed_list:\t0-3\n");
    write("proc/self/cgroup", "0::/box\n");
    let root = place.path("root").display().to_string();
    for (quota, verdict, is_well) in [("50000 100000", "bad", false), ("max 100000", "good", true)] {
        write("sys/fs/cgroup/box/cpu.max", quota);
        let (text, succeeded) = output("hostping", &["--preflight", "--root", &root]);
        assert_eq!(succeeded, is_well, "{text}");
        let row = text.lines().find(|row| row.contains(" quota ")).expect("a row");
        assert!(row.starts_with(verdict), "{row}");
    }
}
