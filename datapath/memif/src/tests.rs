//! Peers that break the protocol, one way after the other: each is turned away, and the next is
//! welcome.

use crate::client::{Client, fits};
use crate::endpoint::{Config, Endpoint, Role, Shape};
use crate::error::{Error, Refusal};
use crate::heads::HEAD_LEN;
use crate::link::{Connection, Link};
use crate::message::{AddRing, Init, MODE_ETHERNET, Message, Text, VERSION};
use crate::name::Told;
use crate::region::Region;
use crate::ring::{self, Desc, Ring};
use crate::socket;
use proptest::prelude::*;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fstat, ftruncate, memfd_create};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

mod apart;
mod at_once;
mod far;
mod interrupts;
mod queues;

const SIZE_LOG2: u8 = 2;
const MAX_FRAME: u16 = 256;

/// A server, and a raw socket to it that was greeted.
struct Meeting {
    server: Endpoint,
    socket: OwnedFd,
    path: PathBuf,
}

fn fresh_path() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("srnic-memif-{}-{number}", std::process::id()))
}

fn config(path: PathBuf, role: Role) -> Config {
    Config { path, role, max_frame: MAX_FRAME, ring_size_log2: SIZE_LOG2, secret: None }
}

impl Meeting {
    fn new() -> Self {
        let path = fresh_path();
        let mut server = Endpoint::open(&config(path.clone(), Role::Server)).expect("a socket");
        let socket = socket::connect(&path).expect("it listens");
        server.tend(Instant::now());
        let mut meeting = Self { server, socket, path };
        assert!(matches!(meeting.hear(), Ok(Message::Hello(_))));
        meeting
    }

    /// What the server says next.
    fn hear(&mut self) -> Result<Message, Refusal> {
        let start = Instant::now();
        loop {
            self.server.tend(start);
            if let Some((message, _)) = socket::receive(&self.socket)? {
                return Ok(message);
            }
            assert!(start.elapsed() < Duration::from_secs(60), "it says nothing");
        }
    }

    fn ask(&mut self, message: &Message, descriptor: Option<BorrowedFd<'_>>) -> Message {
        socket::send(&self.socket, message, descriptor).expect("said");
        self.hear().expect("an answer")
    }

    /// It is let in, with this memory.
    fn bring(&mut self, (memory, file): &(Region, OwnedFd)) {
        assert_eq!(self.ask(&init(), None), Message::Ack);
        let region = Message::AddRegion { index: 0, size: memory.len() as u64 };
        assert_eq!(self.ask(&region, Some(file.as_fd())), Message::Ack);
    }

    /// The server turned the peer away with these words, and takes the next one.
    fn refuses(mut self, said: &Message, words: &str) {
        assert_eq!(*said, Message::disconnect(&format!("the peer broke the protocol: {words}")));
        assert!(self.server.refused().is_some_and(|refusal| refusal.to_string().ends_with(words)));
        self.takes_another();
    }

    fn takes_another(&mut self) {
        let mut client = Endpoint::open(&config(self.path.clone(), Role::Client)).expect("a client");
        let start = Instant::now();
        while client.link().is_none() || self.server.link().is_none() {
            client.tend(Instant::now());
            self.server.tend(Instant::now());
            assert!(start.elapsed() < Duration::from_secs(60), "no link");
        }
    }
}

fn init() -> Message {
    Message::Init(Init {
        version: VERSION,
        id: 0,
        mode: MODE_ETHERNET,
        secret: Text::new(""),
        name: Text::new("x"),
    })
}

fn add_ring(region: u16, offset: u32, size_log2: u8) -> Message {
    Message::AddRing(AddRing { to_server: true, index: 0, region, offset, size_log2, private_header: 0 })
}

#[test]
fn messages_out_of_turn() {
    let connect = Message::Connect(Text::new("x"));
    for message in [&add_ring(0, 0, 2), &Message::Ack, &Message::Connected(Text::new("x"))] {
        let mut meeting = Meeting::new();
        let said = meeting.ask(message, None);
        meeting.refuses(&said, "a message out of turn");
    }
    let mut meeting = Meeting::new();
    let said = meeting.ask(&connect, None);
    meeting.refuses(&said, "it connects without a ring each way");
    let mut meeting = Meeting::new();
    assert_eq!(meeting.ask(&init(), None), Message::Ack);
    // Without its memory.
    let said = meeting.ask(&Message::AddRegion { index: 0, size: 4096 }, None);
    meeting.refuses(&said, "a message out of turn");
}

