use super::*;
use proptest::prelude::*;

/// One valid frame of each kind that is handled.
fn valid() -> [Vec<u8>; 3] {
    let ping = vec![
        2, 0, 0, 0, 0, 0x0A, 2, 0, 0, 0, 0, 0x0B, 0x08, 0x00, 0x45, 0x00, 0x00, 0x20, 0xBE, 0xEF, 0x40, 0x00,
        0x40, 0x01, 0x67, 0xEB, 10, 0, 0, 2, 10, 0, 0, 1, 8, 0, 0x48, 0x27, 0x12, 0x34, 0x00, 0x07, 0xDE,
        0xAD, 0xBE, 0xEF,
    ];
    let mut request = arp([0xFF; 6], 1, (PEER_MAC, PEER_IP), ([0; 6], OUR_IP));
    let mut reply = peer_reply();
    request.truncate(42);
    reply.truncate(42);
    [request, reply, ping]
}

/// Returns `true` if a frame had any effect beyond counters.
fn has_effect(frame: &[u8]) -> bool {
    let mut neighbor = neighbor();
    neighbor.resolve(Time::ZERO, IpAddr::V4(PEER_IP));
    transmit(&mut neighbor, Time::ZERO);
    neighbor.handle_frame(Time::ZERO, frame);
    neighbor.has_output() || neighbor.resolve(Time::ZERO, IpAddr::V4(PEER_IP)) != Resolution::Pending
}

#[test]
fn valid_frames_have_an_effect_and_their_truncations_none() {
    for frame in valid() {
        assert!(has_effect(&frame));
        for len in 0..frame.len() {
            assert!(!has_effect(&frame[..len]), "{len} bytes of {frame:02x?}");
        }
    }
}

/// Changes one byte of a valid frame and expects no effect and a count.
fn malformed(which: usize, change: impl FnOnce(&mut Vec<u8>)) {
    let mut frame = valid()[which].clone();
    change(&mut frame);
    assert!(!has_effect(&frame), "{frame:02x?}");
    let mut neighbor = neighbor();
    assert_eq!(neighbor.handle_frame(Time::ZERO, &frame), Handled::Consumed);
    assert_eq!(*neighbor.stats(), NeighborStats { malformed_rx: 1, ..NeighborStats::default() });
}

#[test]
fn malformed_arp_is_counted() {
    malformed(0, |frame| frame[15] = 6);
    malformed(0, |frame| frame[16] = 0x86);
    malformed(0, |frame| frame[18] = 8);
    malformed(0, |frame| frame[19] = 16);
    malformed(0, |frame| frame[21] = 3);
    malformed(0, |frame| frame[22] = 1);
    malformed(0, |frame| frame[22..28].fill(0));
    malformed(0, |frame| frame[28..32].fill(0xFF));
    malformed(1, |frame| frame[28] = 224);
    malformed(1, |frame| frame.truncate(41));
}

#[test]
fn malformed_pings_are_counted() {
    malformed(2, |frame| frame[22] -= 1);
    malformed(2, |frame| frame[36] ^= 1);
    malformed(2, |frame| frame[45] ^= 1);
    malformed(2, |frame| frame[6] |= 1);
    // A fragment whose checksum is right.
    malformed(2, |frame| {
        frame[20] = 0x60;
        frame[24..26].copy_from_slice(&[0x47, 0xEB]);
    });
    // From the broadcast address, checksums right.
    malformed(2, |frame| {
        frame[26..30].fill(0xFF);
        frame[24..26].copy_from_slice(&[0x71, 0xED]);
    });
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(frame in proptest::collection::vec(any::<u8>(), 0..128)) {
        let mut neighbor = neighbor();
        neighbor.handle_frame(Time::ZERO, &frame);
        while transmit(&mut neighbor, Time::ZERO).is_some() {}
    }

    /// Any change to a valid frame, so that every branch behind the first checks is reached.
    #[test]
    fn no_mutation_makes_it_panic(
        which in 0..3usize,
        changes in proptest::collection::vec((0..50usize, any::<u8>()), 0..6),
        len in 0..50usize,
        vlan: bool,
    ) {
        let mut frame = valid()[which].clone();
        for (at, value) in changes {
            if let Some(byte) = frame.get_mut(at) {
                *byte = value;
            }
        }
        frame.truncate(len);
        if vlan && frame.len() >= 12 {
            frame.splice(12..12, [0x81, 0, 0, 0]);
        }
        let mut neighbor = neighbor();
        neighbor.resolve(Time::ZERO, IpAddr::V4(PEER_IP));
        neighbor.handle_frame(Time(1), &frame);
        while transmit(&mut neighbor, Time(2)).is_some() {}
        prop_assert!(!neighbor.has_output());
    }

    /// Whatever is asked and heard, in whatever order: the deadline is never missed, work is
    /// announced by `has_output`, and the tries of an address end.
    #[test]
    fn work_is_announced_and_ends(steps in proptest::collection::vec((0..6u8, 0..4u8, 0..2_000_000_000u64), 1..60)) {
        let mut neighbor = neighbor();
        let mut now = Time::ZERO;
        for (host, what, step_ns) in steps {
            now = now.after(step_ns);
            let ip = Ipv4Addr::new(10, 0, 0, 2 + host);
            if what == 0 {
                neighbor.handle_frame(now, &arp(OUR_MAC, 2, (PEER_MAC, ip), (OUR_MAC, OUR_IP)));
            } else {
                neighbor.resolve(now, IpAddr::V4(ip));
            }
            let announced = neighbor.has_output();
            let sent = transmit(&mut neighbor, now).is_some();
            prop_assert!(!sent || announced);
        }
        for _ in 0..100 {
            while transmit(&mut neighbor, now).is_some() {}
            prop_assert!(!neighbor.has_output());
            let Some(deadline) = neighbor.next_deadline() else { break };
            prop_assert!(deadline > now);
            now = deadline;
        }
        prop_assert_eq!(neighbor.next_deadline(), None);
        prop_assert_eq!(transmit(&mut neighbor, Time::NEVER), None);
    }
}
