use proptest::prelude::*;
use wire::Psn;

use super::{WORDS, Words};
use crate::{Command, Record, StreamId};

fn psn() -> impl Strategy<Value = Psn> {
    (0u32..1 << 24).prop_map(Psn::new)
}

fn head() -> impl Strategy<Value = (StreamId, u32, u16)> {
    (any::<u32>(), any::<bool>(), any::<u32>(), any::<u16>())
        .prop_map(|(qp, response, generation, seq)| (StreamId { qp, response }, generation, seq))
}

fn record() -> impl Strategy<Value = Record> {
    let ack = (proptest::option::of(psn()), any::<u64>(), any::<u8>());
    (head(), [psn(), psn(), psn(), psn()], ack, 0..7).prop_map(|(head, [a, b, c, d], ack, kind)| {
        let ((stream, generation, seq), (sack, bitmap, threshold)) = (head, ack);
        match kind {
            0 => Record::RxRun { stream, generation, first: a, last: b, epsn: c },
            1 => Record::RxClose { stream, generation },
            2 => {
                let (una, snd_nxt, bitmap_base) = (a, b, c);
                Record::Ack { stream, generation, seq, una, snd_nxt, sack, bitmap_base, bitmap, threshold }
            }
            3 => Record::ResendAll { stream, generation, seq, una: a, snd_nxt: b, first: c, last: d },
            4 => Record::Resent { stream, generation, seq, psn: a, snd_nxt: b },
            5 => Record::Rto { stream, generation, seq },
            _ => Record::TxClose { stream, generation },
        }
    })
}

fn command() -> impl Strategy<Value = Command> {
    (head(), psn(), psn(), any::<u64>(), any::<u32>(), any::<bool>(), 0..4).prop_map(
        |((stream, generation, seq), first, last, bitmap, sacked, clean, kind)| match kind {
            0 => Command::Advance { stream, generation, epsn: first, bitmap },
            1 => Command::Lost { stream, generation, first, last },
            2 => Command::Found { stream, generation, first, last },
            _ => Command::Scoreboard { stream, generation, seq, sacked, clean },
        },
    )
}

proptest! {
    #[test]
    fn every_record_survives_the_way_down(record in record()) {
        prop_assert_eq!(Record::decode(&record.encode()), Some(record));
    }

    #[test]
    fn every_command_survives_the_way_up(command in command()) {
        prop_assert_eq!(Command::decode(&command.encode()), Some(command));
    }
}

#[test]
fn words_of_nothing_are_nothing() {
    assert_eq!(Record::decode(&[0; WORDS]), None);
    assert_eq!(Command::decode(&[0xFF; WORDS]), None);
}
