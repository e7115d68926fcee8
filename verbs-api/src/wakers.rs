//! Tasks and threads that wait for one thing, each of which may give up at any time.

use core::task::Waker;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::Wake;
use std::thread::{self, Thread};

/// The wakers of those that wait for one thing. A future that goes, or a thread that waits no more,
/// [removes](Self::remove) its own, so that there are no more than who waits.
#[derive(Default)]
pub(crate) struct Wakers {
    waiting: BTreeMap<u64, Waker>,
    next: u64,
}

/// A place among [`Wakers`]; who waits has none before it does. Places are not given twice, so that
/// an old one is nobody else's.
#[derive(Clone, Copy)]
pub(crate) struct Place(Option<u64>);

/// Ends a thread's sleep.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Wakes the calling thread from [`thread::park_timeout`].
pub(crate) fn thread_waker() -> Waker {
    thread_local! {
        static OWN: Waker = Waker::from(Arc::new(Unpark(thread::current())));
    }
    OWN.with(Waker::clone)
}

impl Place {
    pub const fn new() -> Self {
        Self(None)
    }
}

impl Wakers {
    /// Takes all wakers. The caller wakes or drops them without the lock that this is behind, as
    /// their tasks may take that lock.
    pub fn take(&mut self) -> Vec<Waker> {
        core::mem::take(&mut self.waiting).into_values().collect()
    }

    /// Returns `true` if nobody waits.
    #[cfg(feature = "async")]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Who has this place waits with this waker from now on. Returns the one that it had before, to
    /// be dropped without the lock.
    #[must_use]
    pub fn insert(&mut self, place: &mut Place, waker: &Waker) -> Option<Waker> {
        let key = *place.0.get_or_insert_with(|| {
            self.next += 1;
            self.next
        });
        self.waiting.insert(key, waker.clone())
    }

    /// Who has this place waits no more. Returns its waker, to be dropped without the lock.
    #[must_use]
    pub fn remove(&mut self, place: Place) -> Option<Waker> {
        self.waiting.remove(&place.0?)
    }
}
