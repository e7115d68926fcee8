//! A peer of streams that does anything: what it does follows from a seed.

use crate::raw::{Hostile, NOTHING_CAME, Peer, at, good_hello, header, message};
use crate::support::{LIMIT, Numbers, bytes, small, until};
use srnic_streams::protocol::{Descriptor, Header, Hello, Kind, Violation};
use srnic_streams::{Buffer, Config, Endpoint, Error, Received, Stream, Way};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::thread::scope;
use std::time::{Duration, Instant};
use verbs_api::{RemoteAddr, SendData, SendRequest, WcStatus};

/// Steps of a connection at most.
const STEPS: usize = 16;
/// How long a call of the victim's program waits for a peer that says nothing.
const PATIENCE: Duration = Duration::from_millis(2);
/// What nobody may change lies on both sides of what peers write to.
const GUARD: u8 = 0xC5;
/// Blocks, and receives, that have such memory on both sides.
const GUARDED: [usize; 2] = [12, 24];
/// Keys of connections that are over: no more, as keys come again after a hundred others.
const DEAD: usize = 16;
/// Where offers lie in a peer's memory, and grants, and what is offered across its end.
const OFFERS: usize = 32 << 10;
const GRANTS: u64 = 48 << 10;
const LAST: usize = 60 << 10;
/// Salts of the bytes that the peer says, and of those that the victim says.
const SAID: u64 = 1;
const ANSWERED: u64 = 2;

/// The `len` bytes of a direction from a position on.
fn content(salt: u64, position: u64, len: usize) -> Vec<u8> {
    let byte = |at: u64| (position.wrapping_add(at).wrapping_mul(31) ^ salt.wrapping_mul(0x55)) % 251;
    (0..len as u64).map(|at| u8::try_from(byte(at)).expect("below 251")).collect()
}

/// Sizes with which each way is used.
fn victim() -> Config {
    Config { write_from: 1500, read_from: 2500, grants_max: 8, ..small() }
}

/// The server, a friend whose bytes go on, and what nobody may change.
pub struct Fuzz {
    hostile: Hostile,
    friends: (Stream, Stream),
    guards: Vec<Buffer>,
    dead: Vec<Descriptor>,
    pub connections: u64,
    /// Connections that were rejected for their Hello.
    pub rejected: u64,
    /// Those that ended by an error of the victim's.
    pub ended: u64,
    /// Those that were granted more than a stream begins with.
    pub grown: u64,
}

impl Fuzz {
    pub fn new(name: &str) -> Self {
        let hostile = Hostile::with(name, victim());
        let friend = Endpoint::open(&format!("sim:streams-{name}"), small()).expect("an endpoint");
        let friends = scope(|threads| {
            let accepts = threads.spawn(|| hostile.listener.accept_within(LIMIT));
            let one = friend.connect(hostile.listener.local_addr(), LIMIT).expect("connected");
            (one, accepts.join().expect("no panic").expect("accepted").expect("in time"))
        });
        let guards = guards(&friends.1);
        let mut dead = Vec::new();
        let (mut peer, stream) = hostile.peer();
        let full = victim().chunk_bytes as usize - Header::BYTES;
        let length = u32::try_from(full).expect("small");
        let long = header(Kind::Data, length);
        assert!(peer.send(&message(long, &content(SAID, 0, full))));
        dead.push(peer.grant());
        drop((stream, peer));
        Self { hostile, friends, guards, dead, connections: 0, rejected: 0, ended: 0, grown: 0 }
    }

