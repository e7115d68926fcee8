//! The host that uses the disk.

use super::wire::{Answer, Op, Outcome, Request};
use super::{DEPTH, IO_MAX};
use crate::Error;
use crate::load::Load;
use core::net::SocketAddr;
use core::time::Duration;
use std::thread;
use std::time::Instant;
use verbs_api::{
    Access, CompletionQueue, Connector, Device, MemoryRegion, MemoryWindow, QueueCaps, QueuePair,
    RecvRequest, RemoteAddr, SendData, SendRequest, WcFlags, WcOpcode, WcStatus, WindowType,
};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// The numbers of bindings; those of answers are their slots'.
const BIND: u64 = 1 << 32;

/// A buffer of a request, and what opens it to the server.
struct Slot {
    window: MemoryWindow,
    /// Its request, while that is under way: since when, and its bytes.
    busy: Option<(Instant, usize)>,
}

/// A connection to a disk.
pub struct Client {
    // Goes before the windows that are bound to it.
    pair: QueuePair,
    cq: CompletionQueue,
    answers: MemoryRegion,
    buffers: MemoryRegion,
    slots: Vec<Slot>,
}

/// What a load does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Workload {
    /// What each request asks for.
    pub op: Op,
    /// Bytes of each, 1 to [`IO_MAX`].
    pub size: usize,
    /// How many there are.
    pub count: usize,
    /// How many are under way at once, 1 to [`DEPTH`].
    pub depth: usize,
    /// Bytes of the disk that they go to, one behind the other and round again.
    pub span: u64,
}

impl Client {
    /// Connects to a server.
    ///
    /// # Errors
    /// What the device refuses, and those of the connection.
    pub fn connect(device: &Device, to: SocketAddr) -> Result<Self, Error> {
        let (pd, cq) = (device.alloc_pd(), device.create_cq(u32::try_from(8 * DEPTH)?)?);
        let answers = pd.register(DEPTH * Answer::BYTES, Access::LOCAL_WRITE)?;
        let buffers = pd.register(DEPTH * IO_MAX, Access::LOCAL_WRITE | Access::MW_BIND)?;
        let caps = QueueCaps {
            max_send_wr: u32::try_from(4 * DEPTH)?,
            max_recv_wr: u32::try_from(DEPTH)?,
            max_inline: u32::try_from(Request::BYTES)?,
            ..QueueCaps::default()
        };
        let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::REMOTE_READ;
        let mut pair = pd.queue_pair(&cq, &cq).caps(caps).access(access).build()?;
        for slot in 0..DEPTH {
            post_answer(&answers, slot, |request| pair.post_recv(request))?;
        }
        let pair = Connector::new().connect(pair, to)?.wait(PATIENCE)?;
        let slot = |_| Ok(Slot { window: pd.alloc_window(WindowType::Two)?, busy: None });
        let slots = (0..DEPTH).map(slot).collect::<Result<_, verbs_api::Error>>()?;
        Ok(Self { pair, cq, answers, buffers, slots })
    }

    /// Reads bytes of the disk.
    ///
    /// # Errors
    /// A range that the disk does not have; those of the connection.
    pub fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<(), Error> {
        self.begin(0, Op::Read, offset, into.len())?;
        done(self.wait()?.1)?;
        Ok(self.buffers.read(0, into)?)
    }

    /// Writes bytes to the disk.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        self.buffers.write(0, bytes)?;
        self.begin(0, Op::Write, offset, bytes.len())?;
        done(self.wait()?.1)
    }

    /// Begins a request with the buffer of a slot that is free.
    fn begin(&mut self, slot: usize, op: Op, offset: u64, len: usize) -> Result<(), Error> {
        let start = slot * IO_MAX;
        if len > IO_MAX {
            return Err(format!("{len} bytes; a request has at most {IO_MAX}").into());
        }
        let access = if op == Op::Read { Access::REMOTE_WRITE } else { Access::REMOTE_READ };
        let range = start..start + len;
        let addr = self.buffers.slice(range.clone())?.addr;
        let Some(place) = self.slots.get_mut(slot) else { return Err("there is no such slot".into()) };
        place.busy = Some((Instant::now(), len));
        let rkey = place.window.bind(&mut self.pair, BIND, &self.buffers, range, access)?;
        let buffer = RemoteAddr { addr, rkey };
        let request =
            Request { op, id: u32::try_from(slot)?, offset, len: u32::try_from(len)?, buffer }.to_bytes();
        Ok(self.pair.post_send(&SendRequest::send(SendData::Inline(&request)).id(BIND))?)
    }

    /// Waits for the next answer: its slot and its outcome. The server has no access to the buffer
    /// any more.
    fn wait(&mut self) -> Result<(usize, Outcome), Error> {
        let end = Instant::now() + PATIENCE;
        loop {
            let Some(done) = self.cq.poll() else {
                if Instant::now() > end {
                    return Err("the server does not answer".into());
                }
                thread::yield_now();
                continue;
            };
            if done.status != WcStatus::Success {
                return Err(done.status.to_string().into());
            }
            if done.opcode != WcOpcode::Recv {
                continue;
            }
            let at = usize::try_from(done.wr_id)?;
            let mut bytes = [0; Answer::BYTES];
            self.answers.read(at * Answer::BYTES, &mut bytes)?;
            post_answer(&self.answers, at, |request| self.pair.post_recv(request))?;
            let Answer { id, outcome } = Answer::from_bytes(bytes);
            let slot = usize::try_from(id)?;
            let is_ended = done.flags.contains(WcFlags::WITH_INV)
                && self.slots.get(slot).is_some_and(|slot| slot.window.rkey() == done.imm);
            if !is_ended {
                return Err("an answer has not ended the window of its request".into());
            }
            return Ok((slot, outcome));
        }
    }

    /// Runs a workload.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn run(&mut self, work: &Workload) -> Result<Load, Error> {
        let places = (work.span / work.size as u64).max(1);
        let offset = |number: usize| number as u64 % places * work.size as u64;
        let depth = work.depth.clamp(1, DEPTH).min(work.count);
        let (begun, mut load) = (Instant::now(), Load::default());
        for number in 0..depth {
            self.begin(number, work.op, offset(number), work.size)?;
        }
        for number in depth..work.count + depth {
            let (slot, outcome) = self.wait()?;
            done(outcome)?;
            if let Some((since, len)) = self.slots.get_mut(slot).and_then(|slot| slot.busy.take()) {
                load.add(len as u64, since.elapsed());
            }
            if number < work.count {
                self.begin(slot, work.op, offset(number), work.size)?;
            }
        }
        load.elapsed = begun.elapsed();
        Ok(load)
    }
}

fn done(outcome: Outcome) -> Result<(), Error> {
    match outcome {
        Outcome::Done => Ok(()),
        Outcome::OutOfRange => Err("the disk does not have these bytes".into()),
    }
}

/// Posts the receive of an answer.
fn post_answer(
    answers: &MemoryRegion,
    slot: usize,
    post: impl FnOnce(&RecvRequest<'_>) -> Result<(), verbs_api::Error>,
) -> Result<(), verbs_api::Error> {
    let at = slot * Answer::BYTES;
    let scatter = [answers.slice(at..at + Answer::BYTES)?];
    post(&RecvRequest { wr_id: slot as u64, scatter: &scatter })
}
