//! Properties of the protocol, and what closes a stream.

mod pair;

use super::*;
use pair::*;
use proptest::prelude::*;

proptest! {
    #[test]
    fn each_byte_comes_once_and_in_order(
        receives in [1..9_u32, 1..9_u32], checked: bool, steps in steps(),
    ) {
        let mut pair = Pair::new(receives, checked);
        for step in &steps {
            pair.step(step);
            for at in 0..2 {
                prop_assert!(pair.sides[1 - at].written.starts_with(&pair.sides[at].read));
            }
        }
        prop_assert!(pair.settle([true; 2]).is_some(), "it never comes to rest");
        for side in &mut pair.sides {
            side.connection.shut();
        }
        prop_assert!(pair.settle([true; 2]).is_some());
        prop_assert_eq!(pair.rnr, 0);
        for at in 0..2 {
            prop_assert_eq!(&pair.sides[at].read, &pair.sides[1 - at].written);
            prop_assert_eq!(pair.sides[at].connection.reading(), Reading::Eof);
        }
        // What the last message of each end says is all that the other wants to know.
        for side in &mut pair.sides {
            side.connection.lose();
            prop_assert_eq!(side.connection.reading(), Reading::Eof);
        }
    }

    #[test]
    fn who_resets_or_drops_ends_both_and_changes_no_byte(
        receives in [1..9_u32, 1..9_u32], checked: bool, steps in steps_and_ends(),
    ) {
        let mut pair = Pair::new(receives, checked);
        for step in &steps {
            pair.step(step);
            for at in 0..2 {
                prop_assert!(pair.sides[1 - at].written.starts_with(&pair.sides[at].read));
                let end = pair.sides[at].connection.end();
                prop_assert!(!matches!(end, Some(End::Violation(_))), "{:?} of {}", end, at);
            }
        }
        prop_assert!(pair.settle([true; 2]).is_some(), "it never comes to rest");
        prop_assert_eq!(pair.rnr, 0);
        let ends = [0, 1].map(|at| pair.sides[at].connection.end());
        for at in 0..2 {
            let (side, other) = (&pair.sides[at], &pair.sides[1 - at]);
            prop_assert!(other.written.starts_with(&side.read));
            prop_assert!(!matches!(ends[at], Some(End::Violation(_))), "{:?}", ends);
            if matches!(ends[at], Some(End::Aborted | End::Lost | End::Reset(Reason::Aborted))) {
                prop_assert!(other.connection.is_over(), "{:?}", ends);
            }
            // What was sent before a drop is read, and nobody waits for what nobody reads.
            if let Some(sent) = side.dropped {
                prop_assert!(side.offered.iter().all(Option::is_none), "{:?}", ends);
                if other.dropped.is_none() && matches!(ends[1 - at], None | Some(End::Reset(Reason::Dropped))) {
                    prop_assert_eq!(other.read.len(), sent);
                    prop_assert_eq!(other.connection.reading(), Reading::Eof);
                }
            }
        }
    }

    #[test]
    fn who_never_reads_keeps_nobody_from_being_read(
        receives in [1..9_u32, 1..9_u32], len in 1..3000_usize,
    ) {
        let mut pair = Pair::new(receives, false);
        pair.sides[0].give(len);
        pair.sides[1].give(3000);
        prop_assert!(pair.settle([false, true]).is_some(), "it never comes to rest");
        prop_assert_eq!(pair.sides[1].read.len(), len);
        prop_assert_eq!(pair.rnr, 0);
        // The peer of who never reads was held back by credit.
        prop_assert!(!pair.sides[1].to_write.is_empty());
    }

    #[test]
    fn any_message_leaves_the_stream_alive_or_closed_for_a_reason(
        message in prop::collection::vec(any::<u8>(), 0..RECEIVE_BYTES + 1),
        written in prop::option::of(0..3_u32),
        kind in 0..9_u8, position in 0..3_u64, flags in 0..3_u16, length in prop::option::of(0..9_u32),
    ) {
        let mut message = message;
        let payload = u32::try_from(message.len().saturating_sub(Header::BYTES)).expect("small");
        let length = length.unwrap_or(payload);
        if let Some(header) = message.first_chunk_mut::<16>() {
            header[..2].copy_from_slice(&[1, kind]);
            header[2..4].copy_from_slice(&flags.to_le_bytes());
            header[4..8].copy_from_slice(&length.to_le_bytes());
            header[8..16].copy_from_slice(&position.to_le_bytes());
        }
        let mut side = Side::new(2, false);
        side.connection.meet(&hello(2));
        let wire = match written {
            Some(number) => {
                prop_assert!(side.grant());
                Wire::Write(0, number, message.clone())
            }
            None => Wire::Send(message.clone()),
        };
        side.wire.clear();
        prop_assert!(side.arrive(wire) && side.look());
        match side.connection.end() {
            Some(End::Violation(_)) => {
                prop_assert!(matches!(side.connection.reading(), Reading::Ended(End::Violation(_))));
                let told = side.connection.next_control();
                prop_assert_eq!(told.map(|header| header.word), Some(Reason::Violation.code()));
                prop_assert_eq!(side.connection.next_control(), None);
            }
            end => prop_assert!(matches!(end, None | Some(End::Reset(_)))),
        }
        let read = side.read(usize::MAX);
        prop_assert!(read == 0 || message[Header::BYTES..] == side.read[..]);
    }
}

