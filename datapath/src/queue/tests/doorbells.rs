//! Doorbells: one on the step from inactive to active, none else. The races are in `loom_models`.

use super::shared_in;
use crate::qp_state::QpState;
use crate::queue::*;
use std::sync::Arc;

#[test]
fn only_the_step_to_active_rings() {
    let (shared, doorbells) = shared_in(QpState::Rts);
    assert!(doorbells.is_empty());
    for _ in 0..3 {
        shared.ring();
    }
    assert_eq!(doorbells.pop(), Some(7));
    for _ in 0..3 {
        shared.ring();
        assert_eq!(doorbells.pop(), None, "still active");
    }
    shared.deactivate();
    assert!(doorbells.is_empty(), "putting to rest rings nothing");
    shared.ring();
    shared.ring();
    assert_eq!((doorbells.pop(), doorbells.pop()), (Some(7), None));
}

#[test]
fn the_engine_takes_activity_back_only_if_no_doorbell_is_on_its_way() {
    let (shared, doorbells) = shared_in(QpState::Rts);
    shared.ring();
    assert_eq!(doorbells.pop(), Some(7));
    shared.deactivate();
    assert!(shared.reactivate());
    shared.ring();
    assert!(doorbells.is_empty(), "active again without a doorbell");
    shared.deactivate();
    shared.ring();
    assert!(!shared.reactivate(), "the doorbell tells");
    assert_eq!((doorbells.pop(), doorbells.pop()), (Some(7), None));
}

#[test]
fn all_queue_pairs_of_an_engine_can_ring_at_once() {
    let doorbells = Doorbells::new(3);
    for slot in 0..3 {
        Arc::new(QpShared::new(slot, doorbells.clone())).ring();
    }
    assert_eq!([doorbells.pop(), doorbells.pop(), doorbells.pop()], [Some(0), Some(1), Some(2)]);
    assert!(doorbells.is_empty());
}

#[test]
fn every_state_is_published_as_it_is() {
    let (shared, _doorbells) = shared_in(QpState::Reset);
    for state in QpState::ALL {
        shared.set_state(state);
        assert_eq!(shared.state(), state);
    }
}
