//! Neighbor discovery and ping over IPv6; what must be taken and what must not is RFC 4861, 7.1.
//! Packets are put together here, checksum and all, without the code that is tested.

use super::*;
use proptest::prelude::*;

const OURS: Ipv6Addr = Ipv6Addr::new(0xFD00, 0, 0, 0, 0, 0, 0x12, 0x3456);
const PEER: Ipv6Addr = Ipv6Addr::new(0xFD00, 0, 0, 0, 0, 0, 0, 2);
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xFF02, 0, 0, 0, 0, 0, 0, 1);
/// The group of those whose addresses end as ours.
const OUR_GROUP: Ipv6Addr = Ipv6Addr::new(0xFF02, 0, 0, 0, 0, 1, 0xFF12, 0x3456);
const OUR_GROUP_MAC: [u8; 6] = [0x33, 0x33, 0xFF, 0x12, 0x34, 0x56];
const ALL_NODES_MAC: [u8; 6] = [0x33, 0x33, 0, 0, 0, 1];
const SOLICITED: u8 = 0x40;
const OVERRIDE: u8 = 0x20;

fn v6() -> NeighborConfig {
    NeighborConfig { ip: IpAddr::V6(OURS), ..config() }
}

/// An ICMPv6 packet; `body` begins with type and code, and its checksum is filled in.
fn icmp(
    macs: ([u8; 6], [u8; 6]),
    (src, dst): (Ipv6Addr, Ipv6Addr),
    hop_limit: u8,
    mut body: Vec<u8>,
) -> Vec<u8> {
    let len = u16::try_from(body.len()).unwrap();
    let pseudo = [&src.octets()[..], &dst.octets(), &[0, 0], &len.to_be_bytes(), &[0, 0, 0, 58]].concat();
    body[2..4].fill(0);
    let bytes = [pseudo, body.clone()].concat();
    let mut sum = 0_u32;
    for pair in bytes.chunks(2) {
        sum += u32::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]));
    }
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    body[2..4].copy_from_slice(&(!u16::try_from(sum).unwrap()).to_be_bytes());
    let mut frame = [&macs.0[..], &macs.1, &[0x86, 0xDD, 0x60, 0, 0, 0]].concat();
    frame.extend(len.to_be_bytes());
    frame.extend([58, hop_limit]);
    frame.extend(src.octets());
    frame.extend(dst.octets());
    frame.extend(body);
    frame
}

/// The body of a solicitation or an advertisement.
fn body(kind: u8, flags: u8, target: Ipv6Addr, option: Option<[u8; 6]>) -> Vec<u8> {
    let mut body = [&[kind, 0, 0, 0, flags, 0, 0, 0][..], &target.octets()].concat();
    if let Some(mac) = option {
        body.extend([if kind == 135 { 1 } else { 2 }, 1]);
        body.extend(mac);
    }
    body
}

/// The peer asks for us, as one that does not know us.
fn solicitation() -> Vec<u8> {
    icmp((OUR_GROUP_MAC, PEER_MAC), (PEER, OUR_GROUP), 255, body(135, 0, OURS, Some(PEER_MAC)))
}

/// The peer answers us.
fn advertisement(flags: u8, mac: [u8; 6]) -> Vec<u8> {
    icmp((OUR_MAC, PEER_MAC), (PEER, OURS), 255, body(136, flags, PEER, Some(mac)))
}

fn ping(data: &[u8]) -> Vec<u8> {
    let echo = [&[128, 0, 0, 0, 0x12, 0x34, 0, 7][..], data].concat();
    icmp((OUR_MAC, PEER_MAC), (PEER, OURS), 64, echo)
}

/// What we answer to one that asks.
fn our_answer(macs: ([u8; 6], [u8; 6]), dst: Ipv6Addr, flags: u8) -> Vec<u8> {
    icmp(macs, (OURS, dst), 255, body(136, flags, OURS, Some(OUR_MAC)))
}

