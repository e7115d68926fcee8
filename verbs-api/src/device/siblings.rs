//! Devices without a thread of their own that one thread has opened: while it waits in one of them, nobody drives the others.

use crate::shared::Shared;
use std::cell::RefCell;
use std::sync::{Arc, Weak};

thread_local! {
    static OPENED: RefCell<Vec<Weak<Shared>>> = const { RefCell::new(Vec::new()) };
}

/// This thread has opened a device that it is to drive.
pub(super) fn note(shared: &Arc<Shared>) {
    // A thread that ends has nobody to wait for.
    let _ = OPENED.try_with(|opened| {
        let mut opened = opened.borrow_mut();
        opened.retain(|device| device.strong_count() > 0);
        opened.push(Arc::downgrade(shared));
    });
}

/// One turn of each but `shared`. True if anything came or went.
pub(super) fn turn(shared: &Shared) -> bool {
    // Collected first: whom a turn wakes may open a device.
    let others = OPENED.try_with(|opened| {
        let living = opened.borrow().iter().filter_map(Weak::upgrade).collect::<Vec<_>>();
        living.into_iter().filter(|other| !core::ptr::eq(&raw const **other, shared))
    });
    let turns = others.into_iter().flatten().map(|other| other.try_turn());
    // All have their turn.
    turns.filter(|turn| turn.received + turn.sent > 0).count() > 0
}
