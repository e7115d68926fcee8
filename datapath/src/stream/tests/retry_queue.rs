//! The RetryQ against a sorted set.

use super::psn;
use crate::stream::RetryQueue;
use proptest::prelude::*;
use std::collections::BTreeSet;

/// Offsets are counted from `una`.
#[derive(Clone, Debug)]
enum Step {
    Insert(u16, u16),
    Remove(u16),
    /// `una` moves forward.
    Retire(u16),
    Clear,
}

fn steps(window: u16) -> impl Strategy<Value = Vec<Step>> {
    let offset = move || 0..window;
    let step = prop_oneof![
        4 => (offset(), offset()).prop_map(|(a, b)| Step::Insert(a.min(b), a.max(b))),
        4 => offset().prop_map(Step::Remove),
        2 => (0..=window).prop_map(Step::Retire),
        1 => Just(Step::Clear),
    ];
    prop::collection::vec(step, 0..80)
}

proptest! {
    #[test]
    fn behaves_as_a_sorted_set(
        (window, steps) in (1..300u16).prop_flat_map(|window| (Just(window), steps(window))),
    ) {
        let (mut queue, mut oracle, mut una) = (RetryQueue::new(window), BTreeSet::new(), 0);
        for step in steps {
            match step {
                Step::Insert(first, last) => {
                    let (first, last) = (una + u32::from(first), una + u32::from(last));
                    queue.insert(psn(first), psn(last));
                    oracle.extend(first..=last);
                }
                Step::Remove(offset) => {
                    let at = una + u32::from(offset);
                    prop_assert_eq!(queue.remove(psn(at)), oracle.remove(&at));
                }
                Step::Retire(count) => {
                    let next = una + u32::from(count);
                    queue.retire(psn(una), psn(next));
                    oracle.retain(|at| *at >= next);
                    una = next;
                }
                Step::Clear => {
                    queue.clear();
                    oracle.clear();
                }
            }
            prop_assert_eq!(queue.len() as usize, oracle.len());
            prop_assert_eq!(queue.is_empty(), oracle.is_empty());
            for span in [0, 1, u32::from(window) / 2, u32::from(window)] {
                let lowest = oracle.range(..una + span).next();
                prop_assert_eq!(queue.lowest(psn(una), span), lowest.map(|at| psn(*at)), "span {}", span);
            }
        }
    }
}

#[test]
fn an_empty_range_adds_nothing_and_a_whole_window_fits() {
    let mut queue = RetryQueue::new(512);
    assert_eq!(queue.bytes(), 64, "a bit a packet");
    queue.insert(psn(5), psn(4));
    assert!(queue.is_empty());
    queue.insert(psn(0), psn(511));
    queue.insert(psn(0), psn(511));
    assert_eq!(queue.len(), 512);
}
