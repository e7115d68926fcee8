//! Times of an acknowledgement in each controller, as marks, delays and pauses come and go.

use cc_dctcp::{AckEvent, Controller, ControllerConfig, DcqcnConfig, DctcpConfig, RoundTrip, SwiftConfig};
use criterion::{Criterion, Throughput, criterion_main};
use std::hint::black_box;
use std::time::Duration;

const WINDOW_BYTES: u32 = 512 * 1024;
const MTU_BYTES: u32 = 4096;
/// Acknowledgements of the script that each is told, over and over.
const EVENTS: u32 = 256;
/// Between two of them.
const ACK_NS: u64 = 1_300;

/// Of 4 packets each: every eighth has a mark, the round trip swings from 10 to 40 us around
/// Swift's target.
fn script() -> Vec<AckEvent> {
    let event = |index: u32| AckEvent {
        now_ns: 0,
        acked_bytes: 4 * MTU_BYTES,
        acked_packets: 4,
        ce_delta: u32::from(index.is_multiple_of(8)),
        trip: Some(RoundTrip::new((10_000 + index.abs_diff(EVENTS / 2) * 240).into(), 0, 0)),
        host_delay_ns: 1_000,
        app_limited: index % 32 == 31,
    };
    (0..EVENTS).map(event).collect()
}

fn benches() {
    let mut criterion = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(500))
        .configure_from_args();
    let configs = [
        ("fixed window", ControllerConfig::Fixed { window_bytes: WINDOW_BYTES }),
        ("DCTCP", ControllerConfig::Dctcp(DctcpConfig::new(WINDOW_BYTES, MTU_BYTES))),
        ("Swift", ControllerConfig::Swift(SwiftConfig::new(WINDOW_BYTES, MTU_BYTES))),
        ("DCQCN", ControllerConfig::Dcqcn(DcqcnConfig::new(WINDOW_BYTES, MTU_BYTES))),
    ];
    let script = script();
    let mut group = criterion.benchmark_group("controller/acknowledgement");
    group.throughput(Throughput::Elements(EVENTS.into()));
    for (name, config) in configs {
        config.validate().expect("a window of 128 packets");
        let (mut controller, mut now_ns) = (Controller::new(&config), 0);
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                for event in black_box(&script) {
                    now_ns += ACK_NS;
                    controller.on_ack(&AckEvent { now_ns, ..*event });
                    // The window is asked for after each.
                    black_box(controller.cwnd_bytes());
                }
            });
        });
    }
    group.finish();
    criterion.final_summary();
}

criterion_main!(benches);
