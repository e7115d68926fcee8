//! `srnic tunnel` as two processes over memif that loses packets: TCP programs at both sides see
//! what they would see of each other.

#[expect(dead_code, reason = "what other tests need of it")]
mod support;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::collections::BTreeSet;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle, scope};
use std::time::{Duration, Instant};
use support::{LIMIT, Place, Running, srnic};

const CONNECTIONS: u64 = 8;
const LEN: usize = 1 << 20;
const LOSS: &str = "fault:loss=1%,seed=5:";

/// Two tunnels, and the server behind them.
struct Tunnel {
    server: TcpListener,
    entry: SocketAddr,
    here: Running,
    there: Running,
    _place: Place,
}

impl Tunnel {
    fn new(name: &str) -> Self {
        Self::with(name, &[])
    }

    /// Both ends with these options.
    fn with(name: &str, options: &[&str]) -> Self {
        let place = Place::new(name);
        let server = TcpListener::bind(("127.0.0.1", 0)).expect("a server");
        let to = server.local_addr().expect("its address").to_string();
        let entry = SocketAddr::from(([127, 0, 0, 1], place.port));
        let device = format!("{LOSS}memif:{}", place.path("memif").display());
        let accepts = ["--checked", "--accept", "7471", "--to", &to];
        let mut there = start(&device, &[&accepts, options].concat());
        there.wait_for("accepts at");
        // The server's device has the first address of the pair.
        let entry_text = entry.to_string();
        let listens = ["--checked", "--listen", &entry_text, "--peer", "10.77.0.1:7471"];
        let mut here = start(&device, &[&listens, options].concat());
        here.wait_for("listens at");
        Self { server, entry, here, there, _place: place }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.entry).expect("the entry listens");
        stream.set_read_timeout(Some(LIMIT)).expect("set");
        stream
    }

    fn accept(&self) -> TcpStream {
        let (stream, _) = self.server.accept().expect("connected");
        stream.set_read_timeout(Some(LIMIT)).expect("set");
        stream
    }

    /// Ctrl-C ends both in order.
    fn end(self) {
        for running in [self.here, self.there] {
            running.signal("-INT");
            running.end().assert_success();
        }
    }
}

/// One end of a tunnel.
fn start(device: &str, rest: &[&str]) -> Running {
    let mut command = srnic("tunnel");
    command.args(["-d", device, "--drain", "60"]).args(rest);
    Running::start(command)
}

fn bytes(number: u64) -> Vec<u8> {
    let word =
        |at: u64| ((at + number * 1_000_003).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56).to_le_bytes()[0];
    (0..LEN as u64).map(word).collect()
}

/// Reads to the end, and only then writes back.
fn echo(mut stream: TcpStream) -> JoinHandle<()> {
    thread::spawn(move || {
        let mut all = Vec::new();
        stream.read_to_end(&mut all).expect("read to the end of one direction");
        stream.write_all(&all).expect("the other is open");
    })
}

#[test]
fn many_connections_carry_their_bytes_and_their_ends() {
    let tunnel = Tunnel::new("tunnel-many");
    scope(|threads| {
        for number in 0..CONNECTIONS {
            let tunnel = &tunnel;
            threads.spawn(move || {
                let mut stream = tunnel.connect();
                let all = bytes(number);
                stream.write_all(&all).expect("written");
                stream.shutdown(Shutdown::Write).expect("half a close");
                let mut back = Vec::new();
                stream.read_to_end(&mut back).expect("read");
                assert!(back == all, "connection {number}: {} bytes", back.len());
            });
        }
        let echoes: Vec<JoinHandle<()>> = (0..CONNECTIONS).map(|_| echo(tunnel.accept())).collect();
        echoes.into_iter().for_each(|echo| echo.join().expect("no panic"));
    });
    tunnel.end();
}

/// Connections at once, as many as a tunnel takes.
const MOST: u32 = 1000;

