//! The host that has the disk.

use super::wire::{Answer, Op, Outcome, Request};
use super::{DEPTH, IO_MAX};
use crate::Error;
use core::time::Duration;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use verbs_api::{
    CompletionQueue, Device, Listener, MemoryRegion, QueueCaps, QueuePair, RecvRequest, SendData,
    SendRequest, WcOpcode, WcStatus,
};

/// How long a client may take to be ready.
const PATIENCE: Duration = Duration::from_secs(10);
/// How soon somebody looks whether to stop.
const LOOK: Duration = Duration::from_millis(50);
/// READs under way, of requests to write.
const FETCHES: usize = 8;

/// Serves clients, each on a thread, from a disk of zeros of `disk_bytes`, until `stop`.
///
/// # Errors
/// What the device refuses.
pub fn serve(device: &Device, port: u16, disk_bytes: usize, stop: &AtomicBool) -> Result<(), Error> {
    let pd = device.alloc_pd();
    let disk = pd.register(disk_bytes, verbs_api::Access::LOCAL_WRITE)?;
    let listener = Listener::bind(device, port)?;
    thread::scope(|clients| {
        while !stop.load(Ordering::Relaxed) {
            let Ok(request) = listener.get_request(LOOK) else { continue };
            let cq = device.create_cq(u32::try_from(8 * DEPTH)?)?;
            let requests = pd.register(2 * DEPTH * Request::BYTES, verbs_api::Access::LOCAL_WRITE)?;
            let caps = QueueCaps {
                max_send_wr: u32::try_from(4 * DEPTH)?,
                max_recv_wr: u32::try_from(DEPTH)?,
                max_inline: u32::try_from(Answer::BYTES)?,
                ..QueueCaps::default()
            };
            let mut pair = pd.queue_pair(&cq, &cq).caps(caps).build()?;
            for slot in 0..DEPTH {
                let at = slot * Request::BYTES;
                let scatter = [requests.slice(at..at + Request::BYTES)?];
                pair.post_recv(&RecvRequest { wr_id: slot as u64, scatter: &scatter })?;
            }
            // A client that has given up is none.
            let Ok(pair) = request.accept(pair).and_then(|connecting| connecting.wait(PATIENCE)) else {
                continue;
            };
            let disk = &disk;
            clients.spawn(move || {
                let mut session =
                    Session { pair, cq, requests, disk, waiting: VecDeque::new(), fetching: VecDeque::new() };
                while !stop.load(Ordering::Relaxed) {
                    match session.turn() {
                        Ok(true) => {}
                        Ok(false) => thread::yield_now(),
                        // The client is gone.
                        Err(_) => return,
                    }
                }
            });
        }
        Ok(())
    })
}

/// A client, as the server has it.
struct Session<'a> {
    pair: QueuePair,
    cq: CompletionQueue,
    /// A place for each request.
    requests: MemoryRegion,
    disk: &'a MemoryRegion,
    /// Requests to write that wait for a READ.
    waiting: VecDeque<Request>,
    /// Those whose bytes are being read.
    fetching: VecDeque<Request>,
}

impl Session<'_> {
    /// Goes on with what has happened; false if nothing has.
    fn turn(&mut self) -> Result<bool, Error> {
        let mut happened = false;
        while let Some(done) = self.cq.poll() {
            happened = true;
            if done.status != WcStatus::Success {
                return Err(done.status.to_string().into());
            }
            match done.opcode {
                WcOpcode::Recv => self.take(usize::try_from(done.wr_id)?)?,
                WcOpcode::RdmaRead => {
                    if let Some(request) = self.fetching.pop_front() {
                        self.answer(&request, Outcome::Done)?;
                    }
                }
                _ => {}
            }
        }
        while self.fetching.len() < FETCHES
            && let Some(request) = self.waiting.pop_front()
        {
            let start = usize::try_from(request.offset)?;
            let into = [self.disk.slice(start..start + request.len as usize)?];
            self.pair.post_send(&SendRequest::read(&into, request.buffer).signaled())?;
            self.fetching.push_back(request);
        }
        Ok(happened)
    }

    /// A request has come.
    fn take(&mut self, slot: usize) -> Result<(), Error> {
        let at = slot * Request::BYTES;
        let mut bytes = [0; Request::BYTES];
        self.requests.read(at, &mut bytes)?;
        let scatter = [self.requests.slice(at..at + Request::BYTES)?];
        self.pair.post_recv(&RecvRequest { wr_id: slot as u64, scatter: &scatter })?;
        let Some(request) = Request::from_bytes(&bytes) else { return Err("it asks for nothing".into()) };
        let end = request.offset.checked_add(request.len.into());
        let is_there = end.is_some_and(|end| end <= self.disk.len() as u64);
        if !is_there || request.len as usize > IO_MAX || request.len == 0 {
            return self.answer(&request, Outcome::OutOfRange);
        }
        if request.op == Op::Write {
            self.waiting.push_back(request);
            return Ok(());
        }
        let start = usize::try_from(request.offset)?;
        let from = [self.disk.slice(start..start + request.len as usize)?];
        self.pair.post_send(&SendRequest::write(SendData::Gather(&from), request.buffer))?;
        self.answer(&request, Outcome::Done)
    }

    /// The answer comes behind the bytes, and ends the client's window.
    fn answer(&mut self, request: &Request, outcome: Outcome) -> Result<(), Error> {
        let bytes = Answer { id: request.id, outcome }.to_bytes();
        let data = SendData::Inline(&bytes);
        let answer = SendRequest::send_with_invalidate(data, request.buffer.rkey);
        Ok(self.pair.post_send(&answer.signaled())?)
    }
}