/// Each way carries its bytes, and what it needs comes back.
#[test]
fn each_way_is_gone_and_gives_its_memory_back() {
    for way in [Way::Send, Way::Write, Way::Offer] {
        let mut pair = Pair::new([4, 4], false);
        assert!(pair.sides[1].grant());
        pair.settle([true; 2]);
        for round in 1..=10 {
            pair.sides[0].way = way;
            pair.sides[0].give(BLOCK - Header::BYTES);
            pair.sides[0].write();
            let gone = match &pair.sides[0].wire[0] {
                Wire::Write(..) => Way::Write,
                Wire::Send(message) if message[1] == Kind::Offer as u8 => Way::Offer,
                Wire::Send(_) => Way::Send,
            };
            assert_eq!(gone, way);
            pair.settle([true; 2]).expect("it comes to rest");
            pair.sides[1].grant();
            pair.settle([true; 2]).expect("it comes to rest");
            assert_eq!(pair.sides[1].read.len(), round * (BLOCK - Header::BYTES));
        }
        assert_eq!(pair.sides[1].read, pair.sides[0].written);
        assert!(pair.sides[0].offered.iter().all(Option::is_none), "the peer tells what it has read");
        assert_eq!(pair.sides[1].granted.len(), BLOCKS);
    }
}

/// What is offered is held when all of it is here, and not before; the end waits for it.
#[test]
fn an_offer_that_is_read_in_parts_is_held_when_all_is_here() {
    let mut pair = Pair::new([4, 4], false);
    pair.sides[0].way = Way::Offer;
    pair.sides[0].give(BLOCK);
    pair.sides[0].write();
    pair.sides[0].connection.shut();
    pair.sides[0].control();
    while pair.deliver(0) {}
    while pair.sides[1].look() {}
    for part in 1..=3 {
        assert_eq!(pair.sides[1].connection.reading(), Reading::Wait);
        assert!(pair.sides[1].fetch(BLOCK / 3) && !pair.sides[1].fetch(1));
        assert!(pair.land(1));
        assert_eq!(pair.sides[1].connection.next_control().is_some(), part == 3, "one update at the end");
        assert_eq!(pair.sides[1].read(usize::MAX), BLOCK / 3);
    }
    assert_eq!(pair.sides[1].connection.reading(), Reading::Eof);
}

