//! The list against a plain vector of (PSN, mark), oldest first.

use proptest::prelude::*;
use wire::Psn;

use super::MarkList;

fn psn(position: u32) -> Psn {
    Psn::new(0xFF_FFF0).add(position)
}

fn drain(list: &mut MarkList) -> Vec<(Psn, Psn)> {
    std::iter::from_fn(|| {
        let front = list.front()?;
        list.remove(front.0);
        Some(front)
    })
    .collect()
}

proptest! {
    #[test]
    fn behaves_like_a_vector(steps in prop::collection::vec((0..64_u32, 0..4_u32, 0..10_u8), 0..200)) {
        let mut list = MarkList::new(64);
        let mut model: Vec<(Psn, Psn)> = Vec::new();
        let mut snd_nxt = 64;
        for (position, advance, kind) in steps {
            snd_nxt += advance;
            match kind {
                0..=5 => {
                    list.mark(psn(position), psn(snd_nxt), true);
                    model.retain(|entry| entry.0 != psn(position));
                    model.push((psn(position), psn(snd_nxt)));
                }
                6..=8 => {
                    list.remove(psn(position));
                    model.retain(|entry| entry.0 != psn(position));
                }
                _ if advance == 0 => {
                    list.clear();
                    model.clear();
                }
                _ => {}
            }
            prop_assert_eq!(list.len() as usize, model.len());
            prop_assert_eq!(list.front(), model.first().copied());
            for position in 0..64 {
                let marked = model.iter().any(|entry| entry.0 == psn(position));
                prop_assert_eq!(list.contains(psn(position)), marked);
            }
        }
        prop_assert_eq!(drain(&mut list), model);
        prop_assert_eq!(list.len(), 0);
    }
}

#[test]
fn marks_never_decrease() {
    let mut list = MarkList::new(64);
    list.mark(psn(0), psn(10), true);
    list.mark(psn(1), psn(7), true);
    assert_eq!(drain(&mut list), [(psn(0), psn(10)), (psn(1), psn(10))]);
}

#[test]
fn a_psn_of_another_turn_of_the_ring_is_not_marked() {
    let mut list = MarkList::new(64);
    list.mark(psn(3), psn(10), true);
    assert!(!list.contains(psn(3 + 64)));
    list.remove(psn(3 + 64));
    assert_eq!(list.len(), 1);
}

#[test]
fn only_the_resend_of_a_lost_packet_has_a_number_to_tell() {
    let mut list = MarkList::new(64);
    list.mark(psn(3), psn(10), true);
    list.mark(psn(4), psn(10), false);
    list.mark(psn(5), psn(10), true);
    assert_eq!([3, 4, 5].map(|position| list.remove(psn(position))), [Some(1), None, Some(3)]);
}

#[test]
fn a_resend_is_before_later_ones_only() {
    let mut list = MarkList::new(64);
    list.mark(psn(3), psn(10), true);
    assert_eq!([0, 1, 2].map(|order| list.front_is_before(order)), [false, false, true]);
}
