//! A peer that is killed in the middle of 4 KB traffic, again and again. The survivor is this
//! process, so that its completions and its packet buffers can be counted; the victim is another
//! one of the same program.

#[path = "../tools/tests/ports/namespace.rs"]
#[expect(dead_code, reason = "what other tests need of it")]
mod namespace;
#[path = "support/nic.rs"]
mod nic;
#[expect(dead_code, reason = "what other tests need of it")]
#[path = "../tools/tests/support/mod.rs"]
mod support;

use namespace::Veth;
use nic::{HELD, Nic};
use srnic_tools::channel::Channel;
use srnic_tools::error::Result;
use srnic_tools::pump::PEER_WAIT;
use std::net::SocketAddr;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use support::{Place, Running};
use verbs_api::{
    Access, Completion, CompletionQueue, CongestionAlgorithm, Device, Endpoint, MemoryRegion, QpState,
    QueueCaps, QueuePair, RecvRequest, RemoteRegion, SendData, SendRequest, WcStatus,
};

const VERSION: &str = "kill 1";
/// Where the victim finds what it is.
const LIFE: &str = "SRNIC_VICTIM";
/// Where a survivor that lives in a namespace finds it.
const OTHER_LIFE: &str = "SRNIC_SURVIVOR";
const SIZE: usize = 4096;
const DEPTH: u32 = 64;
/// A try lasts 4.096 us x 2^15, 134 ms: a victim that the machine lets wait for a while is not
/// taken for dead.
const TIMEOUT: u8 = 15;
const RETRY_CNT: u8 = 7;
/// (retry_cnt + 1) x 4.096 us x 2^timeout + 1 s, and what a busy machine may add.
const VERDICT: Duration = Duration::from_millis(1074 + 1000);
const BUSY: Duration = Duration::from_secs(20);

/// What the survivor does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Survivor {
    Sends,
    Receives,
}

/// A connection, with its memory; it ends in this order.
struct Connection {
    pair: QueuePair,
    cq: CompletionQueue,
    memory: MemoryRegion,
    remote: RemoteRegion,
}

impl Connection {
    fn new(device: &Device, channel: &mut Channel) -> Result<Self> {
        let pd = device.alloc_pd();
        let cq = device.create_cq(4 * DEPTH)?;
        let memory = pd.register(SIZE, Access::LOCAL_WRITE | Access::REMOTE_WRITE)?;
        let caps = QueueCaps { max_send_wr: DEPTH, max_recv_wr: DEPTH, ..QueueCaps::default() };
        let builder = pd.queue_pair(&cq, &cq).caps(caps).timeout(TIMEOUT).retry_cnt(RETRY_CNT);
        let prepared = builder.congestion(CongestionAlgorithm::Fixed).build()?;
        channel.say("endpoint", prepared.endpoint())?;
        channel.say("region", memory.remote())?;
        let endpoint: Endpoint = channel.hear(device, "endpoint")?;
        let remote = channel.hear(device, "region")?;
        Ok(Self { pair: prepared.connect(&endpoint)?, cq, memory, remote })
    }

    fn send(&mut self, id: u64, write: bool) -> Result<()> {
        let gather = [self.memory.slice(..)?];
        let data = SendData::Gather(&gather);
        let request =
            if write { SendRequest::write(data, self.remote.at(0)) } else { SendRequest::send(data) };
        Ok(self.pair.post_send(&request.id(id).signaled())?)
    }

    fn receive(&mut self, id: u64) -> Result<()> {
        let scatter = [self.memory.slice(..)?];
        Ok(self.pair.post_recv(&RecvRequest { wr_id: id, scatter: &scatter })?)
    }

    /// The next completion; `None` if there is none within the time.
    fn next(&mut self, within: Duration) -> Option<Completion> {
        let start = Instant::now();
        while start.elapsed() < within {
            if let Some(done) = self.cq.poll() {
                return Some(done);
            }
            std::thread::yield_now();
        }
        None
    }

    /// Requests `first..posted` end in order: some may have succeeded, the rest is flushed, the
    /// last one too.
    fn assert_flushed(&mut self, first: u64, posted: u64) {
        let mut flushed = false;
        for id in first..posted {
            let done = self.next(BUSY).unwrap_or_else(|| panic!("request {id} has no completion"));
            assert_eq!(done.wr_id, id);
            flushed |= done.status == WcStatus::WrFlushErr;
            let expected = if flushed { WcStatus::WrFlushErr } else { WcStatus::Success };
            assert_eq!(done.status, expected, "request {id}");
        }
        assert!(flushed, "nothing was outstanding");
        assert!(self.cq.poll().is_none(), "one completion too many");
        assert_eq!(self.pair.state(), QpState::Err);
    }
}

