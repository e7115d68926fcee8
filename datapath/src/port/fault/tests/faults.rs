use super::*;
use proptest::prelude::*;

fn tx(port: &Fault<TestPort>) -> LaneStats {
    port.fault_stats().tx
}

/// That `count` of `of` is near `ratio`: within six standard deviations.
fn assert_near(count: u64, of: u64, ratio: f64) {
    let (count, of) = (count as f64, of as f64);
    let deviation = (of * ratio * (1.0 - ratio)).sqrt();
    assert!((count - of * ratio).abs() < 6.0 * deviation, "{count} of {of}, not about {ratio}");
}

#[test]
fn without_faults_everything_passes_in_order() {
    let mut port = faulty("");
    assert_eq!(send_all(&mut port, 0, 100), Vec::from_iter(0..100));
    assert_eq!(receive_all(&mut port, 0, 100), Vec::from_iter(0..100));
    let expected = LaneStats { frames: 100, passed: 100, passed_bytes: 6400, ..LaneStats::default() };
    assert_eq!(port.fault_stats(), FaultStats { tx: expected, rx: expected });
}

#[test]
fn loss_is_as_likely_as_asked_for_and_counted() {
    let mut port = faulty("loss=10%,seed=1");
    let sent = send_all(&mut port, 0, 20_000).len() as u64;
    let received = receive_all(&mut port, 0, 20_000).len() as u64;
    let FaultStats { tx, rx } = port.fault_stats();
    assert_eq!((tx.lost, rx.lost), (20_000 - sent, 20_000 - received));
    assert_near(tx.lost, 20_000, 0.1);
    assert_near(rx.lost, 20_000, 0.1);
}

#[test]
fn what_is_late_waits() {
    let mut port = faulty("delay=1ms");
    assert_eq!(port.tx_waiting(), Some(0));
    assert_eq!(send_all(&mut port, 0, 5), []);
    assert_eq!(port.tx_waiting(), Some(5));
    port.set_now(Time(1_000_000));
    port.tx_flush();
    assert_eq!(port.tx_waiting(), Some(0));
}

#[test]
fn total_loss_lets_nothing_through() {
    let mut port = faulty("loss=100%");
    assert_eq!(send_all(&mut port, 0, 1000), []);
    assert_eq!(receive_all(&mut port, 0, 1000), []);
    assert_eq!(tx(&port).lost, 1000);
}

#[test]
fn bursts_are_as_long_as_asked_for() {
    let mut port = faulty("burst=1%,burst_len=10,seed=3");
    let passed = send_all(&mut port, 0, 50_000);
    let bursts = passed.windows(2).filter(|pair| pair[1] != pair[0] + 1).count() as u64;
    let lost = tx(&port).burst_lost;
    assert_eq!(lost + passed.len() as u64, 50_000);
    assert_near(bursts, passed.len() as u64, 0.01);
    let mean = lost as f64 / bursts as f64;
    assert!((8.0..12.0).contains(&mean), "mean burst {mean}");
}

#[test]
fn a_burst_on_a_direction_with_few_frames_ends_in_time() {
    let mut port = faulty("burst=100%,burst_len=4294967295,burst_max=2ms,seed=3");
    let mut lost_at = |now_us: u64, number| {
        port.set_now(Time(now_us * 1000));
        send_all(&mut port, number, number + 1).is_empty()
    };
    // With `burst=100%` the next one begins at once, so that the times of both show.
    assert!([0, 500, 1999, 2000, 3999, 4000].into_iter().zip(0..).all(|(now, number)| lost_at(now, number)));
    let mut port = faulty("burst=5%,burst_len=4294967295,burst_max=2ms,seed=3");
    let passed = (0..2000).filter(|number| {
        port.set_now(Time(u64::from(*number) * 1_000_000));
        !send_all(&mut port, *number, number + 1).is_empty()
    });
    // Two frames a burst: the one that begins it, and the one a millisecond later.
    let passed = passed.count() as u64;
    assert_eq!(tx(&port).burst_lost, 2000 - passed);
    assert_near(passed, 2000, 0.95 / 1.05);
}

#[test]
fn a_burst_of_length_one_is_a_single_loss() {
    let mut port = faulty("burst=20%,burst_len=1,seed=3");
    let passed = send_all(&mut port, 0, 20_000);
    assert_near(tx(&port).burst_lost, 20_000, 0.2);
    assert_eq!(tx(&port).burst_lost + passed.len() as u64, 20_000);
}