#[test]
fn what_was_offered_and_is_not_here_is_missing_when_the_carrier_is_lost() {
    let mut pair = Pair::new([4, 4], false);
    pair.sides[0].way = Way::Offer;
    pair.sides[0].give(5);
    pair.sides[0].write();
    pair.sides[0].connection.shut();
    pair.sides[0].control();
    while pair.deliver(0) {}
    while pair.sides[1].look() {}
    pair.sides[1].connection.shut();
    pair.sides[1].connection.lose();
    assert_eq!(pair.sides[1].connection.reading(), Reading::Ended(End::Lost));
}

/// A stream that was dropped says so when the peer has read what it offers, or nobody would hear
/// of that.
#[test]
fn what_a_dropped_stream_has_offered_is_read() {
    let mut pair = Pair::new([2, 2], false);
    pair.sides[0].way = Way::Offer;
    pair.sides[0].give(BLOCK);
    pair.sides[0].write();
    pair.sides[0].connection.drop_stream();
    pair.settle([false, true]).expect("it comes to rest");
    assert_eq!(pair.sides[1].read, pair.sides[0].written);
    assert_eq!(pair.sides[1].connection.end(), Some(End::Reset(Reason::Dropped)));
    assert!(pair.sides[0].offered.iter().all(Option::is_none));
}

/// Neither reads any more what the other offers, and neither waits for that.
#[test]
fn two_dropped_ends_let_go_of_what_they_offer() {
    let mut pair = Pair::new([2, 2], false);
    for side in &mut pair.sides {
        side.way = Way::Offer;
        side.give(BLOCK);
        side.write();
    }
    pair.sides.iter_mut().for_each(Side::drop_stream);
    pair.settle([true; 2]).expect("it comes to rest");
    for side in &pair.sides {
        assert!(side.offered.iter().all(Option::is_none));
        assert_eq!(side.connection.end(), Some(End::Reset(Reason::Dropped)));
    }
}

/// Who drops while it reads what the peer offers says so behind that, or the READ would fail.
#[test]
fn who_drops_ends_its_reads_first() {
    let mut pair = Pair::new([2, 2], false);
    pair.sides[1].way = Way::Offer;
    pair.sides[1].give(BLOCK);
    pair.sides[1].write();
    pair.deliver(1);
    pair.sides[0].look();
    assert!(pair.sides[0].fetch(1));
    pair.sides[0].drop_stream();
    while pair.deliver(0) {}
    while pair.sides[1].look() {}
    assert_eq!(pair.sides[1].connection.end(), None);
    pair.settle([true; 2]).expect("it comes to rest");
    assert_eq!(pair.sides[1].connection.end(), Some(End::Reset(Reason::Dropped)));
    assert_eq!(pair.sides[0].connection.end(), None);
}

/// What was under way when the carrier went comes before the word that the stream was dropped.
#[test]
fn what_was_written_before_a_drop_is_sent_again_before_that_is_told() {
    let mut pair = Pair::new([2, 2], false);
    pair.sides[0].give(PAYLOAD * 3);
    pair.sides[0].write();
    pair.cut(false);
    pair.sides[0].drop_stream();
    pair.deliver(1);
    pair.sides[0].look();
    pair.sides[0].control();
    pair.settle([true; 2]).expect("it comes to rest");
    let other = &pair.sides[1];
    assert_eq!(other.read, other.written_by_peer(PAYLOAD * 2));
    assert_eq!(other.connection.reading(), Reading::Eof);
}

/// Also if the peer has not said yet what it holds.
#[test]
fn a_reset_is_told_on_a_later_carrier() {
    let mut pair = Pair::new([2, 2], false);
    pair.sides[0].give(PAYLOAD);
    pair.sides[0].write();
    pair.cut(false);
    pair.sides[0].reset();
    pair.settle([true; 2]).expect("it comes to rest");
    let ends = [0, 1].map(|at| pair.sides[at].connection.end());
    assert_eq!(ends, [Some(End::Aborted), Some(End::Reset(Reason::Aborted))]);
}