fn take(neighbor: &mut Neighbor, frame: &[u8]) -> Option<Vec<u8>> {
    assert_eq!(neighbor.handle_frame(Time::ZERO, frame), Handled::Consumed);
    transmit(neighbor, Time::ZERO)
}

#[test]
fn a_neighbor_is_asked_for_by_its_group_and_known_when_it_answers() {
    let mut neighbor = Neighbor::new(&v6());
    assert_eq!(neighbor.resolve(Time::ZERO, IpAddr::V6(PEER)), Resolution::Pending);
    let group = Ipv6Addr::new(0xFF02, 0, 0, 0, 0, 1, 0xFF00, 2);
    let macs = ([0x33, 0x33, 0xFF, 0, 0, 2], OUR_MAC);
    let question = icmp(macs, (OURS, group), 255, body(135, 0, PEER, Some(OUR_MAC)));
    assert_eq!(transmit(&mut neighbor, Time::ZERO), Some(question));
    assert_eq!(neighbor.next_deadline(), Some(Time(RETRY_NS)));
    assert_eq!(take(&mut neighbor, &advertisement(SOLICITED | OVERRIDE, PEER_MAC)), None);
    assert_eq!(neighbor.resolve(Time::ZERO, IpAddr::V6(PEER)), Resolution::Known(PEER_MAC));
    let stats = neighbor.stats();
    assert_eq!((stats.requests_tx, stats.answers_rx, stats.malformed_rx), (1, 1, 0));
}

#[test]
fn who_asks_for_us_is_answered() {
    let mut neighbor = Neighbor::new(&v6());
    let answer = our_answer((PEER_MAC, OUR_MAC), PEER, SOLICITED | OVERRIDE);
    assert_eq!(take(&mut neighbor, &solicitation()), Some(answer.clone()));
    // One that knows us and only makes sure.
    let known = icmp((OUR_MAC, PEER_MAC), (PEER, OURS), 255, body(135, 0, OURS, None));
    assert_eq!(take(&mut neighbor, &known), Some(answer));
    assert_eq!(neighbor.stats().requests_rx, 2);
    assert_eq!(neighbor.stats().malformed_rx, 0);
}

#[test]
fn a_host_about_to_take_our_address_is_told_before_everybody() {
    let mut neighbor = Neighbor::new(&v6());
    let probe =
        icmp((OUR_GROUP_MAC, PEER_MAC), (Ipv6Addr::UNSPECIFIED, OUR_GROUP), 255, body(135, 0, OURS, None));
    let answer = our_answer((ALL_NODES_MAC, OUR_MAC), ALL_NODES, OVERRIDE);
    assert_eq!(take(&mut neighbor, &probe), Some(answer));
}

/// With the option of RFC 7527 and none of the other kind, as RFC 4861 wants it of a host without
/// an address.
#[test]
fn our_own_address_is_asked_for_with_a_nonce() {
    let nonce = [0x81, 2, 3, 4, 5, 6];
    let mut neighbor = Neighbor::new(&NeighborConfig { nonce, ..v6() });
    neighbor.probe_address();
    let question = [body(135, 0, OURS, None), [&[14, 1][..], &nonce].concat()].concat();
    let probe = icmp((OUR_GROUP_MAC, OUR_MAC), (Ipv6Addr::UNSPECIFIED, OUR_GROUP), 255, question);
    assert_eq!(transmit(&mut neighbor, Time::ZERO), Some(probe.clone()));
    let mut holder = Neighbor::new(&NeighborConfig { nonce: [7; 6], ..v6() });
    let answer = take(&mut holder, &probe).expect("an answer to everybody");
    let held = [body(136, OVERRIDE, OURS, Some(OUR_MAC)), [&[14, 1][..], &[7; 6]].concat()].concat();
    assert_eq!(answer, icmp((ALL_NODES_MAC, OUR_MAC), (OURS, ALL_NODES), 255, held));
    let lost = AddressConflict { mac: OUR_MAC, ours: false };
    assert_eq!(neighbor.handle_frame(Time::ZERO, &answer), Handled::Disputed(Some(lost)));
}

