//! What holds whatever a controller hears.

use cc_dctcp::{
    AckEvent, Controller, ControllerConfig, DcqcnConfig, Dctcp, DctcpConfig, LossEvent, LossResponse,
    RTT_NS_MAX, RoundTrip, Swift, SwiftConfig, TARGET_NS_MAX,
};
use proptest::prelude::*;

#[derive(Clone, Copy, Debug)]
enum Event {
    Ack(AckEvent),
    Loss,
    Rto,
    Cnp,
}

/// A round trip that hosts spent nothing of.
fn whole(rtt_ns: u32) -> RoundTrip {
    RoundTrip::new(rtt_ns.into(), 0, 0)
}

fn ack() -> impl Strategy<Value = AckEvent> {
    let number = || prop_oneof![4 => 0..20_000_u32, 1 => any::<u32>()];
    let ce_delta = prop_oneof![3 => Just(0), 2 => 0..20_u32, 1 => any::<u32>()];
    let rtt = prop_oneof![2 => Just(None), 1 => number().prop_map(Some)];
    (number(), number(), ce_delta, rtt, number(), any::<bool>()).prop_map(
        |(acked_bytes, acked_packets, ce_delta, rtt_ns, host_delay_ns, app_limited)| AckEvent {
            now_ns: 0,
            acked_bytes,
            acked_packets,
            ce_delta,
            trip: rtt_ns.map(whole),
            host_delay_ns,
            app_limited,
        },
    )
}

/// An event, and the nanoseconds since the one before.
fn event() -> impl Strategy<Value = (Event, u64)> {
    let event = prop_oneof![
        20 => ack().prop_map(Event::Ack),
        1 => Just(Event::Loss),
        1 => Just(Event::Rto),
        1 => Just(Event::Cnp),
    ];
    let gap = prop_oneof![4 => 0..5_000_u64, 3 => 0..200_000_u64, 1 => any::<u64>()];
    (event, gap)
}

fn limits() -> impl Strategy<Value = (u32, u32, LossResponse)> {
    let window = prop_oneof![4096..5000_u32, 4096..1_000_000_u32, Just(u32::MAX)];
    let loss = prop_oneof![Just(LossResponse::None), Just(LossResponse::HalvePerEpisode)];
    (window, 256..=4096_u32, loss)
}

fn dctcp() -> impl Strategy<Value = DctcpConfig> {
    let reference = prop_oneof![Just(0), 1..=RTT_NS_MAX];
    (limits(), 1..=10_u32, reference).prop_map(
        |((max_window_bytes, mtu_bytes, loss_response), g_shift, rtt_reference_ns)| DctcpConfig {
            max_window_bytes,
            mtu_bytes,
            g_shift,
            loss_response,
            rtt_reference_ns,
        },
    )
}

fn swift() -> impl Strategy<Value = SwiftConfig> {
    let target = || prop_oneof![1..30_000_u32, 1..=TARGET_NS_MAX];
    (limits(), target(), target()).prop_map(
        |((max_window_bytes, mtu_bytes, loss_response), fabric_target_ns, host_target_ns)| SwiftConfig {
            max_window_bytes,
            mtu_bytes,
            fabric_target_ns,
            host_target_ns,
            loss_response,
        },
    )
}

/// Any controller, with its smallest and largest window and whether it hears of losses.
fn any_config() -> impl Strategy<Value = (ControllerConfig, (u32, u32, LossResponse))> {
    let dcqcn = limits().prop_map(|(max_window_bytes, mtu_bytes, loss_response)| DcqcnConfig {
        max_window_bytes,
        mtu_bytes,
        loss_response,
    });
    prop_oneof![
        dctcp().prop_map(|c| {
            (ControllerConfig::Dctcp(c), (c.max_window_bytes, c.mtu_bytes, c.loss_response))
        }),
        swift().prop_map(|c| {
            (ControllerConfig::Swift(c), (c.max_window_bytes, c.mtu_bytes, c.loss_response))
        }),
        dcqcn.prop_map(|c| {
            (ControllerConfig::Dcqcn(c), (c.max_window_bytes, c.mtu_bytes, c.loss_response))
        }),
    ]
}

/// A loss with a queue that fills half of the round trip: half the window goes.
fn queued(now_ns: u64) -> LossEvent {
    LossEvent { now_ns, queue_share: 1 << 15, ..LossEvent::default() }
}

fn apply(controller: &mut Controller, event: Event, now_ns: u64) {
    match event {
        Event::Ack(ack) => controller.on_ack(&AckEvent { now_ns, ..ack }),
        Event::Loss => controller.on_loss_episode(&queued(now_ns)),
        Event::Rto => controller.on_rto(&queued(now_ns)),
        Event::Cnp => controller.on_cnp(now_ns),
    }
}

/// Alpha in Q16 of those that have one.
fn alpha(controller: &Controller) -> Option<u32> {
    match controller {
        Controller::Dctcp(dctcp) => Some(dctcp.alpha()),
        Controller::Dcqcn(dcqcn) => Some(dcqcn.alpha()),
        Controller::Fixed(_) | Controller::Swift(_) => None,
    }
}

