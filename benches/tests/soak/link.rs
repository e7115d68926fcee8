//! A connection of the soak, and what its connections share.

use datapath::memory::WindowType;
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use verbs_api::{
    Access, Completion, CompletionQueue, CongestionAlgorithm, Datagram, Device, Grh, MemoryRegion,
    MemoryWindow, PostError, ProtectionDomain, QpState, QueueCaps, QueuePair, RecvRequest, RemoteAddr,
    SendData, SendRequest, SharedReceiveQueue, SrqCaps, UdQueuePair, WcOpcode, WcStatus,
};

const LEN: usize = 32 << 10;
const DEPTH: u32 = 64;
const QKEY: u32 = 0x1234;
const EVERYTHING: Access = Access::LOCAL_WRITE
    .union(Access::REMOTE_WRITE)
    .union(Access::REMOTE_READ)
    .union(Access::REMOTE_ATOMIC)
    .union(Access::MW_BIND);

/// What the soak draws from.
pub struct Random(SplitMix64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(SplitMix64::seed_from_u64(seed))
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.0.next_u64() % end
    }

    pub fn index(&mut self, end: usize) -> usize {
        usize::try_from(self.below(end as u64)).expect("below an index")
    }
}

/// One of the two devices, and what its connections share.
pub struct Host {
    device: Device,
    pd: ProtectionDomain,
    srq: SharedReceiveQueue,
    /// Receives of shared queue posted, and completed.
    shared: [u64; 2],
    ud: UdQueuePair,
    ud_cq: CompletionQueue,
    /// Where shared receives and datagrams go.
    buffer: MemoryRegion,
}

pub struct Hosts([Host; 2]);

impl Hosts {
    pub fn new(devices: [Device; 2]) -> Self {
        Self(devices.map(|device| {
            let pd = device.alloc_pd();
            let srq = pd.create_srq(SrqCaps { max_wr: 4 * DEPTH, max_sge: 1 }).expect("a queue");
            let ud_cq = device.create_cq(2 * DEPTH).expect("a queue");
            let ud = pd.ud_queue_pair(&ud_cq, &ud_cq).qkey(QKEY).build().expect("a queue pair");
            let buffer = pd.register(LEN / 2, EVERYTHING).expect("memory");
            Host { device, pd, srq, shared: [0; 2], ud, ud_cq, buffer }
        }))
    }

    /// A datagram to the other host, by a handle that lives no longer than it.
    pub fn datagrams(&mut self, random: &mut Random) {
        let from = random.index(2);
        // Both devices must run while the address is asked for.
        let (one, two) = self.0.split_at_mut(1);
        let (here, there) = if from == 0 { (&mut one[0], &mut two[0]) } else { (&mut two[0], &mut one[0]) };
        let (qpn, ip) = (there.ud.qpn(), there.device.ip());
        let scatter = [there.buffer.slice(..Grh::LEN).expect("inside")];
        there.ud.post_recv(&RecvRequest { wr_id: 0, scatter: &scatter }).expect("there is room");
        let handle = std::thread::scope(|scope| {
            let asked = scope.spawn(|| here.pd.create_ah_to(ip).expect("a handle"));
            while !asked.is_finished() {
                there.device.progress();
            }
            asked.join().expect("a handle")
        });
        let datagram = Datagram::new(SendData::Inline(&[]), &handle, qpn, QKEY).signaled();
        here.ud.post_send(&datagram).expect("there is room");
        let mut ended = [false; 2];
        while ended != [true; 2] {
            for (host, ended) in [&mut *here, &mut *there].into_iter().zip(&mut ended) {
                while let Some(done) = host.ud_cq.poll() {
                    assert_eq!(done.status, WcStatus::Success, "{}", done.status);
                    *ended = true;
                }
            }
        }
    }

    /// All receives of the shared queues have their places back.
    pub fn finish(&mut self) {
        for Host { srq, shared: [posted, done], .. } in &mut self.0 {
            let available = u64::from(srq.query().available);
            assert!(*posted >= *done + available, "a receive completed twice");
            let free = u64::from(srq.query().caps.max_wr) - available;
            for number in 0..free {
                let posted = srq.post_recv(&RecvRequest { wr_id: number, scatter: &[] });
                assert!(posted.is_ok(), "place {number} of {free} of a shared receive queue is lost");
            }
        }
    }
}

/// One end of a connection.
struct End {
    pair: QueuePair,
    cq: CompletionQueue,
    memory: MemoryRegion,
    window: Option<MemoryWindow>,
    shared: bool,
    /// Sends posted, and completed; then receives of its own queue.
    sends: [u64; 2],
    receives: [u64; 2],
}

/// A connection.
pub struct Link {
    ends: [End; 2],
}

impl Link {
    pub fn new(hosts: &Hosts, random: &mut Random, number: usize) -> Self {
        let shared = number % 2 == 1;
        let caps = QueueCaps { max_send_wr: DEPTH, max_recv_wr: DEPTH, ..QueueCaps::default() };
        let [left, right] = hosts.0.each_ref().map(|Host { device, pd, srq, .. }| {
            let cq = device.create_cq(8 * DEPTH).expect("a queue");
            let memory = pd.register(LEN, EVERYTHING).expect("memory");
            let builder = pd.queue_pair(&cq, &cq).caps(caps).access(EVERYTHING).timeout(18);
            let builder = builder.congestion(CongestionAlgorithm::Fixed);
            let builder = if shared { builder.srq(srq) } else { builder };
            (builder.build().expect("a queue pair"), cq, memory)
        });
        let endpoints = [right.0.endpoint(), left.0.endpoint()];
        let mut ends = [left, right].into_iter().zip(endpoints).zip(&hosts.0).map(|((end, remote), host)| {
            let (pair, cq, memory) = end;
            let pair = pair.connect(&remote).expect("connected");
            let window = host.pd.alloc_window(WindowType::Two).ok().filter(|_| random.below(2) == 0);
            End { pair, cq, memory, window, shared, sends: [0; 2], receives: [0; 2] }
        });
        let ends = [(); 2].map(|()| ends.next().expect("two ends"));
        Self { ends }
    }

