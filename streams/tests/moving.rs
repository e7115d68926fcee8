//! Streams that go on over TCP when RDMA fails, and return when it works again.

mod support;

use srnic_streams::{Config, Endpoint, Error, Stream, Transport, Way};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::thread::scope;
use std::time::{Duration, Instant};
use support::{LIMIT, bytes, small, until};

/// A server, and a client whose device is a black hole for some time.
struct Path {
    server: Endpoint,
    client: Endpoint,
    listener: srnic_streams::Listener,
}

impl Path {
    fn new(name: &str, hole: &str, config: Config) -> Self {
        let server = Endpoint::open(&format!("sim:moving-{name}"), config).expect("an endpoint");
        let listener = server.listen_with_tcp(0, local()).expect("ports");
        let device = format!("{hole}sim:moving-{name}");
        let client = Endpoint::open(&device, config).expect("an endpoint");
        Self { server, client, listener }
    }

    fn auto(&self) -> Transport {
        let tcp = self.listener.tcp_addr().expect("it listens");
        Transport::Auto { rdma: self.listener.local_addr(), tcp }
    }

    fn streams(&self, over: Transport) -> (Stream, Stream) {
        scope(|threads| {
            let accepts = threads.spawn(|| self.listener.accept_within(LIMIT));
            let one = self.client.connect_over(over, LIMIT).expect("connected");
            (one, accepts.join().expect("no panic").expect("accepted").expect("in time"))
        })
    }
}

fn local() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

/// What both ends do until RDMA has failed and works again: each says a number and hears the next
/// one. Returns the longest pause and how often the carrier changed.
fn talk(one: &Stream, other: &Stream, until: impl Fn(usize) -> bool) -> (Duration, usize) {
    let (mut longest, mut changes, mut was_tcp) = (Duration::ZERO, 0, one.is_over_tcp());
    let end = Instant::now() + LIMIT;
    for number in 0_u32.. {
        assert!(Instant::now() < end, "{changes} changes of the carrier");
        let begun = Instant::now();
        for (mut from, mut to) in [(one, other), (other, one)] {
            from.write_all(&number.to_le_bytes()).expect("written");
            let mut came = [0; 4];
            to.read_exact(&mut came).expect("read");
            assert_eq!(u32::from_le_bytes(came), number);
        }
        longest = longest.max(begun.elapsed());
        let is_tcp = one.is_over_tcp();
        changes += usize::from(is_tcp != was_tcp);
        was_tcp = is_tcp;
        if until(changes) {
            return (longest, changes);
        }
    }
    unreachable!("it ends by its time");
}

/// Bytes go on within a second; on a machine that is busy with other things, in one of some runs.
#[test]
fn a_black_hole_is_gone_round_by_tcp_within_a_second_and_rdma_comes_back() {
    let mut pauses = Vec::new();
    while pauses.last().is_none_or(|pause| *pause >= Duration::from_secs(1)) {
        assert!(pauses.len() < 5, "{pauses:?}");
        let path = Path::new(&format!("hole-{}", pauses.len()), "fault:hole=1s-3s:", Config::default());
        let (one, other) = path.streams(path.auto());
        assert!(!one.is_over_tcp() && !other.is_over_tcp());
        let (longest, _) = talk(&one, &other, |changes| changes == 2);
        // Each end changes when it hears of the new carrier.
        until(|| !one.is_over_tcp() && !other.is_over_tcp(), "TCP still carries one end");
        // The receives of the queue pair that failed.
        assert!(path.client.stats().stale_completions > 0);
        pauses.push(longest);
    }
}