/// The header of a first message, of an end with four receives.
fn first(kind: Kind, length: u32) -> Header {
    Header { kind, checked: false, waited: false, length, position: 0, taken: 0, credit: 4, word: 0 }
}

#[test]
fn what_was_not_announced_or_names_no_memory_closes_the_stream() {
    let (grant, offer) = ((Kind::Grant, 1), (Kind::Offer, 1));
    let none = Features::default();
    let all = Features { writes: true, reads: true, ..Features::default() };
    for ((kind, count), features, len, violation) in [
        (grant, none, 64, Violation::Unannounced),
        (offer, none, 64, Violation::Unannounced),
        (grant, all, 32, Violation::Descriptor),
        (offer, all, 0, Violation::Descriptor),
        (offer, all, (1 << 30) + 1, Violation::Descriptor),
        ((Kind::Offer, 2), all, 64, Violation::Length),
        ((Kind::Grant, 0), all, 64, Violation::Length),
    ] {
        let mut side = Side::new(4, false);
        side.connection = Connection::new(&Hello { features, ..hello(4) }, false);
        side.connection.meet(&hello(4));
        let length = u32::try_from(count * Descriptor::BYTES).expect("small");
        let header = first(kind, length);
        let payload = Descriptor { addr: 0, rkey: 0, len }.to_bytes().repeat(count);
        assert!(side.arrive(Wire::Send(message(&header, &payload))) && side.look());
        assert_eq!(side.connection.end(), Some(End::Violation(violation)), "{kind:?}");
    }
}

/// More grants than any end needs would fill our memory.
#[test]
fn grants_without_end_close_the_stream() {
    let mut side = Side::new(40, false);
    side.connection.meet(&hello(4));
    let payload = Descriptor { addr: 0, rkey: 0, len: 64 }.to_bytes().repeat(2);
    let header = first(Kind::Grant, 32);
    let mut count = 0;
    while side.connection.end().is_none() {
        assert!(side.arrive(Wire::Send(message(&header, &payload))) && side.look());
        count += 2;
    }
    assert_eq!((count, side.connection.end()), (66, Some(End::Violation(Violation::Descriptor))));
}

/// Whatever was under way when a carrier went, on the next one each byte comes once.
#[test]
fn a_later_carrier_goes_on_where_each_end_stands() {
    for way in [Way::Send, Way::Write, Way::Offer] {
        let mut pair = Pair::new([8, 8], true);
        pair.sides[1].grant();
        pair.settle([true; 2]);
        pair.sides[0].way = way;
        pair.sides[0].give(BLOCK * 4);
        pair.sides[0].write();
        pair.sides[0].connection.shut();
        pair.sides[0].control();
        pair.deliver(0);
        pair.sides[1].look();
        pair.cut(false);
        assert_eq!(pair.sides[0].connection.room(), Room::Over(WriteRefused::Shut));
        assert_eq!(pair.sides[0].connection.resend_room(), 0, "nobody has said what it holds");
        pair.settle([true; 2]).expect("it comes to rest");
        assert_eq!(pair.sides[1].read, pair.sides[0].written, "{way:?}");
        assert_eq!(pair.sides[1].connection.reading(), Reading::Eof);
        assert_eq!(pair.rnr, 0);
    }
}

/// Who gets a new carrier has no receive to spare for what the program has in its hands.
#[test]
fn what_is_borrowed_is_no_credit_on_a_later_carrier() {
    let mut pair = Pair::new([4, 4], false);
    pair.sides[1].give(3 * PAYLOAD);
    assert!(pair.settle([false, false]).is_some());
    (0..3).for_each(|_| pair.sides[0].borrow());
    pair.cut(false);
    pair.sides[1].give(10 * PAYLOAD);
    assert!(pair.settle([false, false]).is_some());
    // One receive is left: of the ten messages one has come.
    assert_eq!(pair.sides[0].read(usize::MAX), PAYLOAD);
    assert!(pair.settle([true, true]).is_some());
    assert_eq!(pair.sides[0].read, pair.sides[1].written);
}

