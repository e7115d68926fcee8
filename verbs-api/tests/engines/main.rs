//! Several engines on one device: every engine of one host talks to every engine of the other, over
//! queues that know nothing of who has which queue pair.

#[path = "../support/join.rs"]
mod join;
mod ring;
#[path = "../support/wait.rs"]
mod wait;

use join::join;
use ring::Station;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use verbs_api::{
    Access, Connector, Device, Driver, Error, LinkDown, Listener, QueuePair, RecvRequest, SendData,
    SendRequest, WcStatus,
};

/// A directory for a socket, gone when dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("srnic-engines-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let dir = std::env::temp_dir().join(name);
        std::fs::create_dir(&dir).expect("a fresh directory");
        Self(dir)
    }

    fn memif(&self, role: &str) -> String {
        format!("memif:{},driver=native,role={role}", self.0.join("s").display())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn open(driver: Driver, text: &str) -> Vec<Station> {
    let engines = Device::builder().driver(driver).open_engines(text);
    let engines = engines.unwrap_or_else(|error| panic!("{text}: {error}"));
    assert!((0..).zip(&engines).all(|(index, device)| device.engine().index() == index));
    engines.into_iter().map(Station::new).collect()
}

/// Two hosts whose links are up.
fn hosts(driver: Driver, texts: [&str; 2]) -> [Vec<Station>; 2] {
    let hosts = texts.map(|text| open(driver, text));
    wait::until("links", || {
        let mut all = hosts.iter().flatten();
        all.all(|station| {
            hosts.iter().flatten().for_each(|station| {
                station.device.progress();
            });
            station.device.link_up()
        })
        .then_some(())
    });
    hosts
}

/// Joins queue pairs of each engine here with those that `joined` says of each engine there, has a
/// thread for each engine play its part, and checks how many frames came in where they had to move.
fn play(
    driver: Driver,
    texts: [&str; 2],
    joined: impl Fn(usize, usize) -> bool,
    steered: bool,
) -> Vec<Station> {
    let [mut here, mut there] = hosts(driver, texts);
    for (i, one) in here.iter_mut().enumerate() {
        for (j, two) in there.iter_mut().enumerate() {
            if joined(i, j) {
                let [a, b] = join([one.prepare(), two.prepare()]);
                for (station, pair) in [(&*one, &a), (&*two, &b)] {
                    assert_eq!(
                        station.device.engine().owner_of(pair.qpn()),
                        Some(station.device.engine().index())
                    );
                }
                Station::add([one, two], [a, b]);
            }
        }
    }
    let stations = ring::run(here.into_iter().chain(there).collect());
    let mut moved = 0;
    for station in &stations {
        let (stats, counters) = (station.device.port_stats(), station.device.counters());
        assert_eq!(counters.drop_unknown_qp, 0, "{driver:?}: {stats:?}");
        moved += stats.rx_steered;
    }
    assert_eq!(moved > 0, steered, "{driver:?} {texts:?}: {moved} frames moved");
    stations
}

const DRIVERS: [Driver; 2] = [Driver::Inline, Driver::THREAD];

#[test]
fn every_engine_talks_to_every_engine_over_memif() {
    for driver in DRIVERS {
        let dir = Scratch::new();
        let [server, client] = ["server", "client"].map(|role| dir.memif(role) + ",engines=2");
        play(driver, [&server, &client], |_, _| true, true);
    }
}

#[test]
fn every_engine_talks_to_every_engine_of_a_segment() {
    for (driver, name) in DRIVERS.into_iter().zip(["inline", "thread"]) {
        let text = format!("sim:engines-{name},engines=2");
        play(driver, [&text, &text], |_, _| true, true);
    }
}

/// DPDK's driver at one end or at both.
#[cfg(feature = "dpdk")]
#[test]
fn every_engine_talks_to_every_engine_over_dpdks_memif() {
    for (driver, lends) in [(Driver::Inline, false), (Driver::THREAD, false), (Driver::Inline, true)] {
        let dir = Scratch::new();
        let [server, client] = ["server", "client"].map(|role| dir.memif(role) + ",engines=2");
        let server = server.replace("driver=native", "driver=dpdk,hugepages=off");
        let client =
            if lends { client } else { client.replace("driver=native", "driver=dpdk,hugepages=off") };
        play(driver, [&server, &client], |_, _| true, true);
    }
}

/// Neither end need have as many engines as the other on a segment, nor a power of two.
#[test]
fn three_engines_talk_to_one() {
    play(Driver::Inline, ["sim:engines-uneven,engines=3", "sim:engines-uneven"], |_, _| true, true);
}

/// Queue `i` of one end reaches queue `i` of the other: nothing has to move.
#[test]
fn engines_of_the_same_number_need_no_steering() {
    let dir = Scratch::new();
    let [server, client] = ["server", "client"].map(|role| dir.memif(role) + ",engines=2");
    play(Driver::Inline, [&server, &client], |i, j| i == j, false);
}

#[test]
fn losses_are_repaired_on_the_way_between_engines() {
    let dir = Scratch::new();
    let [server, client] = ["server", "client"].map(|role| dir.memif(role) + ",engines=2");
    let server = format!("fault:loss=2%,seed=7:{server}");
    let stations = play(Driver::Inline, [&server, &client], |i, j| i != j, true);
    // The server's engines come first.
    for (engine, station) in stations[..2].iter().enumerate() {
        let faults = station.device.fault_stats();
        assert!(faults.rx.lost > 0 && faults.tx.lost > 0, "engine {engine}: {faults:?}");
    }
}

/// Queue pairs of two engines of one device, whose frames leave neither the process nor go by the
/// port.
#[test]
fn two_engines_of_one_device_talk_to_each_other() {
    let mut stations = open(Driver::Inline, "sim:engines-alone,engines=2");
    let (one, two) = stations.split_at_mut(1);
    let (one, two) = (&mut one[0], &mut two[0]);
    let pairs = join([one.prepare(), two.prepare()]);
    Station::add([one, two], pairs);
    for station in ring::run(stations) {
        // By the port go questions for its own address only.
        let (stats, counters) = (station.device.port_stats(), station.device.counters());
        assert!(stats.rx_steered > 0 && stats.tx_frames == counters.tx_neighbor, "{stats:?}");
    }
}

/// The answer to a question comes in at the first engine's queue, and the second one asked.
#[test]
fn an_address_that_one_engine_asks_for_becomes_known_to_it() {
    let here = open(Driver::THREAD, "sim:engines-arp,engines=2");
    let there = open(Driver::THREAD, "sim:engines-arp");
    let [ours, theirs] = [here[1].prepare(), there[0].prepare()];
    let endpoint = theirs.endpoint().routed();
    let (to_us, qpn) = (ours.endpoint(), ours.qpn());
    let pair = ours.connect(&endpoint).expect("its address is found");
    assert_eq!((pair.qpn(), pair.remote().mac), (qpn, None));
    drop(theirs.connect(&to_us).expect("connected"));
    assert!(here[1].device.port_stats().rx_frames > 0, "it heard the answer");
}

/// By address, from engine to engine of the same number.
#[test]
fn each_engine_has_a_connection_manager() {
    let [here, mut there] = [0, 1].map(|_| open(Driver::THREAD, "sim:engines-cm,engines=2"));
    for (active, passive) in here.iter().zip(&mut there) {
        let listener = Listener::bind(&passive.device, 7471).expect("a free port");
        let mut pair = passive.prepare();
        let scatter = [passive.memory.slice(..8).expect("inside")];
        pair.post_recv(&RecvRequest { wr_id: 1, scatter: &scatter }).expect("posted");
        let accept = move || {
            let request = listener.get_request(wait::PATIENCE).expect("somebody comes");
            request.accept(pair).expect("accepted").wait(wait::PATIENCE).expect("connected")
        };
        let accepting = std::thread::spawn(accept);
        let to = (passive.device.ip(), 7471).into();
        let connecting = Connector::new().connect(active.prepare(), to).expect("begun");
        let mut pair: QueuePair = connecting.wait(wait::PATIENCE).expect("connected");
        let accepted = accepting.join().expect("no panic");
        pair.post_send(&SendRequest::send(SendData::Inline(b"by name."))).expect("room");
        assert_success(wait::completion(&mut passive.cq, &active.device).status);
        let mut found = [0; 8];
        passive.memory.read(0, &mut found).expect("inside");
        assert_eq!((&found, accepted.remote().qpn), (b"by name.", pair.qpn()));
    }
}

fn refused(text: &str, reason: &str) {
    let error = Device::open_engines(text).err().expect("refused").to_string();
    assert!(error.contains(reason), "{text}: {error}");
}

#[test]
fn what_cannot_be_says_what_can() {
    let error = Device::open("sim:engines-one,engines=2").err().expect("refused");
    assert!(matches!(error, Error::Engines { engines: 2 }), "{error}");
    assert!(error.to_string().contains("Device::open_engines"), "{error}");
    refused("sim:engines-one,engines=0", "engines must be a number from 1 to 8");
    refused("vhost:/tmp/v.sock,engines=2", "or leave engines= out");
    refused("memif:/tmp/m.sock,driver=native,engines=2", "add role=server or role=client");
    let one = Device::open_engines("sim:engines-one").expect("one engine");
    assert_eq!((one.len(), one[0].engine().count()), (1, 1));
    // Objects of two engines do not mix.
    let two = open(Driver::Inline, "sim:engines-two,engines=2");
    let mixed = two[0].pd.queue_pair(&two[1].cq, &two[1].cq).build();
    assert!(matches!(mixed.err(), Some(Error::OtherDevice { .. })));
}

/// Each engine tells what it does at a place of its own, and records its frames in a file of its
/// own.
#[test]
fn each_engine_has_files_of_its_own() {
    let dir = Scratch::new();
    let file = |name: &str| dir.0.join(name);
    let text = format!(
        "sim:engines-files,engines=2,stat={},pcap={}",
        file("stat").display(),
        file("pcap").display()
    );
    let engines = Device::open_engines(&text).expect("engines");
    for name in ["stat", "stat.1", "pcap", "pcap.1"] {
        assert!(file(name).exists(), "{name}");
    }
    drop(engines);
    let len = |name: &str| std::fs::read(file(name)).expect("a capture").len();
    // A header; the first engine may have asked whether the device's address is free.
    assert!(len("pcap") >= 24 && len("pcap.1") == 24, "{} and {}", len("pcap"), len("pcap.1"));
    assert!(!Path::new(&file("stat.1")).exists());
}

/// A status that no test here expects to see.
fn assert_success(status: WcStatus) {
    assert_eq!(status, WcStatus::Success);
}

/// What peers may do to memory here.
const OPEN: Access = Access::LOCAL_WRITE.union(Access::REMOTE_WRITE).union(Access::REMOTE_READ);

#[test]
fn a_peer_with_another_number_of_engines_is_told_why_there_is_no_link() {
    let dir = Scratch::new();
    let stat = dir.0.join("stat");
    let server = open(Driver::Inline, &format!("{},engines=2,stat={}", dir.memif("server"), stat.display()));
    let client = open(Driver::Inline, &format!("fault:loss=1%:{},ip=10.77.0.2", dir.memif("client")));
    assert!(matches!(client[0].device.link_down(), Some(LinkDown::NoPeer(_))));
    let turned_away = |station: &Station| match station.device.link_down() {
        Some(LinkDown::TurnedAway(reason)) => Some(reason),
        _ => None,
    };
    let error = wait::until("a reason", || {
        server.iter().chain(&client).for_each(|station| {
            station.device.progress();
        });
        turned_away(&server[0])
    });
    assert!(
        error.ends_with("the server has engines=2, the client engines=1: both ends need as many"),
        "{error}"
    );
    assert!(!server[0].device.link_up() && !client[0].device.link_up());
    let (mut visitor, mut told) = (UnixStream::connect(&stat).expect("it listens"), String::new());
    visitor
        .write_all(b"GET / HTTP/1.1\r\n\r\n")
        .and_then(|()| visitor.read_to_string(&mut told))
        .expect("it tells");
    assert!(told.contains(&format!("\nsrnic_link_error{{reason=\"{error}\"}} 1.0\n")), "{told}");
    wait::until("the same at the peer", || {
        client[0].device.progress();
        turned_away(&client[0])
    });
}