/// Else it could keep the server in its handshake as long as it likes.
#[test]
fn a_client_that_repeats_itself() {
    let mut meeting = Meeting::new();
    meeting.bring(&Region::create(4096).expect("memory"));
    let said = meeting.ask(&init(), None);
    meeting.refuses(&said, "a message out of turn");
    let mut meeting = Meeting::new();
    meeting.bring(&Region::create(4096).expect("memory"));
    assert_eq!(meeting.ask(&add_ring(0, 0, 2), None), Message::Ack);
    let said = meeting.ask(&add_ring(0, 1024, 2), None);
    meeting.refuses(&said, "a ring that was added before");
}

#[test]
fn memory_that_could_be_cut_off_or_is_shorter_than_it_says() {
    let file = memfd_create("x", MemfdFlags::ALLOW_SEALING).expect("memory");
    ftruncate(&file, 4096).expect("longer");
    let region = |size| Message::AddRegion { index: 0, size };
    for (seal, size, words) in [
        (false, 4096, "its memory is not sealed against shrinking"),
        (true, 4097, "its memory is not as long as it says, or too long"),
        (true, 0, "its memory is not as long as it says, or too long"),
        (true, u64::MAX, "its memory is not as long as it says, or too long"),
    ] {
        if seal {
            fcntl_add_seals(&file, SealFlags::SHRINK).expect("sealed");
        }
        let mut meeting = Meeting::new();
        assert_eq!(meeting.ask(&init(), None), Message::Ack);
        let said = meeting.ask(&region(size), Some(file.as_fd()));
        meeting.refuses(&said, words);
    }
}

/// A sealed file of that many bytes, none of which is there yet.
fn sparse(len: u64, flags: MemfdFlags) -> OwnedFd {
    let file = memfd_create("x", MemfdFlags::ALLOW_SEALING | flags).expect("memory");
    ftruncate(&file, len).expect("longer");
    fcntl_add_seals(&file, SealFlags::SHRINK).expect("sealed");
    file
}

/// Parts of a file of huge pages can be taken away, and touching them then ends the process.
#[test]
fn memory_of_huge_pages() {
    let file = sparse(2 << 20, MemfdFlags::HUGETLB);
    let mut meeting = Meeting::new();
    assert_eq!(meeting.ask(&init(), None), Message::Ack);
    let said = meeting.ask(&Message::AddRegion { index: 0, size: 2 << 20 }, Some(file.as_fd()));
    meeting.refuses(&said, "its memory is of huge pages, parts of which can be taken away");
}

/// The client brings a ring each way, and beside them `extra` bytes that nobody has touched.
fn brings_beside_its_rings(extra: u64) -> (Meeting, OwnedFd, Message) {
    let mut meeting = Meeting::new();
    let (memory, file) = Region::create(4096).expect("memory");
    meeting.bring(&(memory, file.try_clone().expect("a descriptor")));
    let region = Arc::new(Region::map(file, 4096).expect("memory"));
    let more = sparse(extra, MemfdFlags::empty());
    let second = Message::AddRegion { index: 1, size: extra };
    assert_eq!(meeting.ask(&second, Some(more.as_fd())), Message::Ack);
    for (to_server, offset) in [(true, 0), (false, 1024)] {
        Ring::new(&region, offset, SIZE_LOG2).expect("there").begin();
        let Message::AddRing(ring) = add_ring(0, offset, SIZE_LOG2) else { unreachable!() };
        assert_eq!(meeting.ask(&Message::AddRing(AddRing { to_server, ..ring }), None), Message::Ack);
    }
    let said = meeting.ask(&Message::Connect(Text::new("x")), None);
    (meeting, more, said)
}

#[test]
fn memory_that_no_ring_needs() {
    // Four slots each way of 64 KiB each, and the rings.
    let needed = 2 * (4 << 16);
    let (mut meeting, more, said) = brings_beside_its_rings(needed);
    assert!(matches!(said, Message::Connected(_)), "{said:?}");
    assert_eq!(fstat(&more).expect("known").st_blocks, 0, "the server filled what the client offered");
    assert!(meeting.server.link().is_some());
    for extra in [needed + (1 << 20), 1 << 32] {
        let (meeting, _, said) = brings_beside_its_rings(extra);
        meeting.refuses(&said, "its memory is longer than its rings need");
    }
}