/// The end of a stream that came before the carrier went is told again, and is no second one.
#[test]
fn what_both_ends_hold_is_not_sent_again() {
    let mut pair = Pair::new([4, 4], false);
    pair.sides[0].give(PAYLOAD * 2);
    pair.sides[0].write();
    pair.sides[0].connection.shut();
    pair.settle([true; 2]).expect("it comes to rest");
    assert_eq!(pair.sides[1].connection.reading(), Reading::Eof);
    pair.cut(true);
    pair.settle([true; 2]).expect("it comes to rest");
    assert_eq!(pair.sides[1].connection.reading(), Reading::Eof);
    assert_eq!(pair.sides[1].read.len(), PAYLOAD * 2);
    assert!(pair.sides.iter().all(|side| side.connection.end().is_none()));
}

/// Over a carrier that says nothing of arrival, who drops its stream waits for the peer's word, and
/// asks for it.
#[test]
fn who_drops_over_an_unsure_carrier_hears_first_that_all_has_come() {
    let mut pair = Pair::new([4, 4], false);
    pair.cut(true);
    pair.settle([true; 2]).expect("it comes to rest");
    pair.sides[0].give(5);
    pair.sides[0].write();
    pair.sides[0].connection.drop_stream();
    pair.sides[0].control();
    assert!(pair.sides[0].wire.iter().all(|wire| !is_of(wire, Kind::Reset)));
    pair.sides[0].connection.ask();
    pair.settle([false, true]).expect("it comes to rest");
    assert_eq!(pair.sides[1].read, pair.sides[0].written);
    assert_eq!(pair.sides[1].connection.end(), Some(End::Reset(Reason::Dropped)));
}

fn is_of(wire: &Wire, kind: Kind) -> bool {
    matches!(wire, Wire::Send(message) if message[1] == kind as u8)
}

/// What an end cannot hold, or has given back, and a greeting that comes at the wrong time.
#[test]
fn a_greeting_that_cannot_be_closes_the_stream() {
    let resume = first(Kind::Resume, 0);
    let greeted = |header: &Header| {
        let mut pair = Pair::new([4, 4], false);
        for side in &mut pair.sides {
            side.give(PAYLOAD);
            side.write();
        }
        pair.settle([true; 2]).expect("it comes to rest");
        let side = &mut pair.sides[0];
        side.suspend();
        side.connection.resume(true);
        side.control();
        assert!(side.arrive(Wire::Send(message(header, b""))) && side.look());
        side.connection.end()
    };
    let good = Header { position: PAYLOAD as u64, taken: PAYLOAD as u64, ..resume };
    assert_eq!(greeted(&good), None);
    for (header, violation) in [
        (Header { position: 0, ..good }, Violation::Position),
        (Header { taken: PAYLOAD as u64 + 1, ..good }, Violation::Taken),
        (Header { credit: 40_000, ..good }, Violation::Credit),
        (Header { kind: Kind::Answer, ..good }, Violation::Unannounced),
    ] {
        assert_eq!(greeted(&header), Some(End::Violation(violation)));
    }
    let mut side = Side::new(4, false);
    side.connection.meet(&hello(4));
    assert!(side.arrive(Wire::Send(message(&resume, b""))) && side.look());
    assert_eq!(side.connection.end(), Some(End::Violation(Violation::Unannounced)));
}

/// The negative control of `rnr == 0` above.
#[test]
fn who_does_not_look_at_credit_finds_no_receive() {
    let mut pair = Pair::new([2, 2], false);
    pair.sides[0].heedless = true;
    pair.sides[0].give(PAYLOAD * 7);
    pair.settle([false; 2]);
    assert_eq!(pair.rnr, 1, "six receives for seven messages");
    assert_eq!(pair.sides[1].connection.end(), Some(End::Violation(Violation::Overrun)));
}

