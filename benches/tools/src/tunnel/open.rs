//! The connections that a tunnel has at once.

use super::relay::Connection;
use crate::program;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Between two looks whether all have ended.
const LOOK: Duration = Duration::from_millis(10);
/// How long those that were given up may take to tell their peers.
const FAREWELL: Duration = Duration::from_secs(1);

/// Those that are being made, or carried.
#[derive(Default)]
pub struct Open {
    places: Mutex<Places>,
}

#[derive(Default)]
struct Places {
    /// The next one's number.
    next: u64,
    /// By number; empty while one is being made.
    connections: BTreeMap<u64, Weak<Connection>>,
}

/// A connection's place, until it ends.
pub struct Place {
    open: Arc<Open>,
    number: u64,
}

impl Open {
    fn lock(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for one that comes.
    pub fn place(open: &Arc<Self>) -> Place {
        let mut places = open.lock();
        let number = places.next;
        places.next += 1;
        places.connections.insert(number, Weak::new());
        drop(places);
        Place { open: Arc::clone(open), number }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.lock().connections.len()
    }

    /// Waits until there is none, `limit` at most.
    pub fn wait(&self, limit: Duration) {
        let end = Instant::now() + limit;
        while self.count() > 0 && Instant::now() < end {
            sleep(LOOK);
        }
    }

    /// Ends those that there are: their peers see a reset.
    pub fn reset(&self) {
        let left: Vec<Weak<Connection>> = self.lock().connections.values().cloned().collect();
        if left.is_empty() {
            return;
        }
        program::say(format_args!("{} connections are reset", left.len()));
        left.iter().filter_map(Weak::upgrade).for_each(|connection| connection.give_up());
        self.wait(FAREWELL);
    }
}

impl Place {
    /// The connection is made.
    pub fn hold(&self, connection: &Arc<Connection>) {
        self.open.lock().connections.insert(self.number, Arc::downgrade(connection));
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.open.lock().connections.remove(&self.number);
    }
}
