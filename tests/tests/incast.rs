//! Byte streams of 128 hosts to one, by the protocol of srnic-streams on engines in virtual time:
//! what is under way stays within what docs/streams.md says, nothing is lost or doubled, and DCTCP
//! keeps the slowest from waiting for timeouts.

use datapath::qp::attr::CongestionAlgorithm;
use datapath::queue::{QueueCaps, WcStatus};
use simnet::{LinkId, NodeId, Qp, QpOptions, Region, Rig, RigOptions, Work};
use srnic_streams::protocol::{
    Arrival, Connection, Descriptor, EXTRA_RECEIVES, Fate, Features, Header, Hello, Message, Reading,
    Received, Room, Slot,
};
use wire::Pmtu;

const SENDERS: usize = 128;
/// Bytes of a receive with the header.
const CHUNK: usize = 8192;
const PAYLOAD: usize = CHUNK - Header::BYTES;
/// Bytes that each sender writes at once, and how often.
const BURST: u64 = 96 << 10;
const BURSTS: u64 = 4;
/// Bytes of a burst for which no sender has credit by far.
const LONG: u64 = 4 * BURST;
/// Packets of a queue pair in the network at most: more than a burst.
const WINDOW: u16 = 64;
/// Between the bursts: each takes a millisecond of the link, so each begins behind the one before.
const APART_NS: u64 = 1_000_000;
/// Bytes after which a stream's repeat: no power of two, so that no message is like another.
const PERIOD: usize = 65_521;
/// How often programs look at their queues.
const LOOK_NS: u64 = 2_000;
const LIMIT_NS: u64 = 100_000_000;
/// A receive completes under its slot's number, a send under this and its place's.
const SEND: u64 = 1 << 32;
const RECEIVER: NodeId = NodeId(0);

/// One end of a stream: the protocol, and the memory of its messages.
struct End {
    qp: Qp,
    connection: Connection,
    /// A chunk of each receive.
    receives: Region,
    /// A chunk of each message that may be under way.
    sends: Region,
    free: Vec<usize>,
    seen: [usize; 2],
}

/// A message without payload, or with one whose checksum nobody asks for.
struct Plain;

impl Message for Plain {
    fn crc(&self, _: usize) -> u32 {
        0
    }

    fn descriptor(&self, _: usize) -> [u8; Descriptor::BYTES] {
        [0; Descriptor::BYTES]
    }
}

fn len_of(len: usize) -> u32 {
    u32::try_from(len).expect("a chunk")
}

/// The bytes of all streams, twice.
fn table() -> Vec<u8> {
    simnet::pattern(128, PERIOD).repeat(2)
}

/// The `len` bytes of a stream from a position on.
fn bytes(table: &[u8], stream: usize, position: u64, len: usize) -> &[u8] {
    let at = usize::try_from((position + stream as u64 * 997) % PERIOD as u64).expect("a place");
    &table[at..at + len]
}

impl End {
    fn new(rig: &mut Rig, qp: Qp, receives: u32) -> Self {
        let slots = receives + EXTRA_RECEIVES;
        let own =
            Hello { receives, receive_bytes: len_of(CHUNK), features: Features::default(), token: [7; 16] };
        let region = |rig: &mut Rig| rig.region(qp.node(), slots as usize * CHUNK);
        let (memory, sends) = (region(rig), region(rig));
        let mut connection = Connection::new(&own, false);
        connection.meet(&own);
        let end = Self {
            qp,
            connection,
            receives: memory,
            sends,
            free: (0..slots as usize).collect(),
            seen: [0; 2],
        };
        (0..slots).for_each(|slot| end.post(rig, Slot(slot)));
        end
    }

    fn post(&self, rig: &mut Rig, slot: Slot) {
        let chunk = self.receives.at(slot.0 as usize * CHUNK, CHUNK);
        rig.try_post_recv_as(self.qp, &[chunk], slot.0.into()).expect("a place in the receive queue");
    }

    fn send(&mut self, rig: &mut Rig, header: &Header, payload: &[u8]) {
        let place = self.free.pop().expect("as many places as messages");
        let message = [&header.to_bytes()[..], payload].concat();
        let chunk = self.sends.at(place * CHUNK, message.len());
        rig.set(chunk, &message);
        let work = Work::send(chunk).wr_id(SEND + place as u64);
        rig.try_post(self.qp, &work).expect("a place in the send queue");
    }

