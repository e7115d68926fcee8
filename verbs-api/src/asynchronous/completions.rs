//! Operations under way, and the queue that tells how they end.

use super::buffer::Buffer;
use super::lock;
use crate::cm::LinkEnd;
use crate::completion::{CompletionChannel, CompletionQueue};
use crate::device::Device;
use crate::error::Error;
use crate::memory::ProtectionDomain;
use crate::queue_pair::{QueuePair, QueuePairBuilder};
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use datapath::queue::{Completion, WcFlags, WcOpcode, WcStatus};
use std::collections::HashMap;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
#[cfg(feature = "tokio")]
use std::sync::Weak;
use std::sync::{Arc, Mutex};

/// Numbers of operations begin here: those below are the program's, for what it posts itself.
const FIRST_ID: u64 = 1 << 63;

/// A completion queue whose completions are futures. Clones name the same one.
#[derive(Clone)]
pub struct Completions {
    inner: Arc<Inner>,
}

struct Inner {
    channel: CompletionChannel,
    state: Mutex<State>,
}

/// Tells the task that drives these completions that there is nothing more to drive.
#[cfg(feature = "tokio")]
impl Drop for Inner {
    fn drop(&mut self) {
        self.channel.ring();
    }
}

/// [`Completions`] that others keep.
#[cfg(feature = "tokio")]
pub(super) struct WeakCompletions(Weak<Inner>);

#[cfg(feature = "tokio")]
impl WeakCompletions {
    pub fn upgrade(&self) -> Option<Completions> {
        Some(Completions { inner: self.0.upgrade()? })
    }
}

struct State {
    cq: CompletionQueue,
    under_way: HashMap<u64, UnderWay>,
    /// The connections, by the numbers of their queue pairs.
    connections: HashMap<u32, Connection>,
    next_id: u64,
}

/// An operation that the engine has.
struct UnderWay {
    qpn: u32,
    buffer: Buffer,
    waker: Option<Waker>,
    end: End,
}

enum End {
    /// The operation has not ended, and a future waits for it.
    Awaited,
    /// The operation has not ended, and no future waits for it: the buffer goes back when it ends.
    Forgotten,
    /// The operation ended as the completion says.
    Completed(Completion),
    /// The operation was flushed because its connection was ended in order.
    Disconnected,
    /// The queue pair was dropped before the operation ended.
    Gone,
}

/// The state of the end of a queue pair's connection.
struct Connection {
    /// Tells how the peer ended it; `None` if it was connected by endpoints.
    end: Option<LinkEnd>,
    /// This end has begun to disconnect, and the queue pair had not failed.
    ending: bool,
}

impl Connection {
    /// Returns `true` if the connection was ended in order: a disconnect, and no failure, took its
    /// queue pair to ERR.
    fn is_ended(&self) -> bool {
        self.ending || self.end.as_ref().is_some_and(LinkEnd::was_ended_by_peer)
    }
}

/// The result of an operation that succeeded.
#[derive(Debug)]
pub struct Done {
    /// The completion; its `status` says whether it succeeded.
    pub completion: Completion,
    /// The buffer that the operation had.
    pub buffer: Buffer,
}

impl Done {
    /// The immediate data that the peer sent along, in host order.
    #[must_use]
    pub fn imm(&self) -> Option<u32> {
        self.completion.flags.contains(WcFlags::WITH_IMM).then_some(self.completion.imm)
    }
}

impl Completions {
    /// A completion queue of at least `entries` entries.
    ///
    /// # Errors
    /// [`Error::Create`], [`Error::Channel`]; [`Error::Unsupported`] for a device that nobody
    /// drives while tasks wait.
    pub fn new(device: &Device, entries: u32) -> Result<Self, Error> {
        device.needs_thread()?;
        let channel = device.create_channel()?;
        let cq = device.create_cq_on(&channel, entries)?;
        cq.arm(false)?;
        let state = Mutex::new(State {
            cq,
            under_way: HashMap::new(),
            connections: HashMap::new(),
            next_id: FIRST_ID,
        });
        Ok(Self { inner: Arc::new(Inner { channel, state }) })
    }