/// A thousand programs are connected before one of them says a word, and then each hears its own.
#[test]
fn a_thousand_connections_are_open_at_once() {
    // Each has a socket at either side.
    let limit = getrlimit(Resource::Nofile);
    let needed = 2 * u64::from(MOST) + 200;
    if limit.current.is_some_and(|now| now < needed) {
        setrlimit(Resource::Nofile, Rlimit { current: Some(needed), ..limit }).expect("descriptors");
    }
    let tunnel = Tunnel::with("tunnel-most", &["--connections", &MOST.to_string()]);
    let (clients, servers): (Vec<TcpStream>, Vec<TcpStream>) = scope(|threads| {
        let accepts = threads.spawn(|| (0..MOST).map(|_| tunnel.accept()).collect());
        let clients = (0..MOST).map(|_| tunnel.connect()).collect();
        (clients, accepts.join().expect("no panic"))
    });
    for (number, mut client) in (0..MOST).zip(&clients) {
        client.write_all(&number.to_le_bytes()).expect("written");
    }
    let mut heard = BTreeSet::new();
    for mut server in &servers {
        let mut word = [0; 4];
        server.read_exact(&mut word).expect("read");
        assert!(heard.insert(u32::from_le_bytes(word)), "{word:?} came twice");
        server.write_all(&word).expect("written");
    }
    assert_eq!(heard, (0..MOST).collect());
    for (number, mut client) in (0..MOST).zip(&clients) {
        let mut word = [0; 4];
        client.read_exact(&mut word).expect("read");
        assert_eq!(u32::from_le_bytes(word), number);
    }
    drop((clients, servers));
    tunnel.end();
}

#[test]
fn a_reset_is_passed_on_and_ctrl_c_waits_for_open_connections() {
    let tunnel = Tunnel::new("tunnel-ends");
    let mut here = tunnel.connect();
    here.write_all(b"x").expect("written");
    let mut there = tunnel.accept();
    there.read_exact(&mut [0]).expect("read");
    // Closed with a byte that was not read: the system resets the connection.
    here.write_all(b"y").expect("written");
    there.write_all(b"unread").expect("written");
    here.set_read_timeout(Some(LIMIT)).expect("set");
    here.peek(&mut [0]).expect("a byte came");
    drop(here);
    let mut rest = Vec::new();
    let error = there.read_to_end(&mut rest).expect_err("reset");
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);

    let mut here = tunnel.connect();
    here.write_all(b"before").expect("written");
    let mut there = tunnel.accept();
    // Those that still come are closed at once, or both tunnels would wait for them. It ends with
    // the test's process.
    let server = tunnel.server.try_clone().expect("a descriptor");
    thread::spawn(move || server.incoming().for_each(drop));
    tunnel.here.signal("-INT");
    let end = Instant::now() + LIMIT;
    // From some moment on nobody is accepted any more, and what is open goes on.
    while TcpStream::connect_timeout(&tunnel.entry, Duration::from_secs(1)).is_ok() && Instant::now() < end {
        thread::sleep(Duration::from_millis(10));
    }
    here.write_all(b" and after").expect("written");
    here.shutdown(Shutdown::Write).expect("half a close");
    let mut text = String::new();
    there.read_to_string(&mut text).expect("read");
    assert_eq!(text, "before and after");
    drop(there);
    assert_eq!(here.read(&mut [0]).expect("the end"), 0);
    let Tunnel { here, there, .. } = tunnel;
    here.end().assert_success();
    there.signal("-INT");
    there.end().assert_success();
}

#[test]
fn a_server_that_is_not_there_is_a_reset() {
    let mut tunnel = Tunnel::new("tunnel-nobody");
    let gone = tunnel.server.local_addr().expect("its address");
    // Its port is free again.
    tunnel.server = TcpListener::bind(("127.0.0.1", 0)).expect("another");
    let mut stream = tunnel.connect();
    let error = stream.read(&mut [0]).expect_err("reset");
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    tunnel.there.wait_for(&format!(" to {gone}: not connected: Connection refused"));
    tunnel.end();
}

