//! Peers that lie: what they send is bounded in what it can do, and counted.

mod support;

use proptest::prelude::*;
use rdma_cm::{Config, Event, Manager};
use std::time::Duration;
use support::{MS, Net, PORT, Seen, config, ip, terms};
use wire::cm::{Mad, Message, RejReason};

/// Small numbers, so that forged messages often name what is there.
fn number() -> impl Strategy<Value = u32> {
    prop_oneof![Just(0), 1..4u32, any::<u32>()]
}

/// A message whose numbers are of a connection, or nearly so.
fn forged(local: u32, remote: u32, qpn: u32) -> impl Strategy<Value = Vec<u8>> {
    let ids = (
        prop_oneof![4 => Just(local), 1 => number()],
        prop_oneof![4 => Just(remote), 1 => number()],
        prop_oneof![4 => Just(qpn), 1 => number()],
    );
    (0x10..=0x16u8, ids, prop::collection::vec(any::<u8>(), 256)).prop_map(
        |(attribute, (local, remote, qpn), mut bytes)| {
            bytes[..4].copy_from_slice(&[1, 7, 2, 3]);
            bytes[16..18].copy_from_slice(&[0, attribute]);
            bytes[24..28].copy_from_slice(&local.to_be_bytes());
            if attribute != 0x10 {
                bytes[28..32].copy_from_slice(&remote.to_be_bytes());
            }
            if attribute == 0x15 {
                bytes[32..35].copy_from_slice(&qpn.to_be_bytes()[1..]);
            }
            bytes
        },
    )
}

/// A REQ that is as it should be, of a peer that has asked `index` times.
fn req(peer: &mut Manager, index: u32) -> Vec<u8> {
    peer.connect(MS, ip(2), PORT, &terms(index + 1), b"").expect("begun");
    peer.poll_transmit().expect("a REQ").mad.to_vec()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Whatever other hosts say of a connection, with all of its numbers known: it stands.
    #[test]
    fn another_host_cannot_touch_a_connection(seed in any::<u64>(), picks in prop::collection::vec((0x10..=0x16u8, any::<u64>()), 1..40)) {
        let mut net = Net::listening(seed);
        let ours = net.connect(0);
        net.run(MS);
        let theirs = net.hosts[1].requests[0];
        let qpn = net.hosts[0].agreed[&ours].remote_qpn;
        for (attribute, bits) in picks {
            let mut bytes = vec![u8::try_from(bits & 0xFF).unwrap_or(0); 256];
            bytes[..4].copy_from_slice(&[1, 7, 2, 3]);
            bytes[16..18].copy_from_slice(&[0, attribute]);
            bytes[24..28].copy_from_slice(&ours.0.to_be_bytes());
            bytes[28..32].copy_from_slice(&theirs.0.to_be_bytes());
            bytes[32..35].copy_from_slice(&qpn.to_be_bytes()[1..]);
            let now = net.now;
            net.hosts[1].cm.handle_mad(now, ip(3), &bytes);
            while net.hosts[1].cm.poll_transmit().is_some() {}
        }
        net.run(MS);
        prop_assert_eq!(&net.hosts[1].seen[&theirs], &Seen::Up);
        net.close(0, ours);
        net.run(MS);
        prop_assert_eq!(&net.hosts[1].seen[&theirs], &Seen::Down);
    }

    /// The peer itself says anything, in any state: events make sense (the host's program checks),
    /// and nothing is left.
    #[test]
    fn the_peer_of_a_connection_says_anything(
        seed in any::<u64>(),
        messages in prop::collection::vec((0..3u8, forged(1, 2, 3)), 1..60),
    ) {
        let mut net = Net::listening(seed);
        let active = net.connect(0);
        net.run(Duration::from_micros(40 * (seed % 6)));
        for (step, mut bytes) in messages {
            // The placeholders become what is there.
            let passive = net.hosts[1].requests.last().map_or(0, |id| id.0);
            for (at, from, to) in [(24, 1, active.0), (28, 2, passive)] {
                if bytes[at..at + 4] == u32::to_be_bytes(from) {
                    bytes[at..at + 4].copy_from_slice(&to.to_be_bytes());
                }
            }
            let now = net.now;
            net.hosts[1].cm.handle_mad(now, ip(1), &bytes);
            bytes[24..28].copy_from_slice(&passive.to_be_bytes());
            bytes[28..32].copy_from_slice(&active.0.to_be_bytes());
            net.hosts[0].cm.handle_mad(now, ip(2), &bytes);
            if step > 0 {
                net.run(MS * u32::from(step * step * 20));
            }
        }
        for host in [0, 1] {
            for id in net.hosts[host].seen.keys().copied().collect::<Vec<_>>() {
                net.close(host, id);
            }
        }
        net.assert_empty();
        for host in &net.hosts {
            // Of what it took back before it was answered the program hears nothing.
            prop_assert_eq!(host.count(&Seen::Up), 0, "{:?}", host.seen);
        }
    }

    #[test]
    fn any_bytes_leave_a_trace(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut cm = Manager::new(config(2));
        cm.handle_mad(MS, ip(1), &bytes);
        let stats = cm.stats();
        prop_assert_eq!((stats.received, stats.malformed), (1, 1));
        prop_assert_eq!(cm.poll_transmit(), None);
    }
}

