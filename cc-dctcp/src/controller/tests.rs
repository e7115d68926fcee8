//! Configurations, and the controller that never changes.

use crate::loss::tests::queued;
use crate::{AckEvent, ConfigError, Controller, ControllerConfig, DcqcnConfig, DctcpConfig, SwiftConfig};

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
