//! Tunnels, the programs at their ends, and what these say.

use crate::support::{LIMIT, Place, Running, srnic};
use rustix::net::sockopt::set_socket_linger;
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;
use verbs_api::StatAddress;

/// One frame of a hundred is lost.
const LOSS: &str = "fault:loss=1%,seed=5:";

/// Two tunnels, and the server behind them.
pub struct Tunnel {
    pub server: TcpListener,
    pub entry: SocketAddr,
    pub here: Running,
    pub there: Running,
    pub place: Place,
}

impl Tunnel {
    pub fn new(name: &str) -> Self {
        Self::with(name, &[])
    }

    /// Both ends with these options.
    pub fn with(name: &str, options: &[&str]) -> Self {
        Self::with_each(name, [options; 2])
    }

    /// The end at the client with the first options, the one at the server with the others.
    pub fn with_each(name: &str, [here_options, there_options]: [&[&str]; 2]) -> Self {
        let place = Place::new(name);
        let server = TcpListener::bind(("127.0.0.1", 0)).expect("a server");
        let to = server.local_addr().expect("its address").to_string();
        let device = |end| format!("{LOSS}memif:{}{}", place.path("memif").display(), stat(&place, end));
        let accepts = ["--checked", "--accept", "7471", "--to", &to];
        let mut there = start(&device("there"), &[&accepts, there_options].concat());
        there.wait_for("accepts at");
        // The server's device has the first address of the pair.
        let listens = ["--checked", "--listen", ANY_PORT, "--peer", "10.77.0.1:7471"];
        let mut here = start(&device("here"), &[&listens, here_options].concat());
        let entry = entry(&mut here);
        Self { server, entry, here, there, place }
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.entry).expect("the entry listens");
        stream.set_read_timeout(Some(LIMIT)).expect("set");
        stream
    }

    pub fn accept(&self) -> TcpStream {
        let (stream, _) = self.server.accept().expect("connected");
        stream.set_read_timeout(Some(LIMIT)).expect("set");
        stream
    }

    /// The programs at both sides.
    pub fn programs(&self) -> (TcpStream, TcpStream) {
        (self.connect(), self.accept())
    }

    /// Ctrl-C ends both in order.
    pub fn end(self) {
        for running in [self.here, self.there] {
            running.signal("-INT");
            running.end().assert_success();
        }
    }
}

/// The system chooses one that nobody has.
const ANY_PORT: &str = "127.0.0.1:0";

/// Where this end takes connections, once it does.
fn entry(here: &mut Running) -> SocketAddr {
    here.wait_for("listens at ");
    here.wait_for("\n").trim_end().parse().expect("an address")
}

/// One end of a tunnel. It waits long for open connections, unless `rest` says how long.
pub fn start(device: &str, rest: &[&str]) -> Running {
    let mut command = srnic("tunnel");
    command.args(["-d", device]).args(rest);
    if !rest.contains(&"--drain") {
        command.args(["--drain", "60"]);
    }
    Running::start(command)
}

/// The key of a device that tells of `end`.
fn stat(place: &Place, end: &str) -> String {
    format!(",stat={}", place.path(&format!("{end}.stat")).display())
}

/// What the device of `end` tells Prometheus of its streams and its tunnel, without `srnic_`.
pub fn told(place: &Place, end: &str) -> BTreeMap<String, f64> {
    let text = StatAddress::Unix(place.path(&format!("{end}.stat"))).read().expect("an answer");
    let metric = |line: &str| {
        let (name, value) = line.strip_prefix("srnic_")?.rsplit_once(' ')?;
        Some((name.to_owned(), value.parse().ok()?))
    };
    text.lines().filter_map(metric).collect()
}

/// Two tunnels with a switch between them, which can stand still: nothing gets through then.
pub struct Switched {
    pub server: TcpListener,
    pub entry: SocketAddr,
    pub switch: Running,
    pub here: Running,
    pub there: Running,
    pub place: Place,
}

fn memif(place: &Place, host: u8) -> String {
    format!("memif:{}", place.path(&format!("{host}.sock")).display())
}

/// The end at the server, once it takes streams.
pub fn accepting(place: &Place, to: SocketAddr, options: &[&str]) -> Running {
    let device = format!("{},role=client,ip=10.77.0.1{}", memif(place, 1), stat(place, "there"));
    let to = to.to_string();
    let mut there = start(&device, &[&["--accept", "7471", "--to", &to], options].concat());
    there.wait_for("accepts at");
    there
}