/// A peer that is not there yet, or is killed, is told without a connection that fails.
#[test]
fn a_link_that_is_missing_is_told_and_so_is_its_coming() {
    let place = Place::new("tunnel-link");
    let device = format!("memif:{}", place.path("memif").display());
    let listens = ["--listen", &format!("localhost:{}", place.port), "--peer", "10.77.0.1:7471"];
    let accepts = ["--accept", "7471", "--to", "localhost:1"];
    let mut here = start(&device, &listens);
    here.wait_for("waiting: the link did not come up yet; nobody listens at ");
    let there = start(&device, &accepts);
    here.wait_for("the link is up");
    there.signal("-KILL");
    here.wait_for("waiting: the link did not come up again yet; ");
    let there = start(&device, &accepts);
    here.wait_for("the link is up");
    for running in [here, there] {
        running.signal("-INT");
        running.end().assert_success();
    }
}

/// A switch with a pool at `place`, and the device of its ports.
fn pool(place: &Place) -> (Running, String) {
    let socket = place.path("pool").display().to_string();
    let mut command = srnic("switch");
    command.args(["--pool", &socket, "--net", "10.77.0.0/24"]);
    let mut switch = Running::start(command);
    switch.wait_for("and a pool");
    (switch, format!("pool:{socket}"))
}

/// Two tunnels over a pool, and a program at each side, one of which has said a word to the other.
fn over_pool(place: &Place, device: &str, options: &[&str]) -> ([Running; 2], [TcpStream; 2]) {
    let server = TcpListener::bind(("127.0.0.1", 0)).expect("a server");
    let to = server.local_addr().expect("its address").to_string();
    let entry = format!("127.0.0.1:{}", place.port);
    let mut there =
        start(&format!("{device},ip=10.77.0.9"), &[&["--accept", "7471", "--to", &to], options].concat());
    there.wait_for("accepts at");
    let mut here = start(device, &[&["--listen", &entry, "--peer", "10.77.0.9:7471"], options].concat());
    here.wait_for("listens at");
    let mut client = TcpStream::connect(entry).expect("the entry listens");
    let (mut server, _) = server.accept().expect("connected");
    for program in [&client, &server] {
        program.set_read_timeout(Some(LIMIT)).expect("set");
    }
    tell(&mut client, &mut server);
    ([here, there], [client, server])
}

/// The end of a pool's switch is that of its tunnels, which say what to do. What they carried is
/// reset.
#[test]
fn a_pool_that_ends_is_told() {
    let place = Place::new("tunnel-pool");
    let (switch, device) = pool(&place);
    let (tunnels, programs) = over_pool(&place, &device, &[]);
    switch.signal("-KILL");
    for mut program in programs {
        let error = program.read(&mut [0]).expect_err("reset");
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    }
    for tunnel in tunnels {
        let ended = tunnel.end();
        ended.assert_failed(1, "has ended; start `srnic switch --pool ");
        assert!(ended.error().contains("1 connections are reset"), "{}", ended.error());
    }
}

/// With an address of TCP they go on without it.
#[test]
fn a_pool_that_ends_is_gone_round_by_tcp() {
    let (place, carriers) = (Place::new("tunnel-pool-tcp"), Place::new("tunnel-pool-carriers"));
    let (switch, device) = pool(&place);
    let by_tcp = format!("127.0.0.1:{}", carriers.port);
    let ([mut here, there], [mut client, mut server]) = over_pool(&place, &device, &["--tcp", &by_tcp]);
    switch.signal("-KILL");
    here.wait_for("1 connections went over to TCP");
    tell(&mut client, &mut server);
    tell(&mut server, &mut client);
    drop((client, server));
    for tunnel in [here, there] {
        tunnel.signal("-INT");
        tunnel.end().assert_success();
    }
}

