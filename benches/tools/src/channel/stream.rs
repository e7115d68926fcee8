//! Bytes in order over a reliable connection of the device's: each SEND carries some.

use super::Carrier;
use crate::error::Result;
use crate::interrupt;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::thread::yield_now;
use std::time::{Duration, Instant};
use verbs_api::{
    Access, CompletionQueue, Device, MemoryRegion, PreparedQueuePair, QueueCaps, QueuePair, RecvRequest,
    SendData, SendRequest, WcOpcode, WcStatus,
};

/// Messages under way at most, each way.
const MESSAGES: usize = 16;
/// Bytes of a message at most.
const MESSAGE: usize = 1024;
/// A try lasts 4.096 us x 2^this, about a second: a pause of the whole machine is no failure of the
/// peer.
const TIMEOUT: u8 = 18;
/// How often it is seen to whether the peer is still there: by the link, and by the acknowledgement
/// of an empty message.
const INTERVAL: Duration = Duration::from_secs(1);

/// Which end of the connection this is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// It connected, and is the one to end it.
    Active,
    /// It was connected to.
    Passive,
}

/// What the queue pair of a stream works with. The memory: messages that arrive, and behind them
/// those that leave.
pub struct Queue {
    cq: CompletionQueue,
    memory: MemoryRegion,
}

/// A queue pair that is to be connected, with receives for what the peer says first.
pub fn prepare(device: &Device) -> Result<(PreparedQueuePair, Queue)> {
    let pd = device.alloc_pd();
    let count = u32::try_from(MESSAGES).unwrap_or(u32::MAX);
    let cq = device.create_cq(2 * count)?;
    let memory = pd.register(2 * MESSAGES * MESSAGE, Access::LOCAL_WRITE)?;
    let caps = QueueCaps { max_send_wr: count, max_recv_wr: count, ..QueueCaps::default() };
    let mut pair = pd.queue_pair(&cq, &cq).caps(caps).timeout(TIMEOUT).build()?;
    for place in 0..MESSAGES {
        let scatter = [memory.slice(place * MESSAGE..(place + 1) * MESSAGE)?];
        pair.post_recv(&RecvRequest { wr_id: place as u64, scatter: &scatter })?;
    }
    Ok((pair, Queue { cq, memory }))
}

/// A connected stream.
pub struct Stream {
    device: Device,
    pair: QueuePair,
    queue: Queue,
    end: End,
    /// What came and was not read yet.
    inbox: VecDeque<u8>,
    /// Places from which nothing is being sent, in units of a message.
    free: Vec<usize>,
    /// When it was last seen to whether the peer is there.
    looked_at: Instant,
    /// A request failed, or the link is down.
    failed: bool,
}

impl Stream {
    pub fn new(device: &Device, pair: QueuePair, queue: Queue, end: End) -> Self {
        let free = (MESSAGES..2 * MESSAGES).collect();
        let (inbox, looked_at) = (VecDeque::new(), Instant::now());
        Self { device: device.clone(), pair, queue, end, inbox, free, looked_at, failed: false }
    }

    /// Returns `true` if nothing more can be said.
    fn is_over(&self) -> bool {
        self.failed || self.pair.is_disconnected()
    }

    /// Runs the engine, and takes in what has completed.
    fn poll(&mut self) -> io::Result<()> {
        while let Some(done) = self.queue.cq.poll() {
            let (place, len) = (word(done.wr_id), word(done.byte_len.into()));
            if done.status != WcStatus::Success {
                self.failed = true;
            } else if done.opcode == WcOpcode::Recv {
                let mut bytes = [0; MESSAGE];
                let (start, bytes) = (place * MESSAGE, &mut bytes[..len.min(MESSAGE)]);
                self.queue.memory.read(start, bytes).map_err(io::Error::other)?;
                self.inbox.extend(&*bytes);
                let scatter = [self.queue.memory.slice(start..start + MESSAGE).map_err(io::Error::other)?];
                let request = RecvRequest { wr_id: done.wr_id, scatter: &scatter };
                self.pair.post_recv(&request).map_err(io::Error::other)?;
            } else {
                self.free.push(place);
            }
        }
        Ok(())
    }

    /// Sends a message from a free place.
    fn send(&mut self, place: usize, bytes: &[u8]) -> io::Result<()> {
        let start = place * MESSAGE;
        self.queue.memory.write(start, bytes).map_err(io::Error::other)?;
        let gather = [self.queue.memory.slice(start..start + bytes.len()).map_err(io::Error::other)?];
        let request = SendRequest::send(SendData::Gather(&gather)).id(place as u64).signaled();
        self.pair.post_send(&request).map_err(io::Error::other)
    }

    /// Whether the peer is there is known later, if it is not known now.
    #[cold]
    fn look_for_peer(&mut self) -> io::Result<()> {
        self.looked_at = Instant::now();
        self.failed |= !self.device.link_up();
        if self.free.len() < MESSAGES {
            return Ok(());
        }
        self.free.pop().map_or(Ok(()), |place| self.send(place, &[]))
    }

    /// Goes on until `done`, or `end`, or until Ctrl-C is pressed now.
    fn wait(&mut self, end: Instant, done: impl Fn(&Self) -> bool) {
        let interrupted = interrupt::check().is_err();
        while !done(self) && Instant::now() < end && (interrupted || interrupt::check().is_ok()) {
            self.failed |= self.poll().is_err();
            yield_now();
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // What was said before the end comes before it.
        let over = self.is_over();
        self.poll()?;
        if !self.inbox.is_empty() {
            return self.inbox.read(buffer);
        }
        if over {
            return Ok(0);
        }
        if self.looked_at.elapsed() > INTERVAL {
            self.look_for_peer()?;
        }
        Err(ErrorKind::WouldBlock.into())
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let place = loop {
            self.poll()?;
            if self.is_over() {
                return Err(ErrorKind::BrokenPipe.into());
            }
            if let Some(place) = self.free.pop() {
                break place;
            }
            yield_now();
        };
        let now = &bytes[..bytes.len().min(MESSAGE)];
        self.send(place, now)?;
        Ok(now.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Carrier for Stream {
    fn finish(&mut self, patience: Duration) {
        let end = Instant::now() + patience;
        self.wait(end, |stream| stream.free.len() == MESSAGES || stream.is_over());
        if self.end == End::Passive {
            self.wait(end, Self::is_over);
        }
        // Fails if it is over anyway.
        let _ = self.pair.disconnect(end.saturating_duration_since(Instant::now()));
    }
}

/// A number that is an index here.
fn word(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
