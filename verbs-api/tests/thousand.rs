//! A thousand connects and disconnects over memif, both ends in this process: nothing leaks, and
//! the last takes no more work than the first.
#![cfg(feature = "dpdk")]

#[path = "support/heap.rs"]
mod heap;

use datapath::port::dpdk::{DpdkPort, Eal, EalConfig, MemifConfig, MemifRole, Memory};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use verbs_api::{
    Access, CompletionQueue, CongestionAlgorithm, Device, EngineConfig, EngineMemory, MemoryRegion,
    ProtectionDomain, QueuePair, RecvRequest, SendData, SendRequest, Usage, WcStatus,
};

#[global_allocator]
static ALLOCATOR: heap::Counting = heap::Counting;

const REMOTE: Access = Access::LOCAL_WRITE.union(Access::REMOTE_WRITE);
const PATIENCE: Duration = Duration::from_secs(60);
/// Buffers that an idle port may hold: those that it has taken in advance.
const HELD: u32 = 128;

/// The tests look at the descriptors of the process, so one runs at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One end of the pair, and the packet buffers that it uses.
struct End {
    device: Device,
    buffers: Box<dyn Fn() -> u32>,
}

impl End {
    fn open(socket: &Path, role: MemifRole) -> Self {
        let host = if role == MemifRole::Server { 1 } else { 2 };
        let mut config = MemifConfig::new(socket, role);
        config.mac = Some([2, 0, 0, 0, 0, host]);
        // In hugepages DPDK opens another file whenever its heap grows.
        let config_of_eal = EalConfig { memory: Memory::Normal, ..EalConfig::default() };
        let eal = Eal::start(&config_of_eal).expect("DPDK starts");
        let port = DpdkPort::memif(eal, &config).expect("a port");
        let pool = port.eth().pool().clone();
        let config = EngineConfig {
            ip: [10, 77, 0, host].into(),
            seed: u64::from(host).into(),
            ..EngineConfig::default()
        };
        let device = Device::from_port(port, config).expect("a device");
        Self { device, buffers: Box::new(move || pool.in_use()) }
    }

    /// Closes the device; every buffer is back then.
    fn close(self) {
        drop(self.device);
        assert_eq!((self.buffers)(), 0, "packet buffers leaked");
    }
}

/// Both ends of a pair, whose link is up.
fn link(socket: &Path) -> [End; 2] {
    let ends = [MemifRole::Server, MemifRole::Client].map(|role| End::open(socket, role));
    let deadline = Instant::now() + PATIENCE;
    while !ends.iter().all(|end| end.device.link_up()) {
        for end in &ends {
            end.device.progress();
        }
        std::thread::yield_now();
        assert!(Instant::now() < deadline, "no link within a minute");
    }
    ends
}

fn socket(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("srnic-{name}-{}.sock", std::process::id()))
}

/// Everything that one side of a connection needs, made for it alone.
struct Side {
    cq: CompletionQueue,
    memory: MemoryRegion,
    pair: QueuePair,
    _pd: ProtectionDomain,
}

fn connect(ends: &[End; 2]) -> [Side; 2] {
    let prepared = ends.each_ref().map(|End { device, .. }| {
        let (pd, cq) = (device.alloc_pd(), device.create_cq(16).expect("a free place"));
        let memory = pd.register(4096, REMOTE).expect("a free place");
        let pair = pd.queue_pair(&cq, &cq).congestion(CongestionAlgorithm::Fixed).timeout(18);
        (pair.build().expect("a free place"), cq, memory, pd)
    });
    let endpoints = prepared.each_ref().map(|(pair, ..)| pair.endpoint());
    let mut peers = endpoints.into_iter().rev();
    prepared.map(|(pair, cq, memory, pd)| {
        let pair = pair.connect(&peers.next().expect("two")).expect("connected");
        Side { cq, memory, pair, _pd: pd }
    })
}

