//! The ICRC against an implementation that works bit by bit, straight from protocol.md 1.7.

use proptest::prelude::*;
use wire::icrc;

/// CRC-32/ISO-HDLC, one bit at a time.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| (crc >> 1) ^ if crc & 1 == 1 { 0xEDB8_8320 } else { 0 })
    })
}

/// The ICRC of IP header to pad.
fn oracle(l3: &[u8]) -> u32 {
    let mut masked = l3.to_vec();
    let ip = match l3[0] >> 4 {
        4 => {
            let (tos, ttl, checksum) = (1, 8, 10..12);
            masked[tos] = 0xFF;
            masked[ttl] = 0xFF;
            masked[checksum].fill(0xFF);
            20
        }
        6 => {
            let (class_and_flow, hop_limit) = (1..4, 7);
            masked[0] |= 0x0F;
            masked[class_and_flow].fill(0xFF);
            masked[hop_limit] = 0xFF;
            40
        }
        version => panic!("IP version {version}"),
    };
    let udp_checksum = ip + 6..ip + 8;
    let bth_byte_4 = ip + 8 + 4;
    masked[udp_checksum].fill(0xFF);
    masked[bth_byte_4] = 0xFF;
    crc32(&[&[0xFF; 8][..], &masked].concat())
}

/// Any packet from the IP header on; only the version is right.
fn packet() -> impl Strategy<Value = Vec<u8>> {
    (any::<bool>(), 0..5000usize, any::<u64>()).prop_map(|(v6, extra, seed)| {
        let len = extra + if v6 { 60 } else { 40 };
        let mut bytes: Vec<u8> = (0..len as u64).map(|i| noise(seed, i)).collect();
        bytes[0] = if v6 { 0x60 | bytes[0] & 0x0F } else { 0x45 };
        bytes
    })
}

/// A byte that depends on every bit of both numbers.
fn noise(seed: u64, i: u64) -> u8 {
    let mixed = (seed ^ i).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed ^ mixed >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9).to_be_bytes()[0]
}

#[test]
fn the_oracle_knows_the_check_value() {
    assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
    assert_eq!(!crc32(&[0xFF; 8]), 0xDEBB_20E3, "the state after the eight bytes of ones");
}

proptest! {
    #[test]
    fn agrees_with_the_bitwise_oracle(packet in packet()) {
        prop_assert_eq!(icrc::compute(&packet), oracle(&packet));
    }

    #[test]
    fn may_be_fed_in_pieces(packet in packet(), cut in any::<prop::sample::Index>()) {
        let headers = if packet[0] >> 4 == 6 { 60 } else { 40 };
        let cut = headers + cut.index(packet.len() - headers + 1);
        let mut hasher = icrc::hasher(&packet[..cut]).unwrap();
        hasher.update(&packet[cut..]);
        prop_assert_eq!(hasher.finalize(), oracle(&packet));
    }

    #[test]
    fn what_is_sealed_verifies_until_a_byte_changes(
        mut packet in packet(),
        at in any::<prop::sample::Index>(),
        bits in 1..=255u8,
    ) {
        let end = packet.len();
        packet.extend([0; 4]);
        icrc::seal(&mut packet);
        prop_assert_eq!(&packet[end..], oracle(&packet[..end]).to_le_bytes());
        prop_assert!(icrc::verify(&packet));
        let at = end + at.index(4);
        packet[at] ^= bits;
        prop_assert!(!icrc::verify(&packet));
    }
}

/// Lengths around every block size that the fast implementation switches at.
#[test]
fn every_short_length() {
    for version in [0x45, 0x60] {
        let headers = if version == 0x60 { 60 } else { 40 };
        for len in headers..headers + 300 {
            let mut bytes: Vec<u8> = (0..len as u64).map(|i| noise(7, i)).collect();
            bytes[0] = version;
            assert_eq!(icrc::compute(&bytes), oracle(&bytes), "{len} bytes of version {version:#x}");
        }
    }
}

#[test]
fn what_has_no_icrc_never_verifies() {
    for (version, shortest) in [(0x45, 44), (0x60, 64), (0x00, 100), (0x50, 100)] {
        for len in 0..shortest {
            let mut bytes = vec![0x11; len];
            if let Some(first) = bytes.first_mut() {
                *first = version;
            }
            icrc::seal(&mut bytes);
            assert!(!icrc::verify(&bytes), "{len} bytes of version {version:#x}");
        }
    }
}
