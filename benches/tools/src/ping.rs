//! `srnic ping`: datagrams there and back, between the general services queue pairs of two devices
//! (QPN 1), so that nothing but an address needs to be known. Who pings answers, too.

#[cfg(test)]
mod tests;
pub mod tool;

use crate::error::{Error, Result};
use core::fmt;
use core::net::IpAddr;
use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};
use verbs_api::{
    Access, AddressHandle, Backoff, Completion, CompletionQueue, Datagram, Device, Grh, Idle, MemoryRegion,
    ProtectionDomain, QueueCaps, RecvRequest, SendData, Time, UdQueuePair, WcOpcode, WcStatus,
};

/// The queue pair that answers.
const QPN: u32 = 1;
/// It takes no other (protocol.md 1.12).
const QKEY: u32 = 0x8001_0000;
const MAGIC: [u8; 4] = *b"SRNP";
/// Bytes of a message before its filling: magic, kind, sequence number.
pub const HEADER: usize = 4 + 4 + 8;
const RECEIVES: u32 = 64;
/// Requests that are remembered at most, of those that were answered and of those that were not:
/// who floods for a day has sent more than memory holds.
const REMEMBERED: usize = 4096;
/// How long a host that could not be reached is not looked for again, which takes seconds.
const SILENCE: Duration = Duration::from_secs(30);

/// What a message is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Request = 1,
    Answer = 2,
}

/// A message of `len` bytes, [`HEADER`] at least; its filling depends on its number.
fn encode(kind: Kind, number: u64, len: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len);
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&(kind as u32).to_be_bytes());
    bytes.extend_from_slice(&number.to_be_bytes());
    let seed = number.to_le_bytes()[0];
    bytes.extend((HEADER..len).map(|at| at.to_le_bytes()[0] ^ seed));
    bytes
}

/// The kind and number of a message that is as [`encode`] made it.
fn decode(bytes: &[u8]) -> Option<(Kind, u64)> {
    let kind = match bytes.get(4..8)? {
        [0, 0, 0, 1] => Kind::Request,
        [0, 0, 0, 2] => Kind::Answer,
        _ => return None,
    };
    let number = u64::from_be_bytes(bytes.get(8..HEADER)?.try_into().ok()?);
    (encode(kind, number, bytes.len()) == bytes).then_some((kind, number))
}

/// One end.
pub struct Pinger {
    pd: ProtectionDomain,
    cq: CompletionQueue,
    pair: UdQueuePair,
    memory: MemoryRegion,
    stride: usize,
    /// Hosts that asked, and the one that is asked.
    ways: BTreeMap<IpAddr, AddressHandle>,
    /// Hosts that asked and could not be reached, and when that was found out.
    silent: BTreeMap<IpAddr, Instant>,
    /// When each request without an answer went out.
    waiting: BTreeMap<u64, Instant>,
    /// Since when nothing has come.
    quiet: Quiet,
    /// When each request with an answer went out.
    answered: BTreeMap<u64, Instant>,
    statistics: Statistics,
}

/// An answer that came.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Answer {
    /// From whom.
    pub from: IpAddr,
    /// To which request.
    pub number: u64,
    /// After which time.
    pub time: Duration,
    /// It has come before.
    pub duplicate: bool,
}

impl Pinger {
    /// An end on `device`, which has no other general services queue pair.
    ///
    /// # Errors
    /// [`Error::Verbs`].
    pub fn new(device: &Device) -> Result<Self> {
        let pd = device.alloc_pd();
        let cq = device.create_cq(4 * RECEIVES)?;
        let caps = QueueCaps { max_recv_wr: RECEIVES, max_send_wr: RECEIVES, ..QueueCaps::default() };
        let pair = pd.ud_queue_pair(&cq, &cq).caps(caps).general_services().build()?;
        let longest = usize::try_from(pair.max_message()).unwrap_or(0);
        let stride = Grh::LEN + longest;
        // Behind the receives, what is sent: one message for each place of the queue.
        let memory = pd.register(2 * RECEIVES as usize * stride, Access::LOCAL_WRITE)?;
        let mut pinger = Self {
            pd,
            cq,
            pair,
            memory,
            stride,
            ways: BTreeMap::new(),
            silent: BTreeMap::new(),
            waiting: BTreeMap::new(),
            quiet: Quiet::new(),
            answered: BTreeMap::new(),
            statistics: Statistics::default(),
        };
        (0..RECEIVES).try_for_each(|place| pinger.receive(place.into()))?;
        Ok(pinger)
    }

