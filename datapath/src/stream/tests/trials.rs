//! What a stream tells its controller of losses (docs/adr/0029).

use super::{STREAM, psn};
use crate::stream::RecoveryPolicy;
use crate::stream::TxRecovery;
use crate::time::Time;
use cc_dctcp::{AckEvent, Controller, ControllerConfig, DctcpConfig, RoundTrip};

/// While a trial is judged, a queue shows itself, and a loss is confirmed: that cut is not taken
/// back with the trial's.
#[test]
fn the_end_of_a_trial_takes_back_no_confirmed_cut() {
    const MTU: u32 = 1024;
    let trip = |ns| RoundTrip::new(ns, 0, 0);
    let mut cold = TxRecovery::new(STREAM, 3, 64, RecoveryPolicy::SelectiveRepeat, psn(0));
    let mut controller = Controller::new(&ControllerConfig::Dctcp(DctcpConfig::new(64 * MTU, MTU)));
    (0..20).for_each(|_| cold.note_round_trip(&mut controller, Time::ZERO, trip(10_000)));
    cold.tell_loss(&mut controller, Time::ZERO);
    assert_eq!(controller.cwnd_bytes(), 32 * MTU, "a trial");
    controller.on_ack(&AckEvent { acked_bytes: 32 * MTU, acked_packets: 32, ..AckEvent::default() });
    (0..3).for_each(|_| cold.note_round_trip(&mut controller, Time::ZERO, trip(100_000)));
    cold.tell_loss(&mut controller, Time::ZERO);
    let confirmed = controller.cwnd_bytes();
    assert!(confirmed < 24 * MTU, "{confirmed}");
    (0..4).for_each(|_| cold.note_round_trip(&mut controller, Time::ZERO, trip(100_000)));
    assert_eq!(controller.cwnd_bytes(), confirmed);
}