#[test]
fn rings_that_cannot_be() {
    for (ring, words) in [
        (add_ring(1, 0, 2), "a ring in a region that was not added"),
        (add_ring(0, 8, 2), "a ring is not aligned"),
        (add_ring(0, 0, 0), "a ring's size is out of range"),
        (add_ring(0, 0, 15), "a ring's size is out of range"),
        (add_ring(0, 0, 9), "a ring is not within its region"),
        (add_ring(0, 4096 - 128, 2), "a ring is not within its region"),
        (add_ring(0, u32::MAX - 15, 2), "a ring is not within its region"),
    ] {
        let mut meeting = Meeting::new();
        meeting.bring(&Region::create(4096).expect("memory"));
        let said = meeting.ask(&ring, None);
        meeting.refuses(&said, words);
    }
}

#[test]
fn rings_that_do_not_begin_as_they_must() {
    let mut meeting = Meeting::new();
    meeting.bring(&Region::create(4096).expect("memory"));
    for ring in [true, false] {
        let Message::AddRing(shape) = add_ring(0, if ring { 0 } else { 1024 }, 2) else { unreachable!() };
        let message = Message::AddRing(AddRing { to_server: ring, ..shape });
        assert_eq!(meeting.ask(&message, None), Message::Ack);
    }
    let said = meeting.ask(&Message::Connect(Text::new("x")), None);
    meeting.refuses(&said, "a ring does not begin as it must");
}

#[test]
fn a_client_that_says_nothing_is_let_go() {
    let mut meeting = Meeting::new();
    meeting.server.tend(Instant::now() + Duration::from_secs(3));
    assert!(matches!(meeting.server.refused().as_deref(), Some(Refusal::Late)));
    meeting.takes_another();
}

/// Its user looks at the wrong end else.
#[test]
fn a_peer_hears_why_it_is_left() {
    // In a connection that stands: counts that cannot be.
    let (mut server, client, memory) = connected();
    Ring::new(&memory, 0, SIZE_LOG2).expect("there").head().store(5, Ordering::Release);
    assert_eq!(server.link().expect("connected").rx.burst(), (0, 0));
    server.tend(Instant::now());
    let words = "the peer broke the protocol: it counts more slots than a ring has";
    assert!(server.refused().is_some_and(|refusal| refusal.to_string() == words));
    let heard = client.check().expect_err("it is over");
    assert_eq!(heard.to_string(), format!("the peer disconnected: {words}"));
    // In a handshake: a server with fewer queues.
    let path = fresh_path();
    let mut server = Endpoint::open(&config(path.clone(), Role::Server)).expect("a socket");
    let mut clients = Endpoint::open_queues(&config(path, Role::Client), 2).expect("a client");
    let start = Instant::now();
    let heard = loop {
        clients[0].tend(Instant::now());
        server.tend(Instant::now());
        if let Some(refusal) = server.refused() {
            break refusal;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "it hears nothing");
    };
    assert!(
        matches!(&*heard, Refusal::Disconnected(why) if why.contains("both ends need as many")),
        "{heard}"
    );
}

#[test]
fn a_client_hears_why_a_server_hung_up_at_once() {
    let path = fresh_path();
    let listener = socket::Listener::bind(&path).expect("a socket");
    let mut client = Endpoint::open(&config(path, Role::Client)).expect("a client");
    client.tend(Instant::now());
    let server = listener.accept().expect("it looks for a server");
    let hello = Message::Hello(crate::message::Hello {
        name: Text::new("x"),
        min_version: VERSION,
        max_version: VERSION,
        max_region: 0,
        max_to_client: 0,
        max_to_server: 0,
        max_ring_size_log2: 14,
    });
    for message in [hello, Message::disconnect("busy")] {
        socket::send(&server, &message, None).expect("said");
    }
    drop(server);
    client.tend(Instant::now());
    let refused = client.refused().expect("it is over");
    assert!(matches!(&*refused, Refusal::Disconnected(why) if why == "busy"), "{refused}");
}

