//! `srnic rping` as two processes.

#[expect(dead_code, reason = "what other tests need of it")]
mod support;

use std::time::Duration;
use support::{Ended, Place, Running, srnic};

const LISTENS: &str = "waiting for a client on 10.77.0.1:7174";

fn rping(place: &Place, host: u8, arguments: &[&str]) -> Running {
    let socket = place.path("memif");
    let mut command = srnic("rping");
    command.args(["-d", &format!("memif:{},ip=10.77.0.{host}", socket.display())]);
    command.args(arguments);
    Running::start(command)
}

fn play(name: &str, server: &[&str], client: &[&str]) -> (Ended, Ended) {
    let place = Place::new(name);
    let mut server = rping(&place, 1, server);
    server.wait_for(LISTENS);
    let client = rping(&place, 2, client);
    (server.end(), client.end())
}

#[test]
fn pings_of_many_packets_come_back_as_they_went() {
    let (server, client) = play("rping", &["-S", "70000"], &["10.77.0.1", "-S", "70000", "-C", "10"]);
    for end in [server, client] {
        end.assert_success();
        let said = String::from_utf8_lossy(&end.0.stdout);
        assert_eq!(said, "10 pings of 70000 bytes in the SRNIC dialect; disconnected on both sides\n");
    }
}

#[test]
fn a_server_without_a_client_can_be_interrupted() {
    let place = Place::new("rping-int");
    let mut server = rping(&place, 1, &[]);
    server.wait_for(LISTENS);
    server.signal("-INT");
    // Well within the time after which it gave up in the past.
    server.end_within(Duration::from_secs(40)).assert_failed(130, "interrupted");
}

#[test]
fn ends_that_differ_in_size_say_so() {
    let (server, client) = play("rping-sizes", &["-S", "100"], &["10.77.0.1", "-S", "64"]);
    server.assert_failed(1, "-S is 100 here and 64 at the peer");
    client.assert_failed(1, "the peer disconnected before the last ping was back");
}

#[test]
fn a_client_of_nobody_is_told_so() {
    let mut command = srnic("rping");
    command.args(["-d", "sim:itself,ip=10.77.0.9", "10.77.0.9"]);
    Running::start(command).end().assert_failed(1, "nobody listens to that port");
}
