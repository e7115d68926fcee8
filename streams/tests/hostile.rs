//! A peer that keeps no rule: the stream is closed for a reason that is counted, and nothing else
//! suffers.

mod support;

use srnic_streams::protocol::{Descriptor, Features, Header, Hello, Kind, Violation};
use srnic_streams::{Endpoint, Error, Listener, Stream};
use std::io::{ErrorKind, Read, Write};
use std::thread::scope;
use std::time::{Duration, Instant};
use support::{LIMIT, Numbers, bytes, small, until};
use verbs_api::{
    Access, CompletionQueue, Connector, Device, Driver, MemoryRegion, QueueCaps, QueuePair, RecvRequest,
    RemoteAddr, SendData, SendRequest, WcStatus,
};

/// Connections of the fuzzer; some seconds.
const CONNECTIONS: u64 = 150;
/// Messages of each at most.
const MESSAGES: usize = 12;

/// The server, and a peer that posts what it likes.
struct Hostile {
    endpoint: Endpoint,
    listener: Listener,
    device: Device,
}

struct Peer {
    pair: QueuePair,
    cq: CompletionQueue,
    memory: MemoryRegion,
}

impl Hostile {
    fn new(name: &str) -> Self {
        let text = format!("sim:streams-{name}");
        let endpoint = Endpoint::open(&text, small()).expect("an endpoint");
        let listener = endpoint.listen(0).expect("a port");
        let device = Device::builder().driver(Driver::THREAD).open(&text).expect("a device");
        Self { endpoint, listener, device }
    }

    /// A connection that keeps the rules so far.
    fn peer(&self) -> (Peer, Stream) {
        let (pd, cq) = (self.device.alloc_pd(), self.device.create_cq(256).expect("a queue"));
        let memory = pd.register(1 << 16, Access::LOCAL_WRITE).expect("memory");
        let caps = QueueCaps { max_send_wr: 64, max_recv_wr: 64, ..QueueCaps::default() };
        let mut pair = pd.queue_pair(&cq, &cq).caps(caps).build().expect("a queue pair");
        for _ in 0..64 {
            let scatter = [memory.slice(..4096).expect("inside")];
            pair.post_recv(&RecvRequest { wr_id: 0, scatter: &scatter }).expect("posted");
        }
        let to = self.listener.local_addr();
        let features = Features { writes: true, reads: true, ..Features::default() };
        let hello = Hello { receives: 32, receive_bytes: 4096, features, token: [9; 16] };
        let data = hello.to_bytes();
        let connecting = Connector::new().private_data(&data).connect(pair, to).expect("begun");
        scope(|threads| {
            let accepts = threads.spawn(|| self.listener.accept_within(LIMIT));
            let pair = connecting.wait(LIMIT).expect("connected");
            let stream = accepts.join().expect("no panic").expect("accepted").expect("in time");
            (Peer { pair, cq, memory }, stream)
        })
    }

    fn violations(&self) -> u64 {
        self.endpoint.stats().violations.iter().sum()
    }
}

impl Peer {
    /// Sends a message; false if the queue pair is over.
    fn send(&mut self, message: &[u8]) -> bool {
        self.memory.write(8192, message).expect("inside");
        let gather = [self.memory.slice(8192..8192 + message.len()).expect("inside")];
        let posted = self.pair.post_send(&SendRequest::send(SendData::Gather(&gather)).id(1).signaled());
        posted.is_ok() && self.sent() == WcStatus::Success
    }

    /// Writes a message with an immediate, and waits until that has ended.
    fn write(&mut self, message: &[u8], to: RemoteAddr, imm: u32) {
        self.memory.write(8192, message).expect("inside");
        let gather = [self.memory.slice(8192..8192 + message.len()).expect("inside")];
        let request = SendRequest::write(SendData::Gather(&gather), to).with_imm(imm);
        self.pair.post_send(&request.id(1).signaled()).expect("posted");
        let _ = self.sent();
    }

    /// The first memory that this peer is granted.
    fn grant(&mut self) -> Descriptor {
        let end = Instant::now() + LIMIT;
        loop {
            assert!(Instant::now() < end, "nothing is granted");
            let mut bytes = [0; 48];
            self.memory.read(0, &mut bytes).expect("inside");
            // All receives have the same memory.
            if bytes[1] == Kind::Grant as u8 {
                return Descriptor::from_bytes(bytes[32..].try_into().expect("sixteen"));
            }
            let _ = self.cq.poll();
            std::thread::yield_now();
        }
    }