/// A WRITE and a SEND from the first to the second, which arrive. Returns the turns that it took.
fn talk(ends: &[End; 2], [one, two]: &mut [Side; 2], number: u64) -> u64 {
    let scatter = [two.memory.slice(0..8).expect("inside")];
    two.pair.post_recv(&RecvRequest { wr_id: number, scatter: &scatter }).expect("posted");
    let bytes = number.to_ne_bytes();
    let write = SendRequest::write(SendData::Inline(&bytes), two.memory.remote().at(8));
    one.pair.post_send(&write).expect("posted");
    one.pair.post_send(&SendRequest::send(SendData::Inline(&bytes)).signaled()).expect("posted");
    let deadline = Instant::now() + PATIENCE;
    let (mut turns, mut waiting) = (0, 2);
    while waiting > 0 {
        for (end, side) in ends.iter().zip([&mut *one, &mut *two]) {
            end.device.progress();
            turns += 1;
            while let Some(completion) = side.cq.poll() {
                assert_eq!(completion.status, WcStatus::Success);
                waiting -= 1;
            }
        }
        assert!(Instant::now() < deadline, "no completion within a minute");
    }
    for offset in [0, 8] {
        assert_eq!(two.memory.load_acquire_u64(offset).expect("aligned"), number);
    }
    turns
}

/// What the process and both devices have in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Held {
    files: usize,
    heap: usize,
    usage: [Usage; 2],
    memory: [EngineMemory; 2],
}

impl Held {
    fn now(ends: &[End; 2]) -> Self {
        Self {
            files: open_files(),
            heap: heap::held(),
            usage: ends.each_ref().map(|end| end.device.usage()),
            memory: ends.each_ref().map(|end| end.device.engine_memory()),
        }
    }
}

fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("this is Linux").count()
}

/// The open descriptors and what each refers to.
fn named_files() -> Vec<(PathBuf, PathBuf)> {
    let entries = std::fs::read_dir("/proc/self/fd").expect("this is Linux");
    let paths = entries.flatten().map(|entry| entry.path());
    paths.filter_map(|path| Some((path.clone(), std::fs::read_link(path).ok()?))).collect()
}

#[test]
fn a_thousand_connections_leave_nothing_behind_and_the_last_is_no_more_work() {
    const ROUNDS: u64 = 1000;
    let _alone = alone();
    let ends = link(&socket("thousand"));
    let mut before = None;
    // A paused process may see a timer fire, so what counts is the least of many.
    let (mut first, mut last) = (u64::MAX, u64::MAX);
    for round in 0..ROUNDS {
        let mut sides = connect(&ends);
        let turns = talk(&ends, &mut sides, round);
        let least = if round < ROUNDS / 2 { &mut first } else { &mut last };
        *least = turns.min(*least);
        drop(sides);
        let held = ends.each_ref().map(|end| (end.buffers)());
        assert!(held.iter().all(|held| *held <= HELD), "round {round}: packet buffers are held: {held:?}");
        if round % 100 == 99 {
            let now = Held::now(&ends);
            assert_eq!(now.usage, [Usage::default(); 2], "round {round}");
            // Lists have grown to their sizes by the first look.
            assert_eq!(before.get_or_insert(now), &now, "round {round}");
        }
    }
    assert_eq!(last, first, "turns of the engines per connection");
    for end in ends {
        end.close();
    }
}

/// The link itself comes and goes: ports, pools, sockets and shared memory.
#[test]
fn links_come_and_go_and_leave_nothing_behind() {
    let _alone = alone();
    let socket = socket("links");
    let mut files = None;
    for round in 0..100 {
        let ends = link(&socket);
        let mut sides = connect(&ends);
        talk(&ends, &mut sides, round);
        drop(sides);
        for end in ends {
            end.close();
        }
        // The first starts DPDK, which keeps what it opens.
        let first = *files.get_or_insert_with(open_files);
        // Its interrupt thread closes what was its own when it comes to it.
        let deadline = Instant::now() + PATIENCE;
        while open_files() > first {
            assert!(Instant::now() < deadline, "round {round}: not {first} descriptors: {:?}", named_files());
            std::thread::yield_now();
        }
    }
    assert!(!socket.exists(), "the server takes its socket along");
}