    /// Some requests of any kind, from either end, as far as there is room.
    pub fn post(&mut self, hosts: &mut Hosts, random: &mut Random) {
        let from = random.index(2);
        for _ in 0..1 + random.below(8) {
            if self.ends[from].pair.outstanding() >= DEPTH - 2 || self.ends[from].pair.state() != QpState::Rts
            {
                return;
            }
            let kind = random.below(9);
            if kind >= 6 && !self.receive(hosts, 1 - from) {
                return;
            }
            let (at, len) = (random.index(LEN / 2) & !7, random.index(LEN / 2));
            let there = self.ends[1 - from].memory.remote().at(at as u64);
            let end = &mut self.ends[from];
            let piece = [end.memory.slice(at..at + len).expect("inside")];
            let word = end.memory.slice(at..at + 8).expect("inside");
            let short = [0x5A; 32];
            let request = match kind {
                0 => SendRequest::write(SendData::Inline(&short), there),
                1 | 2 => SendRequest::write(SendData::Gather(&piece), there),
                3 => SendRequest::read(&piece, there),
                4 => SendRequest::fetch_and_add(word, there, 1),
                5 if end.window.is_some() => return self.turn_window(from),
                5 => SendRequest::compare_and_swap(word, there, 0, 1).fenced(),
                6 => SendRequest::write(SendData::Gather(&piece), there).with_imm(1).solicited(),
                7 => SendRequest::send(SendData::Inline(&short)),
                _ => SendRequest::send(SendData::Gather(&piece)).with_imm(2),
            };
            end.pair.post_send(&request.id(end.sends[0]).signaled()).expect("there is room");
            end.sends[0] += 1;
        }
    }

    /// A window is bound and ended.
    fn turn_window(&mut self, from: usize) {
        let end = &mut self.ends[from];
        let Some(window) = &mut end.window else { return };
        let rights = Access::REMOTE_WRITE | Access::REMOTE_READ;
        window.bind(&mut end.pair, end.sends[0], &end.memory, 0..64, rights).expect("there is room");
        window.invalidate(&mut end.pair, end.sends[0] + 1).expect("there is room");
        end.sends[0] += 2;
    }

    /// Posts a receive; false if there is no room.
    fn receive(&mut self, hosts: &mut Hosts, side: usize) -> bool {
        let end = &mut self.ends[side];
        if end.shared {
            let host = &mut hosts.0[side];
            let scatter = [host.buffer.slice(..).expect("all of it")];
            let posted = host.srq.post_recv(&RecvRequest { wr_id: 0, scatter: &scatter });
            host.shared[0] += u64::from(posted.is_ok());
            // A full one has receives for all that can be under way.
            return true;
        }
        let scatter = [end.memory.slice(LEN / 2..).expect("inside")];
        match end.pair.post_recv(&RecvRequest { wr_id: 0, scatter: &scatter }) {
            Ok(()) => end.receives[0] += 1,
            Err(verbs_api::Error::Post(PostError::QueueFull { .. })) => return false,
            Err(error) => panic!("{error}"),
        }
        true
    }

    /// Something that ends both queue pairs.
    pub fn spoil(&mut self) {
        let end = &mut self.ends[0];
        let nowhere = RemoteAddr { addr: 0, rkey: 0xFFFF_FFFF };
        let request = SendRequest::write(SendData::Inline(&[1]), nowhere).id(end.sends[0]).signaled();
        if end.pair.post_send(&request).is_ok() {
            end.sends[0] += 1;
        }
    }

    /// Returns `true` if an end is in ERR.
    pub fn is_dead(&self) -> bool {
        self.ends.iter().any(|end| end.pair.state() == QpState::Err)
    }

    /// Takes what completed; returns how many.
    pub fn poll(&mut self, hosts: &mut Hosts) -> u64 {
        let mut count = 0;
        for side in 0..2 {
            while let Some(done) = self.ends[side].cq.poll() {
                self.take(hosts, side, &done);
                count += 1;
            }
        }
        count
    }

    fn take(&mut self, hosts: &mut Hosts, side: usize, done: &Completion) {
        let end = &mut self.ends[side];
        if matches!(done.opcode, WcOpcode::Recv | WcOpcode::RecvRdmaWithImm) {
            let [_, completed] = if end.shared { &mut hosts.0[side].shared } else { &mut end.receives };
            *completed += 1;
        } else {
            assert_eq!(done.wr_id, end.sends[1], "in order, each once: {}", done.status);
            end.sends[1] += 1;
        }
    }

    /// Ends it in good order: everything that was posted completes, and every place is free.
    /// Returns how many completed.
    pub fn finish(&mut self, hosts: &mut Hosts) -> u64 {
        let mut count = 0;
        while self.ends.iter().any(|end| end.sends[0] > end.sends[1]) && !self.is_dead() {
            count += self.poll(hosts);
        }
        self.ends.iter_mut().for_each(|end| end.pair.abort().expect("any state goes to ERR"));
        count += self.poll(hosts);
        for End { pair, sends, receives, .. } in &self.ends {
            assert_eq!(pair.outstanding(), 0, "places of a send queue");
            assert_eq!(sends[0], sends[1], "sends without completion");
            assert_eq!(receives[0], receives[1], "receives without completion");
        }
        count
    }
}
