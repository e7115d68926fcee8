//! Every kernel against `wire::icrc`, which is itself held against packets of others.

use super::*;
use core::sync::atomic::{AtomicBool, AtomicU64};
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

/// The headers at the end of a block, which have `len` bytes.
fn head_of(block: &[u8], len: usize) -> Head {
    let lanes = block.as_chunks().0.iter().map(|lane| u128::from_ne_bytes(*lane)).collect::<Vec<_>>();
    Head { lanes: lanes.try_into().unwrap(), len }
}

proptest! {
    #[test]
    fn every_kernel_finds_the_icrc_of_any_frame(
        first in version(), len in 0..6_000_usize, shift in 0..64_usize, seed: u64,
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
        first in version(), headers in 0..130_usize, len in 0..6_000_usize, shift in 0..64_usize, from in 0..64_usize,
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

    #[test]
    fn every_kernel_verifies_and_places(
        first in version(), headers in prop_oneof![0..130_usize, Just(Head::WRITE_LEN), Just(Head::SEND_LEN)], lines in 0..70_usize, more in prop_oneof![3 => Just(0_usize), 1 => 0..64_usize],
        shift in 0..64_usize, to in 0..64_usize, flip in prop_oneof![1 => Just(None), 1 => (0..40_000_usize).prop_map(Some)],
        seed: u64,
    ) {
        let len = 64 * lines + more;
        let mut room = bytes(shift + headers + len + ICRC_LEN, seed);
        let frame = &mut room[shift..];
        frame[0] = first;
        wire::icrc::seal(frame);
        if let Some(bit) = flip.map(|bit| bit % (8 * frame.len())) {
            frame[bit / 8] ^= 1 << (bit % 8);
        }
        let first = frame[0];
        let (frame, payload) = (&*frame, &frame[headers..headers + len]);
        let before = bytes(to + len + 64, !seed);
        let mut placed = before.clone();
        placed[to..to + len].copy_from_slice(payload);
        for kernel in Kernel::supported() {
            let mut memory = before.clone();
            // SAFETY: `memory` holds `len` bytes from there, and is another allocation.
            let verified = unsafe {
                kernel.verify_and_place(frame, payload, NonNull::from(&mut memory[to..]).cast())
            };
            match verified {
                Some(right) => {
                    prop_assert_eq!(right, wire::icrc::verify(frame), "{:?}", kernel);
                    prop_assert!(memory == placed, "{:?}", kernel);
                }
                None => prop_assert!(memory == before, "{:?}", kernel),
            }
            let common = first >> 4 == 4 && matches!(headers, Head::WRITE_LEN | Head::SEND_LEN) && more == 0;
            prop_assert!(verified.is_some() || !common || kernel == Kernel::PORTABLE, "{:?}", kernel);
            // What is not the end of the packet is left to others.
            let odd = payload.get(..len.wrapping_sub(4)).filter(|_| len > 4);
            let place = NonNull::from(&mut memory[to..]).cast();
            // SAFETY: as above.
            let odd = odd.map(|odd| unsafe { kernel.verify_and_place(frame, odd, place) });
            prop_assert!(odd.is_none_or(|odd| odd.is_none()));
        }
    }

    #[test]
    fn every_kernel_writes_heads_payload_and_icrc(
        lanes: [u128; 4], len in prop_oneof![0..300_usize, 0..6_000_usize], shift in 0..64_usize, from in 0..64_usize, seed: u64,
        headers in prop_oneof![Just(Head::WRITE_LEN), Just(Head::SEND_LEN)],
    ) {
        let mut block = lanes.map(u128::to_ne_bytes).concat();
        let missing = block.len() - headers;
        block[..missing].fill(0);
        block[missing] = 0x45;
        let head = head_of(&block, headers);
        let source = bytes(from + len, seed);
        let total = headers + len.next_multiple_of(4) + ICRC_LEN;
        // What is around the packet must stay, too.
        let at = LINE_BEFORE + shift;
        let before = bytes(at + total + 64, !seed);
        let mut expected = before.clone();
        let packet = &mut expected[at..at + total];
        packet.fill(0);
        packet[..headers].copy_from_slice(&block[missing..]);
        packet[headers..headers + len].copy_from_slice(&source[from..]);
        wire::icrc::seal(packet);
        for kernel in Kernel::supported() {
            let mut frame = before.clone();
            // SAFETY: `source` is another allocation.
            unsafe { kernel.emit(head, &mut frame[at..at + total], NonNull::from(&source[from..])) };
            prop_assert!(frame == expected, "{:?}", kernel);
        }
    }
}

/// Bytes in front of a packet that nobody may touch.
const LINE_BEFORE: usize = 64;

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

/// An application may write to what it sends (docs/adr/0009): each byte of it is read once, so that
/// what leaves is whole.
#[test]
fn what_is_sent_is_what_was_folded_whatever_is_written_meanwhile() {
    let words: Vec<AtomicU64> = (0..128).map(AtomicU64::new).collect();
    let stop = AtomicBool::new(false);
    let mut block = [0; 64];
    block[64 - Head::SEND_LEN..].fill(0x45);
    let head = head_of(&block, Head::SEND_LEN);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0_u64.. {
                words.iter().take(8).for_each(|word| word.store(number, Ordering::Relaxed));
                if stop.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        let wrong = |kernel: Kernel, len: usize| {
            let (mut copied, mut emitted) = (vec![0x45; 60 + len + 4], vec![0; Head::SEND_LEN + len + 4]);
            let source = NonNull::from(&words[0]).cast::<u8>();
            // SAFETY: the words are 1024 bytes, which change as memory does that a peer or another
            // thread writes.
            unsafe {
                kernel.copy_and_seal(&mut copied, 60, source, len);
                kernel.emit(head, &mut emitted, NonNull::slice_from_raw_parts(source, len));
            }
            !wire::icrc::verify(&copied) || !wire::icrc::verify(&emitted)
        };
        let mut found = Vec::new();
        for kernel in Kernel::supported() {
            for len in [16, 32, 48, 80, 112, 448, 960] {
                let count = (0..20_000).filter(|_| wrong(kernel, len)).count();
                if count > 0 {
                    found.push((kernel, len, count));
                }
            }
        }
        stop.store(true, Ordering::Relaxed);
        assert!(found.is_empty(), "{found:?}");
    });
}