/// The numbers of rings are 16 bits, and the peer says them.
#[test]
fn a_client_takes_a_server_with_as_many_queues_as_there_can_be() {
    let hello = |max_ring| crate::message::Hello {
        name: Text::new("x"),
        min_version: VERSION,
        max_version: VERSION,
        max_region: 0,
        max_to_client: max_ring,
        max_to_server: max_ring,
        max_ring_size_log2: 14,
    };
    let ours = Told { max_frame: 256, queues: 2 };
    for max_ring in [1, u16::MAX] {
        fits(&hello(max_ring), ours, 10).expect("it has two queues at least");
    }
    fits(&hello(0), ours, 10).expect_err("it has one");
}

/// A server, its client's end of the connection, and what the client mapped.
fn connected() -> (Endpoint, Connection, Arc<Region>) {
    let path = fresh_path();
    let mut server = Endpoint::open(&config(path.clone(), Role::Server)).expect("a socket");
    let shape = Shape { queues: 1, max_frame: MAX_FRAME.into(), ring_size_log2: SIZE_LOG2, secret: None };
    let mut client = Client::new(socket::connect(&path).expect("it listens"), &shape).expect("memory");
    let memory = client.region();
    let link = loop {
        server.tend(Instant::now());
        match client.step(&shape).expect("well-behaved") {
            Ok(link) => break link,
            Err(going_on) => client = going_on,
        }
    };
    (server, link, memory)
}

/// Both ends of a connection, and what the client mapped.
struct Linked {
    server: Link,
    /// The client's, but for its queues: they are played by hand.
    _client: Connection,
    to_server: Ring,
    to_client: Ring,
    memory: Arc<Region>,
}

impl Linked {
    fn new() -> Self {
        let (server, client, memory) = connected();
        let second = u32::try_from(ring::ring_len(SIZE_LOG2).next_multiple_of(64)).expect("short");
        Self {
            server: server.into_link().expect("connected"),
            _client: client,
            to_server: Ring::new(&memory, 0, SIZE_LOG2).expect("there"),
            to_client: Ring::new(&memory, second, SIZE_LOG2).expect("there"),
            memory,
        }
    }

    fn sends(&self, descs: &[Desc]) {
        for (number, desc) in (0..).zip(descs) {
            self.to_server.set(number, *desc);
        }
        self.to_server.head().store(u16::try_from(descs.len()).expect("few"), Ordering::Release);
    }
}

#[test]
fn packets_that_are_too_long_or_elsewhere_or_in_pieces_are_dropped() {
    let len = u32::try_from(Linked::new().memory.len()).expect("short");
    let good = Desc { more: false, region: 0, length: 60, offset: 512 };
    for bad in [
        Desc { length: u32::from(MAX_FRAME) + 1, ..good },
        Desc { length: u32::MAX, ..good },
        Desc { region: 1, ..good },
        Desc { region: u16::MAX, ..good },
        Desc { offset: len - 59, ..good },
        Desc { offset: u32::MAX, ..good },
    ] {
        let mut linked = Linked::new();
        linked.sends(&[bad, good]);
        assert_eq!(linked.server.rx.burst(), (1, 1), "{bad:?}");
        assert_eq!(linked.server.rx.packet(0).len(), 60);
        linked.server.rx.release();
        assert_eq!(linked.to_server.tail().load(Ordering::Acquire), 2, "both slots are given back");
        assert!(linked.server.take_broken().is_none());
    }
    let mut linked = Linked::new();
    let more = Desc { more: true, ..good };
    linked.sends(&[more, more, good, Desc { length: 61, ..good }]);
    assert_eq!(linked.server.rx.burst(), (1, 1), "three pieces are one packet");
    assert_eq!(linked.server.rx.packet(0).len(), 61);
}

