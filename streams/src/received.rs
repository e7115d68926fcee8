//! Bytes that came, where they lie.

use crate::endpoint::{Borrowed, Service};
use core::ops::Deref;
use std::sync::Arc;

/// Bytes of a stream in the memory that they came into, read by
/// [`Stream::read_buffer`](crate::Stream::read_buffer).
///
/// Dropping it gives the memory back to the stream, which then tells the peer that it may send
/// more.
pub struct Received {
    service: Arc<Service>,
    /// The stream.
    id: u64,
    borrowed: Borrowed,
    /// Bytes of the beginning that are done with.
    passed: usize,
}

impl Received {
    pub(crate) fn new(service: &Arc<Service>, id: u64, borrowed: Borrowed) -> Self {
        Self { service: Arc::clone(service), id, borrowed, passed: 0 }
    }

    /// Takes `len` bytes off the beginning, or all if there are fewer.
    pub fn advance(&mut self, len: usize) {
        self.passed += len.min(self.len());
    }
}

impl Deref for Received {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let all = match &self.borrowed {
            Borrowed::Lent { lent, .. } => lent.bytes(),
            Borrowed::Copied(bytes) => bytes,
        };
        &all[self.passed..]
    }
}

impl AsRef<[u8]> for Received {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Drop for Received {
    fn drop(&mut self) {
        if let Borrowed::Lent { slot, lent } = core::mem::take(&mut self.borrowed) {
            let chunk = lent.chunk();
            self.service.call(|state| state.give_back(self.id, slot, chunk));
        }
    }
}