proptest! {
    #[test]
    fn the_window_stays_between_one_pmtu_and_the_largest(
        (config, (max, mtu, loss)) in any_config(),
        events in prop::collection::vec(event(), 1..200),
    ) {
        prop_assert_eq!(config.validate(), Ok(()));
        let mut controller = Controller::new(&config);
        prop_assert_eq!(controller.cwnd_bytes(), max);
        let mut now_ns = 0_u64;
        for (event, gap_ns) in events {
            now_ns = now_ns.saturating_add(gap_ns);
            let before = controller.cwnd_bytes();
            apply(&mut controller, event, now_ns);
            let after = controller.cwnd_bytes();
            prop_assert!((mtu..=max).contains(&after));
            prop_assert!(alpha(&controller).is_none_or(|alpha| alpha <= 65_536));
            // DCQCN makes up for silent periods first, and then cuts.
            prop_assert!(after >= before / 2, "one event halves at most: {before} to {after} by {event:?}");
            match event {
                Event::Ack(ack) => {
                    prop_assert!(after <= before || !ack.app_limited, "grew without data");
                }
                Event::Loss | Event::Rto => {
                    prop_assert!(after == before || loss == LossResponse::HalvePerEpisode);
                    prop_assert!(after <= before);
                }
                Event::Cnp => prop_assert!(after <= before),
            }
        }
    }

    #[test]
    fn dctcp_grows_without_marks_and_falls_by_marks_only(
        config in dctcp(),
        acks in prop::collection::vec(ack(), 1..200),
    ) {
        let mut dctcp = Dctcp::new(config);
        for ack in acks {
            let (before, alpha_before) = (dctcp.cwnd_bytes(), dctcp.alpha());
            dctcp.on_ack(&ack);
            let after = dctcp.cwnd_bytes();
            prop_assert!(after <= before || (ack.ce_delta == 0 && !ack.app_limited));
            prop_assert!(after >= before || (ack.ce_delta != 0 && alpha_before != 0));
        }
    }

    /// Over any stretch of events a window is cut once for each window of acknowledged bytes at
    /// most.
    #[test]
    fn one_cut_a_window(config in dctcp(), acks in prop::collection::vec((1..3000_u32, any::<bool>()), 1..300)) {
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
    fn swift_cuts_once_a_window(config in swift(), acks in prop::collection::vec(ack(), 1..300)) {
        let mut swift = Swift::new(config);
        let mut left = 0_u32;
        for ack in acks {
            let before = swift.windows();
            swift.on_ack(&ack);
            let after = swift.windows();
            if after.0 < before.0 || after.1 < before.1 {
                prop_assert_eq!(left, 0, "a window after the last cut is not over");
                let late = ack.trip.is_some_and(|trip| trip.network_ns() > config.fabric_target_ns);
                prop_assert!(after.0 >= before.0 || late, "cut without a late sample");
                prop_assert!(after.1 >= before.1 || ack.host_delay_ns > config.host_target_ns);
                left = after.0.min(after.1);
            }
            left = left.saturating_sub(ack.acked_bytes);
        }
    }

    /// After any trouble, with neither marks nor delays nor losses any more, the window never falls
    /// and gets back to the largest.
    #[test]
    fn recovery_is_monotone_and_complete(
        (config, (max, mtu, _)) in any_config(),
        trouble in prop::collection::vec(event(), 1..60),
    ) {
        // Not so large that growing by one PMTU a window takes for ever.
        prop_assume!(max / mtu < 4_000);
        let mut controller = Controller::new(&config);
        for (event, gap_ns) in trouble {
            apply(&mut controller, event, gap_ns.min(1_000_000));
        }
        let mut now_ns = 2_000_000;
        // Fair growth slows short paths down by up to 1024 times.
        let rtt_ns = match config {
            ControllerConfig::Dctcp(dctcp) => dctcp.rtt_reference_ns.max(1),
            _ => 1,
        };
        let mut calm = |controller: &mut Controller, acked_bytes, app_limited| {
            now_ns += 60_000;
            let trip = Some(whole(rtt_ns));
            let ack = AckEvent { now_ns, acked_bytes, acked_packets: 1, trip, app_limited, ..AckEvent::default() };
            controller.on_ack(&ack);
        };
        // Ends the window in progress and what a cut forbids, without growth; the smoothed round
        // trip settles.
        let before = controller.cwnd_bytes();
        for _ in 0..100 {
            calm(&mut controller, max, true);
            prop_assert_eq!(controller.cwnd_bytes(), before, "without data");
        }
        let mut windows = 0;
        while controller.cwnd_bytes() < max {
            let before = controller.cwnd_bytes();
            calm(&mut controller, before, false);
            prop_assert!(controller.cwnd_bytes() >= before);
            windows += 1;
            prop_assert!(windows < 10_000, "stuck at {} of {}", before, max);
        }
    }

    #[test]
    fn the_same_events_give_the_same_states(
        (config, _) in any_config(),
        events in prop::collection::vec(event(), 1..100),
    ) {
        let mut pair = [Controller::new(&config); 2];
        for (event, now_ns) in events {
            pair.iter_mut().for_each(|controller| apply(controller, event, now_ns));
            prop_assert_eq!(pair[0], pair[1]);
        }
    }

    #[test]
    fn dctcp_counts_bytes_and_reads_no_clock(
        config in dctcp(),
        events in prop::collection::vec(event(), 1..100),
    ) {
        let config = ControllerConfig::Dctcp(DctcpConfig { rtt_reference_ns: 0, ..config });
        let mut pair = [Controller::new(&config); 2];
        for (event, now_ns) in events {
            apply(&mut pair[0], event, now_ns);
            let other = match event {
                Event::Ack(ack) => Event::Ack(AckEvent { trip: Some(whole(7)), host_delay_ns: 9, ..ack }),
                other => other,
            };
            apply(&mut pair[1], other, 0);
            prop_assert_eq!(pair[0], pair[1]);
        }
    }
}
