//! Configurations, and the controller that never changes.

use crate::loss::tests::{queued, whole};
use crate::{
    AckEvent, ConfigError, Controller, ControllerConfig, DcqcnConfig, DctcpConfig, LossResponse, RTT_NS_MAX,
    SwiftConfig, TARGET_NS_MAX,
};

#[test]
fn a_fixed_window_hears_nothing() {
    let mut controller = Controller::new(&ControllerConfig::Fixed { window_bytes: 10_000 });
    controller.on_ack(&AckEvent { acked_bytes: 4096, acked_packets: 4, ce_delta: 4, ..AckEvent::default() });
    controller.on_loss_episode(&queued(1));
    controller.on_rto(&queued(2));
    controller.on_cnp(3);
    assert_eq!(controller.cwnd_bytes(), 10_000);
}

#[test]
fn validation_names_what_is_wrong() {
    let good = DctcpConfig::new(1 << 20, 1024);
    let swift = SwiftConfig::new(1 << 20, 1024);
    assert_eq!(ControllerConfig::Swift(swift).validate(), Ok(()));
    assert_eq!(ControllerConfig::Dcqcn(DcqcnConfig::new(1 << 20, 1024)).validate(), Ok(()));
    assert_eq!(ControllerConfig::Dctcp(good).validate(), Ok(()));
    assert_eq!(ControllerConfig::Fixed { window_bytes: 1 }.validate(), Ok(()));
    let refused = [
        (ControllerConfig::Fixed { window_bytes: 0 }, ConfigError::ZeroWindow),
        (
            ControllerConfig::Dctcp(DctcpConfig { mtu_bytes: 255, ..good }),
            ConfigError::Mtu { mtu_bytes: 255 },
        ),
        (
            ControllerConfig::Dctcp(DctcpConfig { mtu_bytes: 4097, ..good }),
            ConfigError::Mtu { mtu_bytes: 4097 },
        ),
        (
            ControllerConfig::Dctcp(DctcpConfig { max_window_bytes: 1023, ..good }),
            ConfigError::WindowBelowMtu { max_window_bytes: 1023, mtu_bytes: 1024 },
        ),
        (ControllerConfig::Dctcp(DctcpConfig { g_shift: 0, ..good }), ConfigError::Gain { g_shift: 0 }),
        (ControllerConfig::Dctcp(DctcpConfig { g_shift: 11, ..good }), ConfigError::Gain { g_shift: 11 }),
        (
            ControllerConfig::Dctcp(DctcpConfig { rtt_reference_ns: 5_000_000, ..good }),
            ConfigError::ReferenceRtt { given_ns: 5_000_000 },
        ),
        (
            ControllerConfig::Swift(SwiftConfig { fabric_target_ns: 0, ..swift }),
            ConfigError::Target { given_ns: 0 },
        ),
        (
            ControllerConfig::Swift(SwiftConfig { host_target_ns: 5_000_000, ..swift }),
            ConfigError::Target { given_ns: 5_000_000 },
        ),
        (ControllerConfig::Dcqcn(DcqcnConfig::new(1 << 20, 0)), ConfigError::Mtu { mtu_bytes: 0 }),
    ];
    for (config, error) in refused {
        assert_eq!(config.validate(), Err(error), "{error}");
        assert!(Controller::new(&config).cwnd_bytes() > 0, "{error}");
    }
}

#[test]
fn a_parameter_may_be_at_its_limit() {
    let (dctcp, swift) = (DctcpConfig::new(4096, 4096), SwiftConfig::new(256, 256));
    for config in [
        ControllerConfig::Dctcp(dctcp),
        ControllerConfig::Dctcp(DctcpConfig { g_shift: 1, ..dctcp }),
        ControllerConfig::Dctcp(DctcpConfig { g_shift: 10, ..dctcp }),
        ControllerConfig::Dctcp(DctcpConfig { rtt_reference_ns: RTT_NS_MAX, ..dctcp }),
        ControllerConfig::Swift(swift),
        ControllerConfig::Swift(SwiftConfig { fabric_target_ns: 1, host_target_ns: TARGET_NS_MAX, ..swift }),
        ControllerConfig::Dcqcn(DcqcnConfig::new(1024, 1024)),
    ] {
        assert_eq!(config.validate(), Ok(()), "{config:?}");
    }
}

#[test]
fn an_error_names_what_was_given() {
    for (error, given) in [
        (ConfigError::ZeroWindow, "0 bytes"),
        (ConfigError::Mtu { mtu_bytes: 17 }, "17"),
        (ConfigError::WindowBelowMtu { max_window_bytes: 17, mtu_bytes: 256 }, "17"),
        (ConfigError::Gain { g_shift: 17 }, "17"),
        (ConfigError::ReferenceRtt { given_ns: 5_000_017 }, "5000017"),
        (ConfigError::Target { given_ns: 5_000_017 }, "5000017"),
    ] {
        assert!(error.to_string().contains(given), "{error}");
    }
}

const MAX: u32 = 1 << 20;

/// DCTCP, Swift, DCQCN.
fn with(loss_response: LossResponse) -> [ControllerConfig; 3] {
    [
        ControllerConfig::Dctcp(DctcpConfig { loss_response, ..DctcpConfig::new(MAX, 1024) }),
        ControllerConfig::Swift(SwiftConfig { loss_response, ..SwiftConfig::new(MAX, 1024) }),
        ControllerConfig::Dcqcn(DcqcnConfig { loss_response, ..DcqcnConfig::new(MAX, 1024) }),
    ]
}

#[test]
fn each_controller_hears_what_it_listens_to() {
    let late = AckEvent {
        acked_bytes: 1024,
        acked_packets: 1,
        ce_delta: 1,
        trip: Some(whole(u32::MAX)),
        ..AckEvent::default()
    };
    let events: [fn(&mut Controller, &AckEvent); 4] = [
        |controller, late| controller.on_ack(late),
        |controller, _| controller.on_loss_episode(&queued(0)),
        |controller, _| controller.on_rto(&queued(0)),
        |controller, _| controller.on_cnp(0),
    ];
    let heard = with(LossResponse::HalvePerEpisode).map(|config| {
        events.map(|event| {
            let mut controller = Controller::new(&config);
            event(&mut controller, &late);
            controller.cwnd_bytes() == MAX / 2
        })
    });
    assert_eq!(heard, [[true; 4], [true, true, true, false], [true; 4]], "Swift hears delays only");
}

#[test]
fn who_confirms_losses_by_delay_says_so() {
    let response = |response| with(response).map(|config| Controller::new(&config).confirms_losses());
    assert_eq!(response(LossResponse::ConfirmedByDelay), [true; 3]);
    assert_eq!(response(LossResponse::HalvePerEpisode), [false; 3]);
    assert_eq!(response(LossResponse::None), [false; 3]);
    assert!(!Controller::new(&ControllerConfig::Fixed { window_bytes: 1 }).confirms_losses());
}

#[test]
fn what_a_cut_took_is_given_back_and_no_more() {
    for config in with(LossResponse::HalvePerEpisode) {
        let mut controller = Controller::new(&config);
        controller.on_loss_episode(&queued(0));
        assert_eq!(controller.cwnd_bytes(), MAX / 2);
        controller.restore(MAX / 4);
        assert_eq!(controller.cwnd_bytes(), MAX / 2, "it is larger already");
        controller.restore(MAX);
        assert_eq!(controller.cwnd_bytes(), MAX);
        controller.on_loss_episode(&queued(1_000_000));
        assert_eq!(controller.cwnd_bytes(), MAX / 2, "the next loss is an episode of its own: {config:?}");
    }
}