#[test]
fn bytes_in_mid_transfer_come_once_whichever_way_they_go() {
    let never = usize::MAX;
    for (name, write_from, read_from) in
        [("send", never, never), ("write", 1, never), ("read", never, 1), ("all", 1500, 3000)]
    {
        let config = Config { write_from, read_from, return_after: Duration::from_millis(100), ..small() };
        let path = Path::new(name, "fault:hole=500ms-1500ms:", config);
        let (one, other) = path.streams(path.auto());
        let (mut sent, mut moved) = (0, 0);
        scope(|threads| {
            let reads = threads.spawn(move || {
                let (mut other, mut all) = (other, Vec::new());
                other.read_to_end(&mut all).expect("read to the end");
                other.write_all(b"all").expect("written");
                all
            });
            let mut one = one;
            let mut all = Vec::new();
            let mut was_tcp = false;
            let end = Instant::now() + LIMIT;
            while moved < 2 {
                assert!(Instant::now() < end, "{name}: {moved} changes of the carrier");
                let part = bytes(sent, 5000);
                one.write_all(&part).expect("written");
                all.extend_from_slice(&part);
                sent += 1;
                let is_tcp = one.is_over_tcp();
                moved += usize::from(is_tcp != was_tcp);
                was_tcp = is_tcp;
            }
            one.shutdown_write().expect("shut");
            let mut answer = String::new();
            one.read_to_string(&mut answer).expect("read");
            assert_eq!(answer, "all");
            let came = reads.join().expect("no panic");
            assert!(came == all, "{name}: {} bytes came of {}", came.len(), all.len());
        });
        let stats = path.client.stats();
        let way = match name {
            "send" => Way::Send,
            "write" => Way::Write,
            _ => Way::Read,
        };
        assert!(stats.sent(way) > 0, "{name}: {:?}", stats.sent);
        let violations: u64 =
            [&path.server, &path.client].iter().map(|e| e.stats().violations.iter().sum::<u64>()).sum();
        assert_eq!(violations, 0);
    }
}

#[test]
fn without_rdma_a_stream_is_tcp_from_the_start_or_an_error_if_rdma_was_asked_for() {
    let path = Path::new("absent", "", small());
    let mut nobody = path.listener.local_addr();
    nobody.set_port(1);
    let tcp = path.listener.tcp_addr().expect("it listens");
    for over in [Transport::Auto { rdma: nobody, tcp }, Transport::Tcp(tcp)] {
        let (mut one, mut other) = path.streams(over);
        assert!(one.is_over_tcp() && other.is_over_tcp());
        let all = bytes(3, 200_000);
        scope(|threads| {
            threads.spawn(|| one.write_all(&all).and_then(|()| one.shutdown_write()).expect("written"));
            let mut came = Vec::new();
            other.read_to_end(&mut came).expect("read");
            assert!(came == all);
        });
        drop(other);
        assert_eq!(one.read(&mut [0]).expect("the end"), 0);
    }
    // On a busy machine the answer may take longer than one waits for it.
    let mut patience = (0..7).map(|power| Duration::from_secs(1 << power));
    let refused = patience.find_map(|patience| {
        let error = path.client.connect_over(Transport::Rdma(nobody), patience).err()?;
        (error.kind() != ErrorKind::TimedOut).then(|| error.kind())
    });
    assert_eq!(refused, Some(ErrorKind::ConnectionRefused));
}

#[test]
fn what_was_written_before_a_drop_arrives_by_tcp() {
    let path = Path::new("drop", "", small());
    let tcp = path.listener.tcp_addr().expect("it listens");
    let (mut one, mut other) = path.streams(Transport::Tcp(tcp));
    one.write_all(b"to the end").expect("written");
    drop(one);
    let mut text = String::new();
    other.read_to_string(&mut text).expect("read");
    assert_eq!(text, "to the end");
    let refused = loop {
        if let Err(error) = other.write(b"nobody reads this") {
            break error;
        }
    };
    assert_eq!(refused.kind(), ErrorKind::BrokenPipe);
    drop(other);
    until(|| path.server.stats().streams + path.client.stats().streams == 0, "streams are left");
}

/// A stream that may not move ends by an error when its path does, and so does one that finds
/// nobody to go on with.
#[test]
fn who_cannot_go_on_is_told() {
    let free = TcpListener::bind(local()).and_then(|listener| listener.local_addr()).expect("a port");
    scope(|threads| {
        for may_move in [false, true] {
            threads.spawn(move || {
                let path = Path::new(&format!("stays-{may_move}"), "fault:hole=500ms-:", small());
                let rdma = path.listener.local_addr();
                let over = if may_move { Transport::Auto { rdma, tcp: free } } else { Transport::Rdma(rdma) };
                let (mut one, _other) = path.streams(over);
                let begun = Instant::now();
                let error = one.read(&mut [0]).expect_err("the path has ended");
                let inner = error.get_ref().and_then(|e| e.downcast_ref::<Error>()).copied();
                assert!(matches!(inner, Some(Error::Failed(_) | Error::Disconnected)), "{inner:?}");
                // It has looked for another carrier.
                assert!(!may_move || begun.elapsed() > Duration::from_secs(9), "{:?}", begun.elapsed());
            });
        }
    });
}

