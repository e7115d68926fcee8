//! The messages of a peer as a stream.

use super::buffer::BufferPool;
use super::completions::{Done, Operation};
use super::pair::AsyncQueuePair;
use crate::error::Error;
use core::pin::Pin;
use core::task::{Context, Poll};
use datapath::queue::WcStatus;
use futures_core::Stream;
use std::collections::VecDeque;

/// Messages in the order of sending, from [`AsyncQueuePair::receives`]. Whoever stops waiting for
/// the next loses none: it stays until asked for, or until this is dropped.
///
/// A message's buffer is posted again when it is dropped. The stream ends behind the first receive
/// that failed, or that was not done when the connection was ended in order
/// ([`Error::Disconnected`]).
pub struct Receives<'a> {
    pair: &'a AsyncQueuePair,
    pool: BufferPool,
    depth: usize,
    /// Posted, the oldest first.
    posted: VecDeque<Operation>,
    ended: bool,
}

impl<'a> Receives<'a> {
    pub(super) fn new(pair: &'a AsyncQueuePair, pool: &BufferPool, depth: usize) -> Self {
        // Without one nothing would ever come.
        let depth = depth.max(1);
        let mut receives =
            Self { pair, pool: pool.clone(), depth, posted: VecDeque::with_capacity(depth), ended: false };
        while receives.posted.len() < depth
            && let Some(buffer) = receives.pool.take()
        {
            receives.posted.push_back(pair.recv(buffer));
        }
        receives
    }

    /// The next message; `None` when there will be no more.
    ///
    /// # Errors
    /// [`Error::Disconnected`] when the connection was ended in order; [`Error::Post`],
    /// [`Error::QueuePairGone`]. Behind an error there are no more.
    pub async fn next(&mut self) -> Option<Result<Done, Error>> {
        core::future::poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }

    fn refill(&mut self, context: &Context<'_>) {
        while self.posted.len() < self.depth
            && let Some(buffer) = self.pool.take_or_wait(context.waker())
        {
            self.posted.push_back(self.pair.recv(buffer));
        }
    }
}

impl Stream for Receives<'_> {
    type Item = Result<Done, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.ended {
            return Poll::Ready(None);
        }
        self.refill(context);
        let Some(oldest) = self.posted.front_mut() else { return Poll::Pending };
        let Poll::Ready(item) = Pin::new(oldest).poll(context) else { return Poll::Pending };
        self.posted.pop_front();
        self.ended = item.as_ref().map_or(true, |done| done.completion.status != WcStatus::Success);
        Poll::Ready(Some(item))
    }
}
