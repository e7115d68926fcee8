//! Random records of a sender and of a receiver, whatever order they come in: every answer is that
//! of the naive rules.

mod support;

use proptest::prelude::*;
use sr_recovery::Record;
use support::{Checked, STREAM, psn};

/// One step of a sender; places are chosen modulo what there is.
#[derive(Clone, Debug)]
enum Step {
    Ack { advance: u32, send: u32, sack: Option<u32>, bitmap_offset: u32, bitmap: u64, threshold: u8 },
    ResendAll { first: u32, len: u32 },
    Resent { place: u32, send: u32 },
    Retry { send: u32 },
    Rto,
}

fn ack() -> impl Strategy<Value = Step> {
    let advance = prop_oneof![6 => Just(0), 3 => 0..4_u32, 1 => 0..2000_u32];
    let send = prop_oneof![4 => 0..6_u32, 1 => 0..80_u32];
    let bitmap =
        prop_oneof![2 => Just(0), 1 => any::<u64>(), 1 => any::<(u64, u64)>().prop_map(|(a, b)| a & b)];
    let threshold = prop_oneof![3 => Just(0), 2 => 0..8_u8, 1 => Just(31), 1 => any::<u8>()];
    (advance, send, prop::option::of(0..2000_u32), 0..600_u32, bitmap, threshold).prop_map(
        |(advance, send, sack, bitmap_offset, bitmap, threshold)| Step::Ack {
            advance,
            send,
            sack,
            bitmap_offset,
            bitmap,
            threshold,
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        10 => ack(),
        1 => (0..600_u32, 0..100_u32).prop_map(|(first, len)| Step::ResendAll { first, len }),
        2 => (0..600_u32, 0..3_u32).prop_map(|(place, send)| Step::Resent { place, send }),
        8 => (0..3_u32).prop_map(|send| Step::Retry { send }),
        1 => Just(Step::Rto),
    ]
}

/// A sender's window and RetryQ, as far as records depend on them.
struct Sender {
    una: u32,
    snd_nxt: u32,
    window_max: u32,
    seq: u16,
    retries: Vec<u32>,
}

impl Sender {
    fn send(&mut self, packets: u32) {
        self.snd_nxt = (self.snd_nxt + packets).min(self.una + self.window_max);
    }

    /// The record of one step; none if there is nothing to resend.
    fn record(&mut self, step: &Step) -> Option<Record> {
        self.seq = self.seq.wrapping_add(1);
        let (stream, generation, seq) = (STREAM, 1, self.seq);
        Some(match *step {
            Step::Ack { advance, send, sack, bitmap_offset, bitmap, threshold } => {
                self.una = (self.una + advance).min(self.snd_nxt);
                self.send(send);
                let window = self.snd_nxt - self.una;
                Record::Ack {
                    stream,
                    generation,
                    seq,
                    una: psn(self.una),
                    snd_nxt: psn(self.snd_nxt),
                    sack: sack.filter(|_| window != 0).map(|sack| psn(self.una + sack % window)),
                    bitmap_base: psn(self.una + bitmap_offset % (window + 1)),
                    bitmap,
                    threshold,
                }
            }
            Step::ResendAll { first, len } => Record::ResendAll {
                stream,
                generation,
                seq,
                una: psn(self.una),
                snd_nxt: psn(self.snd_nxt),
                first: psn(self.una + first),
                last: psn(self.una + first + len),
            },
            Step::Resent { place, send } => {
                self.send(send);
                let window = self.snd_nxt - self.una;
                let place = place.checked_rem(window)?;
                let psn = psn(self.una + place);
                self.retries.retain(|&retry| retry != self.una + place);
                Record::Resent { stream, generation, seq, psn, snd_nxt: support::psn(self.snd_nxt) }
            }
            Step::Retry { send } => {
                self.send(send);
                self.retries.retain(|&retry| retry >= self.una);
                let retry = (!self.retries.is_empty()).then(|| self.retries.remove(0))?;
                Record::Resent { stream, generation, seq, psn: psn(retry), snd_nxt: psn(self.snd_nxt) }
            }
            Step::Rto => Record::Rto { stream, generation, seq },
        })
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_sender_gets_the_answers_of_the_naive_rules(
        window_max in prop_oneof![1..100_u32, 400..700_u32],
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let mut slow_path = Checked::new(window_max);
        let mut sender = Sender { una: 0, snd_nxt: 0, window_max, seq: 0, retries: Vec::new() };
        sender.send(window_max / 2);
        for step in &steps {
            let Some(record) = sender.record(step) else { continue };
            for command in slow_path.handle(&record) {
                if let sr_recovery::Command::Lost { first, last, .. } = command {
                    sender.retries.extend(support::position(first)..=support::position(last));
                }
            }
        }
    }

    #[test]
    fn a_receiver_gets_the_answers_of_the_naive_rules(
        window_max in prop_oneof![1..100_u32, 400..700_u32],
        runs in prop::collection::vec((any::<u16>(), 0..40_u32, 0..40_u8), 1..200),
    ) {
        let mut slow_path = Checked::new(window_max);
        let (mut epsn, mut generation) = (0, u32::MAX - 2);
        for (place, len, kind) in runs {
            match kind {
                0 => {
                    slow_path.handle(&Record::RxClose { stream: STREAM, generation });
                    generation = generation.wrapping_add(1);
                }
                1 => generation = generation.wrapping_add(1),
                _ => {}
            }
            // biased towards the front, so that the base advances
            let first = epsn + (u32::from(place) % window_max).min(u32::from(place) % 7 * 5);
            let last = (first + len).min(epsn + window_max - 1).max(first);
            let last = last.min(epsn + window_max - 1);
            let record = Record::RxRun {
                stream: STREAM, generation, first: psn(first.min(last)), last: psn(last), epsn: psn(epsn),
            };
            for command in slow_path.handle(&record) {
                let sr_recovery::Command::Advance { epsn: advanced, .. } = command else { panic!() };
                epsn = support::position(advanced);
            }
        }
    }
}
