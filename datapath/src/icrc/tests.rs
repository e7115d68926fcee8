//! Every kernel against `wire::icrc`, which is itself held against packets of others.

use super::*;
use proptest::prelude::*;

/// An IP packet's first byte.
fn version() -> impl Strategy<Value = u8> {
    prop_oneof![4 => Just(0x45), 4 => Just(0x60), 1 => any::<u8>()]
}

/// Bytes that repeat at no short distance.
fn bytes(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    (0..len).map(|_| next()).collect()
}

proptest! {
    #[test]
    fn every_kernel_finds_the_icrc_of_any_frame(
        first in version(), len in 0..5_000_usize, shift in 0..64_usize, seed: u64,
    ) {
        let mut room = bytes(shift + len + ICRC_LEN, seed);
        let frame = &mut room[shift..];
        frame[0] = first;
        let (body, icrc) = frame.split_last_chunk_mut::<ICRC_LEN>().unwrap();
        *icrc = wire::icrc::compute(body).to_le_bytes();
        let expected = wire::icrc::verify(frame);
        for kernel in Kernel::supported() {
            prop_assert_eq!(kernel.verify(frame), expected, "{:?}", kernel);
            let mut sealed = frame.to_vec();
            sealed[len..].fill(0);
            let mut by_wire = sealed.clone();
            wire::icrc::seal(&mut by_wire);
            kernel.seal(&mut sealed);
            prop_assert_eq!(sealed, by_wire, "{:?}", kernel);
            for bit in [8 * 41, 8 * (len / 2), 8 * len, 8 * len + 31].map(|bit| bit % (8 * (len + ICRC_LEN))) {
                frame[bit / 8] ^= 1 << (bit % 8);
                prop_assert_eq!(kernel.verify(frame), wire::icrc::verify(frame), "{:?}, bit {}", kernel, bit);
                frame[bit / 8] ^= 1 << (bit % 8);
            }
        }
    }

    #[test]
    fn every_kernel_copies_pads_and_seals(
        first in version(), headers in 0..130_usize, len in 0..5_000_usize, shift in 0..64_usize, from in 0..64_usize,
        seed: u64,
    ) {
        let source = bytes(from + len + 64, seed);
        let pad = len.wrapping_neg() & 3;
        let total = headers + len + pad + ICRC_LEN;
        let mut expected = bytes(shift + total + 64, !seed);
        if headers > 0 {
            expected[shift] = first;
        }
        let before = expected.clone();
        expected[shift + headers..][..len].copy_from_slice(&source[from..from + len]);
        expected[shift + headers + len..][..pad].fill(0);
        wire::icrc::seal(&mut expected[shift..shift + total]);
        for kernel in Kernel::supported() {
            let mut frame = before.clone();
            let payload = NonNull::from(&source[from..]).cast();
            // SAFETY: `source` holds `len` bytes from there, and is another allocation.
            unsafe { kernel.copy_and_seal(&mut frame[shift..shift + total], headers, payload, len) };
            prop_assert!(frame == expected, "{:?}", kernel);
        }
    }
}

#[test]
fn the_detected_kernel_is_supported() {
    assert!(Kernel::supported().any(|kernel| kernel == Kernel::detected()));
}

#[test]
fn every_length_of_a_small_frame_is_right() {
    for first in [0x45, 0x60] {
        for len in 1..600 {
            let mut frame = bytes(len, len as u64);
            frame[0] = first;
            let icrc = wire::icrc::compute(&frame);
            frame.extend(icrc.to_le_bytes());
            let expected = wire::icrc::verify(&frame);
            assert!(
                Kernel::supported().all(|kernel| kernel.verify(&frame) == expected),
                "{first:#x}, {len} bytes"
            );
        }
    }
}
