//! The thread of a hybrid device: it drives the engine while nobody polls.

use super::idle::Idle;
use super::looks::{LOOK_MIN, Looks, WAIT_MAX_NS};
use super::thread::{next_deadline, step, turn};
use crate::shared::Shared;
use core::time::Duration;
use datapath::queue::HandOver;
use std::thread;

/// Stands in whenever nobody has polled since the last look, until told to stop.
pub(crate) fn stand_by(shared: &Shared) {
    let Some(hand_over) = shared.hand_over() else { return };
    let mut looks = Looks::new();
    while !shared.stopping() {
        if looks.waits_for_frames() {
            looks.woke(serve_and_wait(shared));
            if hand_over.take_stop() {
                looks.was_told();
            }
            continue;
        }
        // Who says that he stops polling unparks it.
        thread::park_timeout(looks.until_next());
        let told = hand_over.take_stop();
        if hand_over.take_poll() {
            looks.found_polls();
        } else {
            let received = stand_in(shared, hand_over);
            looks.stood_in(received && !told);
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
/// there. A port without interrupts is looked at each 50 us. It does not spin, as the program may
/// need this processor to look into its memory.
fn serve_and_wait(shared: &Shared) -> bool {
    let (mut held, mut done, mut now) = turn(shared, shared.hold());
    let mut received = false;
    while (done.received, done.sent) != (0, 0) && !shared.stopping() {
        received |= done.received > 0;
        (held, done, now) = turn(shared, held);
    }
    let latest = now.after(WAIT_MAX_NS);
    let deadline = next_deadline(shared, &held).map_or(latest, |at| at.min(latest));
    let until_deadline = Duration::from_nanos(deadline.since(now));
    if until_deadline.is_zero() {
        // What is due waits for room in the port.
        drop(held);
        thread::yield_now();
    } else {
        drop(shared.sleep(held, LOOK_MIN.min(until_deadline), Some(deadline)));
    }
    received
}