#[test]
fn what_cannot_be_listened_at_or_found_is_named() {
    let place = Place::new("tunnel-names");
    let device = format!("memif:{}", place.path("memif").display());
    let taken = TcpListener::bind(("127.0.0.1", 0)).expect("a server");
    let taken = taken.local_addr().expect("its address").to_string();
    for (rest, said) in [
        (
            ["--listen", &taken, "--peer", "10.77.0.1:5"],
            format!("cannot listen at {taken}: Address already in use"),
        ),
        (
            ["--accept", "5", "--to", "no-such-host.invalid:80"],
            "cannot find host no-such-host.invalid: ".to_owned(),
        ),
    ] {
        start(&device, &rest).end().assert_failed(1, &said);
    }
    start(&device, &["--accept", "5", "--to", "6379"])
        .end()
        .assert_failed(2, "give HOST:PORT, as in 127.0.0.1:6379");
}

/// Two tunnels with a switch between them, which can stand still: nothing gets through then.
struct Switched {
    server: TcpListener,
    entry: SocketAddr,
    switch: Running,
    here: Running,
    there: Running,
    place: Place,
}

fn memif(place: &Place, host: u8) -> String {
    format!("memif:{}", place.path(&format!("{host}.sock")).display())
}

/// The end at the server, once it takes streams.
fn accepting(place: &Place, to: SocketAddr, options: &[&str]) -> Running {
    let device = format!("{},role=client,ip=10.77.0.1", memif(place, 1));
    let to = to.to_string();
    let mut there = start(&device, &[&["--accept", "7471", "--to", &to], options].concat());
    there.wait_for("accepts at");
    there
}

/// The end at the client, once it takes connections.
fn listening(place: &Place, entry: SocketAddr, options: &[&str]) -> Running {
    let device = format!("{},role=client,ip=10.77.0.2", memif(place, 2));
    let entry = entry.to_string();
    let rest = [&["--listen", &entry, "--peer", "10.77.0.1:7471"], options].concat();
    let mut here = start(&device, &rest);
    here.wait_for("listens at");
    here
}

impl Switched {
    fn new(name: &str, tcp: bool) -> Self {
        let (place, carriers) = (Place::new(name), Place::new(&format!("{name}-tcp")));
        let by_tcp = format!("127.0.0.1:{}", carriers.port);
        if tcp { Self::with(place, &["--tcp", &by_tcp]) } else { Self::with(place, &[]) }
    }

    /// Both ends with these options.
    fn with(place: Place, options: &[&str]) -> Self {
        let server = TcpListener::bind(("127.0.0.1", 0)).expect("a server");
        let to = server.local_addr().expect("its address");
        let entry = SocketAddr::from(([127, 0, 0, 1], place.port));
        let mut command = srnic("switch");
        command.args([memif(&place, 1), memif(&place, 2)]);
        let mut switch = Running::start(command);
        switch.wait_for("switching ");
        let there = accepting(&place, to, options);
        let here = listening(&place, entry, options);
        Self { server, entry, switch, here, there, place }
    }

    /// The programs at both sides.
    fn programs(&self) -> (TcpStream, TcpStream) {
        let client = TcpStream::connect(self.entry).expect("the entry listens");
        let (server, _) = self.server.accept().expect("connected");
        for program in [&client, &server] {
            program.set_read_timeout(Some(LIMIT)).expect("set");
            program.set_write_timeout(Some(LIMIT)).expect("set");
        }
        (client, server)
    }
}