#[test]
fn a_flipped_bit_is_an_error_and_is_not_read() {
    for checked in [true, false] {
        let mut pair = Pair::new([2, 2], checked);
        pair.sides[0].give(5);
        pair.sides[0].write();
        let Wire::Send(message) = &mut pair.sides[0].wire[0] else { panic!("it is sent") };
        message[Header::BYTES + 3] ^= 4;
        pair.settle([true; 2]);
        let end = pair.sides[1].connection.end();
        assert_eq!(end, checked.then_some(End::Violation(Violation::Checksum)));
        assert_eq!(pair.sides[1].read.len(), if checked { 0 } else { 5 });
        let told = pair.sides[0].connection.end();
        assert_eq!(told, checked.then_some(End::Reset(Reason::Violation)));
    }
}

#[test]
fn a_message_of_a_later_carrier_must_go_on_where_this_one_stopped() {
    let mut pair = Pair::new([4, 4], false);
    pair.sides[0].give(PAYLOAD * 2);
    pair.sides[0].write();
    // The first is lost, which no reliable connection does.
    pair.sides[0].wire.pop_front();
    pair.settle([true; 2]);
    assert_eq!(pair.sides[1].connection.end(), Some(End::Violation(Violation::Position)));
    assert!(pair.sides[1].read.is_empty());
}

#[test]
fn what_was_written_before_a_drop_is_read_and_then_the_end() {
    let mut pair = Pair::new([2, 2], false);
    pair.sides[0].give(PAYLOAD * 2);
    pair.sides[0].write();
    pair.sides[0].connection.drop_stream();
    pair.settle([false, true]);
    let other = &mut pair.sides[1];
    assert_eq!(other.read, other.written_by_peer(PAYLOAD * 2));
    assert_eq!(other.connection.reading(), Reading::Eof);
    assert_eq!(other.connection.room(), Room::Over(WriteRefused::Ended));
    assert_eq!(other.connection.end(), Some(End::Reset(Reason::Dropped)));
}

#[test]
fn who_drops_what_was_read_to_its_end_resets_nothing() {
    let mut pair = Pair::new([2, 2], false);
    pair.sides[0].connection.shut();
    pair.settle([true; 2]);
    pair.sides[1].connection.drop_stream();
    pair.settle([true; 2]);
    for side in &mut pair.sides {
        assert_eq!(side.connection.end(), None);
        side.connection.lose();
        assert_eq!(side.connection.reading(), Reading::Eof);
    }
}

#[test]
fn a_carrier_lost_in_the_middle_is_an_error_behind_what_came() {
    let mut pair = Pair::new([2, 2], false);
    pair.sides[0].give(3);
    pair.sides[0].write();
    pair.deliver(0);
    pair.sides[1].look();
    for side in &mut pair.sides {
        side.connection.lose();
        side.read(usize::MAX);
        assert_eq!(side.connection.reading(), Reading::Ended(End::Lost));
        assert_eq!(side.connection.room(), Room::Over(WriteRefused::Ended));
        assert_eq!(side.connection.next_control(), None);
    }
    assert_eq!(pair.sides[1].read.len(), 3);
}

#[test]
fn an_abort_is_told_and_ends_both() {
    let mut pair = Pair::new([2, 2], false);
    pair.sides[0].connection.abort();
    pair.settle([true; 2]);
    assert_eq!(pair.sides[0].connection.reading(), Reading::Ended(End::Aborted));
    assert_eq!(pair.sides[1].connection.reading(), Reading::Ended(End::Reset(Reason::Aborted)));
}

impl Side {
    fn written_by_peer(&self, len: usize) -> Vec<u8> {
        (0..len).map(|at| u8::try_from(at * 7 % 251).expect("below 251")).collect()
    }
}