    /// A connection of this seed.
    pub fn round(&mut self, seed: u64) {
        let mut numbers = Numbers(seed);
        let (hello, is_good) = any_hello(&mut numbers);
        let before = self.hostile.endpoint.stats();
        let connected = self.hostile.connect(&hello);
        assert_eq!(connected.is_some(), is_good, "seed {seed}: {hello:?}");
        if let Some((peer, stream)) = connected {
            let mut play = Play::new(&self.hostile, seed, numbers, peer, stream);
            play.dead.clone_from(&self.dead);
            if play.numbers.below(2) == 0 {
                play.begin();
            }
            let count = 1 + play.numbers.below(STEPS);
            let _ = (0..count).all(|_| play.step());
            let open = play.peer.heard.granted.len() - play.used;
            assert!(open <= victim().grants_max as usize, "seed {seed}: {open} grants");
            self.grown += u64::from(open > victim().grants as usize);
            let (shown, result) = play.end();
            self.dead.extend(shown);
            self.dead.drain(..self.dead.len().saturating_sub(DEAD));
            self.ended += u64::from(result.is_err());
            let after = self.hostile.endpoint.stats();
            let counted = self.hostile.violations() - before.violations.iter().sum::<u64>();
            assert!(counted <= 1, "seed {seed}: {counted} rules");
            if let Some(Error::Violation { rule, .. }) = result.err().and_then(|error| reason(&error)) {
                assert_eq!(after.violations(rule), before.violations(rule) + 1, "seed {seed}: {rule}");
            }
        } else {
            let rejected = self.hostile.endpoint.stats().rejected;
            assert_eq!(rejected, before.rejected + 1, "seed {seed}");
            self.rejected += 1;
        }
        self.connections += 1;
        let untouched = |guard: &Buffer| guard.iter().all(|byte| *byte == GUARD);
        assert!(self.guards.iter().all(untouched), "seed {seed}: memory beside a grant was written");
        let said = bytes(seed, 2000);
        let mut heard = vec![0; said.len()];
        self.friends.0.write_all(&said).expect("written");
        self.friends.1.read_exact(&mut heard).expect("read");
        assert!(heard == said, "seed {seed}: a friend's bytes");
    }

    /// What was counted, and nothing is left.
    pub fn finish(self) {
        let Self { hostile, friends, guards, connections, rejected, ended, grown, .. } = self;
        let (violations, refused) = (hostile.violations(), hostile.refused());
        let stats = hostile.endpoint.stats();
        let rules = Violation::ALL.iter().zip(stats.violations);
        let rules: Vec<_> = rules.map(|(rule, count)| format!("{} {count}", rule.name())).collect();
        println!(
            "{connections} connections, {rejected} rejected, {ended} ended by an error, {grown} were granted more"
        );
        println!("{refused} refused requests, {violations} violations: {}", rules.join(", "));
        println!("the victim sent {:?} messages by {:?}", stats.sent, Way::ALL);
        assert!(ended > connections / 4, "{ended} ended by an error");
        assert!(violations > connections / 8, "{violations} violations");
        assert!(rejected > connections / 50 && rejected < connections / 2, "{rejected} rejected");
        assert!(refused > connections / 50, "{refused} refused requests");
        assert!(grown > connections / 1000, "{grown} were granted more");
        drop((guards, friends));
        until(|| hostile.endpoint.stats().streams == 0, "connections are left");
    }
}

/// Memory of the victim's pool: what a later stream takes of it has some of this on both sides.
fn guards(stream: &Stream) -> Vec<Buffer> {
    let sizes = [4000, 900];
    let mut all = Vec::new();
    for (count, size) in GUARDED.into_iter().zip(sizes) {
        for number in 0..=2 * count {
            let mut buffer = stream.buffer(size).expect("memory");
            let len = buffer.remaining();
            buffer.write_all(&vec![GUARD; len]).expect("room");
            all.push((number % 2 == 0, buffer));
        }
    }
    all.into_iter().filter(|(stays, _)| *stays).map(|(_, buffer)| buffer).collect()
}

fn reason(error: &io::Error) -> Option<Error> {
    error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()).copied()
}

