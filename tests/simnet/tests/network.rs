//! The network itself does what it says, shown with bare ports.

use datapath::port::Port;
use datapath::time::Time;
use simnet::filter::{Verdict, drop_all, hold};
use simnet::{Faults, LinkConfig, LinkId, Network, NodeId, PPM, PortOptions, SimPort};

/// 1 ns a byte, 100 ns of delay, and a downlink that takes no time.
fn slow_up() -> PortOptions {
    let up = LinkConfig { ps_per_byte: 1000, propagation_ns: 100, ..LinkConfig::default() };
    let down = LinkConfig { ps_per_byte: 0, propagation_ns: 0, ..LinkConfig::default() };
    PortOptions { up, down, ..PortOptions::default() }
}

struct Two {
    net: Network,
    left: (NodeId, SimPort),
    right: (NodeId, SimPort),
}

fn two(seed: u64, options: &PortOptions) -> Two {
    let mut net = Network::new(seed);
    let (left, right) = (net.add_port(options), net.add_port(options));
    Two { net, left, right }
}

impl Two {
    /// A frame from left to right: addresses, then its number, then zeros.
    fn frame(&self, number: u32, len: usize) -> Vec<u8> {
        let mut frame = vec![0; len.max(18)];
        frame[..6].copy_from_slice(&self.net.mac(self.right.0));
        frame[6..12].copy_from_slice(&self.net.mac(self.left.0));
        frame[14..18].copy_from_slice(&number.to_be_bytes());
        frame
    }

    /// Sends frames numbered from 0 on, all at `now`.
    fn send(&mut self, now: u64, count: u32, len: usize) {
        for number in 0..count {
            let frame = self.frame(number, len);
            self.net.exchange(Time(now), self.left.0);
            assert!(self.left.1.send(&frame), "the ring has room");
        }
        self.net.exchange(Time(now), self.left.0);
    }

    /// Lets everything happen; returns when each number arrived, in the order of arrival.
    fn arrivals(&mut self) -> Vec<(u64, u32)> {
        let mut arrivals = Vec::new();
        while let Some(at) = self.net.next_event() {
            self.net.run(at);
            for frame in self.right.1.receive() {
                let number = frame
                    .get(14..18)
                    .map_or(u32::MAX, |bytes| u32::from_be_bytes(bytes.try_into().expect("four bytes")));
                arrivals.push((at.0, number));
            }
        }
        arrivals
    }

    fn up(&self) -> LinkId {
        LinkId::Up(self.left.0)
    }

    /// Every frame that entered the uplink is accounted for.
    fn verify_accounts(&self) {
        let stats = self.net.stats(self.up());
        let held = self.net.held() as u64;
        assert_eq!(
            stats.sent + stats.duplicated,
            stats.delivered + stats.dropped_by.total() + held,
            "{stats:?}"
        );
        let causes = stats.filtered + stats.lost + stats.burst_lost + stats.swallowed + stats.overflowed;
        assert_eq!(stats.dropped_by.total(), causes, "{stats:?}");
    }
}

#[test]
fn a_frame_takes_its_bytes_and_the_distance() {
    let mut two = two(1, &slow_up());
    two.send(1000, 3, 76);
    // 76 bytes and 24 of preamble, FCS and gap at 1 ns each, one behind the other, then 100 ns.
    assert_eq!(two.arrivals(), [(1200, 0), (1300, 1), (1400, 2)]);
    two.verify_accounts();
}

#[test]
fn a_full_ring_blocks_and_a_full_queue_drops() {
    let mut options = PortOptions { tx_ring: 4, ..slow_up() };
    options.down = LinkConfig { ps_per_byte: 10_000, queue_frames_max: 2, ..options.down };
    let mut two = two(1, &options);
    two.send(0, 4, 76);
    let frame = two.frame(9, 76);
    assert!(!two.left.1.send(&frame), "four frames are on the wire or wait for it");
    two.net.exchange(Time(100), two.left.0);
    assert!(two.left.1.send(&frame), "after 100 ns the first has left");
    two.net.exchange(Time(100), two.left.0);
    let numbers: Vec<u32> = two.arrivals().iter().map(|(_, number)| *number).collect();
    assert_eq!(numbers, [0, 1], "the downlink is ten times slower and holds two");
    assert_eq!(two.net.stats(LinkId::Down(two.right.0)).overflowed, 3);
    assert_eq!(two.net.stats(two.up()).overflowed, 0);
}

#[test]
fn jitter_keeps_the_order_and_reordering_does_not() {
    let mut options = slow_up();
    options.up.faults = Faults { jitter_ns_max: 1000, ..Faults::default() };
    let mut steady = two(3, &options);
    steady.send(0, 100, 76);
    let arrivals = steady.arrivals();
    assert!(arrivals.is_sorted() && arrivals.iter().map(|(_, number)| *number).eq(0..100));
    assert!(arrivals.iter().any(|(at, number)| *at > 100 * (u64::from(*number) + 2)), "some were late");

    options.up.faults = Faults::reordering(200_000, 2000);
    let mut shuffled = two(3, &options);
    shuffled.send(0, 100, 76);
    let numbers: Vec<u32> = shuffled.arrivals().iter().map(|(_, number)| *number).collect();
    assert!(!numbers.is_sorted());
    let mut sorted = numbers;
    sorted.sort_unstable();
    assert!(sorted.into_iter().eq(0..100), "nothing is lost, nothing twice");
    let late = shuffled.net.stats(shuffled.up()).reordered;
    assert!((8..40).contains(&late), "{late} of 100 at 20 %");
    shuffled.verify_accounts();
}

