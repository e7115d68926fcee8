//! Forged requests for connections, from thousands of hosts that do not exist, while real ones
//! connect (protocol.md 1.12): the connection manager and the table of neighbors together.

use datapath::engine::EngineConfig;
use datapath::port::Port;
use datapath::port::sim::{Segment, SimPort};
use rdma_cm::{Config, Dialect, Manager, Terms};
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};
use verbs_api::{
    CompletionQueue, Connector, Device, Driver, Error, Listener, PreparedQueuePair, ProtectionDomain,
    QueueCaps, QueuePair,
};
use wire::encap::ROCE_UDP_PORT;
use wire::{Bth, Deth, Ecn, Flow, Opcode, Pmtu, Psn, Repr, Template, WireMode, cm, icrc};

const PORT: u16 = 7471;
/// Of the host that is asked.
const VICTIM: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
/// How long a connection may take.
const LIMIT: Duration = Duration::from_secs(120);
/// What a queue pair needs at least.
const CAPS: QueueCaps =
    QueueCaps { max_send_wr: 4, max_recv_wr: 4, max_send_sge: 1, max_recv_sge: 1, max_inline: 32 };

struct Host {
    device: Device,
    pd: ProtectionDomain,
    cq: CompletionQueue,
}

impl Host {
    fn new(segment: &Arc<Segment>, number: u8) -> Self {
        let mac = Some([2, 0, 0, 0, 0, number]);
        let ip = IpAddr::V4(Ipv4Addr::new(10, 77, 0, number));
        let config = EngineConfig { ip, max_qps: 4096, ..EngineConfig::default() };
        let port = segment.attach(mac).expect("free");
        let device = Device::builder().driver(Driver::THREAD).from_port(port, config).expect("a device");
        let (pd, cq) = (device.alloc_pd(), device.create_cq(1024).expect("a queue"));
        Self { device, pd, cq }
    }

    fn pair(&self) -> PreparedQueuePair {
        self.pd.queue_pair(&self.cq, &self.cq).caps(CAPS).build().expect("a queue pair")
    }

    fn connect_to(&self, host: u8) -> Result<QueuePair, Error> {
        let to = SocketAddr::from(([10, 77, 0, host], PORT));
        Connector::new().connect(self.pair(), to)?.wait(LIMIT)
    }

    /// Grants every request, as a server does, until it is told to stop; keeps the last hundred. It
    /// looks away for so long once.
    fn serve(&self, stop: &AtomicBool, mut away: Duration) {
        let listener = Listener::bind(&self.device, PORT).expect("free");
        let mut granted = VecDeque::new();
        while !stop.load(Ordering::Relaxed) {
            if !granted.is_empty() {
                sleep(core::mem::take(&mut away));
            }
            let Ok(request) = listener.get_request(Duration::from_millis(20)) else { continue };
            if let Ok(connecting) = request.accept(self.pair()) {
                granted.push_back(connecting);
            }
            if granted.len() > 100 {
                granted.pop_front();
            }
        }
    }
}

/// Where a forged frame says that it comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Source {
    /// An Ethernet address of each stranger's own.
    Own,
    /// A group's, which no answer can go to.
    Group,
}

/// Sends requests of hosts that do not exist, and sees what everybody says to everybody.
struct Forger {
    port: SimPort,
    source: Source,
    sent: u32,
    /// Questions where a host is, by its address.
    asked: BTreeMap<Ipv4Addr, u32>,
}

impl Forger {
    fn new(segment: &Arc<Segment>, source: Source) -> Self {
        let port = segment.attach_promiscuous(Some([2, 0, 0, 0, 0, 200])).expect("free");
        Self { port, source, sent: 0, asked: BTreeMap::new() }
    }

    /// Sends `rate` requests a second until it is told to stop.
    fn flood(&mut self, rate: u32, stop: &AtomicBool) {
        let start = Instant::now();
        while !stop.load(Ordering::Relaxed) {
            self.listen();
            let due = start.elapsed().as_secs_f64() * f64::from(rate);
            while f64::from(self.sent) < due {
                self.send();
            }
            self.port.tx_flush();
            sleep(Duration::from_millis(1));
        }
        self.listen();
    }