/// Private data, and whether a victim takes them.
fn any_hello(numbers: &mut Numbers) -> (Vec<u8>, bool) {
    let mut hello = good_hello();
    hello.receives = match numbers.below(32) {
        0 => 0,
        1 => 32_768,
        which => [1, 2, 32, 32_767][which % 4],
    };
    hello.receive_bytes = match numbers.below(32) {
        0 => 32,
        1 => (1 << 30) + 1,
        which => [33, 48, 4096, 1 << 30][which % 4],
    };
    hello.features.writes = numbers.below(4) > 0;
    hello.features.reads = numbers.below(4) > 0;
    hello.features.moves = numbers.below(4) == 0;
    // There is no such stream.
    hello.features.resumes = numbers.below(32) == 0;
    let mut data = hello.to_bytes().to_vec();
    match numbers.below(24) {
        0 => data.truncate(numbers.below(Hello::BYTES)),
        1 => data[numbers.below(16)] = numbers.next().to_le_bytes()[0],
        2 => data[4] = numbers.next().to_le_bytes()[0],
        _ => {}
    }
    let is_good = Hello::from_bytes(&data).is_ok_and(|hello| !hello.features.resumes);
    (data, is_good)
}

/// A message in which some fields are right, and others are not.
fn any_message(numbers: &mut Numbers, right: &Header) -> Vec<u8> {
    let mut any = |mostly: u64, bound: u64| match numbers.next() % 6 {
        0 => numbers.next() % bound,
        1 => numbers.next(),
        _ => mostly,
    };
    let kind = any(1, 9);
    let payload = any(5, 600) % 900;
    let fields = [
        any(payload, 900),
        any(right.position, right.position + 20),
        any(right.taken, right.taken + 20),
        any(right.credit.into(), 100),
        any(0, 2),
    ];
    let flags = any(0, 2);
    let mut message = vec![0; Header::BYTES];
    message[0] = u8::try_from(any(1, 2) & 0xFF).expect("a byte");
    message[1] = u8::try_from(kind & 0xFF).expect("a byte");
    message[2..4].copy_from_slice(&flags.to_le_bytes()[..2]);
    message[4..8].copy_from_slice(&fields[0].to_le_bytes()[..4]);
    message[8..16].copy_from_slice(&fields[1].to_le_bytes());
    message[16..24].copy_from_slice(&fields[2].to_le_bytes());
    message[24..28].copy_from_slice(&fields[3].to_le_bytes()[..4]);
    message[28..32].copy_from_slice(&fields[4].to_le_bytes()[..4]);
    message.extend(content(SAID, fields[1], usize::try_from(payload).expect("small")));
    let cut = any(message.len() as u64, message.len() as u64 + 1);
    message.truncate(usize::try_from(cut).unwrap_or(usize::MAX));
    message
}

/// The program of the victim, which knows nothing of its peer.
struct Victim {
    stream: Stream,
    came: Vec<u8>,
    /// What it has in its hands, and where that begins.
    held: VecDeque<(usize, Received)>,
    written: u64,
    /// How the direction that comes in has ended.
    result: Option<io::Result<()>>,
}

impl Victim {
    /// Reads once, by copying or in place. It waits as long as the stream's timeout says.
    fn read(&mut self, numbers: &mut Numbers) {
        if self.held.len() > numbers.below(3) {
            self.let_go();
        }
        let at = self.came.len();
        let read = if numbers.below(2) == 0 {
            let mut part = vec![0; 1 + numbers.below(3000)];
            let read = (&self.stream).read(&mut part);
            read.inspect(|len| self.came.extend_from_slice(&part[..*len]))
        } else {
            self.stream.read_buffer().map(|received| {
                self.came.extend_from_slice(&received);
                let len = received.len();
                self.held.push_back((at, received));
                len
            })
        };
        match read {
            Ok(0) => self.result = Some(Ok(())),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::TimedOut => {}
            Err(error) => self.result = Some(Err(error)),
        }
    }

    /// Gives back what it has had in its hands longest.
    fn let_go(&mut self) {
        if let Some((at, received)) = self.held.pop_front() {
            assert!(*received == self.came[at..at + received.len()], "somebody wrote to what was borrowed");
        }
    }

    /// Writes, by copying or in place; not all of it, if the peer takes no more.
    fn write(&mut self, numbers: &mut Numbers) {
        let len = [1, 1500, 2500][numbers.below(3)] + numbers.below(1000);
        let said = content(ANSWERED, self.written, len);
        let written = if numbers.below(2) == 0 {
            (&self.stream).write(&said).unwrap_or(0)
        } else {
            let Ok(mut buffer) = self.stream.buffer(len) else { return };
            let taken = buffer.write(&said).expect("room");
            let _ = self.stream.write_buffer(&mut buffer);
            taken - buffer.len()
        };
        self.written += written as u64;
    }

