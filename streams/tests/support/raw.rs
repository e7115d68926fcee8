//! A peer of streams that is a queue pair and nothing more: it posts what it likes.

use crate::support::{LIMIT, small};
use srnic_streams::protocol::{Descriptor, Features, Header, Hello, Kind};
use srnic_streams::{Config, Endpoint, Listener, Stream};
use std::thread::scope;
use std::time::{Duration, Instant};
use verbs_api::{
    Access, Completion, CompletionQueue, Connector, Device, Driver, MemoryRegion, QueueCaps, QueuePair,
    RecvRequest, RemoteAddr, SendData, SendRequest, WcOpcode, WcStatus,
};

/// Receives of a peer, and bytes of each.
const RECEIVES: usize = 64;
const RECEIVE_BYTES: usize = 1024;
/// Bytes of each other region of a peer.
const REGION: usize = 1 << 16;
/// What lies where a READ is to bring bytes.
pub const NOTHING_CAME: u8 = 0xEE;
/// The number of the request that a peer waits for.
const REQUEST: u64 = 1000;

/// The server, and a device for peers that post what they like.
pub struct Hostile {
    pub endpoint: Endpoint,
    pub listener: Listener,
    pub device: Device,
}

/// What a peer says of itself that keeps the rules so far.
pub fn good_hello() -> Hello {
    let features = Features { writes: true, reads: true, ..Features::default() };
    Hello { receives: 32, receive_bytes: 4096, features, token: [9; 16] }
}

impl Hostile {
    pub fn new(name: &str) -> Self {
        Self::with(name, small())
    }

    pub fn with(name: &str, config: Config) -> Self {
        let text = format!("sim:streams-{name}");
        let endpoint = Endpoint::open(&text, config).expect("an endpoint");
        let listener = endpoint.listen(0).expect("a port");
        let device = Device::builder().driver(Driver::THREAD).open(&text).expect("a device");
        Self { endpoint, listener, device }
    }

    /// A connection that keeps the rules so far.
    pub fn peer(&self) -> (Peer, Stream) {
        self.connect(&good_hello().to_bytes()).expect("accepted")
    }

    /// A connection by these private data; `None` if it was rejected.
    pub fn connect(&self, hello: &[u8]) -> Option<(Peer, Stream)> {
        let (pd, cq) = (self.device.alloc_pd(), self.device.create_cq(256).expect("a queue"));
        let region = |len, access| pd.register(len, access).expect("memory");
        let all = Access::LOCAL_WRITE | Access::REMOTE_READ | Access::REMOTE_WRITE;
        let inbox = region(RECEIVES * RECEIVE_BYTES, Access::LOCAL_WRITE);
        let [outbox, landing] = [(); 2].map(|()| region(REGION, Access::LOCAL_WRITE));
        let own = region(REGION, all);
        let caps = QueueCaps { max_send_wr: 64, max_recv_wr: 64, ..QueueCaps::default() };
        let mut pair = pd.queue_pair(&cq, &cq).caps(caps).access(all).build().expect("a queue pair");
        for slot in 0..RECEIVES {
            let scatter = [receive(&inbox, slot)];
            pair.post_recv(&RecvRequest { wr_id: slot as u64, scatter: &scatter }).expect("posted");
        }
        let to = self.listener.local_addr();
        let connecting = Connector::new().private_data(hello).connect(pair, to).expect("begun");
        let (pair, stream) = scope(|threads| {
            let connects = threads.spawn(|| connecting.wait(LIMIT));
            let mut stream = None;
            while stream.is_none() && !connects.is_finished() {
                stream = self.listener.accept_within(Duration::from_millis(5)).expect("no error");
            }
            let pair = connects.join().expect("no panic").ok();
            if pair.is_some() && stream.is_none() {
                stream = self.listener.accept_within(LIMIT).expect("no error");
            }
            (pair, stream)
        });
        assert_eq!(pair.is_some(), stream.is_some(), "one end is connected");
        let receives = Hello::from_bytes(hello).map_or(0, |hello| hello.receives);
        let memory = Memory { inbox, outbox, landing, own };
        Some((
            Peer { pair: pair?, cq, memory, heard: Heard { credit: receives, ..Heard::default() } },
            stream?,
        ))
    }

    pub fn violations(&self) -> u64 {
        self.endpoint.stats().violations.iter().sum()
    }

    /// Requests of peers that named memory which they may not have.
    pub fn refused(&self) -> u64 {
        self.endpoint.device().counters().resp_remote_access_errors
    }
}

fn receive(inbox: &MemoryRegion, slot: usize) -> verbs_api::Sge {
    let at = slot * RECEIVE_BYTES;
    inbox.slice(at..at + RECEIVE_BYTES).expect("inside")
}

pub struct Memory {
    inbox: MemoryRegion,
    /// What it sends, which nobody may see.
    pub outbox: MemoryRegion,
    /// What it reads comes here.
    pub landing: MemoryRegion,
    /// What its peer may read and write.
    pub own: MemoryRegion,
}

/// What the other end has told.
#[derive(Default)]
pub struct Heard {
    /// Memory that it has granted.
    pub granted: Vec<Descriptor>,
    /// Memory that it has offered, with the position of the first byte there.
    pub offered: Vec<(Descriptor, u64)>,
    /// Position of its next byte.
    pub position: u64,
    /// Its credit, and ours.
    pub theirs: u32,
    pub credit: u32,
    pub answers: usize,
}

