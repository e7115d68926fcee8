//! Ports for whoever asks.

use super::{Place, Running};
use crate::support::srnic;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
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

/// What the switch answers to a question, and the connection that the answer is good for.
fn ask_for(socket: &Path, question: &str) -> (String, BufReader<UnixStream>) {
    let mut connection = BufReader::new(UnixStream::connect(socket).expect("a switch"));
    // A question that is too long is answered before its end.
    let _ = connection.get_mut().write_all(question.as_bytes());
    let mut answer = String::new();
    connection.read_line(&mut answer).expect("an answer");
    (answer.trim_end().to_owned(), connection)
}

/// Both ends of a tool, which compares every byte.
fn write(place: &Place, [server, client]: [&str; 2]) {
    let tool = |device: &str, server: bool| {
        let mut command = srnic("write-bw");
        command.args(["-d", device, "-p", &place.port.to_string(), "-n", "50", "-s", "20000", "--verify"]);
        command.args((!server).then_some("127.0.0.1"));
        Running::start(command)
    };
    let tools = [tool(server, true), tool(client, false)];
    tools.map(Running::end).iter().for_each(|ended| ended.assert_success());
}

fn ask(socket: &Path) -> (String, BufReader<UnixStream>) {
    ask_for(socket, "port\n")
}

#[test]
fn who_asks_has_a_port_and_an_address_until_it_goes() {
    let place = Place::new("switch-pool");
    let socket = place.path("pool.sock");
    let switch = switch(&socket);
    let (first, held) = ask(&socket);
    let (second, _also_held) = ask(&socket);
    assert!(first.ends_with(",role=client,ip=10.9.8.1") && second.ends_with(",role=client,ip=10.9.8.2"));
    write(&place, [&first, &second]);
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
fn tools_open_a_pool_and_ask_for_an_address() {
    let place = Place::new("switch-pool-tools");
    let socket = place.path("pool.sock");
    let mut switch = Running::start({
        let mut command = srnic("switch");
        command
            .arg("--pool")
            .arg(&socket)
            .args(["--net", "10.9.8.0/24", "--json"])
            .arg(place.path("ports.json"));
        command
    });
    switch.wait_for("and a pool");
    let device = format!("pool:{}", socket.display());
    write(&place, [&format!("{device},ip=10.9.8.7"), &format!("fault:loss=1%,seed=7:{device}")]);
    let (answer, _held) = ask_for(&socket, "port ip=10.9.8.9\n");
    assert!(answer.ends_with("9.sock,role=client,ip=10.9.8.9"), "{answer}");
    for (device, why) in [
        (format!("{device},ip=10.9.8.9"), "gives no port: 10.9.8.9 is taken"),
        (format!("{device},ip=10.9.9.9"), "none of the pool's addresses, which are 10.9.8.1 to 10.9.8.254"),
        (format!("{device},mtu=1500"), "unknown pool key `mtu`; keys are ip"),
    ] {
        let mut command = srnic("write-bw");
        command.args(["-d", &device, "-p", &place.port.to_string()]);
        Running::start(command).end().assert_failed(if why.starts_with("unknown") { 2 } else { 1 }, why);
    }
    switch.signal("-INT");
    switch.end().assert_success();
    let ports = std::fs::read_to_string(place.path("ports.json")).expect("the report");
    for port in ["pool:10.9.8.7", "pool:10.9.8.1", "pool:10.9.8.9"] {
        assert!(ports.contains(port), "{port}: {ports}");
    }
}

#[test]
fn a_device_has_its_port_until_it_is_closed() {
    let place = Place::new("switch-pool-devices");
    let socket = place.path("pool.sock");
    let _switch = switch(&socket);
    let open = || verbs_api::Device::open(&format!("pool:{}", socket.display()));
    let (first, second) = (open().expect("a port"), open().expect("another port"));
    assert_eq!([&first, &second].map(|device| device.ip().to_string()), ["10.9.8.1", "10.9.8.2"]);
    let refused = open().err().expect("there are two").to_string();
    assert!(refused.ends_with("all 2 addresses of the pool are taken"), "{refused}");
    drop(first);
    let again = (0..).map(|_| open()).find_map(Result::ok).expect("it is free by and by");
    assert_eq!(again.ip().to_string(), "10.9.8.1");
}

#[test]
fn a_question_that_is_none_is_refused_and_one_in_parts_is_answered() {
    let place = Place::new("switch-pool-questions");
    let socket = place.path("pool.sock");
    let _switch = switch(&socket);
    for question in ["give me one\n".to_owned(), "port ip=nine\n".to_owned(), "port ".repeat(100)] {
        let (answer, _) = ask_for(&socket, &question);
        assert!(answer.starts_with("refused: a question is `port`"), "{question}: {answer}");
    }
    let mut slow = UnixStream::connect(&socket).expect("a switch");
    slow.write_all(b"po").expect("it listens");
    // It does not wait for the rest.
    let (other, _held) = ask(&socket);
    assert!(other.ends_with("ip=10.9.8.1"), "{other}");
    slow.write_all(b"rt\n").expect("it listens");
    let mut answer = String::new();
    BufReader::new(slow).read_line(&mut answer).expect("an answer");
    assert!(answer.trim_end().ends_with("ip=10.9.8.2"), "{answer}");
}

#[test]
fn a_socket_has_one_switch_and_what_a_dead_one_left_is_taken_over() {
    let place = Place::new("switch-pools");
    let socket = place.path("pool.sock");
    drop(std::os::unix::net::UnixListener::bind(&socket).expect("a socket"));
    let _switch = switch(&socket);
    let mut command = srnic("switch");
    command.arg("--pool").arg(&socket);
    let said = format!("cannot listen at {}: another server is listening on it", socket.display());
    Running::start(command).end().assert_failed(1, &said);
    // It is still the first one's.
    assert!(ask(&socket).0.starts_with("memif:"));
}

/// A file that somebody else made is not the switch's to remove.
#[test]
fn a_file_at_the_place_of_the_socket_stays() {
    let place = Place::new("switch-pool-file");
    let file = place.path("notes.txt");
    std::fs::write(&file, "mine").expect("a file");
    let mut command = srnic("switch");
    command.arg("--pool").arg(&file);
    Running::start(command)
        .end()
        .assert_failed(1, "something that is no socket is there; remove it or use another");
    assert_eq!(std::fs::read(&file).expect("it is there"), b"mine");
}

#[test]
fn a_switch_without_a_pool_has_two_ports() {
    for ports in [&[][..], &["memif:/tmp/alone.sock"]] {
        let mut command = srnic("switch");
        command.args(ports);
        Running::start(command).end().assert_failed(1, "two ports or more, or a --pool");
    }
}