/// Thirty thousand requests of hosts that never answer: what is kept stays below the limits.
#[test]
fn a_flood_of_requests_is_bounded() {
    let limits = Config { connections_max: 500, ended_max: 100, output_max: 200, ..config(2) };
    let mut cm = Manager::new(limits);
    cm.listen(PORT, 64).expect("a listener");
    let mut peer = Manager::new(Config { connections_max: usize::MAX, output_max: usize::MAX, ..config(1) });
    let (mut now, mut requested) = (MS, 0);
    for index in 0..30_000_u32 {
        let [.., a, b] = index.to_be_bytes();
        let from: std::net::IpAddr = [10, 1, a, b].into();
        let mut bytes = req(&mut peer, index % 0xFF_0000);
        if index % 7 == 0 {
            // Another port.
            bytes[24 + 15] ^= 1;
        }
        cm.handle_mad(now, from, &bytes);
        now += Duration::from_micros(100);
        cm.handle_timeouts(now);
        while let Some(event) = cm.poll_event() {
            if let Event::Requested { id, .. } = event {
                requested += 1;
                // The program rejects some and forgets the others.
                if requested % 2 == 0 {
                    cm.reject(now, id, RejReason::CONSUMER, b"").expect("it waits");
                }
            }
        }
        assert!(cm.connections() <= 64 + 100, "{} connections", cm.connections());
    }
    let stats = *cm.stats();
    assert_eq!(stats.received, 30_000);
    assert_eq!(stats.requests + stats.backlog_full + (30_000_u64).div_ceil(7), 30_000, "{stats:?}");
    assert!(stats.output_full > 0 && stats.backlog_full > 0, "{stats:?}");
    let mut waiting = 0;
    while cm.poll_transmit().is_some() {
        waiting += 1;
    }
    assert!(waiting <= 200, "{waiting} messages");
    now += Duration::from_secs(60);
    cm.handle_timeouts(now);
    now += Duration::from_secs(60);
    cm.handle_timeouts(now);
    assert_eq!(cm.connections(), 0);
}

/// Every answer is one message for one: nobody is flooded through us.
#[test]
fn a_message_is_answered_by_one_at_most() {
    let mut net = Net::listening(1);
    let id = net.connect(0);
    net.run(MS);
    let theirs = net.hosts[1].requests[0];
    for attribute in 0x10..=0x16 {
        for (local, remote) in [(id.0, theirs.0), (9, 9), (0, 0), (id.0, 0), (0, theirs.0)] {
            let mut bytes = [0; 256];
            bytes[..4].copy_from_slice(&[1, 7, 2, 3]);
            bytes[17] = attribute;
            bytes[24..28].copy_from_slice(&u32::to_be_bytes(local));
            bytes[28..32].copy_from_slice(&u32::to_be_bytes(remote));
            let now = net.now;
            net.hosts[1].cm.handle_mad(now, ip(1), &bytes);
            let answers = core::iter::from_fn(|| net.hosts[1].cm.poll_transmit()).count();
            assert!(answers <= 1, "{answers} answers to {:?}", Mad::parse(&bytes));
        }
    }
}

/// A MRA puts an answer off, but not for ever.
#[test]
fn who_promises_an_answer_for_ever_is_given_up() {
    let mut cm = Manager::new(config(1));
    let id = cm.connect(MS, ip(2), PORT, &terms(1), b"").expect("begun");
    let mut now = MS;
    let mra = {
        let mut bytes = [0; 256];
        bytes[..4].copy_from_slice(&[1, 7, 2, 3]);
        bytes[17] = 0x11;
        bytes[27] = 5;
        bytes[28..32].copy_from_slice(&id.0.to_be_bytes());
        bytes[33] = 31 << 3;
        bytes
    };
    assert!(matches!(Mad::parse(&mra), Ok(Mad { message: Message::Mra(_), .. })));
    for _ in 0..1000 {
        cm.handle_mad(now, ip(2), &mra);
        now += Duration::from_secs(60);
        cm.handle_timeouts(now);
    }
    assert!(matches!(cm.poll_event(), Some(Event::Failed { .. })), "given up within hours");
}

/// From the peer's own address, with some of the numbers of an established connection: only all of
/// them end it.
#[test]
fn who_does_not_know_all_numbers_ends_nothing() {
    let mut net = Net::listening(1);
    let ours = net.connect(0);
    net.run(MS);
    let theirs = net.hosts[1].requests[0];
    let qpn = net.hosts[0].agreed[&ours].remote_qpn;
    let mut say = |attribute, local: u32, remote: u32, qpn: u32| {
        let mut bytes = [0; 256];
        bytes[..4].copy_from_slice(&[1, 7, 2, 3]);
        bytes[17] = attribute;
        bytes[24..28].copy_from_slice(&local.to_be_bytes());
        bytes[28..32].copy_from_slice(&remote.to_be_bytes());
        if attribute == 0x15 {
            bytes[32..35].copy_from_slice(&qpn.to_be_bytes()[1..]);
        }
        let now = net.now;
        net.hosts[1].cm.handle_mad(now, ip(1), &bytes);
        net.run(MS);
        net.hosts[1].seen[&theirs].clone()
    };
    for (attribute, local, remote, qpn) in [
        (0x12, 0, theirs.0, 0),
        (0x12, ours.0 ^ 1, theirs.0, 0),
        (0x12, 0, 0, 0),
        (0x15, ours.0 ^ 1, theirs.0, qpn),
        (0x15, ours.0, theirs.0 ^ 1, qpn),
        (0x15, ours.0, theirs.0, qpn ^ 1),
        (0x16, ours.0, theirs.0, 0),
    ] {
        assert_eq!(say(attribute, local, remote, qpn), Seen::Up, "{attribute:#x}");
    }
    assert_eq!(say(0x15, ours.0, theirs.0, qpn), Seen::Down);
}