#[test]
fn a_host_that_asks_us_while_we_look_for_it_is_found() {
    let mut neighbor = Neighbor::new(&v6());
    neighbor.resolve(Time::ZERO, IpAddr::V6(PEER));
    take(&mut neighbor, &solicitation());
    assert_eq!(neighbor.resolve(Time::ZERO, IpAddr::V6(PEER)), Resolution::Known(PEER_MAC));
}

#[test]
fn a_known_neighbor_moves_only_where_the_advertisement_overrides() {
    let elsewhere = [2, 0, 0, 0, 0, 0x0C];
    let mut neighbor = Neighbor::new(&v6());
    neighbor.resolve(Time::ZERO, IpAddr::V6(PEER));
    transmit(&mut neighbor, Time::ZERO);
    take(&mut neighbor, &advertisement(SOLICITED, PEER_MAC));
    take(&mut neighbor, &advertisement(SOLICITED, elsewhere));
    assert_eq!(neighbor.resolve(Time::ZERO, IpAddr::V6(PEER)), Resolution::Known(PEER_MAC));
    // To everybody, unasked.
    let moved =
        icmp((ALL_NODES_MAC, PEER_MAC), (PEER, ALL_NODES), 255, body(136, OVERRIDE, PEER, Some(elsewhere)));
    take(&mut neighbor, &moved);
    assert_eq!(neighbor.resolve(Time::ZERO, IpAddr::V6(PEER)), Resolution::Known(elsewhere));
    assert_eq!(neighbor.stats().answers_rx, 2);
}

#[test]
fn a_stranger_makes_no_entry_and_a_claim_on_our_address_none_either() {
    let mut neighbor = Neighbor::new(&v6());
    take(&mut neighbor, &advertisement(SOLICITED | OVERRIDE, PEER_MAC));
    assert_eq!(neighbor.resolve(Time::ZERO, IpAddr::V6(PEER)), Resolution::Pending);
    let claim =
        icmp((ALL_NODES_MAC, PEER_MAC), (OURS, ALL_NODES), 255, body(136, OVERRIDE, OURS, Some(PEER_MAC)));
    neighbor.handle_frame(Time::ZERO, &claim);
    assert_eq!(neighbor.resolve(Time::ZERO, IpAddr::V6(OURS)), Resolution::Known(OUR_MAC));
    assert_eq!(neighbor.stats().conflicts, 1);
}

#[test]
fn pings_are_answered_up_to_a_packet_of_1500_bytes() {
    let mut neighbor = Neighbor::new(&v6());
    for len in [0, 1, 56, ECHO_DATA_MAX_V6] {
        let data: Vec<u8> = (0..len).map(|i| (i % 251).to_le_bytes()[0]).collect();
        let pong = transmit_after(&mut neighbor, &ping(&data));
        let reply = [&[129, 0, 0, 0, 0x12, 0x34, 0, 7][..], &data].concat();
        let mut expected = icmp((PEER_MAC, OUR_MAC), (OURS, PEER), 64, reply);
        expected.resize(expected.len().max(60), 0);
        assert_eq!(pong, Some(expected), "{len} bytes");
    }
    assert_eq!(take(&mut neighbor, &ping(&[0; ECHO_DATA_MAX_V6 + 1])), None);
    assert_eq!(neighbor.stats().oversize, 1);
}

fn transmit_after(neighbor: &mut Neighbor, frame: &[u8]) -> Option<Vec<u8>> {
    neighbor.handle_frame(Time::ZERO, frame);
    transmit(neighbor, Time::ZERO)
}

