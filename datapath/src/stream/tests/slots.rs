//! Completion slots: taken in their turn, by their full MSN.

use super::psn;
use crate::stream::{CompletionSlot, CompletionSlots, PARKED_BYTES_MAX, ParkedWrite, SlotKind};
use wire::{Msn, Ssn};

fn slot(msn: u32, end: u32) -> CompletionSlot {
    CompletionSlot {
        msn: Msn::new(msn),
        end_psn: psn(end),
        offset: 0,
        kind: SlotKind::Write,
        ssn: None,
        imm: None,
        solicited: false,
        byte_len: msn,
        deferred: None,
    }
}

#[test]
fn a_slot_is_taken_once_when_its_last_packet_is_below_epsn() {
    let mut slots = CompletionSlots::new(5);
    slots.put(slot(3, 20));
    slots.put(slot(3, 20));
    let msn = Msn::new(3);
    assert!(slots.take_below(msn, psn(20)).is_none(), "ePSN has not passed it");
    assert_eq!(slots.take_below(msn, psn(21)).map(|slot| slot.byte_len), Some(3));
    assert!(slots.take_below(msn, psn(21)).is_none(), "once");
}

#[test]
fn a_message_of_the_same_index_is_not_mistaken() {
    // A window of 5 has 8 slots.
    let mut slots = CompletionSlots::new(5);
    slots.put(slot(3, 0));
    assert!(slots.take_below(Msn::new(11), psn(9)).is_none());
    assert!(slots.take_below(Msn::new(3 + (1 << 15)), psn(9)).is_none());
    assert!(slots.take_below(Msn::new(3), psn(9)).is_some());
}

#[test]
fn a_windows_worth_of_messages_has_a_slot_each_across_the_wrap() {
    let mut slots = CompletionSlots::new(8);
    for ahead in 0..8 {
        slots.put(slot(0xFF_FFFC + ahead, ahead));
    }
    for ahead in 0..8 {
        let msn = Msn::new(0xFF_FFFC + ahead);
        assert_eq!(slots.take_below(msn, psn(9)).map(|slot| slot.end_psn), Some(psn(ahead)));
    }
    slots.put(slot(1, 1));
    slots.clear();
    assert!(slots.take_below(Msn::new(1), psn(9)).is_none());
}

#[test]
fn nothing_is_left_of_what_was_put_before_all_was_forgotten() {
    let mut slots = CompletionSlots::new(200);
    for round in 0..3 {
        for number in [0, 1, 63, 64, 127, 128, 255].into_iter().skip(round) {
            slots.put(slot(number, 1));
            slots.put(slot(number, 1));
        }
        assert!(slots.take_below(Msn::new(127), psn(9)).is_some());
        slots.clear();
        for number in 0..256 {
            assert!(slots.take_below(Msn::new(number), psn(9)).is_none(), "{number} in round {round}");
        }
    }
}

#[test]
fn the_offset_of_an_end_names_the_first_packet() {
    let end = |offset, ssn| CompletionSlot { offset, ssn, ..slot(0, 100_000) };
    let send = end(70_000, Some(Ssn::new(1)));
    assert!(send.offset_matches(psn(30_000)));
    assert!(!send.offset_matches(psn(30_000 + 65_536)), "SENDs carry all of it");
    let write = end(70_000 & 0xFFFF, None);
    assert!(write.offset_matches(psn(30_000)) && write.offset_matches(psn(30_000 + 65_536)));
    assert!(!write.offset_matches(psn(30_001)), "WRITEs the low 16 bits");
}

#[test]
fn only_short_writes_are_parked_whole() {
    let bytes: Vec<u8> = (0..=64).collect();
    for length in 0..=PARKED_BYTES_MAX {
        let parked = ParkedWrite::new(7, 9, &bytes[..length]).unwrap();
        assert_eq!((parked.va, parked.rkey, parked.payload()), (7, 9, &bytes[..length]));
    }
    assert!(ParkedWrite::new(7, 9, &bytes).is_none());
}
