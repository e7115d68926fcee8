//! The recursion alpha <- (1 - g) alpha + g F in Q16 against the same in exact rational numbers.

use cc_dctcp::{AckEvent, Dctcp, DctcpConfig, LossEvent};
use num_bigint::BigInt;
use num_rational::BigRational;
use proptest::prelude::*;

const MTU: u32 = 1024;
const WINDOW: u32 = 16 * MTU;

fn ratio(numerator: u32, denominator: u32) -> BigRational {
    BigRational::new(numerator.into(), denominator.into())
}

/// What one window of acknowledgements said.
#[derive(Clone, Copy, Debug)]
struct Window {
    packets: u32,
    marked: u32,
}

fn window() -> impl Strategy<Value = Window> {
    let marked = prop_oneof![1 => Just(0), 1 => 0..40_u32, 1 => 0..1000_u32];
    (1..500_u32, marked).prop_map(|(packets, marked)| Window { packets, marked })
}

/// A loss with a queue that fills half of the round trip: half the window goes.
fn queued(now_ns: u64) -> LossEvent {
    LossEvent { now_ns, queue_share: 1 << 15, ..LossEvent::default() }
}

/// A controller at one PMTU that stays there, and alpha's exact value: every PMTU of acknowledged
/// bytes is a window.
fn smallest(g_shift: u32) -> (Dctcp, BigRational) {
    let mut dctcp = Dctcp::new(DctcpConfig { g_shift, ..DctcpConfig::new(2 * MTU, MTU) });
    dctcp.on_rto(&queued(0));
    assert_eq!(dctcp.cwnd_bytes(), MTU);
    // the window that began before the timeout
    acknowledge(&mut dctcp, 2 * MTU, Window { packets: 1, marked: 0 });
    (dctcp, ratio(1, 1) - ratio(1, 1 << g_shift))
}

fn acknowledge(dctcp: &mut Dctcp, acked_bytes: u32, Window { packets, marked }: Window) {
    dctcp.on_ack(&AckEvent {
        acked_bytes,
        acked_packets: packets,
        ce_delta: marked,
        app_limited: true,
        ..AckEvent::default()
    });
}

proptest! {
    #[test]
    fn alpha_is_exact_to_two_units(
        g_shift in 1..=10_u32,
        windows in prop::collection::vec((window(), 1..MTU), 1..80),
    ) {
        let (mut dctcp, mut exact) = smallest(g_shift);
        let (one, g) = (ratio(1, 1), ratio(1, 1 << g_shift));
        for (Window { packets, marked }, bytes) in windows {
            let before = dctcp.alpha();
            acknowledge(&mut dctcp, bytes, Window { packets: packets / 2, marked: marked / 2 });
            prop_assert_eq!(dctcp.alpha(), before, "once a window");
            let (packets_left, marked_left) = (packets.div_ceil(2), marked.div_ceil(2));
            acknowledge(&mut dctcp, MTU - bytes, Window { packets: packets_left, marked: marked_left });

            exact = (&one - &g) * exact + &g * ratio(marked, packets).min(one.clone());
            // Two numbers are cut to whole units in each step, with opposite signs and weight g;
            // alpha itself is the third.
            let error = ratio(dctcp.alpha(), 1) - &exact * BigInt::from(65_536);
            prop_assert!(error < ratio(1, 1), "{error} units too high");
            prop_assert!(error > -ratio(2, 1), "{error} units too low");
        }
    }
}

/// alpha after each of `windows` windows of 16 packets of which `marked` are marked.
fn settle(marked: u32, windows: usize) -> Vec<u32> {
    let mut dctcp = Dctcp::new(DctcpConfig::new(WINDOW, MTU));
    (0..windows)
        .map(|_| {
            let mut left = dctcp.cwnd_bytes();
            while left != 0 {
                let acked_bytes = left.min(MTU);
                dctcp.on_ack(&AckEvent {
                    acked_bytes,
                    acked_packets: 16,
                    ce_delta: marked,
                    ..AckEvent::default()
                });
                left -= acked_bytes;
            }
            dctcp.alpha()
        })
        .collect()
}

#[test]
fn alpha_decays_to_zero_and_settles_at_the_marked_fraction() {
    let calm = settle(0, 250);
    assert!(calm.is_sorted_by(|a, b| a >= b));
    assert_eq!(calm[0], 65_536 / 16 * 15);
    assert_eq!(calm[249], 0, "nothing is left over by rounding");
    for marked in [1, 3, 8, 16] {
        assert_eq!(settle(marked, 400)[399], 65_536 / 16 * marked);
    }
}