/// At most so many of a hundred streams go over in an interval; the others wait for theirs.
#[test]
fn few_streams_move_in_an_interval() {
    let config = Config { move_percent: 25, move_interval: Duration::from_millis(700), ..small() };
    let path = Path::new("few", "fault:hole=1500ms-60s:", config);
    let mut streams: Vec<(Stream, Stream)> = (0..8).map(|_| path.streams(path.auto())).collect();
    let mut over: Vec<(Instant, usize)> = Vec::new();
    let end = Instant::now() + LIMIT;
    loop {
        assert!(Instant::now() < end, "{over:?}");
        let count = streams.iter().filter(|(one, _)| one.is_over_tcp()).count();
        if over.last().is_none_or(|(_, last)| *last != count) {
            over.push((Instant::now(), count));
        }
        if count == streams.len() {
            break;
        }
        std::thread::yield_now();
    }
    let first = over.iter().find(|(_, count)| *count > 0).expect("some moved").0;
    let last = over.last().expect("all moved").0;
    // Two at a time: three intervals lie between the first and the last.
    assert!(last - first > Duration::from_millis(2 * 700), "{over:?}");
    for (one, other) in &mut streams {
        one.write_all(b"here").expect("written");
        let mut word = [0; 4];
        other.read_exact(&mut word).expect("read");
        assert_eq!(&word, b"here");
    }
}

/// Whoever is no end of a stream, or asks for one that there is not, is turned away and counted.
#[test]
fn strangers_by_tcp_are_turned_away() {
    use srnic_streams::protocol::{Features, Hello};
    let path = Path::new("strangers", "", small());
    let tcp = path.listener.tcp_addr().expect("it listens");
    let features = Features { moves: true, resumes: true, ..Features::default() };
    let unknown = Hello { receives: 4, receive_bytes: 1000, features, token: [7; 16] };
    for said in [&b"GET / HTTP/1.1\r\n\r\n and more so that it is long"[..], &unknown.to_bytes()] {
        let mut socket = std::net::TcpStream::connect(tcp).expect("connected");
        socket.write_all(said).expect("written");
        let mut answer = Vec::new();
        // The end, or a reset.
        let _ = socket.read_to_end(&mut answer);
        assert_eq!(answer, b"");
    }
    until(|| path.server.stats().rejected >= 2, "both are to be rejected");
    assert_eq!(path.server.stats().streams, 0);
    // They are silent, or say their hello byte by byte and never its end: nobody waits for them.
    let silent: Vec<_> = (0..300).map(|_| std::net::TcpStream::connect(tcp).expect("connected")).collect();
    let (one, other) = path.streams(Transport::Tcp(tcp));
    assert!(one.is_over_tcp() && other.is_over_tcp());
    drop((one, other));
    until(|| path.server.stats().rejected >= 2 + 44, "the first of too many are turned away");
    drop(silent);
    until(|| path.server.stats().rejected >= 2 + 300, "who goes is counted");
    // A port that nobody listens to.
    let free = TcpListener::bind(local()).and_then(|listener| listener.local_addr()).expect("a port");
    let refused = path.client.connect_over(Transport::Tcp(free), Duration::from_secs(1));
    assert_eq!(refused.err().map(|error| error.kind()), Some(ErrorKind::ConnectionRefused));
}

