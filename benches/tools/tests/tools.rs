//! What all tools have in common: how they end where nobody reads them, and what they refuse before
//! they wait for anybody.

mod support;

use std::fs::{self, File};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use support::{Ended, LIMIT, Place, Running, program, srnic};
use verbs_api::{Device, Driver};

const DEVINFO: &str = "devinfo";
const RAW_BW: &str = "raw-bw";
const PING: &str = "ping";
const RPING: &str = "rping";
const WRITE_BW: &str = "write-bw";

fn command(program: &str, arguments: &[&str]) -> Command {
    let mut command = srnic(program);
    command.args(arguments).env_remove("SRNIC_LOG");
    command
}

/// With standard output that goes elsewhere.
fn end_writing_to(mut command: Command, stdout: impl Into<Stdio>) -> Ended {
    command.stdin(Stdio::null()).stdout(stdout).stderr(Stdio::piped());
    Ended(command.output().expect("it starts"))
}

/// A pipe whose reader has left.
fn closed_pipe() -> Stdio {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    writer.into()
}

fn full() -> Stdio {
    File::options().write(true).open("/dev/full").expect("Linux has it").into()
}

#[test]
fn whose_output_nobody_reads_ends_quietly() {
    let info = end_writing_to(command(DEVINFO, &["-d", "sim:closed"]), closed_pipe());
    assert_eq!((info.0.status.code(), info.error()), (Some(1), String::new()));
    let arguments = ["-d", "sim:closed,ip=10.77.0.9", "10.77.0.9", "-c", "1"];
    let ping = end_writing_to(command(PING, &arguments), closed_pipe());
    assert_eq!((ping.0.status.code(), ping.error()), (Some(2), String::new()));
}

#[test]
fn whose_output_has_no_room_says_so() {
    let info = end_writing_to(command(DEVINFO, &["-d", "sim:full"]), full());
    info.assert_failed(1, "srnic devinfo: cannot write to standard output: No space left on device");
    assert!(!info.error().contains("panicked"), "{}", info.error());
}

/// Starts the program by a link of this name.
fn by_link(place: &Place, name: &str, arguments: &[&str]) -> Ended {
    let link = place.path(name);
    std::os::unix::fs::symlink(program(), &link).expect("a fresh name");
    let mut command = Command::new(link);
    command.args(arguments).env_remove("SRNIC_LOG");
    Running::start(command).end()
}

#[test]
fn a_link_is_the_subcommand_of_its_name_and_no_other() {
    let place = Place::new("tools-link-name");
    let arguments = ["-d", "sim:linked"];
    let linked = by_link(&place, "srnic_devinfo", &arguments);
    linked.assert_success();
    let called = Running::start(command(DEVINFO, &arguments)).end();
    assert_eq!(linked.0.stdout, called.0.stdout);
    // It says who it is by the name that it was called by.
    by_link(&place, "srnic_ping", &["-d", "sim:"]).assert_failed(2, "srnic_ping: ");
    by_link(&place, "srnic_devinfo.old", &arguments).assert_failed(2, "unexpected argument '-d'");
    by_link(&place, "srnic_write-bw", &["ping", "-d", "sim:"]).assert_failed(2, "srnic ping: ");
}

fn write_bw(place: &Place, role: &str, arguments: &[&str]) -> Command {
    write_bw_on("memif", "", place, role, arguments)
}

/// At a socket of this name, with more in the device string.
fn write_bw_on(socket: &str, more: &str, place: &Place, role: &str, arguments: &[&str]) -> Command {
    let device = format!("memif:{},role={role}{more}", place.path(socket).display());
    let json = place.path(&format!("{role}.json")).display().to_string();
    let mut command = command(WRITE_BW, &["-d", &device, "-p", &place.port.to_string(), "--json", &json]);
    command.args(arguments);
    command
}

#[test]
fn results_are_written_to_the_file_if_standard_output_has_no_room() {
    let place = Place::new("tools-full");
    let mut server = Running::start(write_bw(&place, "server", &["-n", "100"]));
    server.wait_for("waiting for a client");
    let client = end_writing_to(write_bw(&place, "client", &["-n", "100", "127.0.0.1"]), full());
    client.assert_failed(1, "srnic write-bw: cannot write to standard output");
    assert!(!client.error().contains("panicked"), "{}", client.error());
    server.end_within(LIMIT).assert_success();
    assert_eq!(place.json("client.json")["iterations"], 100);
}