pub struct Peer {
    pub pair: QueuePair,
    cq: CompletionQueue,
    pub memory: Memory,
    pub heard: Heard,
}

impl Peer {
    /// Sends a message; false if the queue pair is over.
    pub fn send(&mut self, message: &[u8]) -> bool {
        self.memory.outbox.write(0, message).expect("inside");
        let gather = [self.memory.outbox.slice(..message.len()).expect("inside")];
        self.post(&SendRequest::send(SendData::Gather(&gather))) == WcStatus::Success
    }

    /// Writes bytes, with an immediate or without.
    pub fn write(&mut self, message: &[u8], to: RemoteAddr, imm: Option<u32>) -> WcStatus {
        self.memory.outbox.write(0, message).expect("inside");
        let gather = [self.memory.outbox.slice(..message.len()).expect("inside")];
        let request = SendRequest::write(SendData::Gather(&gather), to);
        self.post(&imm.map_or(request, |imm| request.with_imm(imm)))
    }

    /// Reads bytes. Of one that failed some may have come, if they could be read.
    pub fn read(&mut self, from: RemoteAddr, len: usize) -> (WcStatus, Vec<u8>) {
        self.memory.landing.write(0, &vec![NOTHING_CAME; len]).expect("inside");
        let into = [self.memory.landing.slice(..len).expect("inside")];
        let status = self.post(&SendRequest::read(&into, from));
        let mut came = vec![0; len];
        self.memory.landing.read(0, &mut came).expect("inside");
        (status, came)
    }

    /// Reads what it may not: no byte comes.
    pub fn read_in_vain(&mut self, from: RemoteAddr, len: usize) -> WcStatus {
        let (status, came) = self.read(from, len);
        assert!(came.iter().all(|byte| *byte == NOTHING_CAME), "bytes came by a READ: {status}");
        status
    }

    /// Posts a request, and waits until that has ended.
    pub fn post(&mut self, request: &SendRequest<'_>) -> WcStatus {
        match self.pair.post_send(&request.id(REQUEST).signaled()) {
            Ok(()) => self.sent(),
            Err(_) => WcStatus::WrFlushErr,
        }
    }

    /// How the last request ended.
    fn sent(&mut self) -> WcStatus {
        let end = Instant::now() + LIMIT;
        while Instant::now() < end {
            match self.cq.poll() {
                Some(done) if done.wr_id == REQUEST => return done.status,
                Some(done) => self.hear(&done),
                None => std::thread::yield_now(),
            }
        }
        panic!("the request never ends")
    }

    /// Takes in what has come.
    pub fn look(&mut self) {
        while let Some(done) = self.cq.poll() {
            self.hear(&done);
        }
    }

    /// Looks until something is so.
    pub fn until(&mut self, why: &str, is_so: impl Fn(&Heard) -> bool) {
        let end = Instant::now() + LIMIT;
        while !is_so(&self.heard) {
            assert!(Instant::now() < end, "{why}");
            self.look();
            std::thread::yield_now();
        }
    }

    /// The first memory that this peer is granted.
    pub fn grant(&mut self) -> Descriptor {
        self.until("nothing is granted", |heard| !heard.granted.is_empty());
        self.heard.granted[0]
    }

    fn hear(&mut self, done: &Completion) {
        let slot = usize::try_from(done.wr_id).expect("a slot");
        if done.status != WcStatus::Success {
            return;
        }
        let mut message = [0; RECEIVE_BYTES];
        self.memory.inbox.read(slot * RECEIVE_BYTES, &mut message).expect("inside");
        let scatter = [receive(&self.memory.inbox, slot)];
        let _ = self.pair.post_recv(&RecvRequest { wr_id: done.wr_id, scatter: &scatter });
        if done.opcode == WcOpcode::RecvRdmaWithImm {
            // The message lies where this peer has granted memory.
            self.heard.position += u64::from(done.byte_len).saturating_sub(Header::BYTES as u64);
            self.heard.credit = self.heard.credit.wrapping_add(1);
            return;
        }
        let header = match message.first_chunk().map(Header::from_bytes) {
            Some(Ok(header)) if done.byte_len as usize == Header::BYTES + header.length as usize => header,
            _ => return,
        };
        let heard = &mut self.heard;
        let named = message[Header::BYTES..].as_chunks::<{ Descriptor::BYTES }>().0;
        let named = named.iter().take(header.length as usize / Descriptor::BYTES).map(Descriptor::from_bytes);
        (heard.theirs, heard.position) = (header.credit, header.position);
        heard.credit = heard.credit.wrapping_add(u32::from(header.length > 0));
        match header.kind {
            Kind::Grant => heard.granted.extend(named),
            Kind::Data => heard.position += u64::from(header.length),
            Kind::Offer => {
                let offered: Vec<Descriptor> = named.collect();
                heard.offered.extend(offered.iter().map(|offered| (*offered, header.position)));
                heard.position += offered.iter().map(|offered| u64::from(offered.len)).sum::<u64>();
            }
            Kind::Answer => heard.answers += 1,
            _ => {}
        }
    }
}

pub fn header(kind: Kind, length: u32) -> Header {
    Header { kind, checked: false, waited: false, length, position: 0, taken: 0, credit: 32, word: 0 }
}

pub fn message(header: Header, payload: &[u8]) -> Vec<u8> {
    [&header.to_bytes()[..], payload].concat()
}

pub fn at(granted: Descriptor, offset: u64) -> RemoteAddr {
    RemoteAddr { addr: granted.addr.wrapping_add(offset), rkey: granted.rkey }
}