/// A peer that never says all of its hello holds nobody up for longer than was said.
#[test]
fn a_peer_that_says_its_hello_byte_by_byte_is_given_up_in_time() {
    let path = Path::new("drips", "", small());
    let listener = TcpListener::bind(local()).expect("a port");
    let tcp = listener.local_addr().expect("it has one");
    let mut nobody = path.listener.local_addr();
    nobody.set_port(1);
    let limit = Duration::from_secs(1);
    scope(|threads| {
        // Ends when the client does, and drips for far longer than the client is to wait.
        threads.spawn(|| {
            let (mut socket, _) = listener.accept().expect("the client");
            for byte in 0..31 {
                if socket.write_all(&[byte]).is_err() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(700));
            }
        });
        let begun = Instant::now();
        let made = path.client.connect_over(Transport::Auto { rdma: nobody, tcp }, limit);
        assert_eq!(made.err().map(|error| error.kind()), Some(ErrorKind::TimedOut));
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    });
}

/// RDMA leaves TCP a part of the time, however short that is.
#[test]
fn a_silent_device_leaves_time_for_tcp() {
    let path = Path::new("silent", "fault:hole=0s-:", small());
    let tcp = path.listener.tcp_addr().expect("it listens");
    let over = Transport::Auto { rdma: path.listener.local_addr(), tcp };
    let one = path.client.connect_over(over, Duration::from_millis(900)).expect("by TCP");
    assert!(one.is_over_tcp());
}

/// A stream that waits for its turn to go over to TCP, as another one has just done so.
fn one_waits(name: &str, move_interval: Duration) -> (Path, Stream, Stream) {
    let config = Config { move_percent: 1, move_interval, ..small() };
    // A busy machine may not make both streams before the path ends, or look too late.
    for run in 0..5 {
        let path = Path::new(&format!("{name}-{run}"), "fault:hole=1500ms-:", config);
        let mut streams = [(); 2].map(|()| path.streams(path.auto()));
        let made_by_rdma = streams.iter().all(|(one, _)| !one.is_over_tcp());
        until(|| streams.iter().any(|(one, _)| one.is_over_tcp()), "one may always move");
        streams.sort_by_key(|(one, _)| !one.is_over_tcp());
        let [_, (one, other)] = streams;
        if made_by_rdma && !one.is_over_tcp() {
            return (path, one, other);
        }
    }
    panic!("both streams move at once");
}

/// Whoever waits for its turn is not given up meanwhile, however long that takes.
#[test]
fn a_stream_that_waits_for_its_turn_goes_on() {
    let (_path, mut one, mut other) = one_waits("turn", Duration::from_secs(11));
    one.write_all(b"late").expect("written");
    let mut word = [0; 4];
    other.read_exact(&mut word).expect("read");
    assert_eq!((&word, one.is_over_tcp()), (b"late", true));
}

/// A program that gives a stream up while nothing carries it, and drops it, tells the peer as soon
/// as something does.
#[test]
fn a_reset_is_told_when_there_is_a_carrier_again() {
    let (_path, one, mut other) = one_waits("told", Duration::from_secs(5));
    one.reset();
    drop(one);
    let error = other.read(&mut [0]).expect_err("it was reset");
    let inner = error.get_ref().and_then(|e| e.downcast_ref::<Error>()).copied();
    assert!(matches!(inner, Some(Error::PeerReset { .. })), "{inner:?}");
}

/// A peer that comes back for a stream which was given up, and leaves without a word, does not keep
/// its memory for ever.
#[test]
fn a_peer_that_leaves_before_it_hears_of_a_reset_keeps_nothing() {
    use srnic_streams::protocol::{Features, Hello};
    let path = Path::new("leaves", "", small());
    let tcp = path.listener.tcp_addr().expect("it listens");
    let call = |resumes| {
        let features = Features { moves: true, resumes, ..Features::default() };
        let hello = Hello { receives: 4, receive_bytes: 1000, features, token: [9; 16] };
        let mut socket = std::net::TcpStream::connect(tcp).expect("connected");
        socket.write_all(&hello.to_bytes()).expect("written");
        socket.read_exact(&mut [0; Hello::BYTES]).expect("its hello");
        socket
    };
    let socket = call(false);
    let stream = path.listener.accept_within(LIMIT).expect("accepted").expect("in time");
    drop(socket);
    until(|| !stream.is_over_tcp(), "the carrier has ended");
    stream.reset();
    drop(stream);
    assert_eq!(path.server.stats().streams, 1, "it is still to tell");
    drop(call(true));
    until(|| path.server.stats().streams == 0, "it waits for ever");
}
