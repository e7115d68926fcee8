//! `srnic lab`: a command and the hosts that it is given.

#[path = "support/mod.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod support;

use std::process::Command;
use support::{Place, Running, program, srnic};

/// `srnic lab OPTIONS -- sh -c SCRIPT`; the script has `$SRNIC` and `$PORT`.
fn lab(place: &Place, options: &str, script: &str) -> Command {
    let mut command = srnic("lab");
    command.arg("--json").arg(place.path("lab.json")).args(options.split_whitespace());
    command.args(["--", "sh", "-c", script]);
    command.env("SRNIC", program()).env("PORT", place.port.to_string());
    command
}

/// A server of host 2 and a client of host 1, of which each checks every byte.
const TRANSFER: &str = r#"
    set -e
    "$SRNIC" write-bw -d "$SRNIC_DEVICE_2" -p $PORT -s 20000 -n 300 -u 18 --verify &
    "$SRNIC" write-bw -d "$SRNIC_DEVICE_1" -p $PORT -s 20000 -n 300 -u 18 --verify 127.0.0.1
    wait $!
"#;

fn frames_from_host_1(place: &Place) -> u64 {
    place.json("lab.json")["ports"][0]["rx_packets"].as_u64().expect("a number")
}

#[test]
fn hosts_meet_and_verify_every_byte_through_loss() {
    let place = Place::new("lab");
    Running::start(lab(&place, "--fault loss=2% --seed 7", TRANSFER)).end().assert_success();
    // 300 messages of five packets are 1500; what was lost was sent again.
    assert!(frames_from_host_1(&place) > 1500, "nothing was lost");
}

/// The control: as many frames as there are, and acknowledgements the other way.
#[test]
fn nothing_is_lost_unless_asked_for() {
    let place = Place::new("lab-lossless");
    Running::start(lab(&place, "", TRANSFER)).end().assert_success();
    let ports = place.json("lab.json");
    assert!(ports["ports"].as_array().expect("ports").iter().all(|port| port["rx_missed"] == 0));
}

#[test]
fn the_status_is_the_command_s() {
    let place = Place::new("lab-status");
    let ended = Running::start(lab(&place, "--hosts 3", "test $SRNIC_HOSTS = 3 && exit 7")).end();
    assert_eq!(ended.0.status.code(), Some(7), "{}", ended.error());
    let killed = Running::start(lab(&place, "", "kill -KILL $$")).end();
    assert_eq!(killed.0.status.code(), Some(137), "{}", killed.error());
}

#[test]
fn what_cannot_run_is_named() {
    let mut command = srnic("lab");
    command.args(["--", "/nowhere/command"]);
    Running::start(command).end().assert_failed(1, "/nowhere/command");
    let place = Place::new("lab-fault");
    Running::start(lab(&place, "--fault lost=1%", "true")).end().assert_failed(1, "unknown fault key `lost`");
}

#[test]
fn who_is_asked_to_end_asks_the_command() {
    let place = Place::new("lab-end");
    let script = "trap 'exit 5' TERM; echo begun >&2; while :; do sleep 0.1; done";
    let mut running = Running::start(lab(&place, "", script));
    running.wait_for("begun");
    running.signal("-TERM");
    let ended = running.end();
    assert_eq!(ended.0.status.code(), Some(5), "{}", ended.error());
}
