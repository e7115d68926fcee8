use super::*;

/// Hosts 10.0.0.2, 10.0.0.3, ..
fn host(index: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2 + index))
}

/// Sends all requests that are due and returns whom they ask for.
fn requests(neighbor: &mut Neighbor, now: Time) -> Vec<u8> {
    std::iter::from_fn(|| transmit(neighbor, now)).map(|frame| frame[41] - 2).collect()
}

fn answer(neighbor: &mut Neighbor, now: Time, index: u8) {
    let mac = [2, 0, 0, 0, 1, index];
    let IpAddr::V4(ip) = host(index) else { unreachable!() };
    neighbor.handle_frame(now, &arp(OUR_MAC, 2, (mac, ip), (OUR_MAC, OUR_IP)));
}

#[test]
fn an_answer_makes_a_neighbor_known_for_its_lifetime() {
    let mut neighbor = neighbor();
    assert_eq!(neighbor.resolve(Time(7), host(0)), Resolution::Pending);
    assert!(neighbor.has_output());
    assert_eq!(neighbor.next_deadline(), Some(Time(7)));
    assert_eq!(requests(&mut neighbor, Time(7)), [0]);
    assert!(!neighbor.has_output());
    assert_eq!(neighbor.next_deadline(), Some(Time(7 + RETRY_NS)));
    answer(&mut neighbor, Time(100), 0);
    assert_eq!(neighbor.next_deadline(), None);
    let known = Resolution::Known([2, 0, 0, 0, 1, 0]);
    assert_eq!(neighbor.resolve(Time(100), host(0)), known);
    assert_eq!(neighbor.resolve(Time(100 + ENTRY_LIFETIME_NS - 1), host(0)), known);
    assert_eq!(neighbor.resolve(Time(100 + ENTRY_LIFETIME_NS), host(0)), Resolution::Pending);
    assert_eq!(neighbor.stats().answers_rx, 1);
}

#[test]
fn six_tries_ever_further_apart_then_unreachable_then_again() {
    let mut neighbor = neighbor();
    neighbor.resolve(Time::ZERO, host(0));
    let mut due = Time::ZERO;
    for wait_ms in [50, 100, 200, 400, 800, 1000] {
        assert_eq!(neighbor.next_deadline(), Some(due));
        assert_eq!(requests(&mut neighbor, due), [0]);
        assert_eq!(neighbor.resolve(due, host(0)), Resolution::Pending);
        due = due.after(wait_ms * SECOND_NS / 1000);
        assert_eq!(requests(&mut neighbor, Time(due.0 - 1)), []);
    }
    let end = due;
    assert_eq!(end, Time(SEARCH_NS));
    assert_eq!(requests(&mut neighbor, end), []);
    assert_eq!(neighbor.next_deadline(), None);
    assert_eq!(neighbor.resolve(end, host(0)), Resolution::Unreachable);
    let stats = neighbor.stats();
    assert_eq!((stats.requests_tx, stats.unreachable), (6, 1));
    let again = end.after(FAILURE_HOLD_NS);
    assert_eq!(neighbor.resolve(Time(again.0 - 1), host(0)), Resolution::Unreachable);
    assert_eq!(neighbor.resolve(again, host(0)), Resolution::Pending);
    assert_eq!(requests(&mut neighbor, again), [0]);
}

#[test]
fn a_late_answer_still_counts() {
    let mut neighbor = neighbor();
    neighbor.resolve(Time::ZERO, host(0));
    for second in 0..=6 {
        requests(&mut neighbor, Time(second * SECOND_NS));
    }
    let now = Time(6 * SECOND_NS);
    assert_eq!(neighbor.resolve(now, host(0)), Resolution::Unreachable);
    answer(&mut neighbor, now, 0);
    assert_eq!(neighbor.resolve(now, host(0)), Resolution::Known([2, 0, 0, 0, 1, 0]));
}

#[test]
fn a_host_that_asks_us_while_we_look_for_it_is_found() {
    let mut neighbor = neighbor();
    neighbor.resolve(Time::ZERO, IpAddr::V4(PEER_IP));
    neighbor.handle_frame(Time::ZERO, &arp([0xFF; 6], 1, (PEER_MAC, PEER_IP), ([0; 6], OUR_IP)));
    assert_eq!(neighbor.resolve(Time::ZERO, IpAddr::V4(PEER_IP)), Resolution::Known(PEER_MAC));
}

#[test]
fn replies_go_before_requests() {
    let mut neighbor = neighbor();
    neighbor.resolve(Time::ZERO, host(5));
    neighbor.handle_frame(Time::ZERO, &arp([0xFF; 6], 1, (PEER_MAC, PEER_IP), ([0; 6], OUR_IP)));
    assert_eq!(transmit(&mut neighbor, Time::ZERO).unwrap()[21], 2);
    assert_eq!(transmit(&mut neighbor, Time::ZERO).unwrap()[21], 1);
}

