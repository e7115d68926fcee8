//! What holds whatever a controller hears.

use cc_dctcp::{AckEvent, Controller, ControllerConfig, Dctcp, DctcpConfig, LossResponse};
use proptest::prelude::*;

#[derive(Clone, Copy, Debug)]
enum Event {
    Ack(AckEvent),
    Loss,
    Rto,
    Cnp,
}

fn ack() -> impl Strategy<Value = AckEvent> {
    let number = || prop_oneof![4 => 0..20_000_u32, 1 => any::<u32>()];
    let ce_delta = prop_oneof![3 => Just(0), 2 => 0..20_u32, 1 => any::<u32>()];
    (number(), number(), ce_delta, any::<bool>()).prop_map(
        |(acked_bytes, acked_packets, ce_delta, app_limited)| AckEvent {
            acked_bytes,
            acked_packets,
            ce_delta,
            app_limited,
            ..AckEvent::default()
        },
    )
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        20 => ack().prop_map(Event::Ack),
        1 => Just(Event::Loss),
        1 => Just(Event::Rto),
        1 => Just(Event::Cnp),
    ]
}

fn config() -> impl Strategy<Value = DctcpConfig> {
    let window = prop_oneof![4096..5000_u32, 4096..1_000_000_u32, Just(u32::MAX)];
    let loss = prop_oneof![Just(LossResponse::None), Just(LossResponse::HalvePerEpisode)];
    (window, 256..=4096_u32, 1..=10_u32, loss).prop_map(
        |(max_window_bytes, mtu_bytes, g_shift, loss_response)| DctcpConfig {
            max_window_bytes,
            mtu_bytes,
            g_shift,
            loss_response,
        },
    )
}

fn apply(controller: &mut Controller, event: Event) {
    match event {
        Event::Ack(ack) => controller.on_ack(&ack),
        Event::Loss => controller.on_loss_episode(0),
        Event::Rto => controller.on_rto(0),
        Event::Cnp => controller.on_cnp(0),
    }
}

fn alpha(controller: &Controller) -> u32 {
    let Controller::Dctcp(dctcp) = controller else { panic!("{controller:?}") };
    dctcp.alpha()
}

proptest! {
    #[test]
    fn the_window_stays_between_one_pmtu_and_the_largest(
        config in config(),
        events in prop::collection::vec(event(), 1..200),
    ) {
        let mut controller = Controller::new(&ControllerConfig::Dctcp(config));
        prop_assert_eq!(controller.cwnd_bytes(), config.max_window_bytes);
        for event in events {
            let (before, alpha_before) = (controller.cwnd_bytes(), alpha(&controller));
            apply(&mut controller, event);
            let after = controller.cwnd_bytes();
            prop_assert!((config.mtu_bytes..=config.max_window_bytes).contains(&after));
            prop_assert!(alpha(&controller) <= 65_536);
            prop_assert!(after >= before / 2, "one event halves at most: {before} to {after} by {event:?}");
            match event {
                Event::Ack(ack) => {
                    prop_assert!(after <= before || (ack.ce_delta == 0 && !ack.app_limited));
                    prop_assert!(after >= before || (ack.ce_delta != 0 && alpha_before != 0));
                }
                Event::Loss | Event::Rto => {
                    prop_assert!(after == before || config.loss_response == LossResponse::HalvePerEpisode);
                }
                Event::Cnp => prop_assert!(after <= before),
            }
        }
    }

    /// Over any stretch of events a window is cut once for each window of acknowledged bytes at most.
    #[test]
    fn one_cut_a_window(config in config(), acks in prop::collection::vec((1..3000_u32, any::<bool>()), 1..300)) {
        let mut dctcp = Dctcp::new(config);
        let mut acked_since_cut = u64::MAX;
        for (acked_bytes, marked) in acks {
            let before = dctcp.cwnd_bytes();
            let ce_delta = u32::from(marked);
            dctcp.on_ack(&AckEvent { acked_bytes, acked_packets: 1, ce_delta, ..AckEvent::default() });
            if dctcp.cwnd_bytes() < before {
                prop_assert!(acked_since_cut >= u64::from(before), "{acked_since_cut} of {before}");
                acked_since_cut = u64::from(acked_bytes);
            } else {
                acked_since_cut = acked_since_cut.saturating_add(u64::from(acked_bytes));
            }
        }
    }

    #[test]
    fn the_same_events_give_the_same_states(
        config in config(),
        events in prop::collection::vec(event(), 1..100),
        times in any::<(u64, u64)>(),
    ) {
        let mut pair = [Controller::new(&ControllerConfig::Dctcp(config)); 2];
        for event in events {
            for (controller, now_ns) in pair.iter_mut().zip([times.0, times.1]) {
                match event {
                    // DCTCP counts bytes: the clock and delays do not matter.
                    Event::Ack(ack) => controller.on_ack(&AckEvent { now_ns, rtt_ns: Some(7), ..ack }),
                    Event::Loss => controller.on_loss_episode(now_ns),
                    Event::Rto => controller.on_rto(now_ns),
                    Event::Cnp => controller.on_cnp(now_ns),
                }
            }
            prop_assert_eq!(pair[0], pair[1]);
        }
    }
}