#[test]
fn each_fault_hits_at_its_rate_and_is_counted() {
    let half = PPM / 2;
    let cases = [
        Faults::loss(half),
        Faults { duplicate_ppm: half, ..Faults::default() },
        Faults { corrupt_ppm: half, ..Faults::default() },
        Faults { truncate_ppm: half, ..Faults::default() },
        Faults { burst_ppm: half / 5, burst_frames_max: 9, ..Faults::default() },
        Faults::black_hole(),
    ];
    for faults in cases {
        let mut options = slow_up();
        options.tx_ring = 1000;
        options.up.faults = faults;
        let mut two = two(5, &options);
        two.send(0, 400, 200);
        let arrived = two.arrivals().len() as u64;
        two.verify_accounts();
        let stats = *two.net.stats(two.up());
        let hits = [
            (faults.loss_ppm, stats.lost),
            (faults.duplicate_ppm, stats.duplicated),
            (faults.corrupt_ppm, stats.corrupted),
            (faults.truncate_ppm, stats.truncated),
            // One frame in ten begins a burst of five on average: a third is lost.
            (faults.burst_ppm, stats.burst_lost),
            (u32::from(faults.black_hole), stats.swallowed / 2),
        ];
        for (rate, count) in hits {
            let expected = if rate > 0 { 80..260 } else { 0..1 };
            assert!(expected.contains(&count), "{faults:?}: {stats:?}");
        }
        assert_eq!(stats.delivered, arrived + two.net.unroutable(), "{faults:?}: {stats:?}");
    }
}

#[test]
fn filters_judge_before_faults_and_healing_ends_both() {
    let mut options = slow_up();
    options.up.faults = Faults::black_hole();
    let mut two = two(1, &options);
    let second = |frame: &[u8]| frame[17] == 1;
    two.net.set_filter(two.up(), hold(move |passing| second(passing.frame)));
    two.send(0, 3, 76);
    assert_eq!(two.arrivals(), []);
    assert_eq!((two.net.stats(two.up()).swallowed, two.net.held()), (2, 1));
    two.verify_accounts();
    two.net.heal();
    two.net.release_held(Time(5000));
    assert_eq!(two.arrivals(), [(5200, 1)], "what was held comes late");
    two.net.set_filter(two.up(), drop_all(move |passing| second(passing.frame)));
    two.send(10_000, 3, 76);
    assert_eq!(two.arrivals(), [(10_200, 0), (10_300, 2)]);
    two.net.set_filter(
        two.up(),
        Box::new(|passing| match passing.frame[17] {
            0 => Verdict::Delay(1000),
            1 => Verdict::Duplicate,
            _ => Verdict::Pass,
        }),
    );
    two.send(20_000, 3, 76);
    assert_eq!(two.arrivals(), [(20_300, 1), (20_400, 1), (20_500, 2), (21_200, 0)]);
    two.verify_accounts();
}

#[test]
fn group_addresses_flood_and_unknown_ones_end() {
    let mut net = Network::new(1);
    let mut ports: Vec<_> = (0..4).map(|_| net.add_port(&slow_up())).collect();
    let (sender, port) = &mut ports[1];
    assert!(port.send(&[0xFF; 60]));
    let mut unknown = [0; 60];
    unknown[..6].copy_from_slice(&[2, 9, 9, 9, 9, 9]);
    assert!(port.send(&unknown));
    net.exchange(Time(0), *sender);
    while let Some(at) = net.next_event() {
        net.run(at);
    }
    let received: Vec<usize> = ports.iter_mut().map(|(_, port)| port.receive().len()).collect();
    assert_eq!(received, [1, 0, 1, 1]);
    assert_eq!(net.unroutable(), 1);
}

#[test]
fn a_seed_is_a_history() {
    let run = |seed| {
        let mut options = slow_up();
        options.up.faults = Faults { duplicate_ppm: 100_000, ..Faults::reordering(300_000, 5000) };
        let mut two = two(seed, &options);
        two.send(0, 100, 100);
        (two.arrivals(), two.net.trace_hash())
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1).1, run(2).1);
}

#[test]
fn a_port_lends_slots_and_shows_its_link() {
    let mut two = two(1, &slow_up());
    let port = &mut two.left.1;
    assert!(port.link_up());
    assert_eq!(port.tx_slot().map(|slot| slot.len()), Some(port.caps().max_frame));
    port.tx_cancel();
    port.tx_flush();
    assert_eq!(port.stats().tx_frames, 0, "a slot taken back is not sent");
    two.net.set_link_up(two.left.0, false);
    assert!(!two.left.1.link_up());
}