#[test]
fn what_can_go_wrong_without_a_client_goes_wrong_before_one_is_waited_for() {
    let place = Place::new("tools-early");
    let refuse = |arguments: &[&str], reason: &str| {
        let ended = Running::start(write_bw(&place, "server", arguments)).end();
        ended.assert_failed(1, reason);
        assert!(!ended.error().contains("waiting for a client"), "{}", ended.error());
    };
    refuse(&["-t", "4", "-l", "8"], "--post_list is 8; it cannot be more than --tx-depth, which is 4");
    refuse(&["-t", "4", "-Q", "8"], "--cq-mod is 8; it cannot be more than --tx-depth, which is 4");
    let _taken = TcpListener::bind(("127.0.0.1", place.port)).expect("it was free");
    refuse(&[], "cannot listen");
    fs::create_dir(place.path("server.json")).expect("made");
    refuse(&[], "server.json: is a directory");
}

#[test]
fn raw_frames_are_neither_recorded_nor_told_of() {
    let place = Place::new("tools-raw");
    for key in ["pcap", "stat"] {
        let device = format!("memif:{},{key}={}", place.path("memif").display(), place.path(key).display());
        let ended = Running::start(command(RAW_BW, &["-d", &device, "-p", &place.port.to_string()]));
        // It would wait for a client.
        ended.end_within(LIMIT).assert_failed(1, "raw frames pass no engine");
    }
}

/// A port whose host lets nobody in, and does not refuse either: its queue of connections is full.
fn silent_host() -> (TcpListener, TcpStream) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    rustix::net::listen(&listener, 0).expect("it listens");
    let waiting = TcpStream::connect(listener.local_addr().expect("bound")).expect("there is room for one");
    (listener, waiting)
}

#[test]
fn who_waits_for_a_host_that_is_silent_can_be_interrupted() {
    let (listener, _waiting) = silent_host();
    let port = listener.local_addr().expect("bound").port().to_string();
    let place = Place::new("tools-silent");
    let perftest = "perftest";
    for (program, first) in [(WRITE_BW, None), (perftest, Some("send-bw"))] {
        let (stat, socket) = (place.path("stat"), place.path("socket"));
        let peer = format!("memif:{},role=server", socket.display());
        let _peer = Device::builder().driver(Driver::THREAD).open(&peer).expect("a device");
        let device = format!("memif:{},role=client,stat={}", socket.display(), stat.display());
        let mut client = command(program, &["-d", &device, "-p", &port]);
        client.args(first).arg("127.0.0.1");
        let client = Running::start(client);
        let deadline = Instant::now() + LIMIT;
        // The device is open, so that it connects next, with its signals caught.
        while !stat.exists() {
            assert!(Instant::now() < deadline, "the device does not open");
            std::thread::sleep(Duration::from_millis(5));
        }
        client.signal("-INT");
        client.end_within(Duration::from_secs(40)).assert_failed(130, "interrupted");
    }
}

#[test]
fn an_unknown_level_of_the_log_is_refused() {
    for (program, code) in [(DEVINFO, 1), (PING, 2)] {
        let mut command = command(program, &["-d", "sim:log"]);
        command.env("SRNIC_LOG", "loud");
        Running::start(command).end().assert_failed(code, "SRNIC_LOG=loud: it is one of off, error,");
    }
}

#[test]
fn several_engines_are_refused_in_words_for_who_runs_a_tool() {
    let ended = Running::start(command(DEVINFO, &["-d", "sim:many,engines=2"])).end();
    ended.assert_failed(1, "engines=2; leave engines= out: this tool runs one engine");
}

