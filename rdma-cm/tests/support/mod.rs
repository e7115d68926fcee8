//! Two hosts, and a network between them that loses, doubles and reorders, in virtual time and from
//! a seed.
#![allow(dead_code, reason = "each test binary uses a part")]

use rdma_cm::{Agreed, CmError, CommId, Config, Dialect, Event, Failure, Manager, Stats, Terms, Transmit};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;
use wire::Pmtu;
use wire::cm::{Mad, RejReason};

pub const PORT: u16 = 7471;
pub const MS: Duration = Duration::from_millis(1);
/// One way.
const DELAY: Duration = Duration::from_micros(50);

pub fn ip(host: u8) -> IpAddr {
    [10, 0, 0, host].into()
}

pub fn config(host: u8) -> Config {
    Config::new(ip(host), u64::from(host) << 32 | 7, [host; 32])
}

/// A queue pair with this number.
pub fn terms(qpn: u32) -> Terms {
    Terms {
        qpn,
        rq_psn: (qpn * 3) & 0xFF_FFFF,
        path_mtu: Pmtu::B4096,
        takes_1408: true,
        responder_resources: 16,
        initiator_depth: 16,
        retry_count: 7,
        rnr_retry_count: 7,
        ack_timeout: 14,
        src_port: None,
        srq: false,
        window: 512,
        strict_placement: false,
        dialect: Dialect::Prefer,
    }
}

/// Where a host's program sees a connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Seen {
    Connecting,
    Up,
    Failed(Failure),
    Down,
}

/// A host: a manager, and a program that accepts or rejects at once, or leaves requests alone.
pub struct Host {
    pub cm: Manager,
    pub seen: BTreeMap<CommId, Seen>,
    pub agreed: BTreeMap<CommId, Agreed>,
    pub requests: Vec<CommId>,
    /// The queue pair of each passive connection.
    pub qpns: BTreeMap<u32, CommId>,
    pub policy: Policy,
    /// What the peer's program said, last.
    pub private: Vec<u8>,
    next_qpn: u32,
    dead: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Policy {
    Accept,
    Reject,
    Leave,
    /// Active: does not say that its queue pair is ready.
    Stall,
}

impl Host {
    fn new(host: u8) -> Self {
        Self {
            cm: Manager::new(config(host)),
            seen: BTreeMap::new(),
            agreed: BTreeMap::new(),
            requests: Vec::new(),
            qpns: BTreeMap::new(),
            policy: Policy::Accept,
            private: Vec::new(),
            next_qpn: 0x100 * u32::from(host) + 1,
            dead: false,
        }
    }

    pub fn terms(&mut self) -> Terms {
        self.next_qpn += 1;
        terms(self.next_qpn)
    }

    /// What the program does about events.
    fn react(&mut self, now: Duration) {
        while let Some(event) = self.cm.poll_event() {
            match event {
                Event::Requested { id, port } => {
                    assert_eq!(port, PORT);
                    self.requests.push(id);
                    self.seen.insert(id, Seen::Connecting);
                    if self.cm.request(id).is_none() {
                        // It has failed meanwhile; another event says so.
                        continue;
                    }
                    let terms = self.terms();
                    self.qpns.insert(terms.qpn, id);
                    match self.policy {
                        Policy::Accept => {
                            let agreed = self.cm.agree(id, &terms).expect("agreement");
                            assert_eq!(self.cm.accept(now, id, &terms, b"granted"), Ok(agreed));
                            self.agreed.insert(id, agreed);
                        }
                        Policy::Reject => {
                            self.cm.reject(now, id, RejReason::CONSUMER, b"no").expect("rejected");
                            self.seen.insert(id, Seen::Down);
                        }
                        Policy::Leave | Policy::Stall => {}
                    }
                }
                Event::Replied { id, agreed, private_data } => {
                    assert_eq!(self.seen.get(&id), Some(&Seen::Connecting));
                    self.private = private_data[..8].to_vec();
                    self.agreed.insert(id, agreed);
                    // If it has ended meanwhile, another event says so.
                    if self.policy != Policy::Stall && self.cm.established(id).is_ok() {
                        self.seen.insert(id, Seen::Up);
                    }
                }
                Event::Established { id } => {
                    assert_eq!(self.seen.insert(id, Seen::Up), Some(Seen::Connecting));
                }
                Event::Failed { id, failure } => {
                    assert_eq!(self.seen.insert(id, Seen::Failed(failure)), Some(Seen::Connecting));
                }
                Event::Disconnected { id } => {
                    let before = self.seen.insert(id, Seen::Down);
                    assert!(matches!(before, Some(Seen::Up | Seen::Connecting)), "{before:?}");
                }
                Event::Asked { .. } | Event::Found { .. } => panic!("these have no services of datagrams"),
            }
        }
    }

    pub fn count(&self, seen: &Seen) -> usize {
        self.seen.values().filter(|other| *other == seen).count()
    }
}

/// What happens to a MAD on the way.
#[derive(Clone, Copy, Default)]
pub struct Faults {
    /// In a thousand.
    pub loss: u32,
    pub duplicates: u32,
    pub reordering: u32,
}

/// Whether a message is lost: by its sender, its name, and how many of that name that sender has
/// sent before.
type Loses = Box<dyn Fn(usize, &str, usize) -> bool>;

/// Hosts 1 and 2, and the network.
pub struct Net {
    pub now: Duration,
    pub hosts: [Host; 2],
    pub faults: Faults,
    pub drop: Loses,
    pub trace: Vec<(Duration, usize, &'static str)>,
    in_flight: BTreeMap<(Duration, u64), (usize, Transmit)>,
    number: u64,
    random: u64,
}

impl Net {
    pub fn new(seed: u64) -> Self {
        Self {
            now: Duration::from_secs(1),
            hosts: [Host::new(1), Host::new(2)],
            faults: Faults::default(),
            drop: Box::new(|_, _, _| false),
            trace: Vec::new(),
            in_flight: BTreeMap::new(),
            number: 0,
            random: seed,
        }
    }