    fn set_patience(&self, patience: Option<Duration>) {
        self.stream.set_read_timeout(patience).expect("set");
        self.stream.set_write_timeout(patience).expect("set");
    }
}

/// A connection, as its peer plays it.
struct Play<'a> {
    hostile: &'a Hostile,
    seed: u64,
    numbers: Numbers,
    peer: Peer,
    victim: Victim,
    /// Of the peer's next byte, and how many counted messages it has sent.
    position: u64,
    counted: u32,
    /// Grants that it has used, and offers that it says it has read.
    used: usize,
    closed: usize,
    /// Bytes of its memory that it has offered.
    offered: usize,
    /// It has changed what lies in a grant, as it may.
    tampered: bool,
    /// Keys of connections that are over.
    dead: Vec<Descriptor>,
}

impl<'a> Play<'a> {
    fn new(hostile: &'a Hostile, seed: u64, numbers: Numbers, mut peer: Peer, stream: Stream) -> Self {
        peer.heard.theirs = victim().receives;
        let victim = Victim { stream, came: Vec::new(), held: VecDeque::new(), written: 0, result: None };
        victim.set_patience(Some(PATIENCE));
        Self {
            hostile,
            seed,
            numbers,
            peer,
            victim,
            position: 0,
            counted: 0,
            used: 0,
            closed: 0,
            offered: 0,
            tampered: false,
            dead: Vec::new(),
        }
    }

    /// Is granted memory, and offered some, if it has said that it takes that.
    fn begin(&mut self) {
        let _ = self.say_much();
        self.victim.write(&mut self.numbers);
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end && self.peer.heard.granted.is_empty() {
            self.peer.look();
        }
        // It has room for as much again.
        self.victim.read(&mut self.numbers);
    }

    /// Does something; false if the queue pair is over.
    fn step(&mut self) -> bool {
        self.peer.look();
        match self.numbers.below(32) {
            0 => {
                let right = self.header(Kind::Data, 0);
                let any = any_message(&mut self.numbers, &right);
                self.peer.send(&any)
            }
            1..=3 => {
                let len = 1 + self.numbers.below(900);
                self.say(len)
            }
            4..=5 => self.say_much(),
            6..=8 => self.write(),
            9 => self.write_by_another_number(),
            10..=11 => self.write_without_number(),
            12..=13 => self.reach_outside(),
            14 => self.reach_with_a_dead_key(),
            15..=16 => self.offer(),
            17 => self.offer_what_it_has_not(),
            18 => self.grant(),
            19..=20 => self.read_what_is_offered(),
            21..=22 => self.read_outside(),
            23 => self.mix_up(),
            24 => self.control(),
            25 => {
                self.closed = self.peer.heard.offered.len();
                let update = self.header(Kind::Credit, 0);
                self.peer.send(&message(update, b""))
            }
            26..=28 => {
                self.victim.write(&mut self.numbers);
                true
            }
            29 => {
                if self.numbers.below(4) == 0 {
                    self.victim.stream.reset();
                } else if self.numbers.below(2) == 0 {
                    self.victim.stream.shutdown_write().expect("shut");
                }
                true
            }
            _ => {
                self.victim.read(&mut self.numbers);
                true
            }
        }
    }

    /// A header that keeps the rules.
    fn header(&self, kind: Kind, length: u32) -> Header {
        let heard = &self.peer.heard;
        let open = heard.offered.get(self.closed..).unwrap_or_default();
        let taken = open.first().map_or(heard.position, |(_, position)| *position);
        Header {
            kind,
            checked: false,
            waited: false,
            length,
            position: self.position,
            taken,
            credit: heard.credit,
            word: 0,
        }
    }