/// One life of a victim: it connects, has traffic with the survivor, and is killed. How long the
/// survivor took to learn.
fn round(place: &Place, nic: &Nic, survivor: Survivor, victim: &str, number: u64) -> Duration {
    let victim = Running::start(victim_command(place, survivor, victim, number));
    let mut channel =
        Channel::accept(&nic.device, VERSION, ([127, 0, 0, 1], place.port).into(), Some(5 * BUSY), || {})
            .expect("the victim comes");
    let mut connection = Connection::new(&nic.device, &mut channel).expect("connected");
    // Who sends to a peer that is not there yet may give it up before the kill.
    let _: String = channel.hear(&nic.device, "ready").expect("the victim is there");
    // Some rounds end in the first messages, some in full flight.
    let messages = 1 + (number * 7919) % 3000;
    let took = match survivor {
        Survivor::Sends => send_to(&mut connection, &victim, messages, is_write(number)),
        Survivor::Receives => receive_from(&mut connection, &mut channel, &nic.device, &victim, messages),
    };
    drop(connection);
    victim.end();
    took
}

const fn is_write(number: u64) -> bool {
    number.is_multiple_of(2)
}

fn send_to(connection: &mut Connection, victim: &Running, messages: u64, write: bool) -> Duration {
    let (mut posted, mut completed, mut killed) = (0, 0, None);
    loop {
        while posted - completed < u64::from(DEPTH) {
            connection.send(posted, write).expect("there is room");
            posted += 1;
        }
        let done = connection.next(BUSY).expect("a completion, of one kind or the other");
        assert_eq!(done.wr_id, completed, "in order");
        completed += 1;
        if done.status != WcStatus::Success {
            assert_eq!(done.status, WcStatus::RetryExcErr);
            let took = killed.map(|killed: Instant| killed.elapsed()).expect("not before the kill");
            assert!(took < VERDICT + BUSY, "the verdict took {took:?}");
            connection.assert_flushed(completed, posted);
            return took;
        }
        if completed == messages {
            victim.signal("-KILL");
            killed = Some(Instant::now());
        }
    }
}

fn receive_from(
    connection: &mut Connection,
    channel: &mut Channel,
    device: &Device,
    victim: &Running,
    messages: u64,
) -> Duration {
    for id in 0..u64::from(DEPTH) {
        connection.receive(id).expect("there is room");
    }
    channel.say("posted", DEPTH).expect("the victim listens");
    let (mut completed, mut killed) = (0, None);
    loop {
        while let Some(done) = connection.cq.poll() {
            assert_eq!((done.wr_id, done.status), (completed, WcStatus::Success));
            connection.receive(completed + u64::from(DEPTH)).expect("there is room");
            completed += 1;
            if completed == messages {
                victim.signal("-KILL");
                killed = Some(Instant::now());
            }
        }
        // It learns by the side channel, or by the link.
        let gone = channel.check().is_err() || killed.is_some() && !device.link_up();
        let took = killed.map(|killed: Instant| killed.elapsed());
        if gone {
            connection.pair.abort().expect("to ERR");
            connection.assert_flushed(completed, completed + u64::from(DEPTH));
            return took.expect("not before the kill");
        }
        assert!(took.is_none_or(|took| took < BUSY), "the receiver does not learn of it");
    }
}

fn victim_command(place: &Place, survivor: Survivor, device: &str, number: u64) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", "victim", "--ignored", "--nocapture"]);
    let verb = match survivor {
        Survivor::Receives => "send",
        Survivor::Sends if is_write(number) => "watch",
        Survivor::Sends => "receive",
    };
    command.env(LIFE, format!("{verb} {} {device}", place.port));
    command
}

#[test]
#[ignore = "played by the other tests, in a process of its own"]
fn victim() {
    let Ok(life) = std::env::var(LIFE) else { return };
    let mut words = life.splitn(3, ' ');
    let mut word = || words.next().expect("a word");
    let verb = word();
    let port: u16 = word().parse().expect("a port");
    let nic = Nic::open(word());
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let mut channel = Channel::connect(&nic.device, VERSION, address).expect("the survivor is there");
    let mut connection = Connection::new(&nic.device, &mut channel).expect("connected");
    nic.device.wait_link(PEER_WAIT).expect("a link");
    channel.say("ready", verb).expect("the survivor listens");
    if verb == "send" {
        let _: u32 = channel.hear(&nic.device, "posted").expect("receives");
    }
    if verb == "receive" {
        (0..u64::from(DEPTH)).for_each(|id| connection.receive(id).expect("there is room"));
    }
    let (mut posted, mut completed) = (0, 0);
    // Until the end, which comes from outside; the survivor's own end is one, too.
    while channel.check().is_ok() {
        while verb == "send" && posted - completed < u64::from(DEPTH) {
            connection.send(posted, false).expect("there is room");
            posted += 1;
        }
        while let Some(done) = connection.cq.poll() {
            assert_eq!(done.status, WcStatus::Success);
            completed += 1;
            if verb == "receive" {
                connection.receive(completed).expect("there is room");
            }
        }
    }
}

