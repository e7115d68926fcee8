//! One thread: what goes in comes out. Two threads: `loom_models`, and for real in
//! `thread/tests.rs`.

use super::ring;
use crate::words::{WORDS, Words};

/// A number in every word, so that a torn message is seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Number(u64);

impl Words for Number {
    fn encode(&self) -> [u64; WORDS] {
        [self.0; WORDS]
    }

    fn decode(words: &[u64; WORDS]) -> Option<Self> {
        words.iter().all(|word| *word == words[0]).then_some(Self(words[0]))
    }
}

/// Positions wrap inside each test.
const START: u32 = u32::MAX - 1;

#[cfg(not(loom))]
mod alone {
    use super::{Number, START, ring};
    use std::collections::VecDeque;

    #[test]
    fn a_ring_is_a_bounded_queue() {
        let (mut writer, mut reader) = ring(3, START);
        assert_eq!(writer.capacity(), 4, "rounded up");
        let mut model = VecDeque::new();
        for number in 0..1000u64 {
            let fits = model.len() < 4;
            assert_eq!(writer.push(&Number(number)), fits);
            if fits {
                model.push_back(Number(number));
            }
            for _ in 0..number % 3 {
                assert_eq!(reader.is_empty(), model.is_empty());
                assert_eq!(reader.pop(), model.pop_front());
            }
            assert_eq!(writer.position().wrapping_sub(reader.position()) as usize, model.len());
        }
    }

    #[test]
    fn room_is_counted() {
        let (mut writer, mut reader) = ring(4, START);
        assert!(writer.has_room(4) && !writer.has_room(5));
        assert!(writer.push(&Number(1)) && writer.push(&Number(2)));
        assert!(writer.has_room(2) && !writer.has_room(3));
        assert_eq!(reader.pop(), Some(Number(1)));
        assert!(writer.has_room(3) && !writer.has_room(4));
    }
}

/// Every interleaving, as far as the memory model allows it:
///
/// `RUSTFLAGS="--cfg loom" cargo test -p sr-recovery --lib loom_`
///
/// Fails if `Release` or `Acquire` of `tail` is weakened. Those of `head` keep stores from coming
/// before loads, which loom does not try.
#[cfg(loom)]
mod loom_models {
    use super::{Number, START, ring};
    use loom::{model::Builder, thread};

    /// Involuntary switches at most: with more the model takes minutes, and two find every weakened
    /// order.
    const PREEMPTIONS_MAX: usize = 3;
    const MESSAGES: u64 = 3;

    #[test]
    fn loom_no_message_is_torn_lost_or_written_over() {
        let mut builder = Builder::new();
        builder.preemption_bound = Some(PREEMPTIONS_MAX);
        builder.check(|| {
            let (mut writer, mut reader) = ring(2, START);
            let other = thread::spawn(move || {
                for number in 1..=MESSAGES {
                    while !writer.push(&Number(number)) {
                        thread::yield_now();
                    }
                }
            });
            for number in 1..=MESSAGES {
                let message = loop {
                    match reader.pop() {
                        Some(message) => break message,
                        None => thread::yield_now(),
                    }
                };
                assert_eq!(message, Number(number));
            }
            other.join().unwrap();
            assert!(reader.is_empty());
        });
    }
}
