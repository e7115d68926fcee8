//! memif between two processes, each polling on its own.

mod two;

use std::fs::File;
use std::os::fd::{AsFd, FromRawFd};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::Ordering;

use memif::message::{AddRing, Init, MODE_ETHERNET, Message, Text, VERSION};
use pmd_bindings::{Burst, MemifConfig, MemifRole, Mempool};
use two::{
    End, Peer, TempDir, alone, finish_flag, length, orders, read_frame, role, say, within, write_frame,
};

/// Sends back whatever comes, until told to end.
#[test]
#[ignore = "the peer of the other tests, started by them"]
fn echo_peer() {
    let Some(orders) = orders() else { return };
    let mut end = End::open(orders[1].as_ref(), role(&orders[0]));
    let finish = finish_flag();
    say("open", "");
    let mut received = end.burst();
    let mut echo = end.burst();
    while !finish.load(Ordering::Relaxed) {
        if !end.connect_step() {
            continue;
        }
        if echo.is_empty() {
            end.port.rx_burst(&mut received);
            std::mem::swap(&mut received, &mut echo);
        }
        end.port.tx_burst(&mut echo);
    }
    drop((received, echo));
    let stats = end.port.stats().expect("counters");
    end.port.stop().expect("stops");
    say("held", end.pool.in_use());
    say("received", stats.rx_frames);
}

/// Sends frames and takes their echoes back, at most `WINDOW` under way.
struct Echo {
    sent: u64,
    back: u64,
    to_send: Burst<32>,
    received: Burst<32>,
}

impl Echo {
    const WINDOW: u64 = 256;

    fn new(pool: &Mempool) -> Self {
        Self { sent: 0, back: 0, to_send: Burst::new(pool), received: Burst::new(pool) }
    }

    /// One turn; frames from `first` on. Returns whether something moved.
    fn turn(&mut self, end: &mut End, last: u64) -> bool {
        if self.to_send.is_empty() && self.sent < last && self.sent - self.back < Self::WINDOW {
            assert!(self.to_send.fill(), "the pool is empty");
            for mbuf in self.to_send.iter_mut() {
                let len = length(self.sent);
                write_frame(self.sent, &mut mbuf.writable(42)[..len]);
                mbuf.set_len(len);
                self.sent += 1;
            }
        }
        let moved = end.port.tx_burst(&mut self.to_send) + end.port.rx_burst(&mut self.received);
        for mbuf in self.received.iter() {
            assert_eq!(mbuf.segments(), 1);
            assert_eq!(read_frame(mbuf.frame()), self.back, "frames overtook each other, or were lost");
            self.back += 1;
        }
        moved > 0
    }
}

fn echo_through(peer: Peer, end: &mut End) {
    const FRAMES: u64 = 32 * 300;
    let mut peer = peer;
    end.connect();
    let mut echo = Echo::new(&end.pool);
    within("echo of all frames", || {
        echo.turn(end, FRAMES);
        echo.back == FRAMES
    });
    assert!(end.port.link_up());
    peer.end();
    assert_eq!(peer.hear("held"), "0", "the peer leaked buffers");
    assert!(peer.hear("received").parse::<u64>().is_ok());
    peer.finish();
    drop(echo);
    end.port.stop().expect("stops");
    assert_eq!(end.pool.in_use(), 0, "buffers leaked");
}

#[test]
fn every_length_comes_back_as_it_went() {
    let _alone = alone();
    let dir = TempDir::new();
    let mut end = End::open(&dir.socket(), MemifRole::Server);
    let peer = Peer::start("echo_peer", &format!("client {}", dir.socket().display()));
    echo_through(peer, &mut end);
}

/// As long as a socket's path can be: more than DPDK's arguments have room for.
#[test]
fn the_longest_path_is_one_like_all_others() {
    let _alone = alone();
    let dir = TempDir::new();
    let deep = dir.path().join("x".repeat(106 - "/memif".len() - dir.path().as_os_str().len()));
    std::fs::create_dir(&deep).expect("a directory");
    let socket = deep.join("memif");
    assert_eq!(socket.as_os_str().len(), 107);
    let mut end = End::open(&socket, MemifRole::Server);
    let peer = Peer::start("echo_peer", &format!("client {}", socket.display()));
    echo_through(peer, &mut end);
}

/// DPDK's own listener aborts the process when a client is gone before it is greeted.
#[test]
fn a_server_survives_clients_that_run_away() {
    let _alone = alone();
    let dir = TempDir::new();
    let mut end = End::open(&dir.socket(), MemifRole::Server);
    for _ in 0..500 {
        let _ = two::connect_and_close(&dir.socket());
    }
    let peer = Peer::start("echo_peer", &format!("client {}", dir.socket().display()));
    echo_through(peer, &mut end);
}