#[test]
fn a_black_hole_in_mid_transfer_is_gone_round_by_tcp_and_left_when_it_heals() {
    let mut tunnel = Switched::new("tunnel-hole", true);
    let (mut client, mut server) = tunnel.programs();
    let done = AtomicBool::new(false);
    let (arrived, crossing) = mpsc::channel();
    let (sent, came) = scope(|threads| {
        let sends = threads.spawn(|| {
            let mut sent = Numbered::default();
            while !done.load(Ordering::Relaxed) {
                client.write_all(&sent.next()).expect("written");
            }
            client.shutdown(Shutdown::Write).expect("half a close");
            sent.count
        });
        let reads = threads.spawn(|| {
            let (mut expected, mut part) = (Numbered::default(), [0; PART]);
            while server.peek(&mut [0]).expect("read") > 0 {
                server.read_exact(&mut part).expect("read");
                assert!(part == expected.next(), "part {}", expected.count);
                let _ = arrived.send(());
            }
            expected.count
        });
        crossing.recv_timeout(LIMIT).expect("bytes cross it");
        tunnel.switch.signal("-STOP");
        tunnel.here.wait_for("1 connections went over to TCP");
        // What arrives from now on came over TCP: far more than was on its way.
        while crossing.try_recv().is_ok() {}
        for _ in 0..64 {
            crossing.recv_timeout(LIMIT).expect("it goes on over TCP");
        }
        tunnel.switch.signal("-CONT");
        tunnel.here.wait_for("1 came back to RDMA");
        while crossing.try_recv().is_ok() {}
        for _ in 0..64 {
            crossing.recv_timeout(LIMIT).expect("it goes on over RDMA");
        }
        done.store(true, Ordering::Relaxed);
        (sends.join().expect("no panic"), reads.join().expect("no panic"))
    });
    assert_eq!(sent, came);
    drop((client, server));
    for running in [tunnel.here, tunnel.there] {
        running.signal("-INT");
        running.end().assert_success();
    }
}

/// Without an address of TCP the connection ends by a reset.
#[test]
fn a_black_hole_without_tcp_is_a_reset() {
    let tunnel = Switched::new("tunnel-no-tcp", false);
    let (mut client, mut server) = tunnel.programs();
    client.write_all(b"x").expect("written");
    server.read_exact(&mut [0]).expect("read");
    tunnel.switch.signal("-STOP");
    client.write_all(b"y").expect("written");
    let error = client.read(&mut [0]).expect_err("reset");
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    tunnel.switch.signal("-CONT");
}

/// Says a word at one program and hears it at the other.
fn tell(from: &mut TcpStream, to: &mut TcpStream) {
    from.write_all(b"here").expect("written");
    let mut word = [0; 4];
    to.read_exact(&mut word).expect("read");
    assert_eq!(&word, b"here");
}

/// Whichever end is killed, the other one says so, its program sees a reset, and the next
/// connection works as soon as the end is there again.
#[test]
fn an_end_that_is_killed_is_reported_and_comes_back() {
    let mut tunnel = Switched::new("tunnel-kill", false);
    let to = tunnel.server.local_addr().expect("its address");

    let (mut client, mut server) = tunnel.programs();
    tell(&mut client, &mut server);
    tunnel.there.signal("-KILL");
    client.write_all(b"lost").expect("written");
    let error = client.read(&mut [0]).expect_err("reset");
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    tunnel.here.wait_for("8 bytes out, 0 bytes in, ");
    tunnel.there = accepting(&tunnel.place, to, &[]);
    let (mut client, mut server) = tunnel.programs();
    tell(&mut client, &mut server);

    tunnel.here.signal("-KILL");
    server.write_all(b"lost").expect("written");
    let error = server.read(&mut [0]).expect_err("reset");
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    tunnel.there.wait_for("4 bytes in, ");
    tunnel.here = listening(&tunnel.place, tunnel.entry, &[]);
    let (mut client, mut server) = tunnel.programs();
    tell(&mut client, &mut server);
    tell(&mut server, &mut client);
}

/// Bytes of a part of a transfer.
const PART: usize = 64 << 10;

/// Parts that tell their place: each has other bytes.
#[derive(Default)]
struct Numbered {
    count: u64,
}

impl Numbered {
    fn next(&mut self) -> [u8; PART] {
        let mut part = [0; PART];
        for (at, word) in (0_u64..).zip(part.chunks_exact_mut(8)) {
            word.copy_from_slice(&(self.count << 32 | at).to_le_bytes());
        }
        self.count += 1;
        part
    }
}
