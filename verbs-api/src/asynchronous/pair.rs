//! A queue pair whose work requests are futures.

use super::buffer::{Buffer, BufferPool};
use super::completions::{Completions, Operation};
use super::lock;
use super::receives::Receives;
use crate::error::Error;
use crate::queue_pair::QueuePair;
use crate::work_request::{RemoteAddr, SendRequest};
use datapath::queue::{RecvRequest, SendData, Sge};
use std::sync::Mutex;

/// A connected queue pair that completes at a [`Completions`]. Tasks share it: posting takes a lock.
///
/// Dropping it destroys it; what is under way ends with [`Error::QueuePairGone`].
pub struct AsyncQueuePair {
    /// `None` only while it is dropped.
    pair: Mutex<Option<QueuePair>>,
    completions: Completions,
    qpn: u32,
}

impl AsyncQueuePair {
    /// Of a queue pair that [`Completions::queue_pair`] began.
    ///
    /// # Errors
    /// [`Error::ForeignQueuePair`] if it completes elsewhere; it is gone then.
    pub fn new(completions: &Completions, pair: QueuePair) -> Result<Self, Error> {
        if !completions.are_of(&pair) {
            return Err(Error::ForeignQueuePair);
        }
        Ok(Self { qpn: pair.qpn(), pair: Mutex::new(Some(pair)), completions: completions.clone() })
    }

    /// SENDs what the buffer holds.
    pub fn send(&self, buffer: Buffer) -> Operation {
        self.post(buffer, |data| SendRequest::send(SendData::Gather(data)))
    }

    /// WRITEs what the buffer holds to the peer's memory.
    pub fn write(&self, buffer: Buffer, to: RemoteAddr) -> Operation {
        self.post(buffer, |data| SendRequest::write(SendData::Gather(data), to))
    }

    /// READs as many bytes of the peer's memory as the buffer holds ([`Buffer::resize`]).
    pub fn read(&self, buffer: Buffer, from: RemoteAddr) -> Operation {
        self.post(buffer, |data| SendRequest::read(data, from))
    }

    /// Receives one message, as long as the buffer has room for. Who may drop this before it ends takes
    /// [`receives`](Self::receives).
    pub fn recv(&self, buffer: Buffer) -> Operation {
        self.completions.begin(self.qpn, buffer, |id, buffer| {
            let scatter = [buffer.slice(true)?];
            let mut pair = lock(&self.pair);
            pair.as_mut().map_or(Ok(()), |pair| pair.post_recv(&RecvRequest { wr_id: id, scatter: &scatter }))
        })
    }

    /// All messages from now on, in order; `depth` receives, one at least, wait in buffers of `pool`.
    pub fn receives(&self, pool: &BufferPool, depth: usize) -> Receives<'_> {
        Receives::new(self, pool, depth)
    }

    fn post(&self, buffer: Buffer, request: impl FnOnce(&[Sge]) -> SendRequest<'_>) -> Operation {
        self.completions.begin(self.qpn, buffer, |id, buffer| {
            let data = [buffer.slice(false)?];
            let mut pair = lock(&self.pair);
            pair.as_mut().map_or(Ok(()), |pair| pair.post_send(&request(&data).id(id).signaled()))
        })
    }
}

impl Drop for AsyncQueuePair {
    fn drop(&mut self) {
        drop(lock(&self.pair).take());
        self.completions.abandon(self.qpn);
    }
}
