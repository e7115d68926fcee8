//! A queue pair whose work requests are futures.

use super::buffer::{Buffer, BufferPool};
#[cfg(doc)]
use super::completions::Done;
use super::completions::{Completions, Operation};
use super::lock;
use super::receives::Receives;
use crate::error::Error;
use crate::queue_pair::QueuePair;
use crate::work_request::{RemoteAddr, SendRequest};
#[cfg(doc)]
use datapath::memory::Access;
use datapath::queue::{RecvRequest, SendData, Sge};
use std::sync::Mutex;

/// A connected queue pair that completes at a [`Completions`]. Tasks share it: posting takes a
/// lock.
///
/// Dropping it destroys it; what is under way ends with [`Error::QueuePairGone`].
pub struct AsyncQueuePair {
    /// `None` only while it is dropped.
    pair: Mutex<Option<QueuePair>>,
    completions: Completions,
    qpn: u32,
}

impl AsyncQueuePair {
    /// Makes an asynchronous queue pair of one that [`Completions::queue_pair`] began.
    ///
    /// # Errors
    /// [`Error::ForeignQueuePair`] if it completes elsewhere; it is gone then.
    pub fn new(completions: &Completions, pair: QueuePair) -> Result<Self, Error> {
        if !completions.admit(&pair) {
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

    /// SENDs what the buffer holds, and `imm`, in host order, which the peer finds by
    /// [`Done::imm`].
    pub fn send_with_imm(&self, buffer: Buffer, imm: u32) -> Operation {
        self.post(buffer, |data| SendRequest::send(SendData::Gather(data)).with_imm(imm))
    }

    /// WRITEs what the buffer holds to the peer's memory, and tells the peer `imm`, in host order:
    /// it takes a receive, whose buffer comes back empty, with [`Done::imm`].
    pub fn write_with_imm(&self, buffer: Buffer, to: RemoteAddr, imm: u32) -> Operation {
        self.post(buffer, |data| SendRequest::write(SendData::Gather(data), to).with_imm(imm))
    }

    /// Stores `swap` to the 8 bytes at `at`, host order of the peer, if they are `compare`. What
    /// was there before is in the buffer then: [`Buffer::to_u64`]. Both are aligned to 8 bytes, and
    /// the peer's queue pair and region grant [`Access::REMOTE_ATOMIC`].
    pub fn compare_and_swap(&self, buffer: Buffer, at: RemoteAddr, compare: u64, swap: u64) -> Operation {
        self.atomic(buffer, |result| SendRequest::compare_and_swap(result, at, compare, swap))
    }

    /// Adds to the 8 bytes at `at`, host order of the peer, wrapping. Else as
    /// [`compare_and_swap`](Self::compare_and_swap).
    pub fn fetch_and_add(&self, buffer: Buffer, at: RemoteAddr, add: u64) -> Operation {
        self.atomic(buffer, |result| SendRequest::fetch_and_add(result, at, add))
    }

    /// READs as many bytes of the peer's memory as the buffer holds ([`Buffer::resize`]).
    pub fn read(&self, buffer: Buffer, from: RemoteAddr) -> Operation {
        self.post(buffer, |data| SendRequest::read(data, from))
    }

    /// Receives one message, as long as the buffer has room for. Who may drop this before it ends
    /// takes [`receives`](Self::receives).
    pub fn recv(&self, buffer: Buffer) -> Operation {
        self.completions.begin(self.qpn, buffer, |id, buffer| {
            let scatter = [buffer.slice(true)?];
            let mut pair = lock(&self.pair);
            pair.as_mut().map_or(Ok(()), |pair| pair.post_recv(&RecvRequest { wr_id: id, scatter: &scatter }))
        })
    }

    /// A stream of all messages from now on, in order. `depth` receives, one at least, wait in
    /// buffers of `pool`.
    pub fn receives(&self, pool: &BufferPool, depth: usize) -> Receives<'_> {
        Receives::new(self, pool, depth)
    }

    /// Ends a connection that was made by address: the peer is told, and both queue pairs go to
    /// ERR. What is not done by then ends with [`Error::Disconnected`] at both ends, so await what
    /// the peer is to have before. Ready when the peer has answered, has not answered for some 9 s,
    /// or cannot answer because the link is down; if the peer was first, at once. Who stops waiting
    /// has disconnected all the same.
    ///
    /// A queue pair that was connected by endpoints only goes to ERR: the peer is not told.
    ///
    /// # Errors
    /// [`Error::Connect`] if the engine refuses.
    pub async fn disconnect(&self) -> Result<(), Error> {
        // What a failure has flushed stays a failure.
        if !lock(&self.pair).as_ref().is_none_or(QueuePair::is_in_err) {
            self.completions.begin_end(self.qpn);
        }
        let end = {
            let mut pair = lock(&self.pair);
            pair.as_mut().map_or(Ok(()), QueuePair::abort)?;
            pair.as_ref().and_then(QueuePair::link_end)
        };
        if let Some(end) = end {
            end.begin_disconnect();
            end.answered().await;
        }
        Ok(())
    }

    /// Waits until a connection that was made by address is over: either end has disconnected. For
    /// who posts no receives, which would say it. Of a queue pair that was connected by endpoints
    /// this is never ready.
    pub async fn disconnected(&self) {
        let end = lock(&self.pair).as_ref().and_then(QueuePair::link_end);
        match end {
            Some(end) => end.over().await,
            None => core::future::pending().await,
        }
    }

    /// Returns `true` if a connection that was made by address is over: either end has
    /// disconnected.
    #[must_use]
    pub fn is_disconnected(&self) -> bool {
        lock(&self.pair).as_ref().is_some_and(QueuePair::is_disconnected)
    }

    /// Posts a request whose result is 8 bytes.
    fn atomic(&self, mut buffer: Buffer, request: impl FnOnce(Sge) -> SendRequest<'static>) -> Operation {
        match buffer.resize(size_of::<u64>()) {
            Ok(()) => self.post(buffer, |[result]| request(*result)),
            Err(error) => self.completions.refuse(error),
        }
    }

    fn post(&self, buffer: Buffer, request: impl FnOnce(&[Sge; 1]) -> SendRequest<'_>) -> Operation {
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