#[test]
fn a_link_goes_down_and_comes_up_as_either_port_stops_and_starts() {
    let _alone = alone();
    let dir = TempDir::new();
    let mut end = End::open(&dir.socket(), MemifRole::Server);
    let peer = Peer::start("echo_peer", &format!("client {}", dir.socket().display()));
    for _ in 0..5 {
        end.connect();
        end.port.stop().expect("stops");
        assert!(!end.port.link_up());
        end.port.start().expect("starts again");
    }
    echo_through(peer, &mut end);
}

#[test]
fn a_client_without_privileges_and_a_server_with() {
    let _alone = alone();
    let dir = TempDir::new();
    let mut end = End::open(&dir.socket(), MemifRole::Server);
    // connect(2) to a socket file needs write permission.
    std::fs::set_permissions(dir.socket(), std::fs::Permissions::from_mode(0o777)).expect("ours");
    let peer = Peer::start_unprivileged("echo_peer", &format!("client {}", dir.socket().display()), &dir);
    echo_through(peer, &mut end);
}

#[test]
fn a_server_without_privileges() {
    let _alone = alone();
    let dir = TempDir::new();
    let mut peer = Peer::start_unprivileged("echo_peer", &format!("server {}", dir.socket().display()), &dir);
    peer.hear("open");
    let mut end = End::open(&dir.socket(), MemifRole::Client);
    echo_through(peer, &mut end);
}

#[test]
fn a_client_that_comes_first_finds_its_server_later() {
    let _alone = alone();
    let dir = TempDir::new();
    let mut end = End::open(&dir.socket(), MemifRole::Client);
    assert!(!end.connect_step());
    assert!(!end.port.is_started(), "there is nobody to connect to");
    let peer = Peer::start("echo_peer", &format!("server {}", dir.socket().display()));
    echo_through(peer, &mut end);
}

fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("Linux").count()
}

#[test]
fn a_thousand_servers_leave_no_descriptor() {
    let _alone = alone();
    let dir = TempDir::new();
    let open = || drop(End::open(&dir.socket(), MemifRole::Server));
    open();
    let before = open_descriptors();
    (0..1000).for_each(|_| open());
    assert_eq!(open_descriptors(), before);
}

fn memory(len: u64) -> File {
    // SAFETY: a name that is terminated; the descriptor is new and ours.
    let file = unsafe { File::from_raw_fd(libc::memfd_create(c"region".as_ptr(), libc::MFD_CLOEXEC)) };
    file.set_len(len).expect("room");
    file
}

/// Says the first `count` of the five messages of a client, and goes.
fn leave_after(socket: &Path, count: usize) {
    let ring = |to_server, offset| {
        Message::AddRing(AddRing { to_server, index: 0, region: 0, offset, size_log2: 4, private_header: 0 })
    };
    let (secret, name) = (Text::new(""), Text::new("a client that leaves"));
    let script = [
        Message::Init(Init { version: VERSION, id: 0, mode: MODE_ETHERNET, secret, name }),
        Message::AddRegion { index: 0, size: 8192 },
        ring(true, 0),
        ring(false, 4096),
        Message::Connect(name),
    ];
    let mut client = None;
    within("place at the server", || {
        client = memif::socket::connect(socket).ok();
        client.is_some()
    });
    let client = client.expect("connected");
    let hear = || {
        let mut heard = None;
        within("answer", || {
            heard = memif::socket::receive(&client).expect("the server is there");
            heard.is_some()
        });
        heard.expect("it came").0
    };
    assert!(matches!(hear(), Message::Hello(_)));
    for message in &script[..count] {
        let beside = memory(8192);
        let carries = matches!(message, Message::AddRegion { .. } | Message::AddRing(_));
        memif::socket::send(&client, message, carries.then(|| beside.as_fd())).expect("the server is there");
        // It refuses rings that do not begin as they must: no answer is awaited.
        if !matches!(message, Message::Connect(_)) {
            assert_eq!(hear(), Message::Ack, "after {message:?}");
        }
    }
}

/// DPDK's driver keeps for ever the descriptor of memory that it was told of and did not come to
/// map.
#[test]
fn clients_that_leave_in_the_middle_leave_nothing() {
    let _alone = alone();
    let dir = TempDir::new();
    let end = End::open(&dir.socket(), MemifRole::Server);
    // The interrupt thread, the proxy and a look at what is open open something for a moment: more
    // than that was lost.
    let before = open_descriptors() + 8;
    for round in 0..100 {
        leave_after(&dir.socket(), round % 6);
    }
    within("end of the last", || open_descriptors() <= before);
    drop(end);
}

