//! Devices whose program does not poll: their threads sleep, frames wake them, and peers are
//! served.

#[path = "support/join.rs"]
mod join;

use join::join;
use std::fs;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use verbs_api::{
    Access, CompletionQueue, Device, Driver, MemoryRegion, ProtectionDomain, QueuePair, RemoteRegion,
    SendData, SendRequest, WcStatus,
};

const LONG: Duration = Duration::from_secs(60);
const ACCESS: Access =
    Access::LOCAL_WRITE.union(Access::REMOTE_WRITE).union(Access::REMOTE_READ).union(Access::REMOTE_ATOMIC);
const WITH_THREAD: [Driver; 2] = [Driver::THREAD, Driver::Hybrid];

/// The tests count threads of the process, so they run one after the other.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The drivers that the peer of a native memif may have in this build.
const PEERS: &[&str] = if cfg!(feature = "dpdk") { &["native", "dpdk,hugepages=off"] } else { &["native"] };

/// Device strings of the two ends of a memif, the first by this driver.
fn memif(peer: &str) -> [String; 2] {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name = format!("srnic-idle-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let path = std::env::temp_dir().join(name).display().to_string();
    [("server", peer), ("client", "native")]
        .map(|(role, driver)| format!("memif:{path},role={role},driver={driver}"))
}

struct Host {
    pd: ProtectionDomain,
    cq: CompletionQueue,
    memory: MemoryRegion,
}

fn hosts(peer: &str, drivers: [Driver; 2]) -> [Host; 2] {
    hosts_at(&memif(peer), drivers)
}

fn hosts_at(texts: &[String; 2], drivers: [Driver; 2]) -> [Host; 2] {
    let devices =
        [0, 1].map(|end: usize| Device::builder().driver(drivers[end]).open(&texts[end]).expect("a device"));
    let start = Instant::now();
    while !devices.iter().all(Device::link_up) {
        devices.iter().for_each(|device| _ = device.progress());
        thread::yield_now();
        assert!(start.elapsed() < LONG, "no link");
    }
    devices.map(|device| {
        let (pd, cq) = (device.alloc_pd(), device.create_cq(64).expect("a queue"));
        let memory = pd.register(4096, ACCESS).expect("memory");
        Host { pd, cq, memory }
    })
}

fn connected(hosts: &[Host; 2]) -> [QueuePair; 2] {
    let build = |host: &Host| {
        let builder = host.pd.queue_pair(&host.cq, &host.cq).timeout(18).access(ACCESS);
        builder.build().expect("a queue pair")
    };
    join([build(&hosts[0]), build(&hosts[1])])
}

/// Times that the engines' threads of this process have given up their processors.
fn sleeps() -> u64 {
    let tasks = fs::read_dir("/proc/self/task").expect("of this process").flatten();
    let engines = tasks.filter(|task| {
        fs::read_to_string(task.path().join("comm")).is_ok_and(|name| name.trim() == "srnic-engine")
    });
    let of = |status: String| {
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?.trim();
        line.parse::<u64>().ok()
    };
    engines.filter_map(|task| of(fs::read_to_string(task.path().join("status")).ok()?)).sum()
}

#[test]
fn threads_with_nothing_to_do_sleep_until_something_comes() {
    let _alone = alone();
    for driver in WITH_THREAD {
        let hosts = hosts("native", [driver; 2]);
        let _pairs = connected(&hosts);
        // Timers of the beginning pass.
        thread::sleep(Duration::from_millis(500));
        let (before, start) = (sleeps(), Instant::now());
        thread::sleep(Duration::from_secs(1));
        let (looks, watched) = (sleeps() - before, start.elapsed());
        assert!(looks > 0, "{driver:?}: no engine's thread was found");
        let most = u64::try_from(watched.as_millis()).expect("no century") / 5;
        assert!(looks < most, "{driver:?}: two idle threads woke {looks} times in {watched:?}");
    }
}

/// How long WRITEs take whose peer sleeps: the median of fifteen.
fn wake_up(hosts: &mut [Host; 2], pair: &mut QueuePair) -> Duration {
    let target = hosts[1].memory.remote();
    let mut times = [(); 15].map(|()| {
        thread::sleep(Duration::from_millis(70));
        let start = Instant::now();
        let write = SendRequest::write(SendData::Inline(&[1; 8]), target.at(0)).signaled();
        pair.post_send(&write).expect("posted");
        assert_eq!(next(&mut hosts[0].cq, LONG), Some(WcStatus::Success));
        start.elapsed()
    });
    times.sort();
    times[7]
}

/// Without an interrupt it would take half of the longest sleep, 25 ms. A machine that is busy
/// elsewhere has five tries.
#[test]
fn a_message_wakes_a_thread_that_sleeps_for_long() {
    let _alone = alone();
    for (driver, peer) in WITH_THREAD.iter().flat_map(|driver| PEERS.iter().map(|peer| (*driver, *peer))) {
        let mut hosts = hosts(peer, [Driver::Inline, driver]);
        let [mut pair, _its] = connected(&hosts);
        let mut medians = Vec::new();
        while medians.last().is_none_or(|median| *median >= Duration::from_millis(10)) {
            assert!(medians.len() < 5, "{driver:?}, {peer}: {medians:?}");
            medians.push(wake_up(&mut hosts, &mut pair));
        }
    }
}

fn next(cq: &mut CompletionQueue, limit: Duration) -> Option<WcStatus> {
    let start = Instant::now();
    loop {
        match cq.poll() {
            Some(done) => return Some(done.status),
            None if start.elapsed() > limit => return None,
            None => thread::yield_now(),
        }
    }
}

/// WRITE, READ and FETCH_AND_ADD to a peer that does nothing: how each ends, within `limit`.
fn serve(passive: Driver, limit: Duration) -> [Option<WcStatus>; 3] {
    let mut hosts = hosts("native", [Driver::Inline, passive]);
    let [mut pair, _its] = connected(&hosts);
    let target = hosts[1].memory.remote();
    let [write, read, add] = [
        SendRequest::write(SendData::Inline(&7_u64.to_ne_bytes()), target.at(0)),
        SendRequest::read(&[hosts[0].memory.slice(..8).expect("inside")], target.at(0)),
        SendRequest::fetch_and_add(hosts[0].memory.slice(8..16).expect("inside"), target.at(0), 35),
    ]
    .map(|request| {
        pair.post_send(&request.signaled()).expect("posted");
        next(&mut hosts[0].cq, limit)
    });
    let word = |at| {
        let mut bytes = [0; 8];
        hosts[0].memory.read(at, &mut bytes).expect("inside");
        u64::from_ne_bytes(bytes)
    };
    if add.is_some() {
        assert_eq!(
            (word(0), word(8)),
            (7, 7),
            "as it was read, and before it was added to: {write:?} {read:?} {add:?}"
        );
    }
    [write, read, add]
}

#[test]
fn a_passive_side_that_never_polls_is_served_by_its_thread() {
    let _alone = alone();
    for passive in WITH_THREAD {
        assert_eq!(serve(passive, LONG), [Some(WcStatus::Success); 3], "{passive:?}");
    }
    assert_eq!(serve(Driver::Inline, Duration::from_millis(50)), [None; 3], "nobody drives that engine");
}

/// The thread drives, the program polls, the thread drives again: each time both are served.
#[test]
fn a_program_that_polls_now_and_then_takes_over_and_hands_back() {
    let _alone = alone();
    let mut hosts = hosts("native", [Driver::Hybrid; 2]);
    let mut pairs = connected(&hosts);
    for round in 0..40_u64 {
        let (from, to) = if round % 2 == 0 { (0, 1) } else { (1, 0) };
        let target = hosts[to].memory.remote();
        let bytes = round.to_ne_bytes();
        let write = SendRequest::write(SendData::Inline(&bytes), target.at(0)).signaled();
        pairs[from].post_send(&write).expect("posted");
        if round % 4 < 2 {
            assert_eq!(next(&mut hosts[from].cq, LONG), Some(WcStatus::Success));
        } else {
            // Nobody polls: the bytes arrive nevertheless.
            see(&hosts[to], round, || thread::sleep(Duration::from_micros(100)));
            assert_eq!(next(&mut hosts[from].cq, LONG), Some(WcStatus::Success));
        }
        thread::sleep(Duration::from_micros(300 * (round % 5)));
    }
}

/// Looks into the memory of a host until the round is there; `between` comes after each look.
fn see(host: &Host, round: u64, between: impl Fn()) {
    let start = Instant::now();
    let mut word = [0; 8];
    while word != round.to_ne_bytes() {
        assert!(start.elapsed() < LONG, "round {round}: nobody drives");
        host.memory.read(0, &mut word).expect("inside");
        between();
    }
}

/// Both programs wait by looking into their memory, and poll for their own completions only, as a
/// test of the latency of WRITEs does: at a port with interrupts, and at one without. Then they end
/// while their threads wait for frames.
#[test]
fn programs_that_look_into_their_memory_are_served_round_after_round() {
    let _alone = alone();
    let simulated = ["sim:idle-memory"; 2].map(str::to_owned);
    for texts in [memif("native"), simulated] {
        let hosts = hosts_at(&texts, [Driver::Hybrid; 2]);
        let pairs = connected(&hosts);
        let targets = [hosts[1].memory.remote(), hosts[0].memory.remote()];
        thread::scope(|scope| {
            for (end, ((host, pair), target)) in hosts.into_iter().zip(pairs).zip(targets).enumerate() {
                scope.spawn(move || write_there_and_back(end == 0, host, pair, target));
            }
        });
    }
}

fn write_there_and_back(first: bool, mut host: Host, mut pair: QueuePair, target: RemoteRegion) {
    const ROUNDS: u64 = 200;
    for round in 1..=ROUNDS {
        if !first {
            see(&host, round, thread::yield_now);
        }
        let bytes = round.to_ne_bytes();
        let write = SendRequest::write(SendData::Inline(&bytes), target.at(0)).signaled();
        pair.post_send(&write).expect("posted");
        assert_eq!(next(&mut host.cq, LONG), Some(WcStatus::Success), "round {round}");
        if first {
            see(&host, round, thread::yield_now);
        }
    }
}