    /// How the last request ended.
    fn sent(&mut self) -> WcStatus {
        let end = Instant::now() + LIMIT;
        while Instant::now() < end {
            match self.cq.poll() {
                Some(done) if done.wr_id == 1 => return done.status,
                Some(_) => {}
                None => std::thread::yield_now(),
            }
        }
        panic!("the request never ends")
    }
}

fn header(kind: Kind, length: u32) -> Header {
    Header { kind, checked: false, waited: false, length, position: 0, taken: 0, credit: 32, word: 0 }
}

fn message(header: Header, payload: &[u8]) -> Vec<u8> {
    [&header.to_bytes()[..], payload].concat()
}

/// A message in which some fields are right, and others are not.
fn any_message(numbers: &mut Numbers) -> Vec<u8> {
    let mut any = |mostly: u64, bound: u64| match numbers.next() % 6 {
        0 => numbers.next() % bound,
        1 => numbers.next(),
        _ => mostly,
    };
    let kind = any(1, 9);
    let payload = any(5, 600) % 900;
    let fields = [any(payload, 900), any(0, 20), any(0, 20), any(32, 100), any(0, 2)];
    let flags = any(0, 2);
    let mut message = vec![0; Header::BYTES + usize::try_from(payload).expect("small")];
    message[0] = u8::try_from(any(1, 2) & 0xFF).expect("a byte");
    message[1] = u8::try_from(kind & 0xFF).expect("a byte");
    message[2..4].copy_from_slice(&flags.to_le_bytes()[..2]);
    message[4..8].copy_from_slice(&fields[0].to_le_bytes()[..4]);
    message[8..16].copy_from_slice(&fields[1].to_le_bytes());
    message[16..24].copy_from_slice(&fields[2].to_le_bytes());
    message[24..28].copy_from_slice(&fields[3].to_le_bytes()[..4]);
    message[28..32].copy_from_slice(&fields[4].to_le_bytes()[..4]);
    let cut = any(message.len() as u64, message.len() as u64 + 1);
    message.truncate(usize::try_from(cut).unwrap_or(usize::MAX));
    message
}

#[test]
fn each_broken_rule_closes_the_stream_and_is_counted() {
    let hostile = Hostile::new("rules");
    let data = header(Kind::Data, 3);
    let nowhere = Descriptor { addr: 0x1000, rkey: 0xDEAD_BEEF, len: 500 };
    let version = {
        let mut other = message(data, b"abc");
        other[0] = 7;
        other
    };
    for (violation, sent) in [
        (Violation::Short, vec![0; 31]),
        (Violation::Version, version),
        (Violation::Length, message(data, b"abcd")),
        (Violation::Length, message(header(Kind::Fin, 3), b"abc")),
        (Violation::Position, message(Header { position: 1, ..data }, b"abc")),
        (Violation::Taken, message(Header { taken: 1, ..data }, b"abc")),
        (Violation::Credit, message(Header { credit: 31, ..data }, b"abc")),
        (Violation::Credit, message(Header { credit: 40_000, ..data }, b"abc")),
        (Violation::Checksum, message(Header { checked: true, ..data }, b"abc")),
        (Violation::Descriptor, message(header(Kind::Grant, 16), &[0; 16])),
        (Violation::Descriptor, message(header(Kind::Offer, 16), &[0; 16])),
        (Violation::Offer, message(header(Kind::Offer, 16), &nowhere.to_bytes())),
    ] {
        let before = hostile.endpoint.stats().violations(violation);
        let (mut peer, mut stream) = hostile.peer();
        peer.send(&sent);
        let error = stream.read(&mut [0; 8]).expect_err("closed");
        assert_eq!(error.kind(), ErrorKind::InvalidData);
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
        assert_eq!(inner, Some(&Error::Violation { rule: violation, position: 0 }));
        assert_eq!(hostile.endpoint.stats().violations(violation), before + 1);
    }
}

