//! Engines, each in a thread of its own, that write to, send to and read from all that they are
//! joined with.

use super::{OPEN, assert_success, wait};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use verbs_api::{
    CompletionQueue, Device, MemoryRegion, Pmtu, PreparedQueuePair, ProtectionDomain, QueuePair, RecvRequest,
    RemoteRegion, SendData, SendRequest, WcOpcode,
};

/// Messages each way of each pair.
const ROUNDS: usize = 40;
/// Bytes of a WRITE: several packets.
const LEN: usize = 3000;
/// Of one pair: two places for WRITEs, one for what is read back, one for what is written, one for
/// SENDs.
const PLACE: usize = 4096;
const PLACES: usize = 5;
const PAIRS_MAX: usize = 4;

/// An engine with what a program makes of it.
pub struct Station {
    pub device: Device,
    pub pd: ProtectionDomain,
    pub cq: CompletionQueue,
    pub memory: MemoryRegion,
    lines: Vec<Line>,
}

/// A queue pair, and what its peer told.
struct Line {
    pair: QueuePair,
    theirs: RemoteRegion,
    /// Where the peer keeps the places of this line, in bytes.
    their_place: usize,
    /// What both fill their messages with.
    seed: u64,
}

/// Completions of a pair.
#[derive(Default)]
struct Seen {
    received: usize,
    sent: usize,
    read: usize,
}

impl Station {
    pub fn new(device: Device) -> Self {
        let (pd, cq) = (device.alloc_pd(), device.create_cq(512).expect("a queue"));
        let memory = pd.register(PAIRS_MAX * PLACES * PLACE, OPEN).expect("memory");
        Self { device, pd, cq, memory, lines: Vec::new() }
    }

    /// A queue pair that gives up late.
    pub fn prepare(&self) -> PreparedQueuePair {
        let pair = self.pd.queue_pair(&self.cq, &self.cq).access(OPEN).path_mtu(Pmtu::B1024);
        pair.timeout(19).build().expect("a queue pair")
    }

    /// Both ends of a connection become lines of their stations.
    pub fn add(stations: [&mut Self; 2], pairs: [QueuePair; 2]) {
        let [a, b] = stations;
        let seed = u64::from(pairs[0].qpn()) << 32 | u64::from(pairs[1].qpn());
        let places = [&a, &b].map(|station| station.lines.len() * PLACES * PLACE);
        let remotes = [a.memory.remote(), b.memory.remote()];
        let [first, second] = pairs;
        a.lines.push(Line { pair: first, theirs: remotes[1], their_place: places[1], seed });
        b.lines.push(Line { pair: second, theirs: remotes[0], their_place: places[0], seed });
        assert!(a.lines.len() <= PAIRS_MAX && b.lines.len() <= PAIRS_MAX);
    }

    /// Posts the receive of a round; nothing is written by it but the number of the round.
    fn receive(&mut self, line: usize, round: usize) {
        let at = (line * PLACES + 4) * PLACE + 8 * (round % 2);
        let scatter = [self.memory.slice(at..at + 8).expect("inside")];
        self.lines[line].pair.post_recv(&RecvRequest { wr_id: 0, scatter: &scatter }).expect("room");
    }

    /// Takes completions until `enough` of each line.
    fn collect(&mut self, seen: &mut BTreeMap<u32, Seen>, enough: impl Fn(&Seen) -> bool) {
        wait::until("completions", || {
            while let Some(done) = self.cq.poll() {
                assert_success(done.status);
                let seen = seen.get_mut(&done.qpn).expect("a queue pair of ours");
                match done.opcode {
                    WcOpcode::Recv => seen.received += 1,
                    WcOpcode::RdmaRead => seen.read += 1,
                    _ => seen.sent += 1,
                }
            }
            std::thread::yield_now();
            seen.values().all(&enough).then_some(())
        });
    }