    /// Takes in what has completed; true if anything has.
    fn take(&mut self, rig: &mut Rig) -> bool {
        let before = self.seen;
        while let Some(done) = rig.sends(self.qp).get(self.seen[0]).copied() {
            self.seen[0] += 1;
            assert_eq!(done.status, WcStatus::Success, "{done:?}");
            self.free.push(usize::try_from(done.wr_id - SEND).expect("a place"));
        }
        while let Some(done) = rig.recvs(self.qp).get(self.seen[1]).copied() {
            self.seen[1] += 1;
            assert_eq!(done.status, WcStatus::Success, "{done:?}");
            let slot = Slot(u32::try_from(done.wr_id).expect("a slot"));
            let lies = self.receives.at(slot.0 as usize * CHUNK, Header::BYTES);
            let header: [u8; Header::BYTES] = rig.bytes(lies).try_into().expect("a header");
            let byte_len = done.byte_len as usize;
            let received =
                Received { slot, arrival: Arrival::Sent, byte_len, header: &header, message: &Plain };
            if self.connection.receive(&received) == Fate::Repost {
                self.post(rig, slot);
            }
            assert_eq!(self.connection.end(), None, "the peer keeps the rules");
        }
        self.seen != before
    }

    fn control(&mut self, rig: &mut Rig) {
        while let Some(header) = self.connection.next_control() {
            self.send(rig, &header, &[]);
        }
    }
}

/// A stream: who writes, and who reads.
struct Stream {
    number: usize,
    from: End,
    to: End,
    /// Bytes that the program has given to be written, and those that were read.
    given: u64,
    read: u64,
}

impl Stream {
    /// Writes what there is credit for.
    fn write(&mut self, rig: &mut Rig, table: &[u8]) {
        while self.from.connection.position() < self.given {
            let Room::Bytes(room) = self.from.connection.room() else { return };
            let from = self.from.connection.position();
            let len = room.min(PAYLOAD).min(usize::try_from(self.given - from).unwrap_or(usize::MAX));
            let header = self.from.connection.data(len_of(len), || 0);
            self.from.send(rig, &header, bytes(table, self.number, from, len));
        }
    }

    /// Reads all there is, and compares it.
    fn read(&mut self, rig: &mut Rig, table: &[u8]) {
        while let Reading::Bytes(piece) = self.to.connection.reading() {
            let lies = self.to.receives.at(piece.slot.0 as usize * CHUNK + piece.offset, piece.len);
            let expected = bytes(table, self.number, self.read, piece.len);
            assert!(rig.bytes(lies) == expected, "stream {} at {}", self.number, self.read);
            self.read += piece.len as u64;
            if let Some(slot) = self.to.connection.consume(piece.len) {
                self.to.post(rig, slot);
            }
        }
    }

    fn step(&mut self, rig: &mut Rig, table: &[u8]) {
        if self.from.take(rig) {
            self.from.control(rig);
            self.write(rig, table);
        }
        if self.to.take(rig) {
            self.read(rig, table);
            self.to.control(rig);
        }
    }

    /// Bytes that were written and not read.
    fn under_way(&self) -> u64 {
        self.from.connection.position() - self.read
    }
}

/// What came of an incast.
struct Outcome {
    /// Bytes that programs gave to all streams at once.
    offered: u64,
    /// Most bytes of all streams that were written and not read.
    under_way_max: u64,
    /// From a burst's beginning to when its last byte was read, sorted; of each stream and each
    /// burst but the first.
    times_ns: Vec<u64>,
    retransmits: u64,
    overflowed: u64,
    /// Messages that found no receive.
    rnr_naks: u64,
}

impl Outcome {
    fn p99_ns(&self) -> u64 {
        self.times_ns[self.times_ns.len() * 99 / 100]
    }
}