/// What a peer was granted it may write to, and to nothing else.
#[test]
fn a_peer_writes_to_what_was_granted_and_nothing_else() {
    for (way, expected) in [
        (Outside::Not, None),
        (Outside::Behind, Some(ErrorKind::ConnectionReset)),
        (Outside::Number, Some(ErrorKind::InvalidData)),
        (Outside::Header, Some(ErrorKind::InvalidData)),
    ] {
        let hostile = Hostile::new(&format!("grants-{way:?}"));
        let (mut peer, mut stream) = hostile.peer();
        let full = small().chunk_bytes - 32;
        assert!(peer.send(&message(header(Kind::Data, full), &vec![b'a'; full as usize])));
        stream.read_exact(&mut vec![0; full as usize]).expect("read");
        let granted = peer.grant();
        let mut next = Header { position: full.into(), ..header(Kind::Data, 3) };
        next.kind = if way == Outside::Header { Kind::Fin } else { Kind::Data };
        let past = if way == Outside::Behind { u64::from(granted.len) - 34 } else { 0 };
        let to = RemoteAddr { addr: granted.addr + past, rkey: granted.rkey };
        peer.write(&message(next, b"xyz"), to, u32::from(way == Outside::Number));
        let mut came = [0; 3];
        match (stream.read_exact(&mut came), expected) {
            (Ok(()), None) => assert_eq!(&came, b"xyz"),
            (Err(error), Some(kind)) => assert_eq!(error.kind(), kind, "{way:?}: {error}"),
            (result, _) => panic!("{way:?}: {result:?}"),
        }
    }
}

/// How a WRITE is out of bounds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Outside {
    Not,
    /// It ends behind the block.
    Behind,
    /// Its immediate is not that of the next grant.
    Number,
    /// What it brings may not be written.
    Header,
}

/// What a program reads in place no peer can change: the block that it was written to is not shown
/// to the peer any more. Until the program reads it, it is: the negative control.
#[test]
fn what_a_program_has_in_its_hands_the_peer_does_not_reach() {
    for borrows in [false, true] {
        let hostile = Hostile::new(&format!("in-hand-{borrows}"));
        let (mut peer, mut stream) = hostile.peer();
        let full = small().chunk_bytes - 32;
        assert!(peer.send(&message(header(Kind::Data, full), &vec![b'a'; full as usize])));
        stream.read_exact(&mut vec![0; full as usize]).expect("read");
        let granted = peer.grant();
        let next = Header { position: full.into(), ..header(Kind::Data, 3) };
        let to = RemoteAddr { addr: granted.addr, rkey: granted.rkey };
        peer.write(&message(next, b"xyz"), to, 0);
        let received = borrows.then(|| stream.read_buffer().expect("read"));
        let again = SendRequest::write(SendData::Inline(b"ABC"), RemoteAddr { addr: to.addr + 32, ..to });
        peer.pair.post_send(&again.id(1).signaled()).expect("posted");
        match received {
            Some(received) => {
                assert_eq!((peer.sent(), &*received), (WcStatus::RemAccessErr, &b"xyz"[..]));
            }
            None => {
                let mut came = [0; 3];
                assert_eq!(peer.sent(), WcStatus::Success);
                stream.read_exact(&mut came).expect("read");
                assert_eq!(&came, b"ABC");
            }
        }
    }
}

/// The negative control of credit: who sends more than there is credit for.
#[test]
fn more_messages_than_credit_close_the_stream() {
    let hostile = Hostile::new("overrun");
    let (mut peer, mut stream) = hostile.peer();
    for number in 0..=u64::from(small().receives) {
        peer.send(&message(Header { position: number, ..header(Kind::Data, 1) }, b"x"));
    }
    // Who reads gives credit, and the last message may not have been looked at yet.
    until(|| hostile.violations() > 0, "it had credit");
    let mut came = Vec::new();
    let error = stream.read_to_end(&mut came).expect_err("closed");
    assert_eq!(error.kind(), ErrorKind::InvalidData);
    assert_eq!(came.len(), small().receives as usize);
    assert_eq!(hostile.endpoint.stats().violations(Violation::Overrun), 1);
}

#[test]
fn a_peer_that_writes_to_our_memory_is_cut_off() {
    let hostile = Hostile::new("writes");
    let (mut peer, mut stream) = hostile.peer();
    // The peer knows the key of its own region only; a guess is as good.
    let guess = RemoteAddr { addr: peer.memory.addr(), rkey: peer.memory.rkey() };
    peer.pair
        .post_send(&SendRequest::write(SendData::Inline(b"gift"), guess).id(1).signaled())
        .expect("posted");
    assert_ne!(peer.sent(), WcStatus::Success);
    drop(peer);
    assert!(stream.read(&mut [0; 8]).is_err());
}