#[test]
fn help_says_what_holds_for_the_tool() {
    let help = |program| {
        let ended = Running::start(command(program, &["--help"])).end();
        ended.assert_success();
        String::from_utf8_lossy(&ended.0.stdout).split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let raw = help("raw-bw");
    assert!(!raw.contains("fault:loss"), "{raw}");
    for (program, size, iters, inline) in [
        (WRITE_BW, 65_536, 5000, Some(0)),
        ("send-bw", 65_536, 5000, Some(0)),
        ("read-bw", 65_536, 5000, None),
        ("atomic-bw", 8, 5000, None),
        ("write-lat", 2, 1000, Some(220)),
        ("send-lat", 2, 1000, Some(220)),
        ("read-lat", 2, 1000, None),
        ("atomic-lat", 8, 1000, None),
        ("rpc", 32, 1_000_000, None),
        (RAW_BW, 4200, 1_000_000, None),
        ("raw-lat", 64, 100_000, None),
        ("tcp-bw", 65_536, 5000, None),
        ("tcp-lat", 2, 1000, None),
        ("stream-bw", 65_536, 5000, None),
        ("stream-lat", 2, 1000, None),
    ] {
        let help = help(program);
        let said = [
            format!("Bytes of a message [default: {size}]"),
            format!("Messages of each size, and queue pair [default: {iters}]"),
        ];
        assert!(said.iter().all(|said| help.contains(said)), "{program}: {help}");
        let copies = inline.map(|bytes| format!("that is copied into the queue [default: {bytes}]"));
        assert_eq!(help.contains("--inline_size"), copies.is_some(), "{program}: {help}");
        assert!(copies.is_none_or(|said| help.contains(&said)), "{program}: {help}");
    }
}

/// Both ends, each with more in its device string.
fn two_devices(name: &str, more: [&str; 2], args: &[&str]) -> [Ended; 2] {
    let place = Place::new(name);
    let server = Running::start(write_bw_on("memif", more[0], &place, "server", args));
    let client =
        Running::start(write_bw_on("memif", more[1], &place, "client", &[args, &["127.0.0.1"]].concat()));
    [server.end(), client.end()]
}

#[test]
fn an_mtu_that_nobody_gave_the_tool_is_named_as_the_devices() {
    for (name, args, least) in [("tools-mtu", &[][..], 1408), ("tools-mtu-plain", &["--plain"], 1024)] {
        let [server, client] = two_devices(name, [",mtu=1500", ",mtu=9000"], args);
        let rest = format!("give both devices the same mtu=, or both sides --mtu {least}");
        server.assert_failed(1, &format!("{least} here, as the device allows, and 4096 at the peer: {rest}"));
        client.assert_failed(1, &format!("4096 here, as the device allows, and {least} at the peer: {rest}"));
    }
}

#[test]
fn ends_with_one_address_are_told_at_once() {
    for ended in two_devices("tools-address", [",ip=10.77.0.2"; 2], &[]) {
        ended.assert_failed(1, "both ends are 10.77.0.2: give each device an ip= of its own");
    }
}

#[test]
fn who_waits_for_a_link_says_so() {
    let place = Place::new("tools-link");
    let server = Running::start(write_bw_on("one", "", &place, "server", &[]));
    let mut client = Running::start(write_bw_on("other", "", &place, "client", &["127.0.0.1"]));
    let other = place.path("other").display().to_string();
    client.wait_for(&format!(
        "waiting: the link did not come up yet; nobody listens at {other}: this end is the client, start the other one"
    ));
    client.signal("-INT");
    client.end().assert_failed(130, "interrupted");
    server.end().assert_failed(1, "the peer failed: interrupted");
}

/// Each end of a pair whose ends do not go together says so by itself, and both leave the processor
/// alone meanwhile.
#[test]
fn a_link_that_cannot_come_up_is_told_at_both_ends_while_they_rest() {
    for driver in ["native", "dpdk"] {
        let place = Place::new(&format!("tools-apart-{driver}"));
        let device = |role: &str, mtu: u16| {
            let path = place.path("memif").display().to_string();
            format!("memif:{path},role={role},mtu={mtu},driver={driver}")
        };
        let server = command(RPING, &["-d", &format!("{},ip=10.77.0.1", device("server", 9000))]);
        let client = format!("{},ip=10.77.0.2", device("client", 1500));
        let client = command(RPING, &["-d", &client, "--wait", "60", "10.77.0.1"]);
        let mut ends = [server, client].map(Running::start);
        for (end, waits) in ends.iter_mut().zip(["no client came yet; ", "the server does not answer yet; "])
        {
            end.wait_for(waits);
            end.wait_for("the server has mtu=9000, the client mtu=1500: both ends need the same");
        }
        for end in &ends {
            let used = used_in_a_second(end);
            assert!(used < Duration::from_millis(500), "{driver}: {used:?} of a second");
        }
        for end in ends {
            end.signal("-INT");
            end.end().assert_failed(130, "interrupted");
        }
    }
}

#[test]
fn a_ping_that_nobody_answers_says_what_is_in_the_way() {
    let place = Place::new("tools-ping");
    let path = place.path("memif").display().to_string();
    let device = format!("memif:{path},role=server,ip=10.77.0.1");
    let words = format!("no client has come to {path}: this end is the server");
    for (arguments, waits) in [
        (&["10.77.0.2"][..], "waiting: the link did not come up yet; "),
        (&[], "waiting: nobody has asked yet; "),
    ] {
        let mut ping = Running::start(command(PING, &[&["-d", &device], arguments].concat()));
        ping.wait_for(&format!("{waits}{words}"));
        let used = used_in_a_second(&ping);
        assert!(used < Duration::from_millis(500), "{used:?} of a second");
        ping.signal("-INT");
        ping.end();
    }
}

/// What the first thread of a process has of a processor within a second.
fn used_in_a_second(process: &Running) -> Duration {
    let used = || {
        let path = format!("/proc/{}/schedstat", process.id());
        let text = fs::read_to_string(path).expect("it runs");
        let first = text.split_whitespace().next().and_then(|nanos| nanos.parse().ok());
        Duration::from_nanos(first.expect("nanoseconds"))
    };
    let before = used();
    std::thread::sleep(Duration::from_secs(1));
    used() - before
}