    /// Sends a message that is counted; mostly when there is credit.
    fn send_counted(&mut self, kind: Kind, payload: &[u8]) -> bool {
        let has_credit = self.peer.heard.theirs.wrapping_sub(self.counted) > 0;
        if !has_credit && self.numbers.below(4) > 0 {
            self.victim.read(&mut self.numbers);
            return true;
        }
        let header = self.header(kind, u32::try_from(payload.len()).expect("small"));
        let sent = self.peer.send(&message(header, payload));
        if sent {
            self.counted += 1;
            if kind == Kind::Data {
                self.position += payload.len() as u64;
            }
        }
        sent
    }

    fn say(&mut self, len: usize) -> bool {
        let payload = content(SAID, self.position, len);
        self.send_counted(Kind::Data, &payload)
    }

    /// As much as fits a message, for which it is granted memory.
    fn say_much(&mut self) -> bool {
        self.say(victim().chunk_bytes as usize - Header::BYTES)
    }

    /// One of the grants that it knows, with its number; not always one that it may still use.
    fn any_grant(&mut self) -> Option<(usize, Descriptor)> {
        let granted = &self.peer.heard.granted;
        let number = if granted.is_empty() { None } else { Some(self.numbers.below(granted.len())) };
        number.map(|number| (number, granted[number]))
    }

    /// Writes to what it was granted next.
    fn write(&mut self) -> bool {
        let Some(granted) = self.peer.heard.granted.get(self.used).copied() else { return self.say_much() };
        let len = 1 + self.numbers.below(granted.len as usize - Header::BYTES);
        let waited = self.numbers.below(4) > 0;
        let header = Header { waited, ..self.header(Kind::Data, u32::try_from(len).expect("small")) };
        let bytes = message(header, &content(SAID, self.position, len));
        let number = u32::try_from(self.used).expect("few");
        let written = self.peer.write(&bytes, at(granted, 0), Some(number)) == WcStatus::Success;
        if written {
            self.used += 1;
            self.counted += 1;
            self.position += len as u64;
        }
        written
    }

    fn write_by_another_number(&mut self) -> bool {
        let Some((_, granted)) = self.any_grant() else { return self.say_much() };
        let next = u32::try_from(self.used).expect("few");
        let number =
            [next.wrapping_add(1), next.wrapping_sub(1), u32::MAX, next ^ 0x8000][self.numbers.below(4)];
        let len = 1 + self.numbers.below(100);
        let header = self.header(Kind::Data, u32::try_from(len).expect("small"));
        let bytes = message(header, &content(SAID, self.position, len));
        // Without bytes nothing names memory, but the number comes.
        let len = if self.numbers.below(4) == 0 { 0 } else { bytes.len() };
        self.tampered = true;
        self.peer.write(&bytes[..len], at(granted, 0), Some(number)) == WcStatus::Success
    }

    /// Changes what lies in a grant, whatever that is.
    fn write_without_number(&mut self) -> bool {
        let Some((_, granted)) = self.any_grant() else { return self.say_much() };
        let offset = self.numbers.below(granted.len as usize);
        let len = 1 + self.numbers.below(granted.len as usize - offset);
        self.tampered = true;
        self.peer.write(&vec![0x77; len], at(granted, offset as u64), None) == WcStatus::Success
    }

    /// An address and a length that are not inside of this memory, or a key that is not its own.
    fn outside(&mut self, of: Descriptor) -> (RemoteAddr, usize) {
        let len = 1 + self.numbers.below(2000);
        let inside = len.min(of.len as usize);
        match self.numbers.below(6) {
            0..=1 => (at(of, u64::from(of.len) - inside as u64 + 1), inside),
            2..=3 => (at(of, u64::MAX), len),
            4 => (at(of, 1 + u64::from(of.len) + self.numbers.next() % 100_000), len),
            _ => (RemoteAddr { rkey: of.rkey ^ 0x40, ..at(of, 0) }, inside),
        }
    }

    /// A request that may not work: if the connection was there, it was refused and counted.
    fn must_fail(&self, what: &str, status: WcStatus, refused: u64) -> bool {
        assert_ne!(status, WcStatus::Success, "seed {}: {what}", self.seed);
        if status == WcStatus::RemAccessErr {
            assert!(self.hostile.refused() > refused, "seed {}: {what} is not counted", self.seed);
        }
        false
    }