#[test]
fn a_full_table_forgets_what_expires_first_but_nothing_under_way() {
    let mut neighbor = neighbor();
    for index in 0..4 {
        assert_eq!(neighbor.resolve(Time::ZERO, host(index)), Resolution::Pending);
    }
    assert_eq!(neighbor.resolve(Time::ZERO, host(4)), Resolution::Full);
    assert_eq!(neighbor.stats().table_full, 1);
    assert_eq!(requests(&mut neighbor, Time::ZERO), [0, 1, 2, 3], "no room to look for a fifth");
    for (index, now) in [(2, 10), (0, 20), (3, 30)] {
        answer(&mut neighbor, Time(now), index);
    }
    assert_eq!(neighbor.resolve(Time(40), host(4)), Resolution::Pending);
    assert_eq!(requests(&mut neighbor, Time(40)), [4]);
    assert_eq!(neighbor.resolve(Time(40), host(0)), Resolution::Known([2, 0, 0, 0, 1, 0]));
    assert_eq!(neighbor.resolve(Time(40), host(3)), Resolution::Known([2, 0, 0, 0, 1, 3]));
    assert_eq!(neighbor.resolve(Time(40), host(1)), Resolution::Pending);
    assert_eq!(neighbor.stats().table_full, 1);
}

#[test]
fn a_capacity_of_zero_is_one() {
    let mut neighbor = Neighbor::new(&NeighborConfig { capacity: 0, ..config() });
    neighbor.resolve(Time::ZERO, host(0));
    assert_eq!(requests(&mut neighbor, Time::ZERO), [0]);
}

#[test]
fn our_own_address_is_known_and_no_host_has_some_addresses() {
    let mut neighbor = neighbor();
    assert_eq!(neighbor.resolve(Time::ZERO, IpAddr::V4(OUR_IP)), Resolution::Known(OUR_MAC));
    for ip in [Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST, Ipv4Addr::new(224, 0, 0, 1)] {
        assert_eq!(neighbor.resolve(Time::ZERO, IpAddr::V4(ip)), Resolution::Unreachable);
    }
    assert!(!neighbor.has_output());
}

#[test]
fn a_neighbor_is_of_our_family() {
    let v6 = IpAddr::V6(Ipv6Addr::new(0xFD00, 0, 0, 0, 0, 0, 0, 1));
    assert_eq!(neighbor().resolve(Time::ZERO, v6), Resolution::OtherFamily);
    let mut neighbor = Neighbor::new(&NeighborConfig { ip: v6, ..config() });
    assert_eq!(neighbor.resolve(Time::ZERO, IpAddr::V4(PEER_IP)), Resolution::OtherFamily);
    assert_eq!(transmit(&mut neighbor, Time::ZERO), None);
}

#[test]
fn a_slot_too_small_for_a_request_is_counted_and_the_request_tried_again() {
    let mut neighbor = neighbor();
    neighbor.resolve(Time::ZERO, host(0));
    assert_eq!(neighbor.poll_transmit(Time::ZERO, &mut [0; 59]), None);
    assert_eq!(neighbor.stats().oversize, 1);
    assert_eq!(requests(&mut neighbor, Time(RETRY_NS)), [0]);
}

#[test]
fn strangers_are_answered_where_they_were_and_take_no_place_of_neighbors() {
    let mut neighbor = neighbor();
    for index in 0..4 {
        neighbor.resolve(Time::ZERO, host(index));
        answer(&mut neighbor, Time::ZERO, index);
    }
    let stranger = |number: u16| IpAddr::V4(Ipv4Addr::from(0x0A01_0000 + u32::from(number)));
    let mac = |number: u16| [2, 0, 0, 1, number.to_be_bytes()[0], number.to_be_bytes()[1]];
    for number in 0..1000 {
        let now = Time(u64::from(number));
        neighbor.note_heard(now, stranger(number), mac(number));
        assert_eq!(neighbor.heard_from(now, stranger(number)), Some(mac(number)));
    }
    let now = Time(1000);
    assert_eq!(neighbor.heard_from(now, stranger(999 - 255)), Some(mac(999 - 255)));
    assert_eq!(neighbor.heard_from(now, stranger(999 - 256)), None, "the oldest is forgotten");
    assert_eq!(neighbor.heard_from(Time(999 + HEARD_LIFETIME_NS), stranger(999)), None);
    // One that was heard again is not the oldest any more.
    neighbor.note_heard(now, stranger(999 - 255), mac(999 - 255));
    neighbor.note_heard(now, stranger(1000), mac(1000));
    assert_eq!(neighbor.heard_from(now, stranger(999 - 255)), Some(mac(999 - 255)));
    assert_eq!(neighbor.heard_from(now, stranger(999 - 254)), None);
    for index in 0..4 {
        assert_eq!(neighbor.resolve(now, host(index)), Resolution::Known([2, 0, 0, 0, 1, index]));
    }
    assert_eq!(neighbor.resolve(now, stranger(999)), Resolution::Known(mac(999)));
    // What a host says of itself by ARP counts more than where its packets come from.
    neighbor.note_heard(now, host(0), mac(7));
    assert_eq!(neighbor.resolve(now, host(0)), Resolution::Known([2, 0, 0, 0, 1, 0]));
    // A group's address, or none, is no host's.
    for mac in [[0xFF; 6], [1, 0, 0, 0, 0, 1], [0; 6]] {
        neighbor.note_heard(now, stranger(2000), mac);
        assert_eq!(neighbor.heard_from(now, stranger(2000)), None);
    }
    assert_eq!(requests(&mut neighbor, now), [], "nobody is asked for");
}
