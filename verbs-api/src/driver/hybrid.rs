//! The thread of a hybrid device: it drives the engine while nobody polls.

use super::idle::Idle;
use super::looks::{Looks, WAIT_MAX_NS};
use super::thread::{next_deadline, step, turn};
use crate::shared::Shared;
use datapath::queue::HandOver;
use std::thread;
use std::time::{Duration, Instant};

/// Stands in whenever nobody has polled since the last look, until told to stop.
pub(crate) fn stand_by(shared: &Shared) {
    let Some(hand_over) = shared.hand_over() else { return };
    let mut looks = Looks::new();
    while !shared.stopping() {
        if looks.waits_for_frames() {
            looks.woke(serve_and_wait(shared));
            continue;
        }
        let (parked, until_look) = (Instant::now(), looks.until_next());
        // Who says that he stops polling unparks it.
        thread::park_timeout(until_look);
        let announced = parked.elapsed() < until_look;
        if hand_over.take_poll() {
            looks.found_polls();
        } else {
            let received = stand_in(shared, hand_over);
            looks.stood_in(received && !announced);
        }
    }
}

/// Drives the engine until somebody polls; whether frames came.
fn stand_in(shared: &Shared, hand_over: &HandOver) -> bool {
    let mut held = shared.hold();
    hand_over.set_taken(true);
    let mut idle = Idle::long(held.clock.now());
    let mut received = false;
    while !(shared.stopping() || hand_over.is_polled()) {
        let turn;
        (held, turn) = step(shared, held, &mut idle);
        received |= turn.received > 0;
    }
    hand_over.set_taken(false);
    received
}

/// Drives the engine until it has nothing to do, and sleeps until frames come; whether some were
/// there. It does not spin, as the program may need this processor to look into its memory.
fn serve_and_wait(shared: &Shared) -> bool {
    let (mut held, mut done, mut now) = turn(shared, shared.hold());
    let mut received = false;
    while (done.received, done.sent) != (0, 0) {
        received |= done.received > 0;
        (held, done, now) = turn(shared, held);
    }
    let latest = now.after(WAIT_MAX_NS);
    let deadline = next_deadline(shared, &held).map_or(latest, |at| at.min(latest));
    drop(shared.sleep(held, Duration::from_nanos(WAIT_MAX_NS), Some(deadline)));
    received
}