    /// Bytes of the longest message.
    #[must_use]
    pub const fn longest(&self) -> usize {
        self.stride - Grh::LEN
    }

    /// What was sent and answered so far.
    #[must_use]
    pub const fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// Requests without an answer.
    #[must_use]
    pub fn unanswered(&self) -> usize {
        self.waiting.len()
    }

    /// Returns `true` if request `number` has no answer.
    #[must_use]
    pub fn awaits(&self, number: u64) -> bool {
        self.waiting.contains_key(&number)
    }

    /// Sends request `number` of `len` bytes to `host`, whose Ethernet address is looked for the
    /// first time.
    ///
    /// # Errors
    /// [`Error::Verbs`]: nobody answers for the address, or the message is longer than a packet.
    pub fn ask(&mut self, host: IpAddr, number: u64, len: usize) -> Result<()> {
        self.send(host, Kind::Request, number, len.max(HEADER))?;
        remember(&mut self.waiting, number, Instant::now());
        self.statistics.sent += 1;
        Ok(())
    }

    /// Takes one completion, if there is one: answers a request, or returns an answer. Runs the
    /// engine.
    ///
    /// # Errors
    /// [`Error::Completion`], [`Error::Verbs`].
    pub fn step(&mut self) -> Result<Option<Answer>> {
        let Some(done) = self.cq.poll() else { return Ok(None) };
        self.quiet.ended();
        if done.status != WcStatus::Success {
            return Err(Error::Completion { what: "a datagram", status: done.status });
        }
        if done.opcode != WcOpcode::Recv {
            return Ok(None);
        }
        let answer = self.take(&done);
        self.receive(done.wr_id)?;
        answer
    }

    /// Between two looks: gives the processor away the longer the longer nothing has come, as an
    /// engine's thread does. A frame that comes to one that sleeps waits for 1 ms at most.
    pub fn wait(&mut self) {
        self.quiet.wait();
    }

    fn receive(&mut self, place: u64) -> Result<()> {
        let start = usize::try_from(place).unwrap_or(0) * self.stride;
        let scatter = [self.memory.slice(start..start + self.stride)?];
        Ok(self.pair.post_recv(&RecvRequest { wr_id: place, scatter: &scatter })?)
    }

    fn take(&mut self, done: &Completion) -> Result<Option<Answer>> {
        let mut bytes = vec![0; usize::try_from(done.byte_len).unwrap_or(0)];
        self.memory.read(usize::try_from(done.wr_id).unwrap_or(0) * self.stride, &mut bytes)?;
        let Some((area, message)) = bytes.split_first_chunk::<{ Grh::LEN }>() else { return Ok(None) };
        let (Some(Grh { src: from, .. }), Some((kind, number))) = (Grh::parse(area), decode(message)) else {
            self.statistics.strange += 1;
            return Ok(None);
        };
        if kind == Kind::Request {
            // Whom nothing reaches must not keep the others from their answers.
            if self.is_reachable(from) {
                self.send(from, Kind::Answer, number, message.len())?;
            } else {
                self.statistics.unreachable += 1;
            }
            return Ok(None);
        }
        if let Some(asked) = self.waiting.remove(&number) {
            remember(&mut self.answered, number, asked);
            let time = asked.elapsed();
            self.statistics.record(time);
            return Ok(Some(Answer { from, number, time, duplicate: false }));
        }
        let Some(asked) = self.answered.get(&number) else {
            self.statistics.strange += 1;
            return Ok(None);
        };
        self.statistics.duplicates += 1;
        Ok(Some(Answer { from, number, time: asked.elapsed(), duplicate: true }))
    }