    fn listen(&mut self) {
        loop {
            let count = self.port.rx_burst();
            for index in 0..count {
                let frame = self.port.rx_frame(index).head();
                // ARP requests of the victim's.
                if frame[12..14] == [8, 6] && frame[20..28] == [0, 1, 2, 0, 0, 0, 0, 1] {
                    let target = Ipv4Addr::new(frame[38], frame[39], frame[40], frame[41]);
                    *self.asked.entry(target).or_default() += 1;
                }
            }
            self.port.rx_release();
            if count == 0 {
                return;
            }
        }
    }

    fn send(&mut self) {
        self.sent += 1;
        let frame = self.request(self.sent);
        if let Some(slot) = self.port.tx_slot() {
            slot[..frame.len()].copy_from_slice(&frame);
            self.port.tx_commit(frame.len());
        }
    }

    /// The request of stranger `number` for a connection with the victim.
    fn request(&self, number: u32) -> Vec<u8> {
        let [_, a, b, c] = number.to_be_bytes();
        let ip = Ipv4Addr::new(10, 100 + a, b, c);
        let mut seed = [0; 32];
        seed[..4].copy_from_slice(&number.to_be_bytes());
        let mut manager = Manager::new(Config::new(ip.into(), number.into(), seed));
        let terms = Terms {
            qpn: 2 + number,
            rq_psn: 0,
            path_mtu: Pmtu::B1024,
            takes_1408: true,
            responder_resources: 0,
            initiator_depth: 0,
            retry_count: 7,
            rnr_retry_count: 7,
            ack_timeout: 14,
            src_port: None,
            srq: false,
            window: 64,
            strict_placement: false,
            dialect: Dialect::Prefer,
        };
        manager.connect(Duration::ZERO, VICTIM.into(), PORT, &terms, &[]).expect("it may ask");
        let mad = manager.poll_transmit().expect("a request").mad;
        let src_mac = match self.source {
            Source::Own => [2, 1, 0, a, b, c],
            Source::Group => [1, 1, 0, a, b, c],
        };
        let flow = Flow {
            src_mac,
            dst_mac: [2, 0, 0, 0, 0, 1],
            vlan: None,
            src: ip.into(),
            dst: VICTIM.into(),
            src_port: 0xC000,
            dst_port: ROCE_UDP_PORT,
            dscp: 0,
            ecn: Ecn::Ect0,
            ttl: 64,
        };
        datagram(&flow, &mad[..])
    }
}

/// A UD SEND from queue pair 1 to queue pair 1.
fn datagram(flow: &Flow, payload: &[u8]) -> Vec<u8> {
    let (mode, opcode) = (WireMode::Plain, Opcode::UdSendOnly);
    let mut repr = Repr::new(mode, opcode).expect("UD has it");
    repr.bth = Bth { dest_qp: cm::GSI_QPN, pkey: 0xFFFF, psn: Psn::new(0), ..Bth::new(mode, opcode) };
    repr.deth = Some(Deth { qkey: cm::GSI_QKEY, src_qp: cm::GSI_QPN });
    let template = Template::new(flow).expect("one family");
    let headers = repr.header_len();
    let transport = headers + payload.len() + 4;
    let mut frame = vec![0; template.len() + transport];
    template.emit(&mut frame, transport);
    repr.emit(&mut frame[template.len()..]);
    frame[template.len() + headers..][..payload.len()].copy_from_slice(payload);
    icrc::seal(&mut frame[template.l3_offset()..]);
    frame
}

