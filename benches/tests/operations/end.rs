//! One end of the connection, in a process of its own.

use crate::round::{AREA, Op, Round, source};
use srnic_tools::channel::Channel;
use srnic_tools::error::Result;
use std::net::SocketAddr;
use std::ops::Range;
use std::process::Command;
use std::time::Instant;
use verbs_api::{
    Access, Completion, CompletionQueue, CongestionAlgorithm, Device, Endpoint, MemoryRegion, QueueCaps,
    QueuePair, RecvRequest, RemoteRegion, SendData, SendRequest, WcFlags, WcStatus,
};

const VERSION: &str = "operations 1";
/// Where an end finds what it is.
const LIFE: &str = "SRNIC_END";
const DEPTH: u32 = 64;
/// A try lasts 4.096 us x 2^18, a second: a pause of the machine is no failure of the peer.
const TIMEOUT: u8 = 18;
const WORD: usize = 8;
/// Messages of a round of one kind, at most.
const MESSAGES: u32 = 4096;

// What lies where in an end's memory.
const SOURCE: usize = 0;
const TARGET: usize = AREA;
const INBOX: usize = 2 * AREA;
const READ: usize = 3 * AREA;
const WORDS: usize = 4 * AREA;
const RESULTS: usize = WORDS + 2 * WORD;
const MEMORY: usize = RESULTS + 2 * MESSAGES as usize * WORD;

/// What an end is told.
pub struct Life {
    pub side: usize,
    pub port: u16,
    /// Bytes to verify.
    pub volume: u64,
    pub device: String,
}

impl Life {
    pub fn give_to(&self, command: &mut Command) {
        let Self { side, port, volume, device } = self;
        command.env(LIFE, format!("{side} {port} {volume} {device}"));
    }

    pub fn given() -> Option<Self> {
        let life = std::env::var(LIFE).ok()?;
        let mut words = life.splitn(4, ' ');
        let mut word = || words.next().expect("a word");
        let number = |word: &str| -> u64 { word.parse().expect("a number") };
        let (side, port, volume) = (number(word()), number(word()), number(word()));
        let (side, port) = (usize::try_from(side).expect("0 or 1"), u16::try_from(port).expect("a port"));
        Some(Self { side, port, volume, device: word().to_owned() })
    }

    /// Connects, and exchanges rounds until both have verified enough.
    pub fn live(&self) -> Result<()> {
        let device = Device::open(&self.device)?;
        let address = SocketAddr::from(([127, 0, 0, 1], self.port));
        let mut channel = if self.side == 0 {
            Channel::accept(&device, VERSION, address, None, || {})?
        } else {
            Channel::connect(&device, VERSION, address)?
        };
        let mut end = End::new(&device, &mut channel, self.side)?;
        let (started, mut verified, mut number) = (Instant::now(), 0, 0);
        while verified < self.volume {
            verified += end.play(&device, &mut channel, number)?;
            number += 1;
        }
        let seconds = started.elapsed().as_secs_f64();
        let (faults, counters) = (device.fault_stats(), device.counters());
        println!(
            "{verified} bytes verified in {seconds:.2} s, {number} rounds; dropped by us {} sent and {} received, \
             resent by us {}, {} atomics executed here",
            faults.tx.dropped(),
            faults.rx.dropped(),
            counters.tx_retransmits,
            counters.rx_atomics,
        );
        let lossy = self.device.starts_with("fault:");
        assert_eq!(lossy, faults.tx.dropped() > 0 && faults.rx.dropped() > 0, "both directions lose packets");
        Ok(())
    }
}

/// A connection with its memory, and what both ends' words must hold.
struct End {
    side: usize,
    pair: QueuePair,
    cq: CompletionQueue,
    receives: CompletionQueue,
    memory: MemoryRegion,
    remote: RemoteRegion,
    /// Sum and count in the peer's words, and in ours.
    there: (u64, u64),
    here: (u64, u64),
}

impl End {
    fn new(device: &Device, channel: &mut Channel, side: usize) -> Result<Self> {
        let pd = device.alloc_pd();
        let (cq, receives) = (device.create_cq(2 * DEPTH)?, device.create_cq(2 * MESSAGES)?);
        let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::REMOTE_READ | Access::REMOTE_ATOMIC;
        let memory = pd.register(MEMORY, access)?;
        let caps = QueueCaps { max_send_wr: DEPTH, max_recv_wr: 2 * MESSAGES, ..QueueCaps::default() };
        let builder = pd.queue_pair(&cq, &receives).caps(caps).access(access).timeout(TIMEOUT);
        let prepared = builder.congestion(CongestionAlgorithm::Fixed).build()?;
        channel.say("endpoint", prepared.endpoint())?;
        channel.say("region", memory.remote())?;
        let endpoint: Endpoint = channel.hear(device, "endpoint")?;
        let remote = channel.hear(device, "region")?;
        let pair = prepared.connect(&endpoint)?;
        Ok(Self { side, pair, cq, receives, memory, remote, there: (0, 0), here: (0, 0) })
    }

    /// One round; returns the bytes that were verified.
    fn play(&mut self, device: &Device, channel: &mut Channel, number: u64) -> Result<u64> {
        let (ours, theirs) = (Round::draw(number, self.side), Round::draw(number, 1 - self.side));
        let mut bytes = vec![0; AREA];
        source(number, self.side).fill(0, &mut bytes);
        self.memory.write(SOURCE, &bytes)?;
        for (range, _) in theirs.receives() {
            let scatter = range.map(|range| self.memory.slice(shifted(&range, INBOX))).transpose()?;
            self.pair.post_recv(&RecvRequest { wr_id: number, scatter: scatter.as_slice() })?;
        }
        meet(device, channel, "ready", number)?;
        self.post_all(&ours, number)?;
        self.take_receives(&theirs, number);
        // What was written without a word is there when its sender says that it has completed.
        meet(device, channel, "done", number)?;
        let verified = self.verify(&ours, &theirs, number)?;
        meet(device, channel, "verified", number)?;
        Ok(verified)
    }