#[test]
fn what_is_for_others_or_for_all_is_left_alone() {
    let echo = |macs, addresses| icmp(macs, addresses, 64, vec![128, 0, 0, 0, 0, 1, 0, 1]);
    let other = Ipv6Addr::new(0xFD00, 0, 0, 0, 0, 0, 0, 9);
    for frame in [
        echo((OUR_MAC, PEER_MAC), (PEER, other)),
        echo((ALL_NODES_MAC, PEER_MAC), (PEER, ALL_NODES)),
        echo((ALL_NODES_MAC, PEER_MAC), (PEER, OURS)),
        echo(([2, 0, 0, 0, 0, 9], PEER_MAC), (PEER, OURS)),
        // A router says that it is one.
        icmp((ALL_NODES_MAC, PEER_MAC), (PEER, ALL_NODES), 255, vec![134; 16]),
        // ARP, and IPv4.
        arp([0xFF; 6], 1, (PEER_MAC, PEER_IP), ([0; 6], OUR_IP)),
    ] {
        let mut neighbor = Neighbor::new(&v6());
        assert_eq!(neighbor.handle_frame(Time::ZERO, &frame), Handled::Ignored, "{frame:02x?}");
        assert!(!neighbor.has_output());
    }
    // And we do not listen to IPv6 if our address is IPv4.
    let mut v4 = neighbor();
    assert_eq!(v4.handle_frame(Time::ZERO, &ping(&[])), Handled::Ignored);
    // A question for a host whose address ends as ours is heard, and is none of our business.
    let twin = Ipv6Addr::new(0xFD01, 0, 0, 0, 0, 0, 0x12, 0x3456);
    let frame = icmp((OUR_GROUP_MAC, PEER_MAC), (PEER, OUR_GROUP), 255, body(135, 0, twin, Some(PEER_MAC)));
    let mut neighbor = Neighbor::new(&v6());
    assert_eq!(take(&mut neighbor, &frame), None);
    assert_eq!(*neighbor.stats(), NeighborStats::default());
}

#[test]
fn no_host_has_some_addresses() {
    let mut neighbor = Neighbor::new(&v6());
    for ip in [Ipv6Addr::UNSPECIFIED, Ipv6Addr::LOCALHOST, ALL_NODES] {
        assert_eq!(neighbor.resolve(Time::ZERO, IpAddr::V6(ip)), Resolution::Unreachable);
    }
    assert!(!neighbor.has_output());
}

/// Returns `true` if a frame had any effect beyond counters.
fn has_effect(frame: &[u8]) -> bool {
    let mut neighbor = Neighbor::new(&v6());
    neighbor.resolve(Time::ZERO, IpAddr::V6(PEER));
    transmit(&mut neighbor, Time::ZERO);
    neighbor.handle_frame(Time::ZERO, frame);
    neighbor.has_output() || neighbor.resolve(Time::ZERO, IpAddr::V6(PEER)) != Resolution::Pending
}