/// Real hosts connect with the victim, and it with them, while `rate` strangers a second ask it.
/// Its program looks away for some time.
fn connects_through(source: Source, rate: u32, away: Duration) {
    // One flood at a time: each is to find the processors free.
    static FLOODS: Mutex<()> = Mutex::new(());
    let _turn = FLOODS.lock().unwrap_or_else(PoisonError::into_inner);
    let segment = Arc::new(Segment::new(4200));
    let victim = Host::new(&segment, 1);
    let others: Vec<_> = (2..8).map(|number| Host::new(&segment, number)).collect();
    let mut forger = Forger::new(&segment, source);
    let (found, known) = (Instant::now(), victim.pd.create_ah_to(others[0].device.ip()).expect("it answers"));
    // How often it asked until then is the machine's affair.
    forger.listen();
    forger.asked.clear();
    let stop = AtomicBool::new(false);
    scope(|threads| {
        let stopping = StopOnDrop(&stop);
        threads.spawn(|| victim.serve(&stop, away));
        for other in &others {
            threads.spawn(|| other.serve(&stop, Duration::ZERO));
        }
        let flood = threads.spawn(|| {
            forger.flood(rate, &stop);
            forger
        });
        // As long as 85 a second need to fill the table, if they get into it.
        sleep(Duration::from_millis(3500));
        let mut pairs = Vec::new();
        for (number, other) in (2..).zip(&others) {
            let there = other.connect_to(1);
            let told = || victim.device.connection_stats();
            pairs.push(there.unwrap_or_else(|error| panic!("{number} to the victim: {error}: {:?}", told())));
            let here = victim.connect_to(number);
            pairs.push(here.unwrap_or_else(|error| panic!("the victim to {number}: {error}: {:?}", told())));
        }
        drop(victim.pd.create_ah_to(others[0].device.ip()).expect("it is known"));
        drop(stopping);
        let forger = flood.join().expect("no panic");
        assert!(forger.sent > 3 * rate, "{} were sent", forger.sent);
        let stats = victim.device.connection_stats();
        let asked = |is: &dyn Fn(Ipv4Addr) -> bool| -> u32 {
            forger.asked.iter().filter(|(ip, _)| is(**ip)).map(|(_, times)| times).sum()
        };
        assert_eq!(asked(&|ip| ip.octets()[1] >= 100), 0, "strangers are looked for: {stats:?}");
        // It is believed for a minute.
        if found.elapsed() < Duration::from_secs(60) {
            assert_eq!(
                asked(&|ip| ip == Ipv4Addr::new(10, 77, 0, 2)),
                0,
                "a host in use is looked for again"
            );
        }
    });
    drop(known);
}

/// Tells threads to stop, also when a test fails.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_few_strangers_a_second_keep_nobody_from_connecting() {
    connects_through(Source::Own, 85, Duration::ZERO);
}

#[test]
fn many_strangers_a_second_keep_nobody_from_connecting() {
    connects_through(Source::Own, 1000, Duration::ZERO);
}

/// More hosts ask meanwhile than are remembered, and each that waits is answered all the same.
#[test]
fn strangers_that_a_busy_program_lets_wait_keep_nobody_from_connecting() {
    connects_through(Source::Own, 1000, Duration::from_secs(1));
}

#[test]
fn strangers_that_cannot_be_answered_keep_nobody_from_connecting() {
    connects_through(Source::Group, 85, Duration::ZERO);
    connects_through(Source::Group, 1000, Duration::ZERO);
}

/// What the others would see if strangers took places: a program that goes to hosts that do not
/// exist fills the table itself, and a connection waits until those are given up.
#[test]
fn a_table_full_of_hosts_that_are_looked_for_delays_a_connection() {
    let segment = Arc::new(Segment::new(4200));
    let [victim, other] = [1, 2].map(|number| Host::new(&segment, number));
    let stop = AtomicBool::new(false);
    scope(|threads| {
        let _stopping = StopOnDrop(&stop);
        threads.spawn(|| other.serve(&stop, Duration::ZERO));
        // The first of them is given up two and a half seconds from here at the earliest.
        let start = Instant::now();
        let under_way: Vec<_> = (0..512_u32)
            .map(|number| {
                let to = IpAddr::V4(Ipv4Addr::from(0x0A64_0000 + number));
                Connector::new().connect(victim.pair(), SocketAddr::new(to, PORT)).expect("begun")
            })
            .collect();
        let connected = victim.connect_to(2);
        let took = start.elapsed();
        assert!(took > Duration::from_secs(2), "the table had room: {took:?}, {:?}", connected.err());
        drop(under_way);
    });
}
