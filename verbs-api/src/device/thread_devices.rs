//! The devices without a thread of their own that the calling thread has opened. While it waits in
//! one of them, it must drive the others as well.

use crate::shared::Shared;
use std::cell::RefCell;
use std::sync::{Arc, Weak};

thread_local! {
    static OPENED: RefCell<Vec<Weak<Shared>>> = const { RefCell::new(Vec::new()) };
}

/// Adds a device that the calling thread has opened and must drive.
pub(super) fn register(shared: &Arc<Shared>) {
    // A thread that ends has nobody to wait for.
    let _ = OPENED.try_with(|opened| {
        let mut opened = opened.borrow_mut();
        opened.retain(|device| device.strong_count() > 0);
        opened.push(Arc::downgrade(shared));
    });
}

/// Runs one turn of each device of the calling thread except `shared`. True if any packet came or
/// went.
pub(super) fn turn_others(shared: &Shared) -> bool {
    // Collected first: whom a turn wakes may open a device.
    let others = OPENED.try_with(|opened| {
        let living = opened.borrow().iter().filter_map(Weak::upgrade).collect::<Vec<_>>();
        living.into_iter().filter(|other| !core::ptr::eq(&raw const **other, shared))
    });
    let turns = others.into_iter().flatten().map(|other| other.try_turn());
    // All have their turn.
    turns.filter(|turn| turn.received + turn.sent > 0).count() > 0
}