#[test]
fn a_duplicate_follows_its_original() {
    let mut port = faulty("dup=100%");
    assert_eq!(send_all(&mut port, 0, 3), [0, 0, 1, 1, 2, 2]);
    assert_eq!(receive_all(&mut port, 0, 3), [0, 0, 1, 1, 2, 2]);
    assert_eq!((tx(&port).duplicated, tx(&port).passed), (3, 6));
}

#[test]
fn exactly_so_many_frames_overtake_one_held_back() {
    // A seed under which, of 8 frames, only frame 2 is held back.
    let seed = (0..).find(|seed| {
        let mut port = faulty(&format!("reorder=10%,reorder_by=3,seed={seed}"));
        send_all(&mut port, 0, 2);
        let before = tx(&port).reordered;
        send_all(&mut port, 2, 3);
        let at = tx(&port).reordered;
        send_all(&mut port, 3, 8);
        (before, at, tx(&port).reordered) == (0, 1, 1)
    });
    let mut port = faulty(&format!("reorder=10%,reorder_by=3,seed={}", seed.unwrap()));
    assert_eq!(send_all(&mut port, 0, 8), [0, 1, 3, 4, 5, 2, 6, 7]);
}

#[test]
fn a_frame_held_back_leaves_in_time_if_nothing_follows() {
    let mut port = faulty("reorder=100%,reorder_max=50us,dir=tx");
    port.set_now(Time(1_000));
    assert_eq!(send_all(&mut port, 0, 1), []);
    assert_eq!(port.next_due(), Some(Time(51_000)));
    port.set_now(Time(50_999));
    assert_eq!(send_all(&mut port, 0, 0), []);
    port.set_now(Time(51_000));
    port.tx_flush();
    assert_eq!(numbers(&port.inner().wire), [0]);
    assert_eq!(port.next_due(), None);
}

#[test]
fn a_delay_is_kept_to_the_nanosecond_in_both_directions() {
    let mut port = faulty("delay=20us");
    port.set_now(Time(500));
    assert_eq!(send_all(&mut port, 0, 2), []);
    assert_eq!(receive_all(&mut port, 7, 9), []);
    assert_eq!(port.next_due(), Some(Time(20_500)));
    for (now, expected) in [(20_499, 0), (20_500, 2)] {
        port.set_now(Time(now));
        assert_eq!(receive(&mut port).len(), expected);
        assert_eq!(send_all(&mut port, 0, 0).len(), 0);
        port.tx_flush();
        assert_eq!(std::mem::take(&mut port.inner_mut().wire).len(), expected);
    }
}

#[test]
fn time_never_goes_back() {
    let mut port = faulty("delay=10ns");
    port.set_now(Time(100));
    port.set_now(Time(50));
    send_all(&mut port, 0, 1);
    assert_eq!(port.next_due(), Some(Time(110)));
}

#[test]
fn corruption_flips_one_bit_and_duplicates_carry_it() {
    let mut port = faulty("corrupt=100%,dup=100%,seed=5");
    for number in 0..100 {
        send(&mut port, &frame(number));
        port.tx_flush();
        let wire = std::mem::take(&mut port.inner_mut().wire);
        assert_eq!(wire[0], wire[1]);
        let changed = wire[0].iter().zip(frame(number)).map(|(a, b)| (a ^ b).count_ones()).sum::<u32>();
        assert_eq!(changed, 1);
    }
    assert_eq!(tx(&port).corrupted, 100);
}

#[test]
fn only_capable_packets_count_as_marked() {
    let mut packet = frame(0);
    packet[12..16].copy_from_slice(&[0x08, 0x00, 0x45, 0x02]);
    let mut port = faulty("ecn=100%");
    send(&mut port, &packet);
    send(&mut port, &frame(1));
    port.tx_flush();
    assert_eq!(tx(&port).marked, 1);
    assert_eq!(port.inner().wire[0][15], 0x03);
    assert_eq!(port.inner().wire[1], frame(1));
}

#[test]
fn a_full_queue_drops_the_newest() {
    let mut port = faulty("delay=1us,queue=4");
    assert_eq!(send_all(&mut port, 0, 10), []);
    assert_eq!(tx(&port).queue_full, 6);
    port.set_now(Time(1_000));
    port.tx_flush();
    assert_eq!(numbers(&port.inner().wire), [0, 1, 2, 3]);
    assert_eq!(port.stats().tx_dropped, 6);
}