    fn reach_outside(&mut self) -> bool {
        let Some((number, granted)) = self.any_grant() else { return self.say_much() };
        let (to, len) = self.outside(granted);
        let refused = self.hostile.refused();
        let imm = (self.numbers.below(2) == 0).then_some(u32::try_from(number).expect("few"));
        let status = self.peer.write(&vec![0x66; len], to, imm);
        self.must_fail("a WRITE outside of a grant", status, refused)
    }

    fn reach_with_a_dead_key(&mut self) -> bool {
        if self.dead.is_empty() {
            return self.say_much();
        }
        let dead = self.dead[self.numbers.below(self.dead.len())];
        let refused = self.hostile.refused();
        let status = if self.numbers.below(2) == 0 {
            let imm = (self.numbers.below(2) == 0).then_some(0);
            self.peer.write(&[0x66; 40], at(dead, 0), imm)
        } else {
            self.peer.read_in_vain(at(dead, 0), 40)
        };
        self.must_fail("a dead key", status, refused)
    }

    /// Offers bytes of its memory, which come if the victim's program reads.
    fn offer(&mut self) -> bool {
        let len = 1 + self.numbers.below(6000);
        if self.offered + len > OFFERS {
            return self.say_much();
        }
        self.offer_at(self.offered, len, len)
    }

    /// Offers so many bytes, of which it has `has`.
    fn offer_at(&mut self, offset: usize, len: usize, has: usize) -> bool {
        let own = &self.peer.memory.own;
        own.write(offset, &content(SAID, self.position, has)).expect("inside");
        let (addr, rkey) = (own.addr() + offset as u64, own.rkey());
        let offered = Descriptor { addr, rkey, len: u32::try_from(len).expect("small") };
        let before = self.counted;
        let sent = self.send_counted(Kind::Offer, &offered.to_bytes());
        if self.counted > before {
            self.position += len as u64;
            self.offered += has;
        }
        sent
    }

    fn offer_what_it_has_not(&mut self) -> bool {
        let own = &self.peer.memory.own;
        let offered = Descriptor { addr: own.addr(), rkey: own.rkey(), len: 100 };
        let offered = match self.numbers.below(6) {
            0 => {
                let has = own.len() - LAST;
                let len = has + 1 + self.numbers.below(4000);
                return self.offer_at(LAST, len, has);
            }
            1 => Descriptor { rkey: offered.rkey ^ 0x40, ..offered },
            2 => {
                let outbox = &self.peer.memory.outbox;
                Descriptor { addr: outbox.addr(), rkey: outbox.rkey(), len: 100 }
            }
            3 => Descriptor { addr: self.numbers.next(), ..offered },
            4 => Descriptor { len: 0, ..offered },
            _ => Descriptor { len: (1 << 30) + 1, ..offered },
        };
        self.send_counted(Kind::Offer, &offered.to_bytes())
    }

    /// Grants memory that it has, or has not.
    fn grant(&mut self) -> bool {
        let count = 1 + self.numbers.below(4);
        let payload: Vec<u8> = (0..count)
            .flat_map(|_| {
                let own = &self.peer.memory.own;
                let good = Descriptor { addr: own.addr() + GRANTS, rkey: own.rkey(), len: 2000 };
                match self.numbers.below(8) {
                    0 => Descriptor { rkey: good.rkey ^ 0x40, ..good },
                    1 => Descriptor { len: [0, 32, 33, u32::MAX][self.numbers.below(4)], ..good },
                    _ => good,
                }
                .to_bytes()
            })
            .collect();
        self.send_counted(Kind::Grant, &payload)
    }

    fn any_offer(&mut self) -> Option<(Descriptor, u64)> {
        let offered = &self.peer.heard.offered;
        if offered.is_empty() { None } else { Some(offered[self.numbers.below(offered.len())]) }
    }

