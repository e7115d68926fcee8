//! Records that no fast path would write: never a panic, never more commands or memory than the
//! bounds say.

mod support;

use proptest::prelude::*;
use sr_recovery::{Command, Record, SlowPath, SlowPathConfig, StreamId};
use support::psn;
use wire::Psn;

const WINDOW: u32 = 700;

/// Mostly near each other, some anywhere in the PSN space.
fn any_psn() -> impl Strategy<Value = Psn> {
    prop_oneof![8 => (0..1500_u32).prop_map(psn), 1 => any::<u32>().prop_map(Psn::new)]
}

fn any_stream() -> impl Strategy<Value = StreamId> {
    (prop_oneof![8 => 0..2_u32, 1 => any::<u32>()], any::<bool>())
        .prop_map(|(qp, response)| StreamId { qp, response })
}

fn any_gen() -> impl Strategy<Value = u32> {
    prop_oneof![8 => 0..3_u32, 1 => any::<u32>()]
}

fn record() -> impl Strategy<Value = Record> {
    let psns = (any_psn(), any_psn(), any_psn(), any_psn());
    (any_stream(), any_gen(), 0..16_u8, psns, any::<(u16, bool, u64, u8)>()).prop_map(
        |(stream, generation, kind, (first, last, una, snd_nxt), (seq, sacks, bitmap, threshold))| {
            // half of the time in order
            let (una, snd_nxt) =
                if bitmap % 2 == 0 && snd_nxt.is_before(una) { (snd_nxt, una) } else { (una, snd_nxt) };
            match kind {
                0 => Record::RxClose { stream, generation },
                1 => Record::TxClose { stream, generation },
                2 => Record::Rto { stream, generation, seq },
                3 | 4 => Record::ResendAll { stream, generation, seq, una, snd_nxt, first, last },
                5..=8 => Record::Resent { stream, generation, seq, psn: first, snd_nxt },
                9..=11 => Record::RxRun { stream, generation, first, last, epsn: una },
                _ => {
                    let (sack, bitmap_base) = (sacks.then_some(first), last);
                    Record::Ack {
                        stream,
                        generation,
                        seq,
                        una,
                        snd_nxt,
                        sack,
                        bitmap_base,
                        bitmap,
                        threshold,
                    }
                }
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn nothing_that_is_said_breaks_the_slow_path(
        records in prop::collection::vec(record(), 1..200),
        contexts in prop_oneof![Just(4_u32), 1..4_u32],
    ) {
        let config = SlowPathConfig { max_streams: 4, window_max: WINDOW, contexts };
        let mut slow_path = SlowPath::new(config);
        let bytes = slow_path.bytes();
        for record in &records {
            prop_assert!(slow_path.ready());
            slow_path.handle(record);
            let mut packets = 0;
            while let Some(command) = slow_path.poll() {
                match command {
                    Command::Lost { first, last, .. } => packets += last.steps_from(first) + 1,
                    Command::Scoreboard { sacked, .. } => prop_assert!(sacked <= WINDOW),
                    Command::Advance { .. } | Command::Found { .. } => {}
                }
            }
            prop_assert!(packets <= WINDOW, "{packets} lost at once by {record:?}");
        }
        let stats = slow_path.stats();
        prop_assert_eq!(stats.records, records.len() as u64);
        let most = contexts as usize;
        prop_assert!(stats.receivers_open <= most && stats.senders_open <= most);
        prop_assert_eq!(slow_path.bytes(), bytes, "nothing grew");
        if contexts == 4 {
            prop_assert_eq!((stats.untracked, stats.records_refused), (0, 0));
        }
    }
}