#[test]
fn a_duplicate_that_finds_no_room_is_dropped_alone() {
    let mut port = faulty("delay=1us,queue=1,dup=100%");
    send_all(&mut port, 0, 1);
    assert_eq!((tx(&port).queue_full, tx(&port).duplicated), (1, 0));
    port.set_now(Time(1_000));
    port.tx_flush();
    assert_eq!(numbers(&port.inner().wire), [0]);
}

#[test]
fn a_full_ring_below_is_a_queue_that_fills() {
    let mut port = faulty("queue=4");
    port.inner_mut().ring = 0;
    assert_eq!(send_all(&mut port, 0, 10), []);
    // One frame waits at the ring, four in the queue.
    assert_eq!(tx(&port).queue_full, 5);
    port.inner_mut().ring = usize::MAX;
    port.tx_flush();
    assert_eq!(numbers(&port.inner().wire), [0, 1, 2, 3, 4]);
}

#[test]
fn a_direction_without_faults_passes_straight_through() {
    let mut port = faulty("loss=100%,dir=rx");
    assert_eq!(send_all(&mut port, 0, 10), Vec::from_iter(0..10));
    assert_eq!(receive_all(&mut port, 0, 10), []);
    assert_eq!(tx(&port), LaneStats::default());
    let mut port = faulty("loss=100%,dir=tx");
    assert_eq!(send_all(&mut port, 0, 10), []);
    assert_eq!(receive_all(&mut port, 0, 10), Vec::from_iter(0..10));
    let mut port = faulty("dir=rx");
    port.inner_mut().ring = 0;
    assert!(port.tx_slot().is_none(), "the ring below speaks for itself");
}

#[test]
fn short_bursts_of_the_port_below_are_taken_together() {
    for (limit, taken) in [(4, 32), (5, 35), (32, 32)] {
        let mut port = faulty("loss=0.0");
        port.inner_mut().limit = limit;
        port.inner_mut().arriving.extend((0..40).map(frame));
        assert_eq!(port.rx_limit(), RX_BURST);
        receive(&mut port);
        assert_eq!(port.inner().arriving.len(), 40 - taken, "bursts of {limit}");
    }
    let mut port = faulty("dir=tx,loss=100%");
    port.inner_mut().limit = 4;
    assert_eq!(port.rx_limit(), 4);
}

#[test]
fn a_received_frame_longer_than_the_port_allows_is_dropped() {
    let mut port = faulty("");
    port.inner_mut().arriving.extend([vec![0; MAX_FRAME + 1], vec![0; MAX_FRAME], vec![]]);
    let lengths: Vec<usize> = receive(&mut port).iter().map(Vec::len).collect();
    assert_eq!(lengths, [MAX_FRAME, 0]);
    assert_eq!(port.fault_stats().rx.oversize, 1);
    assert_eq!(port.stats().rx_dropped, 1);
}

#[test]
fn slots_are_whole_cancelled_and_reused() {
    let mut port = faulty("loss=0.0");
    let free = port.tx.as_ref().unwrap().buffers_free();
    for _ in 0..3 * free {
        assert_eq!(port.tx_slot().unwrap().len(), MAX_FRAME);
        assert!(port.tx_slot().is_some(), "a second slot replaces the first");
        port.tx_cancel();
    }
    port.tx_cancel();
    assert_eq!(port.tx.as_ref().unwrap().buffers_free(), free);
    port.tx_slot().unwrap()[..64].copy_from_slice(&frame(9));
    port.tx_commit(64);
    port.tx_flush();
    assert_eq!(numbers(&port.inner().wire), [9]);
}

#[test]
#[should_panic(expected = "without a slot")]
fn a_commit_without_a_slot_panics() {
    faulty("").tx_commit(1);
}

#[test]
fn the_time_reaches_the_port_below() {
    let mut port = faulty("");
    port.set_now(Time(77));
    assert_eq!(port.inner().now, Time(77));
}

#[test]
fn the_counters_are_those_that_the_engine_sees() {
    let mut port = faulty("loss=50%,dup=50%,seed=2");
    let sent = send_all(&mut port, 0, 1000).len() as u64;
    let received = receive_all(&mut port, 0, 1000).len() as u64;
    let FaultStats { tx, rx } = port.fault_stats();
    assert_eq!(
        port.stats(),
        PortStats {
            rx_frames: received,
            rx_bytes: received * 64,
            rx_dropped: rx.lost,
            tx_frames: sent,
            tx_bytes: sent * 64,
            tx_dropped: tx.lost,
            ..PortStats::default()
        }
    );
}

