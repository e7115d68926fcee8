//! Types with the interface of crossbeam's that loom can follow, as far as the queues use it.

use core::ops::Deref;
use core::time::Duration;
use loom::sync::{Condvar, Mutex};
use memif::Interrupt;
use std::collections::VecDeque;

/// What ends a wait, now or later. A wait has no limit: a ring that is lost is a deadlock.
pub struct Alarm {
    rung: Mutex<bool>,
    bell: Condvar,
}

impl Alarm {
    pub fn new() -> Self {
        Self { rung: Mutex::new(false), bell: Condvar::new() }
    }

    pub fn prepare(&self) -> std::io::Result<()> {
        Ok(())
    }

    pub fn ring(&self) {
        *self.rung.lock().expect("no model panics while it holds the lock") = true;
        self.bell.notify_one();
    }

    pub fn wait(&self, _port: Option<&Interrupt>, _limit: Duration) {
        let mut rung = self.rung.lock().expect("no model panics while it holds the lock");
        while !*rung {
            rung = self.bell.wait(rung).expect("no model panics while it holds the lock");
        }
        *rung = false;
    }
}

/// A value without padding: loom counts no cache lines.
pub struct CachePadded<T>(T);

impl<T> CachePadded<T> {
    pub fn new(value: T) -> Self {
        Self(value)
    }
}

impl<T> Deref for CachePadded<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// A bounded queue behind a lock. A push that does not fit fails the model at once.
pub struct ArrayQueue<T> {
    items: Mutex<VecDeque<T>>,
    capacity: usize,
}

impl<T> ArrayQueue<T> {
    pub fn new(capacity: usize) -> Self {
        Self { items: Mutex::new(VecDeque::with_capacity(capacity)), capacity }
    }

    pub fn push(&self, item: T) -> Result<(), T> {
        let mut items = self.items.lock().expect("no model panics while it holds the lock");
        assert!(items.len() < self.capacity, "more doorbells than queue pairs");
        items.push_back(item);
        Ok(())
    }

    pub fn pop(&self) -> Option<T> {
        self.items.lock().expect("no model panics while it holds the lock").pop_front()
    }

    pub fn is_empty(&self) -> bool {
        self.items.lock().expect("no model panics while it holds the lock").is_empty()
    }
}