/// What is between a survivor and its victims: a device string for either end.
fn devices(link: &str, place: &Place) -> [String; 2] {
    let socket = place.path("socket").display().to_string();
    let ends = match link {
        "memif" => ["server", "client"].map(|role| format!("memif:{socket},role={role}")),
        "lending" => ["server", "client"].map(|role| format!("memif:{socket},role={role},zero-copy=on")),
        "vhost" => ["vhost", "virtio"].map(|kind| format!("{kind}:{socket}")),
        _ => ["left", "right"].map(|interface| format!("af_packet:{interface}")),
    };
    let [left, right] = ends;
    [format!("{left},ip=10.77.0.1"), format!("{right},ip=10.77.0.2")]
}

/// Buffers that a port keeps in its receive ring: the front end of vhost-user fills it in advance.
fn ring_of(device: &str) -> u32 {
    if device.starts_with("virtio:") { 1024 } else { 0 }
}

/// Kills `rounds` victims of a survivor at each end of a link; the device is reused, and a fresh
/// one is opened now and then.
fn lives(link: &str, survivor: Survivor, rounds: u64) {
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut longest = Duration::ZERO;
    for end in 0..2 {
        let place = Place::new(&format!("kill-{link}-{survivor:?}-{end}"));
        let devices = devices(link, &place);
        let mut nic = Nic::open(&devices[end]);
        for number in 0..rounds.div_ceil(2) {
            if number % 4 == 3 {
                nic.close();
                nic = Nic::open(&devices[end]);
            }
            longest = longest.max(round(&place, &nic, survivor, &devices[1 - end], number));
            let held = nic.held();
            assert!(held <= HELD + ring_of(&devices[end]), "{held} packet buffers are held");
        }
        nic.close();
    }
    println!(
        "{link}: {rounds} victims; the survivor that {survivor:?} learned of each within {longest:?} (verdict {VERDICT:?})"
    );
}

/// Kills peers of a survivor that uses packet sockets and lives in a network namespace.
fn lives_in_a_namespace(survivor: Survivor, rounds: u64) {
    let Some(veth) = Veth::new(4200) else { return };
    let program = std::env::current_exe().expect("this program").display().to_string();
    let mut command = veth.command(&program);
    command.args(["--exact", "survivor", "--ignored", "--nocapture"]);
    command.env(
        OTHER_LIFE,
        format!("{} {rounds}", if survivor == Survivor::Sends { "sends" } else { "receives" }),
    );
    let ended = Running::start(command).end_within(20 * BUSY + BUSY * u32::try_from(rounds).expect("some"));
    ended.assert_success();
    let said = String::from_utf8_lossy(&ended.0.stdout).into_owned();
    println!("{}", said.lines().find(|line| line.contains("victims")).expect("it says how long it took"));
}

#[test]
#[ignore = "played by the other tests, in a process of its own"]
fn survivor() {
    let Ok(life) = std::env::var(OTHER_LIFE) else { return };
    let (verb, rounds) = life.split_once(' ').expect("two words");
    let survivor = if verb == "sends" { Survivor::Sends } else { Survivor::Receives };
    lives("af_packet", survivor, rounds.parse().expect("a number"));
}

#[test]
fn a_sender_whose_peer_is_killed_ends_with_retry_exceeded() {
    lives("memif", Survivor::Sends, 6);
}

#[test]
fn a_receiver_whose_peer_is_killed_learns_and_flushes() {
    lives("memif", Survivor::Receives, 6);
}

#[test]
fn the_same_where_buffers_are_lent() {
    lives("lending", Survivor::Sends, 4);
    lives("lending", Survivor::Receives, 4);
}

#[test]
fn the_same_over_vhost() {
    lives("vhost", Survivor::Sends, 2);
    lives("vhost", Survivor::Receives, 2);
}

#[test]
fn the_same_over_packet_sockets() {
    lives_in_a_namespace(Survivor::Sends, 2);
    lives_in_a_namespace(Survivor::Receives, 2);
}

#[test]
#[ignore = "a hundred processes each: minutes"]
fn a_hundred_victims() {
    for survivor in [Survivor::Sends, Survivor::Receives] {
        lives("memif", survivor, 100);
        lives("lending", survivor, 100);
        lives("vhost", survivor, 100);
        lives_in_a_namespace(survivor, 100);
    }
}