/// What happens to 2,000 frames under one seed, in both directions.
fn trace(config: &str) -> (Vec<u32>, Vec<u32>, FaultStats) {
    let mut port = faulty(config);
    let sent = send_all(&mut port, 0, 2_000);
    let received = receive_all(&mut port, 0, 2_000);
    (sent, received, port.fault_stats())
}

#[test]
fn a_seed_repeats_and_another_differs() {
    let config = |seed| format!("loss=5%,burst=1%,dup=3%,reorder=5%,seed={seed}");
    assert_eq!(trace(&config(7)), trace(&config(7)));
    let (sent, received, _) = trace(&config(7));
    assert_ne!(sent, received, "the directions differ");
    assert_ne!(trace(&config(8)).0, sent);
}

#[test]
fn which_frames_are_lost_does_not_depend_on_other_faults() {
    let (mut many, _, _) = trace("loss=5%,dup=50%,reorder=20%,ecn=100%,seed=7");
    many.sort_unstable();
    many.dedup();
    let (mut plain, _, _) = trace("loss=5%,seed=7");
    // Frames still held back at the end are missing from the first run only.
    plain.retain(|number| *number < 1_900);
    many.retain(|number| *number < 1_900);
    assert_eq!(many, plain);
}

fn any_config() -> impl Strategy<Value = FaultConfig> {
    let ratio = || (0.0..=1.0f64).prop_map(|ratio| Probability::from_ratio(ratio).unwrap());
    let odds = (ratio(), ratio(), ratio(), ratio());
    (odds, 1..5u32, 1..5u32, 0..200u64, 0..200u64, 1..40u32, any::<u64>()).prop_map(
        |((loss, burst, dup, reorder), burst_len, reorder_by, reorder_max_ns, delay_ns, queue, seed)| {
            FaultConfig {
                loss,
                burst,
                burst_len,
                dup,
                reorder,
                reorder_by,
                reorder_max_ns,
                delay_ns,
                queue,
                seed,
                ..FaultConfig::default()
            }
        },
    )
}

proptest! {
    /// Whatever the faults: every frame is accounted for, nothing appears that was not sent, no
    /// buffer leaks, and once time has passed nothing waits any more.
    #[test]
    fn frames_and_buffers_are_accounted_for(config in any_config(), turns in prop::collection::vec((0..6u32, 0..50u64, 0..8usize), 1..60)) {
        let mut port = Fault::new(TestPort::new(MAX_FRAME), &config);
        let free = port.tx.as_ref().unwrap().buffers_free();
        let (mut now, mut number, mut received) = (0, 0, Vec::new());
        for (count, step_ns, ring) in turns {
            now += step_ns;
            port.set_now(Time(now));
            port.inner_mut().ring = ring;
            for _ in 0..count {
                prop_assert!(send(&mut port, &frame(number)), "a slot is always there");
                port.inner_mut().arriving.push_back(frame(number));
                number += 1;
            }
            received.extend(receive(&mut port));
            port.tx_flush();
        }
        port.inner_mut().ring = usize::MAX;
        // A burst that only now gets in may be held back once more: time goes on while it drains.
        for _ in 0..20 {
            now += 1_000;
            port.set_now(Time(now));
            received.extend(receive(&mut port));
            port.tx_flush();
        }
        prop_assert_eq!(port.next_due(), None);
        let FaultStats { tx, rx } = port.fault_stats();
        for (stats, lane) in [(tx, port.tx.as_ref().unwrap()), (rx, port.rx.as_ref().unwrap())] {
            prop_assert_eq!(stats.frames, u64::from(number));
            // A duplicate adds one, also if it then finds the queue full; in both cases it is one
            // more frame.
            let copies_dropped = stats.passed + stats.dropped() - stats.frames - stats.duplicated;
            prop_assert!(copies_dropped <= stats.queue_full);
            prop_assert_eq!(lane.buffers_free(), free);
        }
        prop_assert_eq!(port.inner().wire.len() as u64, tx.passed);
        prop_assert_eq!(received.len() as u64, rx.passed);
        for got in numbers(&received).into_iter().chain(numbers(&port.inner().wire)) {
            prop_assert!(got < number);
        }
    }
}