    fn play(&mut self) {
        let mut seen: BTreeMap<u32, Seen> =
            self.lines.iter().map(|line| (line.pair.qpn(), Seen::default())).collect();
        for line in 0..self.lines.len() {
            self.receive(line, 0);
            self.receive(line, 1);
        }
        for round in 0..ROUNDS {
            for line in 0..self.lines.len() {
                self.write_and_send(line, round);
            }
            self.collect(&mut seen, |seen| seen.received > round && seen.sent > round);
            for line in 0..self.lines.len() {
                self.check_what_came(line, round);
                self.receive(line, round + 2);
                self.read_back(line, round);
            }
            self.collect(&mut seen, |seen| seen.read > round);
            for line in 0..self.lines.len() {
                let base = line * PLACES * PLACE;
                assert_eq!(self.bytes(base + 2 * PLACE), self.bytes(base + 3 * PLACE), "read back");
            }
        }
    }

    /// The place at the peer is one that it has read two rounds ago.
    fn write_and_send(&mut self, line: usize, round: usize) {
        let from = (line * PLACES + 3) * PLACE;
        let bytes = pattern(self.lines[line].seed, self.lines[line].pair.qpn(), round);
        self.memory.write(from, &bytes).expect("inside");
        let gather = [self.memory.slice(from..from + LEN).expect("inside")];
        let Line { pair, theirs, their_place, .. } = &mut self.lines[line];
        let to = *their_place + PLACE * (round % 2);
        let mut batch = pair.batch();
        batch.post_send(&SendRequest::write(SendData::Gather(&gather), theirs.at(to as u64))).expect("room");
        let number = round.to_le_bytes();
        batch.post_send(&SendRequest::send(SendData::Inline(&number)).signaled()).expect("room");
    }

    fn check_what_came(&self, line: usize, round: usize) {
        let (base, Line { pair, seed, .. }) = (line * PLACES * PLACE, &self.lines[line]);
        let mut number = [0; size_of::<usize>()];
        self.memory.read(base + 4 * PLACE + 8 * (round % 2), &mut number).expect("inside");
        assert_eq!(usize::from_le_bytes(number), round);
        let expected = pattern(*seed, pair.remote().qpn, round);
        assert!(self.bytes(base + PLACE * (round % 2)) == expected, "what the peer wrote in {round}");
    }

    fn read_back(&mut self, line: usize, round: usize) {
        let to = (line * PLACES + 2) * PLACE;
        let scatter = [self.memory.slice(to..to + LEN).expect("inside")];
        let Line { pair, theirs, their_place, .. } = &mut self.lines[line];
        let from = *their_place + PLACE * (round % 2);
        pair.post_send(&SendRequest::read(&scatter, theirs.at(from as u64)).signaled()).expect("room");
    }

    fn bytes(&self, at: usize) -> Vec<u8> {
        let mut bytes = vec![0; LEN];
        self.memory.read(at, &mut bytes).expect("inside");
        bytes
    }
}

/// What the queue pair `from` writes in a round.
fn pattern(seed: u64, from: u32, round: usize) -> Vec<u8> {
    let mut state = seed ^ u64::from(from) << 16 ^ round as u64;
    let mut bytes = Vec::with_capacity(LEN);
    while bytes.len() < LEN {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        bytes.extend_from_slice(&state.to_le_bytes()[3..]);
    }
    bytes.truncate(LEN);
    bytes
}

/// Each station plays in a thread of its own, and is driven until all are done.
pub fn run(stations: Vec<Station>) -> Vec<Station> {
    let (playing, stations) = (AtomicUsize::new(stations.len()), stations);
    let playing = &playing;
    std::thread::scope(|scope| {
        let start = |mut station: Station| {
            scope.spawn(move || {
                station.play();
                playing.fetch_sub(1, Ordering::Relaxed);
                wait::until("end of all", || {
                    station.device.progress();
                    std::thread::yield_now();
                    (playing.load(Ordering::Relaxed) == 0).then_some(())
                });
                station
            })
        };
        let threads: Vec<_> = stations.into_iter().map(start).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    })
}