    /// Reads what the victim has offered, if it still does.
    fn read_what_is_offered(&mut self) -> bool {
        let Some((offered, position)) = self.any_offer() else {
            self.victim.write(&mut self.numbers);
            return true;
        };
        let offset = self.numbers.below(offered.len as usize);
        let len = 1 + self.numbers.below(offered.len as usize - offset);
        let (status, came) = self.peer.read(at(offered, offset as u64), len);
        let said = content(ANSWERED, position + offset as u64, came.len());
        let is_whole = status == WcStatus::Success;
        // Some may have come before the connection ended.
        let is_right = |(came, said): (&u8, &u8)| came == said || !is_whole && *came == NOTHING_CAME;
        assert!(came.iter().zip(&said).all(is_right), "seed {}: other bytes than were offered", self.seed);
        is_whole
    }

    fn read_outside(&mut self) -> bool {
        let Some((offered, _)) = self.any_offer() else {
            self.victim.write(&mut self.numbers);
            return true;
        };
        let (from, len) = self.outside(offered);
        let refused = self.hostile.refused();
        let status = self.peer.read_in_vain(from, len);
        self.must_fail("a READ outside of an offer", status, refused)
    }

    /// Reads what it may write, or the other way round, or adds to it.
    fn mix_up(&mut self) -> bool {
        let refused = self.hostile.refused();
        match (self.any_grant(), self.any_offer()) {
            (Some((_, granted)), _) if self.numbers.below(2) == 0 => {
                let len = 1 + self.numbers.below(500);
                let status = self.peer.read_in_vain(at(granted, 0), len);
                self.must_fail("a READ of a grant", status, refused)
            }
            (_, Some((offered, _))) => {
                let status = self.peer.write(&[0x66; 40], at(offered, 0), None);
                self.must_fail("a WRITE to an offer", status, refused)
            }
            (Some((_, granted)), None) => {
                let result = self.peer.memory.landing.slice(..8).expect("inside");
                let to = RemoteAddr { addr: granted.addr.next_multiple_of(8), ..at(granted, 0) };
                let status = self.peer.post(&SendRequest::fetch_and_add(result, to, 1));
                self.must_fail("an atomic", status, refused)
            }
            (None, None) => {
                let own = &self.peer.memory.own;
                let guess = RemoteAddr { addr: own.addr(), rkey: own.rkey() };
                let status = self.peer.post(&SendRequest::write(SendData::Inline(b"gift"), guess));
                self.must_fail("a guess", status, refused)
            }
        }
    }

    fn control(&mut self) -> bool {
        let kinds = [Kind::Credit, Kind::Answer, Kind::Fin, Kind::Reset, Kind::Resume];
        let kind = kinds[self.numbers.below(kinds.len())];
        let word = if kind == Kind::Reset { u32::try_from(self.numbers.below(5)).expect("small") } else { 0 };
        let header = Header { word, ..self.header(kind, 0) };
        self.peer.send(&message(header, b""))
    }

    /// Ends the connection in some way. Returns what the peer was shown, and what its victim's
    /// program found: the end, or an error.
    fn end(self) -> (Vec<Descriptor>, io::Result<()>) {
        let Self { seed, mut numbers, peer, mut victim, tampered, .. } = self;
        let shown = peer.heard.granted.iter().copied();
        let shown: Vec<_> = shown.chain(peer.heard.offered.iter().map(|(offered, _)| *offered)).collect();
        // A peer that stays and says nothing: each call ends, with nothing or with an error.
        if numbers.below(3) == 0 {
            for _ in 0..4 {
                victim.read(&mut numbers);
            }
        }
        if numbers.below(4) == 0 {
            while !victim.held.is_empty() {
                victim.let_go();
            }
            drop(victim);
            drop(peer);
            return (shown, Ok(()));
        }
        drop(peer);
        victim.set_patience(None);
        while victim.result.is_none() {
            victim.read(&mut numbers);
        }
        while !victim.held.is_empty() {
            victim.let_go();
        }
        let said = content(SAID, 0, victim.came.len());
        assert!(tampered || victim.came == said, "seed {seed}: other bytes than were said");
        (shown, victim.result.unwrap_or(Ok(())))
    }
}
