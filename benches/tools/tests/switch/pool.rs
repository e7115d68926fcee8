//! Ports for whoever asks.

use super::{Place, Running};
use crate::support::srnic;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// A switch with a pool of a network with two hosts, once it is ready.
fn switch(socket: &Path) -> Running {
    let mut command = srnic("switch");
    command.arg("--pool").arg(socket).args(["--net", "10.9.8.0/30"]);
    let mut switch = Running::start(command);
    switch.wait_for("and a pool");
    switch
}

/// What the switch answers, and the connection that it is good for.
fn ask(socket: &Path) -> (String, BufReader<UnixStream>) {
    let mut connection = BufReader::new(UnixStream::connect(socket).expect("a switch"));
    let mut answer = String::new();
    connection.read_line(&mut answer).expect("an answer");
    (answer.trim_end().to_owned(), connection)
}

#[test]
fn who_asks_has_a_port_and_an_address_until_it_goes() {
    let place = Place::new("switch-pool");
    let socket = place.path("pool.sock");
    let switch = switch(&socket);
    let (first, held) = ask(&socket);
    let (second, _also_held) = ask(&socket);
    assert!(first.ends_with(",role=client,ip=10.9.8.1") && second.ends_with(",role=client,ip=10.9.8.2"));
    let tool = |device: &str, server: bool| {
        let mut command = srnic("write-bw");
        command.args(["-d", device, "-p", &place.port.to_string(), "-n", "50", "-s", "20000", "--verify"]);
        command.args((!server).then_some("127.0.0.1"));
        Running::start(command)
    };
    let tools = [tool(&first, true), tool(&second, false)];
    tools.map(Running::end).iter().for_each(|ended| ended.assert_success());
    // Both addresses are taken, and who is refused is hung up on.
    let (refused, mut connection) = ask(&socket);
    assert_eq!(refused, "refused: all 2 addresses of the pool are taken");
    assert_eq!(connection.read(&mut [0]).expect("the end"), 0);
    drop(held);
    let again = (0..).map(|_| ask(&socket)).find(|(answer, _)| !answer.starts_with("refused"));
    assert_eq!(again.map(|(answer, _)| answer), Some(first));
    switch.signal("-INT");
    let ended = switch.end();
    ended.assert_success();
    let out = String::from_utf8_lossy(&ended.0.stdout).into_owned();
    assert_eq!(out.lines().count(), 3, "a heading and the ports that were given:\n{out}");
    assert!(!socket.exists(), "the socket goes with the switch");
}

#[test]
fn a_socket_has_one_switch_and_what_a_dead_one_left_is_taken_over() {
    let place = Place::new("switch-pools");
    let socket = place.path("pool.sock");
    drop(std::os::unix::net::UnixListener::bind(&socket).expect("a socket"));
    let _switch = switch(&socket);
    let mut command = srnic("switch");
    command.arg("--pool").arg(&socket);
    Running::start(command).end().assert_failed(1, "cannot listen at");
    // It is still the first one's.
    assert!(ask(&socket).0.starts_with("memif:"));
}

#[test]
fn a_switch_without_a_pool_has_two_ports() {
    let mut command = srnic("switch");
    command.arg("memif:/tmp/alone.sock");
    Running::start(command).end().assert_failed(1, "two ports or more, or a --pool");
}