fn valid() -> [Vec<u8>; 3] {
    [solicitation(), advertisement(SOLICITED | OVERRIDE, PEER_MAC), ping(&[0xDE, 0xAD])]
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

#[test]
fn one_bit_wrong_is_counted_or_not_ours_and_has_no_effect() {
    for (which, frame) in valid().into_iter().enumerate() {
        // From the IP header's addresses on, the checksum covers every bit.
        for bit in 22 * 8..frame.len() * 8 {
            let mut frame = frame.clone();
            frame[bit / 8] ^= 1 << (bit % 8);
            assert!(!has_effect(&frame), "frame {which}, bit {bit}");
        }
    }
}

#[test]
fn what_must_not_be_is_malformed() {
    let nobody = Ipv6Addr::UNSPECIFIED;
    let ask = |addresses, hop_limit, body| icmp((OUR_GROUP_MAC, PEER_MAC), addresses, hop_limit, body);
    let told = |addresses, body| icmp((OUR_MAC, PEER_MAC), addresses, 255, body);
    let question = || body(135, 0, OURS, Some(PEER_MAC));
    let with = |mut body: Vec<u8>, at: usize, value| {
        body[at] = value;
        body
    };
    for (why, frame) in [
        ("from off the link", ask((PEER, OUR_GROUP), 254, question())),
        ("another code", ask((PEER, OUR_GROUP), 255, with(question(), 1, 1))),
        ("an option of no length", ask((PEER, OUR_GROUP), 255, with(question(), 25, 0))),
        ("an option beyond the end", ask((PEER, OUR_GROUP), 255, with(question(), 25, 2))),
        ("a group's Ethernet address", ask((PEER, OUR_GROUP), 255, body(135, 0, OURS, Some(ALL_NODES_MAC)))),
        ("no Ethernet address", ask((PEER, OUR_GROUP), 255, body(135, 0, OURS, Some([0; 6])))),
        ("a question for a group", ask((PEER, OUR_GROUP), 255, body(135, 0, ALL_NODES, Some(PEER_MAC)))),
        ("a question of a group", ask((ALL_NODES, OUR_GROUP), 255, question())),
        ("of nobody, who yet is somewhere", ask((nobody, OUR_GROUP), 255, question())),
        ("of nobody, to us alone", ask((nobody, OURS), 255, body(135, 0, OURS, None))),
        ("an answer for a group", told((PEER, OURS), body(136, SOLICITED, ALL_NODES, Some(PEER_MAC)))),
        ("an answer without an address", told((PEER, OURS), body(136, SOLICITED, PEER, None))),
        (
            "an answer to everybody's question",
            icmp(
                (ALL_NODES_MAC, PEER_MAC),
                (PEER, ALL_NODES),
                255,
                body(136, SOLICITED, PEER, Some(PEER_MAC)),
            ),
        ),
        ("too short", told((PEER, OURS), vec![136, 0, 0, 0, SOLICITED, 0, 0, 0])),
        (
            "a ping of a group",
            icmp((OUR_MAC, PEER_MAC), (ALL_NODES, OURS), 64, vec![128, 0, 0, 0, 0, 1, 0, 1]),
        ),
        ("sent by a group", icmp((OUR_MAC, ALL_NODES_MAC), (PEER, OURS), 64, vec![128, 0, 0, 0, 0, 1, 0, 1])),
    ] {
        assert!(!has_effect(&frame), "{why}");
        let mut neighbor = Neighbor::new(&v6());
        assert_eq!(neighbor.handle_frame(Time::ZERO, &frame), Handled::Consumed, "{why}");
        let expected = NeighborStats { malformed_rx: 1, ..NeighborStats::default() };
        assert_eq!(*neighbor.stats(), expected, "{why}");
    }
}

#[test]
fn frames_of_our_vlan_only() {
    let mut neighbor = Neighbor::new(&NeighborConfig { vlan: Some(7), ..v6() });
    assert_eq!(neighbor.handle_frame(Time::ZERO, &solicitation()), Handled::Ignored);
    let tagged = |mut frame: Vec<u8>| {
        frame.splice(12..12, [0x81, 0, 0, 7]);
        frame
    };
    let answer = our_answer((PEER_MAC, OUR_MAC), PEER, SOLICITED | OVERRIDE);
    assert_eq!(take(&mut neighbor, &tagged(solicitation())), Some(tagged(answer)));
}

proptest! {
    /// Any change to a valid frame, with its checksum made good again or not.
    #[test]
    fn no_mutation_makes_it_panic(
        which in 0..3usize,
        changes in proptest::collection::vec((0..90usize, any::<u8>()), 0..6),
        len in 0..90usize,
        mend: bool,
    ) {
        let mut frame = valid()[which].clone();
        for (at, value) in changes {
            if let Some(byte) = frame.get_mut(at) {
                *byte = value;
            }
        }
        frame.truncate(len);
        if mend && frame.len() >= 58 {
            let address = |at: usize| Ipv6Addr::from(<[u8; 16]>::try_from(&frame[at..at + 16]).unwrap());
            let macs = (frame[..6].try_into().unwrap(), frame[6..12].try_into().unwrap());
            frame = icmp(macs, (address(22), address(38)), frame[21], frame[54..].to_vec());
        }
        let mut neighbor = Neighbor::new(&v6());
        neighbor.resolve(Time::ZERO, IpAddr::V6(PEER));
        neighbor.handle_frame(Time(1), &frame);
        while transmit(&mut neighbor, Time(2)).is_some() {}
        prop_assert!(!neighbor.has_output());
    }
}
