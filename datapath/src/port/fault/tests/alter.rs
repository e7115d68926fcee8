use crate::port::fault::alter::{flip_bit, mark_ce};
use proptest::prelude::*;

const ETHERNET_V4: [u8; 14] = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x08, 0x00];
const ETHERNET_V6: [u8; 14] = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x86, 0xDD];

/// RFC 1071, over the whole header: 0 if the checksum in it is right.
fn ipv4_checksum(header: &[u8]) -> u16 {
    let sum: u32 = header.chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum();
    let folded = (sum & 0xFFFF) + (sum >> 16);
    !u16::try_from((folded & 0xFFFF) + (folded >> 16)).unwrap()
}

fn ipv4(tos: u8, id: u16) -> Vec<u8> {
    let mut header = vec![0x45, tos, 0, 40, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    header[4..6].copy_from_slice(&id.to_be_bytes());
    let checksum = ipv4_checksum(&header);
    header[10..12].copy_from_slice(&checksum.to_be_bytes());
    [&ETHERNET_V4[..], &header, &[0xAB; 20]].concat()
}

fn ipv6(traffic_class: u8) -> Vec<u8> {
    let word = 0x6000_0000 | u32::from(traffic_class) << 20 | 0xA_BCDE;
    [&ETHERNET_V6[..], &word.to_be_bytes(), &[0x11; 36], &[0xAB; 20]].concat()
}

proptest! {
    #[test]
    fn ipv4_is_marked_and_its_checksum_stays_right(tos: u8, id: u16) {
        let before = ipv4(tos, id);
        let mut after = before.clone();
        let capable = matches!(tos & 3, 1 | 2);
        prop_assert_eq!(mark_ce(&mut after), capable);
        prop_assert_eq!(ipv4_checksum(&after[14..34]), 0);
        prop_assert_eq!(after[15], if capable { tos | 3 } else { tos });
        let same = |i: &usize| ![15, 24, 25].contains(i);
        prop_assert!((0..after.len()).filter(same).all(|i| after[i] == before[i]));
    }

    #[test]
    fn ipv6_is_marked_and_nothing_else_changes(traffic_class: u8) {
        let capable = matches!(traffic_class & 3, 1 | 2);
        let mut after = ipv6(traffic_class);
        prop_assert_eq!(mark_ce(&mut after), capable);
        prop_assert_eq!(after, ipv6(if capable { traffic_class | 3 } else { traffic_class }));
    }

    #[test]
    fn no_bytes_make_it_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..80), draw: u64) {
        mark_ce(&mut bytes);
        flip_bit(&mut bytes, draw);
    }

    #[test]
    fn no_truncation_makes_it_panic(length in 0..74_usize, v6: bool) {
        let mut bytes = if v6 { ipv6(2) } else { ipv4(2, 7) };
        bytes.truncate(length);
        let before = bytes.clone();
        let whole = length >= 14 + if v6 { 40 } else { 20 };
        prop_assert_eq!(mark_ce(&mut bytes), whole);
        prop_assert_eq!(bytes != before, whole);
    }
}

#[test]
fn tagged_packets_are_marked_too() {
    for tag in [&[0x81, 0x00, 0x00, 0x05][..], &[0x88, 0xA8, 0x00, 0x07, 0x81, 0x00, 0x00, 0x05]] {
        let mut frame = ipv4(2, 7);
        frame.splice(12..12, tag.iter().copied());
        assert!(mark_ce(&mut frame));
        assert_eq!(frame[15 + tag.len()], 3);
        assert_eq!(ipv4_checksum(&frame[14 + tag.len()..34 + tag.len()]), 0);
    }
}

#[test]
fn exactly_one_bit_flips_and_never_in_the_ethernet_header() {
    let mut flipped = [false; 46 * 8];
    for draw in 0..46 * 8 {
        let mut frame = [0u8; 60];
        assert!(flip_bit(&mut frame, draw));
        assert_eq!(frame[..14], [0; 14]);
        assert_eq!(frame.iter().map(|byte| byte.count_ones()).sum::<u32>(), 1);
        let byte = frame.iter().position(|byte| *byte != 0).unwrap();
        flipped[(byte - 14) * 8 + frame[byte].trailing_zeros() as usize] = true;
    }
    assert!(flipped.into_iter().all(|bit| bit), "every bit can flip");
    assert!(!flip_bit(&mut [0; 14], 3));
}

/// The second vector of protocol.md 1.7, an ECT(0) packet.
#[test]
fn a_mark_leaves_the_icrc_right_and_a_flipped_payload_bit_does_not() {
    let headers: [u8; 54] = [
        0x02, 0, 0, 0, 0, 0x02, 0x02, 0, 0, 0, 0, 0x01, 0x08, 0, 0x45, 0x02, 0, 0x6c, 0x12, 0x34, 0x40, 0,
        0x40, 0x11, 0x44, 0x90, 0x0a, 0, 0, 0x01, 0x0a, 0, 0, 0x02, 0xc1, 0x23, 0x12, 0xb7, 0, 0x58, 0, 0,
        0x04, 0x40, 0xff, 0xff, 0, 0, 0, 0x11, 0, 0, 0, 0x64,
    ];
    let payload: Vec<u8> = (0..0x40).collect();
    let mut frame = [&headers[..], &payload, &[0x36, 0xe4, 0x92, 0xc6]].concat();
    assert!(wire::icrc::verify(&frame[14..]));
    assert!(mark_ce(&mut frame));
    assert!(wire::icrc::verify(&frame[14..]));
    assert!(flip_bit(&mut frame, (60 - 14) * 8));
    assert!(!wire::icrc::verify(&frame[14..]));
}