#[test]
fn a_client_whose_frames_have_another_length_gets_no_link() {
    let _alone = alone();
    let dir = TempDir::new();
    let mut server = End::open(&dir.socket(), MemifRole::Server);
    let config = MemifConfig { max_frame: 1518, ..MemifConfig::new(dir.socket(), MemifRole::Client) };
    let mut client = End::with(config);
    within("refusal", || {
        assert!(!client.connect_step() && !server.connect_step());
        server.port.refused_clients() > 0
    });
    drop(client);
    let mut client = End::open(&dir.socket(), MemifRole::Client);
    within("link", || client.connect_step() & server.connect_step());
}

/// Length of the frames of a flood: long ones, because the longer a burst takes, the likelier a
/// kill falls into it.
const FLOOD: usize = 4200;

/// Sends and receives one burst of numbered frames as fast as it goes; returns how many came.
struct Flood {
    to_send: Burst<32>,
    received: Burst<32>,
    sent: u64,
    expected: u64,
}

impl Flood {
    fn new(pool: &Mempool) -> Self {
        Self { to_send: Burst::new(pool), received: Burst::new(pool), sent: 0, expected: 0 }
    }

    fn turn(&mut self, end: &mut End) -> usize {
        if self.to_send.is_empty() && self.to_send.fill() {
            for mbuf in self.to_send.iter_mut() {
                mbuf.writable(0)[..8].copy_from_slice(&self.sent.to_le_bytes());
                mbuf.set_len(FLOOD);
                self.sent += 1;
            }
        }
        end.port.tx_burst(&mut self.to_send);
        let count = end.port.rx_burst(&mut self.received);
        for mbuf in self.received.iter() {
            assert_eq!((mbuf.segments(), mbuf.frame().len()), (1, FLOOD));
            let number = u64::from_le_bytes(*mbuf.frame().first_chunk().expect("long enough"));
            assert_eq!(number, self.expected, "a frame was lost, or one of the peer's previous life came");
            self.expected += 1;
        }
        count
    }
}

/// An end with rings so long that reading one takes milliseconds: longer than the kernel needs to
/// clean up behind a killed process.
fn open_long(socket: &str, role: MemifRole) -> End {
    End::with(MemifConfig { ring_size_log2: 14, ..MemifConfig::new(socket, role) })
}

/// Floods until it is killed, and says when the ring is full.
#[test]
#[ignore = "the peer of the other tests, started by them"]
fn flood_peer() {
    let Some(orders) = orders() else { return };
    let mut end = open_long(&orders[1], role(&orders[0]));
    let finish = finish_flag();
    say("open", "");
    let mut flood = Flood::new(&end.pool);
    let mut full = 0;
    while !finish.load(Ordering::Relaxed) {
        if !end.connect_step() {
            continue;
        }
        flood.turn(&mut end);
        // A thousand times, because nothing moves either while the driver is at work on the link.
        full = if flood.to_send.is_empty() { 0 } else { full + 1 };
        if full == 1000 {
            say("full", "");
        }
    }
}

/// Kills the peer in the middle of traffic and goes on with the next.
fn survives_kills(mine: MemifRole, theirs: &str) {
    const KILLS: u64 = 20;
    let _alone = alone();
    let dir = TempDir::new();
    let socket = dir.socket().display().to_string();
    let orders = format!("{theirs} {socket}");
    let mut end = if mine == MemifRole::Server { Some(open_long(&socket, mine)) } else { None };
    let mut descriptors = Vec::new();
    for round in 0..KILLS {
        let mut peer = Peer::start("flood_peer", &orders);
        peer.hear("open");
        let end = end.get_or_insert_with(|| open_long(&socket, mine));
        end.connect();
        let mut flood = Flood::new(&end.pool);
        within("traffic", || {
            flood.turn(end);
            flood.expected > 100 * round
        });
        // Let the ring run full, so that there is something to read when the rings are taken away.
        peer.hear("full");
        peer.kill();
        // A poller that knows nothing of it goes on until the link is down.
        within("link down", || {
            flood.turn(end);
            !end.port.link_up()
        });
        drop(flood);
        assert_eq!(end.pool.in_use(), 0, "buffers leaked in round {round}");
        descriptors.push(open_descriptors());
    }
    // The first round opens some for good.
    assert!(descriptors.last() <= descriptors.get(1), "descriptors leaked: {descriptors:?}");
}

#[test]
fn a_server_survives_clients_that_are_killed() {
    survives_kills(MemifRole::Server, "client");
}

#[test]
fn a_client_survives_servers_that_are_killed() {
    survives_kills(MemifRole::Client, "server");
}
