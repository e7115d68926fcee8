//! The thread of a hybrid device: it drives the engine while nobody polls.

use super::idle::Idle;
use super::thread::step;
use crate::shared::Shared;
use core::time::Duration;
use datapath::queue::HandOver;
use std::thread;

/// Between two looks whether somebody polls, when somebody has begun to.
const LOOK_MIN: Duration = Duration::from_micros(50);
/// While somebody goes on polling, each time is twice as long as the one before, up to this.
const LOOK_MAX: Duration = Duration::from_millis(1);

/// Stands in whenever nobody has polled since the last look, until told to stop.
pub(crate) fn stand_by(shared: &Shared) {
    let Some(hand_over) = shared.hand_over() else { return };
    let mut until_look = LOOK_MIN;
    while !shared.stopping() {
        // Who stops polling unparks it.
        thread::park_timeout(until_look);
        if hand_over.take_poll() {
            until_look = (until_look * 2).min(LOOK_MAX);
        } else {
            stand_in(shared, hand_over);
            until_look = LOOK_MIN;
        }
    }
}

/// Drives the engine until somebody polls.
fn stand_in(shared: &Shared, hand_over: &HandOver) {
    let mut held = shared.hold();
    hand_over.set_taken(true);
    let mut idle = Idle::long(held.clock.now());
    while !(shared.stopping() || hand_over.is_polled()) {
        held = step(shared, held, &mut idle);
    }
    hand_over.set_taken(false);
}