    /// One that listens, too.
    pub fn listening(seed: u64) -> Self {
        let mut net = Self::new(seed);
        net.hosts[1].cm.listen(PORT, 1024).expect("a listener");
        net
    }

    fn chance(&mut self, permille: u32) -> bool {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % 1000 < u64::from(permille)
    }

    /// Host `from` begins to connect.
    pub fn connect(&mut self, from: usize) -> CommId {
        let to = ip(if from == 0 { 2 } else { 1 });
        let terms = self.hosts[from].terms();
        self.connect_by(from, &terms, b"please").unwrap_or_else(|error| panic!("to {to}: {error}"))
    }

    pub fn connect_by(&mut self, from: usize, terms: &Terms, data: &[u8]) -> Result<CommId, CmError> {
        let to = ip(if from == 0 { 2 } else { 1 });
        let host = &mut self.hosts[from];
        let id = host.cm.connect(self.now, to, PORT, terms, data)?;
        host.seen.insert(id, Seen::Connecting);
        Ok(id)
    }

    pub fn close(&mut self, host: usize, id: CommId) {
        self.hosts[host].cm.close(self.now, id);
    }

    /// The host's program is done with it: it leaves as soon as it owes nothing, but `limit` from
    /// now at the latest. True if it owed nothing then.
    pub fn leave(&mut self, host: usize, limit: Duration) -> bool {
        let end = self.now + limit;
        while self.hosts[host].cm.owes(self.now) > 0 && self.now < end {
            self.run_until((self.now + DELAY).min(end));
        }
        let owed = self.hosts[host].cm.owes(self.now);
        self.kill(host);
        owed == 0
    }

    /// From now on a host hears nothing and says nothing.
    pub fn kill(&mut self, host: usize) {
        self.hosts[host].dead = true;
    }

    fn collect(&mut self) {
        for from in [0, 1] {
            self.hosts[from].react(self.now);
            while let Some(transmit) = self.hosts[from].cm.poll_transmit() {
                let name = Mad::parse(&transmit.mad[..]).expect("a MAD").message.name();
                let count =
                    self.trace.iter().filter(|(_, sender, sent)| (*sender, *sent) == (from, name)).count();
                self.trace.push((self.now, from, name));
                if self.hosts[from].dead || (self.drop)(from, name, count) || self.chance(self.faults.loss) {
                    continue;
                }
                let copies = if self.chance(self.faults.duplicates) { 2 } else { 1 };
                for _ in 0..copies {
                    let late = if self.chance(self.faults.reordering) { 60 * MS } else { Duration::ZERO };
                    self.number += 1;
                    self.in_flight.insert((self.now + DELAY + late, self.number), (from, transmit.clone()));
                }
            }
        }
    }

    /// Lets time pass until `end`, or until nothing more would happen.
    pub fn run_until(&mut self, end: Duration) {
        loop {
            self.collect();
            let arrival = self.in_flight.first_key_value().map(|((at, _), _)| *at);
            let timers =
                self.hosts.iter().filter(|host| !host.dead).filter_map(|host| host.cm.next_deadline());
            let Some(next) = arrival.into_iter().chain(timers).min().filter(|next| *next <= end) else {
                self.now = self.now.max(end);
                return;
            };
            self.now = self.now.max(next);
            while let Some(first) = self.in_flight.first_entry()
                && first.key().0 <= self.now
            {
                let (from, transmit) = first.remove();
                let to = 1 - from;
                assert_eq!(transmit.to.ip, ip(if to == 0 { 1 } else { 2 }));
                if !self.hosts[to].dead {
                    let source = ip(if from == 0 { 1 } else { 2 });
                    self.hosts[to].cm.handle_mad(self.now, source, &transmit.mad[..]);
                    self.hosts[to].react(self.now);
                }
            }
            let now = self.now;
            self.hosts.iter_mut().filter(|host| !host.dead).for_each(|host| host.cm.handle_timeouts(now));
        }
    }

    pub fn run(&mut self, time: Duration) {
        self.run_until(self.now + time);
    }

    /// Messages that were sent, in order: sender and name.
    pub fn sent(&self) -> Vec<(usize, &'static str)> {
        self.trace.iter().map(|(_, from, name)| (*from, *name)).collect()
    }

    pub fn names(&self) -> BTreeSet<&'static str> {
        self.trace.iter().map(|(_, _, name)| *name).collect()
    }

    pub fn stats(&self, host: usize) -> Stats {
        *self.hosts[host].cm.stats()
    }

    /// Nothing is remembered, nothing waits.
    #[track_caller]
    pub fn assert_empty(&mut self) {
        self.run(Duration::from_secs(300));
        for host in &mut self.hosts {
            assert_eq!(host.cm.connections(), 0, "connections that are left");
            assert_eq!(host.cm.next_deadline(), None);
            assert_eq!((host.cm.poll_event(), host.cm.poll_transmit()), (None, None));
        }
    }
}
