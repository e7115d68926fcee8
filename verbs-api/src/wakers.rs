//! Tasks that wait for one thing, each of which may be cancelled at any time.

use core::task::Waker;
use std::collections::BTreeMap;

/// The wakers of futures that wait for one thing. A future that goes [removes](Self::remove) its
/// own, so that there are no more than futures.
#[derive(Default)]
pub(crate) struct Wakers {
    waiting: BTreeMap<u64, Waker>,
    #[cfg(feature = "async")]
    next: u64,
}

/// A future's place among [`Wakers`]; it has none before it waits. Places are not given twice, so
/// that an old one is nobody else's.
#[cfg(feature = "async")]
#[derive(Clone, Copy)]
pub(crate) struct Place(Option<u64>);

#[cfg(feature = "async")]
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
}

#[cfg(feature = "async")]
impl Wakers {
    /// Returns `true` if nobody waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The future of this place waits with this waker from now on. Returns the one that it had
    /// before, to be dropped without the lock.
    #[must_use]
    pub fn insert(&mut self, place: &mut Place, waker: &Waker) -> Option<Waker> {
        let key = *place.0.get_or_insert_with(|| {
            self.next += 1;
            self.next
        });
        self.waiting.insert(key, waker.clone())
    }

    /// The future of this place waits no more. Returns its waker, to be dropped without the lock.
    #[must_use]
    pub fn remove(&mut self, place: Place) -> Option<Waker> {
        self.waiting.remove(&place.0?)
    }
}