    fn post_all(&mut self, round: &Round, number: u64) -> Result<()> {
        let mut outstanding = 0;
        for op in &round.ops {
            if outstanding == DEPTH {
                self.complete(number);
                outstanding -= 1;
            }
            self.post(op, number)?;
            outstanding += 1;
        }
        (0..outstanding).for_each(|_| self.complete(number));
        Ok(())
    }

    fn complete(&mut self, number: u64) {
        let done = wait(&mut self.cq);
        assert_eq!((done.wr_id, done.status), (number, WcStatus::Success));
    }

    fn post(&mut self, op: &Op, number: u64) -> Result<()> {
        let Self { memory, remote, pair, .. } = self;
        let result = |slot: usize| memory.slice(RESULTS + slot * WORD..RESULTS + (slot + 1) * WORD);
        let word = |index: usize| remote.at((WORDS + index * WORD) as u64);
        let gather = match op {
            Op::Write(range, _) | Op::Send(range, _) => [memory.slice(range.clone())?],
            Op::Read(range) => [memory.slice(shifted(range, READ))?],
            Op::FetchAdd(_, slot) | Op::CountUp(slot) => [result(*slot)?],
        };
        let data = SendData::Gather(&gather);
        let request = match op {
            Op::Write(range, _) => SendRequest::write(data, remote.at((TARGET + range.start) as u64)),
            Op::Send(..) => SendRequest::send(data),
            Op::Read(range) => SendRequest::read(&gather, remote.at(range.start as u64)),
            Op::FetchAdd(add, _) => SendRequest::fetch_and_add(gather[0], word(0), *add),
            Op::CountUp(_) => {
                self.there.1 += 1;
                SendRequest::compare_and_swap(gather[0], word(1), self.there.1 - 1, self.there.1)
            }
        };
        let request = match op {
            Op::Write(_, Some(imm)) | Op::Send(_, Some(imm)) => request.with_imm(*imm),
            _ => request,
        };
        Ok(pair.post_send(&request.id(number).signaled())?)
    }

    /// The peer's SENDs and WRITEs with immediate, in their order.
    fn take_receives(&mut self, theirs: &Round, number: u64) {
        for (range, imm) in theirs.receives() {
            let done = wait(&mut self.receives);
            assert_eq!((done.wr_id, done.status), (number, WcStatus::Success));
            let said = done.flags.contains(WcFlags::WITH_IMM).then_some(done.imm);
            assert_eq!(said, imm, "immediate data of {range:?}");
            if let Some(range) = range {
                assert_eq!(done.byte_len as usize, range.len(), "bytes of a SEND");
            }
        }
    }

    fn verify(&mut self, ours: &Round, theirs: &Round, number: u64) -> Result<u64> {
        let mut wanted = vec![0; AREA];
        source(number, 1 - self.side).fill(0, &mut wanted);
        let mut found = vec![0; AREA];
        for (what, at) in [("written by WRITEs", TARGET), ("received", INBOX), ("read", READ)] {
            self.memory.read(at, &mut found)?;
            let wrong = found.iter().zip(&wanted).position(|(found, wanted)| found != wanted);
            assert_eq!(wrong, None, "round {number}: a byte that was {what} is wrong");
        }
        self.verify_atomics(ours, theirs)?;
        Ok((3 * AREA + (ours.atomics + 2) * WORD) as u64)
    }

    /// Each atomic was executed once and in its turn: all results are known in advance, and so are
    /// our own words.
    fn verify_atomics(&mut self, ours: &Round, theirs: &Round) -> Result<()> {
        let (sum, count) = theirs.sums();
        self.here = (self.here.0 + sum, self.here.1 + count);
        let words = (self.word(WORDS)?, self.word(WORDS + WORD)?);
        assert_eq!(words, self.here, "the words that the peer works on");
        let mut counted = self.there.1 - ours.sums().1;
        for op in &ours.ops {
            match *op {
                Op::FetchAdd(add, slot) => {
                    assert_eq!(self.word(RESULTS + slot * WORD)?, self.there.0, "result of FETCH_AND_ADD");
                    self.there.0 += add;
                }
                Op::CountUp(slot) => {
                    assert_eq!(self.word(RESULTS + slot * WORD)?, counted, "result of CMP_AND_SWP");
                    counted += 1;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn word(&self, at: usize) -> Result<u64> {
        let mut bytes = [0; WORD];
        self.memory.read(at, &mut bytes)?;
        Ok(u64::from_ne_bytes(bytes))
    }
}

/// Both ends have come here.
fn meet(device: &Device, channel: &mut Channel, place: &'static str, number: u64) -> Result<()> {
    channel.say(place, number)?;
    let theirs: u64 = channel.hear(device, place)?;
    assert_eq!(theirs, number, "{place}");
    Ok(())
}

fn wait(cq: &mut CompletionQueue) -> Completion {
    loop {
        if let Some(done) = cq.poll() {
            return done;
        }
        std::thread::yield_now();
    }
}

fn shifted(range: &Range<usize>, by: usize) -> Range<usize> {
    range.start + by..range.end + by
}