/// What is decided by a head stays as it was, whatever the peer writes behind our back.
#[test]
fn a_head_that_was_looked_at_does_not_change() {
    let len = u32::try_from(Linked::new().memory.len()).expect("short");
    // In the middle, and where the memory ends before a head does.
    for offset in [512, len - 200, len - 60] {
        let mut linked = Linked::new();
        let write = |byte: u8| {
            let at = linked.memory.at(offset as usize, 60).expect("in the memory");
            // SAFETY: within the memory, of which nobody has a reference now.
            unsafe { at.write_bytes(byte, 60) };
        };
        for round in 0..3 {
            write(round);
            linked.to_server.set(round.into(), Desc { more: false, region: 0, length: 60, offset });
            linked.to_server.head().store(u16::from(round) + 1, Ordering::Release);
            assert_eq!(linked.server.rx.burst(), (1, 0));
            write(round + 100);
            assert_eq!(linked.server.rx.head(0)[..60], [round + 100; 60], "copied when it is asked for");
            write(round + 200);
            assert_eq!(linked.server.rx.head(0)[..60], [round + 100; 60], "once");
            assert_eq!(linked.server.rx.packet(0), [round + 200; 60]);
            linked.server.rx.release();
        }
    }
}

/// The last buffer would begin where no descriptor can point; only the client makes memory.
#[test]
fn a_client_whose_memory_would_be_too_long_is_not_opened() {
    for (queues, fits) in [(1, true), (2, false), (8, false)] {
        let open = |role| {
            let config = Config { max_frame: u16::MAX, ring_size_log2: 14, ..config(fresh_path(), role) };
            Endpoint::open_queues(&config, queues)
        };
        match open(Role::Client) {
            Ok(_) => assert!(fits, "{queues} queues"),
            Err(error) => {
                assert!(!fits && matches!(error, Error::OutOfRange { .. }), "{queues} queues: {error}");
            }
        }
        assert!(open(Role::Server).is_ok());
    }
}

#[test]
fn counts_beyond_the_ring_end_the_connection() {
    let mut linked = Linked::new();
    linked.to_server.head().store(5, Ordering::Release);
    assert_eq!(linked.server.rx.burst(), (0, 0));
    assert!(matches!(linked.server.take_broken(), Some(Refusal::Protocol(_))));
    let mut linked = Linked::new();
    linked.to_client.head().store(u16::MAX, Ordering::Release);
    assert!(linked.server.tx.lend().is_none());
    assert!(matches!(linked.server.take_broken(), Some(Refusal::Protocol(_))));
}

#[test]
fn free_buffers_that_cannot_be_end_the_connection() {
    let good = Desc { more: false, region: 0, length: MAX_FRAME.into(), offset: 512 };
    let len = u32::try_from(Linked::new().memory.len()).expect("short");
    for bad in [
        Desc { length: u32::from(MAX_FRAME) - 1, ..good },
        Desc { region: 1, ..good },
        Desc { offset: len - u32::from(MAX_FRAME) + 1, ..good },
    ] {
        let mut linked = Linked::new();
        linked.to_client.set(0, bad);
        assert!(linked.server.tx.lend().is_none(), "{bad:?}");
        assert!(matches!(linked.server.take_broken(), Some(Refusal::Protocol(_))));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Whatever a client writes into its memory, the server touches none but that, and no call
    /// panics.
    #[test]
    fn any_ring_is_survived(
        words in prop::collection::vec(any::<[u32; 4]>(), 8),
        counts in any::<[u16; 2]>(),
    ) {
        let mut linked = Linked::new();
        for (number, word) in (0..).zip(&words) {
            let [flags, length, offset, narrow] = *word;
            // Half of them nearly right.
            let desc = Desc {
                more: flags & 1 != 0,
                region: if narrow & 1 == 0 { 0 } else { (flags >> 16) as u16 },
                length: if narrow & 2 == 0 { length % 512 } else { length },
                offset: if narrow & 4 == 0 { offset % 8192 } else { offset },
            };
            let ring = if number < 4 { &linked.to_server } else { &linked.to_client };
            ring.set(number, desc);
        }
        linked.to_server.head().store(counts[0] % 6, Ordering::Release);
        linked.to_client.head().store(counts[1] % 6, Ordering::Release);
        let (count, _) = linked.server.rx.burst();
        for index in 0..count {
            let rx = &linked.server.rx;
            let bytes = rx.packet(index).iter().chain(rx.head(index));
            let sum: u64 = bytes.map(|byte| u64::from(*byte)).sum();
            prop_assert!(sum <= 255 * (u64::from(MAX_FRAME) + HEAD_LEN as u64));
        }
        while let Some(slot) = linked.server.tx.lend() {
            slot.fill(1);
            linked.server.tx.commit(60);
        }
        linked.server.tx.flush();
    }
}