    /// A handle that does not keep it alive.
    #[cfg(feature = "tokio")]
    pub(super) fn downgrade(&self) -> WeakCompletions {
        WeakCompletions(Arc::downgrade(&self.inner))
    }

    /// Takes in a queue pair; false if it completes elsewhere.
    pub(super) fn admit(&self, pair: &QueuePair) -> bool {
        let mut state = lock(&self.inner.state);
        let here = pair.completes_at(state.cq.shared());
        if here {
            state.connections.insert(pair.qpn(), Connection { end: pair.link_end(), ending: false });
        }
        here
    }

    /// Notes that this end begins to disconnect a queue pair that has not failed.
    pub(super) fn begin_end(&self, qpn: u32) {
        if let Some(connection) = lock(&self.inner.state).connections.get_mut(&qpn) {
            connection.ending = true;
        }
    }

    /// An operation that cannot be posted.
    pub(super) fn refuse(&self, error: Error) -> Operation {
        Operation { completions: self.clone(), begun: Begun::Refused(Some(error)) }
    }

    /// Begins a reliable connection that completes here.
    pub fn queue_pair(&self, pd: &ProtectionDomain) -> QueuePairBuilder {
        let state = lock(&self.inner.state);
        pd.queue_pair(&state.cq, &state.cq)
    }

    /// Wakes who waits for what has completed; to be called when the descriptor is readable, or at
    /// any time. Returns how many operations have ended.
    ///
    /// # Errors
    /// [`Error::NoChannel`], which cannot happen.
    pub fn process(&self) -> Result<usize, Error> {
        let mut woken = Vec::new();
        let mut buffers = Vec::new();
        let ended = {
            let mut state = lock(&self.inner.state);
            while self.inner.channel.take_event().is_some() {}
            // Armed first: what comes while this looks makes another event.
            state.cq.arm(false)?;
            let mut ended = 0;
            while let Some(completion) = state.cq.poll() {
                ended += 1;
                state.complete(completion, &mut woken, &mut buffers);
            }
            ended
        };
        // Both may call into what is locked above.
        drop(buffers);
        woken.into_iter().for_each(Waker::wake);
        Ok(ended)
    }

    /// Posts what `post` posts under the number that it is given. The lock is held meanwhile, so
    /// that it cannot complete before it is known.
    pub(super) fn begin(
        &self,
        qpn: u32,
        buffer: Buffer,
        post: impl FnOnce(u64, &Buffer) -> Result<(), Error>,
    ) -> Operation {
        let mut state = lock(&self.inner.state);
        let id = state.next_id;
        if let Err(error) = post(id, &buffer) {
            drop(state);
            return self.refuse(error);
        }
        state.next_id += 1;
        state.under_way.insert(id, UnderWay { qpn, buffer, waker: None, end: End::Awaited });
        Operation { completions: self.clone(), begun: Begun::UnderWay(id) }
    }

    /// The queue pair is gone: what it had ends without completions.
    pub(super) fn abandon(&self, qpn: u32) {
        let (mut woken, mut forgotten) = (Vec::new(), Vec::new());
        let mut state = lock(&self.inner.state);
        let connection = state.connections.remove(&qpn);
        let ids: Vec<u64> =
            state.under_way.iter().filter(|(_, op)| op.qpn == qpn).map(|(id, _)| *id).collect();
        for id in ids {
            let Some(op) = state.under_way.get_mut(&id) else { continue };
            match op.end {
                End::Awaited => {
                    op.end = End::Gone;
                    woken.extend(op.waker.take());
                }
                End::Forgotten => forgotten.extend(state.under_way.remove(&id)),
                End::Completed(_) | End::Disconnected | End::Gone => {}
            }
        }
        drop(state);
        drop((connection, forgotten));
        woken.into_iter().for_each(Waker::wake);
    }