#[test]
fn who_is_no_end_of_a_stream_is_rejected_and_counted() {
    let hostile = Hostile::new("strangers");
    for said in [&b""[..], b"GET / HTTP/1.1", b"SRNS\x02", b"SRNS\x01"] {
        let (pd, cq) = (hostile.device.alloc_pd(), hostile.device.create_cq(16).expect("a queue"));
        let pair = pd.queue_pair(&cq, &cq).build().expect("a queue pair");
        let to = hostile.listener.local_addr();
        let connecting = Connector::new().private_data(said).connect(pair, to).expect("begun");
        let refused = scope(|threads| {
            let refused = threads.spawn(|| connecting.wait(LIMIT));
            while !refused.is_finished() {
                let nobody = hostile.listener.accept_within(Duration::from_millis(5)).expect("no error");
                assert!(nobody.is_none());
            }
            refused.join().expect("no panic")
        });
        assert!(refused.is_err(), "{said:?}");
    }
    assert_eq!(hostile.endpoint.stats().rejected, 4);
    assert_eq!(hostile.endpoint.stats().streams, 0);
}

/// All that came, as the program reads it in place. It has the last two pieces in its hands.
fn read_in_place(stream: &Stream, came: &mut Vec<u8>) -> std::io::Result<()> {
    let mut held = [None, None];
    for turn in 0.. {
        let received = stream.read_buffer()?;
        if received.is_empty() {
            break;
        }
        came.extend_from_slice(&received);
        held[turn % 2] = Some(received);
    }
    Ok(())
}

/// A peer that sends anything, on a connection of each seed, beside a friend whose bytes go on.
fn anything(name: &str, seeds: impl Iterator<Item = u64>) {
    let hostile = Hostile::new(name);
    let friend = Endpoint::open(&format!("sim:streams-{name}"), small()).expect("an endpoint");
    let (mut one, mut other) = scope(|threads| {
        let accepts = threads.spawn(|| hostile.listener.accept_within(LIMIT));
        let one = friend.connect(hostile.listener.local_addr(), LIMIT).expect("connected");
        (one, accepts.join().expect("no panic").expect("accepted").expect("in time"))
    });
    let (mut connections, mut ended) = (0, 0);
    for seed in seeds {
        let mut numbers = Numbers(seed);
        let (mut peer, mut stream) = hostile.peer();
        let count = 1 + numbers.below(MESSAGES);
        let _ = (0..count).all(|_| peer.send(&any_message(&mut numbers)));
        drop(peer);
        // All that came, and then the end or an error: no hang.
        let mut came = Vec::new();
        let result = if seed.is_multiple_of(2) {
            stream.read_to_end(&mut came).map(drop)
        } else {
            read_in_place(&stream, &mut came)
        };
        ended += u64::from(result.is_err());
        connections += 1;
        assert!(came.len() <= small().receives as usize * small().chunk_bytes as usize, "seed {seed}");
        let said = bytes(seed, 2000);
        let mut heard = vec![0; said.len()];
        one.write_all(&said).expect("written");
        other.read_exact(&mut heard).expect("read");
        assert!(heard == said, "seed {seed}");
    }
    println!("{connections} connections, {ended} ended by an error, {} violations", hostile.violations());
    assert!(ended > connections / 2, "{ended} ended by an error");
    assert!(hostile.violations() > connections / 2, "{} violations", hostile.violations());
    drop((one, other));
    until(|| hostile.endpoint.stats().streams == 0, "connections are left");
}

#[test]
fn whatever_comes_nothing_hangs_and_nobody_else_suffers() {
    anything("fuzz", 0..CONNECTIONS);
}

/// For as long, and from the seed on, as `cargo xtask fuzz --streams` says.
#[test]
#[ignore = "it takes as long as it is told to: cargo xtask fuzz --streams"]
fn anything_for_a_while() {
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse().ok());
    let seconds = number("SRNIC_FUZZ_SECONDS").unwrap_or(60);
    let from = number("SRNIC_FUZZ_SEED").unwrap_or(1000);
    let end = Instant::now() + Duration::from_secs(seconds);
    anything("fuzz-long", (from..).take_while(|_| Instant::now() < end));
}

#[test]
fn who_leaves_without_a_word_is_an_error_and_not_an_end() {
    let hostile = Hostile::new("silent");
    let (mut peer, mut stream) = hostile.peer();
    assert!(peer.send(&message(header(Kind::Data, 3), b"abc")));
    drop(peer);
    let mut came = Vec::new();
    let error = stream.read_to_end(&mut came).expect_err("no Fin came");
    assert_eq!((error.kind(), &came[..]), (ErrorKind::ConnectionReset, &b"abc"[..]));
}