    /// Looks for a host's Ethernet address the first time.
    fn knows(&mut self, host: IpAddr) -> Result<()> {
        if !self.ways.contains_key(&host) {
            self.ways.insert(host, self.pd.create_ah_to(host)?);
        }
        Ok(())
    }

    /// Returns `true` if a host can be answered. Nobody is answered while its address is looked
    /// for, so that is not done too often.
    fn is_reachable(&mut self, host: IpAddr) -> bool {
        if self.silent.get(&host).is_some_and(|since| since.elapsed() < SILENCE) {
            return false;
        }
        let found = self.knows(host).is_ok();
        if found {
            self.silent.remove(&host);
        } else {
            self.silent.insert(host, Instant::now());
        }
        found
    }

    fn send(&mut self, host: IpAddr, kind: Kind, number: u64, len: usize) -> Result<()> {
        self.knows(host)?;
        let Some(way) = self.ways.get(&host) else { return Ok(()) };
        let place = RECEIVES as usize + usize::try_from(number % u64::from(RECEIVES)).unwrap_or(0);
        let start = place * self.stride;
        self.memory.write(start, &encode(kind, number, len))?;
        let gather = [self.memory.slice(start..start + len)?];
        let datagram = Datagram::new(SendData::Gather(&gather), way, QPN, QKEY);
        Ok(self.pair.post_send(&datagram.signaled())?)
    }
}

/// The oldest make room.
fn remember(requests: &mut BTreeMap<u64, Instant>, number: u64, asked: Instant) {
    requests.insert(number, asked);
    if requests.len() > REMEMBERED {
        requests.pop_first();
    }
}

/// How long nothing has come.
struct Quiet {
    clock: Instant,
    idle: Idle,
}

impl Quiet {
    fn new() -> Self {
        Self { clock: Instant::now(), idle: Idle::new(Time::ZERO) }
    }

    fn now(&self) -> Time {
        Time(u64::try_from(self.clock.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    fn ended(&mut self) {
        self.idle.busy(self.now());
    }

    fn wait(&mut self) {
        match self.idle.backoff(self.now(), None) {
            Backoff::Spin => core::hint::spin_loop(),
            Backoff::Yield => thread::yield_now(),
            Backoff::Sleep(limit) => thread::sleep(limit),
        }
    }
}

/// What `ping` sums up.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Statistics {
    /// Requests sent.
    pub sent: u64,
    /// Requests answered.
    pub received: u64,
    /// Answers to what was answered before.
    pub duplicates: u64,
    /// Datagrams that are no messages of ours, or were changed on the way.
    pub strange: u64,
    /// Requests that were not answered, as their hosts cannot be reached.
    pub unreachable: u64,
    min: f64,
    max: f64,
    sum: f64,
    squares: f64,
}

impl Statistics {
    fn record(&mut self, time: Duration) {
        let micros = time.as_secs_f64() * 1e6;
        self.min = if self.received == 0 { micros } else { self.min.min(micros) };
        self.max = self.max.max(micros);
        self.sum += micros;
        self.squares += micros * micros;
        self.received += 1;
    }
}

/// As `ping` has it, in microseconds.
impl fmt::Display for Statistics {
    #[expect(clippy::cast_precision_loss, reason = "counts of datagrams, for people")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lost = self.sent.saturating_sub(self.received) as f64 * 100.0 / self.sent.max(1) as f64;
        write!(f, "{} datagrams sent, {} answered, ", self.sent, self.received)?;
        for (count, what) in
            [(self.duplicates, "duplicates"), (self.strange, "strange"), (self.unreachable, "unreachable")]
        {
            if count > 0 {
                write!(f, "+{count} {what}, ")?;
            }
        }
        write!(f, "{lost:.1}% lost")?;
        if self.received > 0 {
            let count = self.received as f64;
            let average = self.sum / count;
            let deviation = (self.squares / count - average * average).max(0.0).sqrt();
            let (min, max) = (self.min, self.max);
            write!(f, "\nrtt min/avg/max/mdev = {min:.1}/{average:.1}/{max:.1}/{deviation:.1} us")?;
        }
        Ok(())
    }
}