    fn poll(&self, id: u64, context: &Context<'_>) -> Poll<Result<Done, Error>> {
        let mut state = lock(&self.inner.state);
        let Some(op) = state.under_way.get_mut(&id) else {
            return Poll::Ready(Err(Error::QueuePairGone));
        };
        if matches!(op.end, End::Awaited) {
            let before = op.waker.replace(context.waker().clone());
            // Without the lock, which the task of the one before may take when it goes.
            drop(state);
            drop(before);
            return Poll::Pending;
        }
        let ended = state.under_way.remove(&id);
        drop(state);
        Poll::Ready(match ended {
            Some(UnderWay { end: End::Completed(completion), mut buffer, .. }) => {
                if completion.status == WcStatus::Success {
                    match completion.opcode {
                        WcOpcode::Recv => buffer.received(completion.byte_len),
                        // The data went where the peer has written them.
                        WcOpcode::RecvRdmaWithImm => buffer.received(0),
                        _ => {}
                    }
                }
                Ok(Done { completion, buffer })
            }
            Some(UnderWay { end: End::Disconnected, .. }) => Err(Error::Disconnected),
            _ => Err(Error::QueuePairGone),
        })
    }

    fn forget(&self, id: u64) {
        let mut state = lock(&self.inner.state);
        let Some(op) = state.under_way.get_mut(&id) else { return };
        let waker = op.waker.take();
        let ended = match op.end {
            End::Awaited => {
                op.end = End::Forgotten;
                None
            }
            _ => state.under_way.remove(&id),
        };
        drop(state);
        // Its buffer may wake who waits for one, and the task of its waker may take the lock when
        // it goes.
        drop((ended, waker));
    }
}

impl State {
    fn complete(&mut self, completion: Completion, woken: &mut Vec<Waker>, buffers: &mut Vec<Buffer>) {
        let Some(op) = self.under_way.get_mut(&completion.wr_id) else { return };
        if matches!(op.end, End::Forgotten) {
            buffers.extend(self.under_way.remove(&completion.wr_id).map(|op| op.buffer));
            return;
        }
        // Whoever ends a connection marks it before the queue pair goes to ERR, or keeps who asks
        // waiting until it has.
        let flushed = completion.status == WcStatus::WrFlushErr;
        let ended = flushed && self.connections.get(&op.qpn).is_some_and(Connection::is_ended);
        op.end = if ended { End::Disconnected } else { End::Completed(completion) };
        woken.extend(op.waker.take());
    }
}

impl AsFd for Completions {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.channel.as_fd()
    }
}

impl AsRawFd for Completions {
    fn as_raw_fd(&self) -> RawFd {
        self.inner.channel.as_raw_fd()
    }
}

/// A posted work request; it is posted when this is made, not when it is polled first. Dropping it
/// lets the operation go on, and its buffer goes back to the pool when it has ended.
#[must_use = "without awaiting it nobody learns how it ends"]
pub struct Operation {
    completions: Completions,
    begun: Begun,
}

enum Begun {
    UnderWay(u64),
    /// The request could not be posted; `None` once the error was returned.
    Refused(Option<Error>),
}

impl Future for Operation {
    /// An error if it was not posted ([`Error::Post`]), if it was not done when the connection was
    /// ended in order ([`Error::Disconnected`]), or if its queue pair is gone
    /// ([`Error::QueuePairGone`]); else how it ended, which may be a failure as well.
    type Output = Result<Done, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.begun {
            Begun::Refused(error) => Poll::Ready(Err(error.take().unwrap_or(Error::QueuePairGone))),
            Begun::UnderWay(id) => {
                let id = *id;
                let end = self.completions.poll(id, context);
                if end.is_ready() {
                    self.begun = Begun::Refused(None);
                }
                end
            }
        }
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        if let Begun::UnderWay(id) = self.begun {
            self.completions.forget(id);
        }
    }
}