fn incast(congestion: CongestionAlgorithm, receives: u32, bursts: u64, burst_bytes: u64) -> Outcome {
    // Engines are made of what they may need; there are 129.
    let mut options =
        RigOptions { max_qps: 130, window_max: WINDOW, recovery_contexts: 16, ..RigOptions::default() };
    // What docs/ports.md advises for so many hosts: four frames a host.
    options.port.down.mark_frames = Some(20);
    options.port.down.queue_frames_max = 512;
    let mut rig = Rig::new(options);
    let receiver = rig.add_node();
    assert_eq!(receiver, RECEIVER);
    let slots = receives + EXTRA_RECEIVES;
    let caps = QueueCaps { max_send_wr: slots, max_recv_wr: slots, ..QueueCaps::default() };
    let qp = QpOptions { congestion, caps, pmtu: Pmtu::B4096, window: WINDOW, ..QpOptions::default() };
    let mut streams: Vec<Stream> = (0..SENDERS)
        .map(|number| {
            let sender = rig.add_node();
            let (a, b) = rig.connected(sender, receiver, qp);
            let (from, to) = (End::new(&mut rig, a, receives), End::new(&mut rig, b, receives));
            Stream { number, from, to, given: 0, read: 0 }
        })
        .collect();
    let (table, mut times_ns, mut under_way_max) = (table(), Vec::new(), 0);
    for burst in 1..=bursts {
        let begun = rig.now();
        let mut waiting: Vec<usize> = (0..SENDERS).collect();
        for stream in &mut streams {
            stream.given = burst * burst_bytes;
            stream.write(&mut rig, &table);
        }
        while !waiting.is_empty() {
            rig.run_for(LOOK_NS);
            streams.iter_mut().for_each(|stream| stream.step(&mut rig, &table));
            under_way_max = under_way_max.max(streams.iter().map(Stream::under_way).sum());
            let took = rig.now().since(begun);
            waiting.retain(|&number| {
                let is_read = streams[number].read == streams[number].given;
                // Before the first marks nobody knows of the others.
                times_ns.extend((is_read && burst > 1).then_some(took));
                !is_read
            });
            assert!(took < LIMIT_NS, "burst {burst}, {congestion:?}: {} streams wait", waiting.len());
        }
        rig.run_for(APART_NS);
    }
    rig.verify_guards();
    times_ns.sort_unstable();
    let retransmits = streams.iter().map(|stream| rig.counters(stream.from.qp).tx_retransmits).sum();
    let rnr_naks = streams.iter().map(|stream| rig.counters(stream.to.qp).tx_rnr_naks).sum();
    let overflowed = rig.net.stats(LinkId::Down(RECEIVER)).overflowed;
    let offered = SENDERS as u64 * burst_bytes;
    Outcome { offered, under_way_max, times_ns, retransmits, overflowed, rnr_naks }
}

/// docs/streams.md: a sender has no more messages under way or unread than there is credit for.
fn bound(receives: u32) -> u64 {
    SENDERS as u64 * u64::from(receives) * PAYLOAD as u64
}

/// Byte streams of 128 hosts, with receives for few messages and for more.
#[test]
fn an_incast_of_128_streams_is_bounded_loses_nothing_and_is_shorter_with_dctcp() {
    let [dctcp, fixed] = [CongestionAlgorithm::Dctcp, CongestionAlgorithm::Fixed].map(|congestion| {
        for (receives, burst_bytes) in [(2, BURST), (12, LONG)] {
            let held = incast(congestion, receives, 1, burst_bytes);
            let under_way = held.under_way_max;
            assert!(4 * bound(receives) <= held.offered, "nothing is held back");
            assert!(under_way <= bound(receives), "{under_way} bytes under way");
            // Nothing but credit holds them back.
            assert!(under_way > bound(receives) / 2, "{under_way} bytes under way");
            assert_eq!(held.rnr_naks, 0);
        }
        // The negative control: with credit for nearly all of a burst as much is under way.
        let many = incast(congestion, 12, BURSTS, BURST);
        assert!(many.under_way_max > bound(2), "{} bytes under way", many.under_way_max);
        assert_eq!(many.rnr_naks, 0);
        many
    });
    for (name, outcome) in [("DCTCP", &dctcp), ("a fixed window", &fixed)] {
        assert_eq!(outcome.times_ns.len(), SENDERS * usize::try_from(BURSTS - 1).expect("a few"));
        println!(
            "{name}: p50 {} us, p99 {} us, {} packets overflowed, {} sent again, {} KiB under way at most",
            outcome.times_ns[outcome.times_ns.len() / 2] / 1000,
            outcome.p99_ns() / 1000,
            outcome.overflowed,
            outcome.retransmits,
            outcome.under_way_max >> 10,
        );
    }
    assert!(fixed.overflowed > 0, "the incast is one: the queue was too short for all windows");
    assert!(dctcp.overflowed < fixed.overflowed, "{} against {}", dctcp.overflowed, fixed.overflowed);
    assert!(dctcp.p99_ns() < fixed.p99_ns(), "{} against {} ns", dctcp.p99_ns(), fixed.p99_ns());
}