/// The end at the client, and where it takes connections.
pub fn listening(place: &Place, options: &[&str]) -> (Running, SocketAddr) {
    let device = format!("{},role=client,ip=10.77.0.2{}", memif(place, 2), stat(place, "here"));
    let rest = [&["--listen", ANY_PORT, "--peer", "10.77.0.1:7471"], options].concat();
    let mut here = start(&device, &rest);
    let entry = entry(&mut here);
    (here, entry)
}

impl Switched {
    pub fn new(name: &str, tcp: bool) -> Self {
        let (place, carriers) = (Place::new(name), Place::new(&format!("{name}-tcp")));
        let by_tcp = format!("127.0.0.1:{}", carriers.port);
        let options: &[&str] = if tcp { &["--tcp", &by_tcp] } else { &[] };
        let server = TcpListener::bind(("127.0.0.1", 0)).expect("a server");
        let to = server.local_addr().expect("its address");
        let mut command = srnic("switch");
        command.args([memif(&place, 1), memif(&place, 2)]);
        let mut switch = Running::start(command);
        switch.wait_for("switching ");
        let there = accepting(&place, to, options);
        let (here, entry) = listening(&place, options);
        Self { server, entry, switch, here, there, place }
    }

    /// The programs at both sides.
    pub fn programs(&self) -> (TcpStream, TcpStream) {
        let client = TcpStream::connect(self.entry).expect("the entry listens");
        let (server, _) = self.server.accept().expect("connected");
        for program in [&client, &server] {
            program.set_read_timeout(Some(LIMIT)).expect("set");
            program.set_write_timeout(Some(LIMIT)).expect("set");
        }
        (client, server)
    }
}

/// A switch with a pool at `place`, and the device of its ports.
pub fn pool(place: &Place) -> (Running, String) {
    let socket = place.path("pool").display().to_string();
    let mut command = srnic("switch");
    command.args(["--pool", &socket, "--net", "10.77.0.0/24"]);
    let mut switch = Running::start(command);
    switch.wait_for("and a pool");
    (switch, format!("pool:{socket}"))
}

/// Two tunnels over a pool, and a program at each side, one of which has said a word to the other.
pub fn over_pool(device: &str, options: &[&str]) -> ([Running; 2], [TcpStream; 2]) {
    let server = TcpListener::bind(("127.0.0.1", 0)).expect("a server");
    let to = server.local_addr().expect("its address").to_string();
    let mut there =
        start(&format!("{device},ip=10.77.0.9"), &[&["--accept", "7471", "--to", &to], options].concat());
    there.wait_for("accepts at");
    let mut here = start(device, &[&["--listen", ANY_PORT, "--peer", "10.77.0.9:7471"], options].concat());
    let mut client = TcpStream::connect(entry(&mut here)).expect("the entry listens");
    let (mut server, _) = server.accept().expect("connected");
    for program in [&client, &server] {
        program.set_read_timeout(Some(LIMIT)).expect("set");
    }
    tell(&mut client, &mut server);
    ([here, there], [client, server])
}

/// The connection is reset before this program reads anything.
#[track_caller]
pub fn assert_reset(program: &mut TcpStream) {
    let error = program.read(&mut [0]).expect_err("reset");
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}

/// Closes it, and its peer sees a reset.
pub fn reset(program: TcpStream) {
    set_socket_linger(&program, Some(Duration::ZERO)).expect("set");
}

/// Says a word at one program and hears it at the other.
pub fn tell(from: &mut TcpStream, to: &mut TcpStream) {
    from.write_all(b"here").expect("written");
    let mut word = [0; 4];
    to.read_exact(&mut word).expect("read");
    assert_eq!(&word, b"here");
}

/// Bytes of a part of a transfer.
pub const PART: usize = 64 << 10;

/// Parts that tell their place: each has other bytes.
#[derive(Default)]
pub struct Numbered {
    pub count: u64,
}

impl Numbered {
    pub fn next(&mut self) -> [u8; PART] {
        let mut part = [0; PART];
        for (at, word) in (0_u64..).zip(part.chunks_exact_mut(8)) {
            word.copy_from_slice(&(self.count << 32 | at).to_le_bytes());
        }
        self.count += 1;
        part
    }
}
