//! Exact cases of the scoreboard; random ones are in `tests/`.

use wire::Psn;

use super::{Losses, Sacks, Scoreboard};
use crate::{Command, StreamId, contexts::Context, outbox::Outbox};

const STREAM: StreamId = StreamId { qp: 0, response: true };

fn psn(position: u32) -> Psn {
    Psn::new(0xFF_FFF8).add(position)
}

/// A scoreboard and what it declared lost, as positions.
struct Rig {
    scoreboard: Scoreboard,
    outbox: Outbox,
    /// What waited and was found, as positions.
    found: Vec<u32>,
}

impl Rig {
    fn new() -> Self {
        let mut scoreboard = Scoreboard::new(64);
        scoreboard.reset(psn(0), psn(0), true);
        Self { scoreboard, outbox: Outbox::new(64), found: Vec::new() }
    }

    fn with(&mut self, apply: impl FnOnce(&mut Scoreboard, &mut Losses<'_>)) -> Vec<u32> {
        let mut losses =
            Losses { stream: STREAM, generation: 0, outbox: &mut self.outbox, packets: 0, work: 0 };
        apply(&mut self.scoreboard, &mut losses);
        let packets = losses.packets;
        let mut lost = Vec::new();
        while let Some(command) = self.outbox.pop() {
            let (list, first, last) = match command {
                Command::Lost { first, last, .. } => (&mut lost, first, last),
                Command::Found { first, last, .. } => (&mut self.found, first, last),
                other => panic!("{other:?}"),
            };
            list.extend((0..=last.steps_from(first)).map(|i| first.add(i).steps_from(psn(0))));
        }
        assert_eq!(lost.len() as u64, packets);
        lost
    }

    fn ack(&mut self, una: u32, snd_nxt: u32, sacks: &[u32], threshold: u8) -> Vec<u32> {
        let bitmap = sacks.iter().fold(0, |bits, position| bits | 1 << (position - una));
        let sacks = Sacks { sack: None, bitmap_base: psn(una), bitmap };
        self.with(|board, losses| board.on_ack(psn(una), psn(snd_nxt), sacks, threshold, losses))
    }

    fn resent(&mut self, position: u32, snd_nxt: u32) {
        let lost = self.with(|board, losses| board.on_resent(psn(position), psn(snd_nxt), losses));
        assert_eq!(lost, []);
    }

    fn rto(&mut self) {
        let lost = self.with(|board, losses| board.on_rto(losses));
        assert_eq!(lost, []);
    }

    fn resend_all(&mut self, una: u32, snd_nxt: u32, first: u32, last: u32) -> Vec<u32> {
        self.with(|board, losses| {
            board.on_resend_all((psn(una), psn(snd_nxt)), psn(first), psn(last), losses);
        })
    }
}

#[test]
fn the_threshold_tolerates_that_much_reordering() {
    let mut rig = Rig::new();
    assert_eq!(rig.ack(0, 10, &[3], 3), []);
    assert_eq!(rig.ack(0, 10, &[4], 3), [0]);
    assert_eq!(rig.ack(0, 10, &[6], 3), [1, 2]);
    assert_eq!(rig.ack(0, 10, &[], 0), [5], "a lower threshold takes effect with the next record");
    assert_eq!(rig.ack(0, 10, &[9], 31), [], "a higher one takes nothing back");
    assert_eq!(rig.ack(0, 10, &[], 0), [7, 8]);
}

#[test]
fn what_is_resent_is_lost_again_by_evidence_from_after_it() {
    let mut rig = Rig::new();
    assert_eq!(rig.ack(0, 10, &[5], 4), [0]);
    rig.resent(0, 10);
    assert_eq!(rig.ack(0, 12, &[9, 10], 1), [1, 2, 3, 4, 6, 7, 8]);
    assert_eq!(rig.ack(0, 12, &[11], 1), [0], "11 - mark 10 >= 1");
}

#[test]
fn with_threshold_zero_the_first_packet_after_the_mark_is_evidence() {
    let mut rig = Rig::new();
    assert_eq!(rig.ack(0, 4, &[1], 0), [0]);
    rig.resent(0, 4);
    assert_eq!(rig.ack(0, 5, &[3], 0), [2]);
    assert_eq!(rig.ack(0, 5, &[4], 0), [0]);
}

#[test]
fn after_a_timeout_the_next_acknowledgement_decides_without_marks() {
    let mut rig = Rig::new();
    assert_eq!(rig.ack(0, 8, &[6], 0), [0, 1, 2, 3, 4, 5]);
    for position in 0..4 {
        rig.resent(position, 8);
    }
    assert_eq!(rig.ack(0, 8, &[], 0), [], "marked, or waiting");
    rig.rto();
    rig.resent(0, 8);
    assert_eq!(rig.ack(0, 8, &[], 0), [1, 2, 3], "0 is marked again, 4 and 5 still wait");
}

#[test]
fn a_probe_above_all_sacks_has_its_mark() {
    let mut rig = Rig::new();
    rig.resent(7, 8);
    assert_eq!(rig.ack(0, 9, &[0, 1, 2, 3, 4, 5, 6], 0), []);
    assert_eq!(rig.ack(0, 10, &[8], 0), [7], "sent after the probe");
    let mut rig = Rig::new();
    rig.resent(7, 9);
    assert_eq!(rig.ack(0, 10, &[0, 1, 2, 3, 4, 5, 6, 8], 0), [], "sent before the probe");
}

#[test]
fn a_resend_that_arrives_tells_of_those_before_it() {
    let mut rig = Rig::new();
    assert_eq!(rig.ack(0, 10, &[9], 0), [0, 1, 2, 3, 4, 5, 6, 7, 8]);
    for position in 0..3 {
        rig.resent(position, 10);
    }
    assert_eq!(rig.ack(0, 10, &[1], 0), [0], "2 was resent after 1");
}

#[test]
fn the_latest_resend_that_arrived_counts() {
    for order in [[1, 0, 2], [2, 0, 1]] {
        let mut rig = Rig::new();
        rig.ack(0, 10, &[9], 0);
        for position in order {
            rig.resent(position, 10);
        }
        assert_eq!(rig.ack(0, 10, &[1, 2], 0), [0], "one of them was resent after 0: {order:?}");
    }
}

#[test]
fn the_answer_to_a_probe_may_be_that_to_the_first_copy() {
    let mut rig = Rig::new();
    assert_eq!(rig.ack(0, 10, &[5], 0), [0, 1, 2, 3, 4]);
    rig.resent(0, 10);
    rig.resent(9, 10);
    assert_eq!(rig.ack(0, 10, &[9], 0), [6, 7, 8], "9 was under way, the resend of 0 still is");
}

#[test]
fn resend_all_leaves_out_what_waits_or_is_sacked() {
    let mut rig = Rig::new();
    assert_eq!(rig.ack(0, 10, &[2, 7], 4), [0, 1]);
    rig.resent(0, 10);
    assert_eq!(rig.resend_all(0, 10, 0, 7), [0, 3, 4, 5, 6], "marked or not");
    assert_eq!(rig.resend_all(0, 10, 0, 20), [8, 9], "never beyond snd_nxt");
    assert_eq!(rig.resend_all(4, 10, 0, 9), []);
    assert_eq!(rig.scoreboard.marks.len(), 0);
}

#[test]
fn una_jumps_past_everything() {
    let mut rig = Rig::new();
    assert_eq!(rig.ack(0, 20, &[5, 9], 0), [0, 1, 2, 3, 4, 6, 7, 8]);
    rig.resent(0, 20);
    rig.resent(1, 20);
    assert!(!rig.scoreboard.is_clean());
    assert_eq!(rig.ack(20, 21, &[], 0), []);
    assert!(rig.scoreboard.is_clean());
    assert_eq!(rig.ack(20, 24, &[22], 0), [20, 21]);
}

#[test]
fn an_old_sack_is_none_after_half_the_psn_space() {
    let mut rig = Rig::new();
    assert_eq!(rig.ack(0, 20, &[5], 0), [0, 1, 2, 3, 4]);
    for una in [20, 1 << 22, 2 << 22, (2 << 22) + 20] {
        assert_eq!(rig.ack(una, una + 10, &[], 0), []);
    }
}

#[test]
fn una_never_goes_back() {
    let mut rig = Rig::new();
    assert_eq!(rig.ack(4, 10, &[], 0), []);
    assert_eq!(rig.ack(2, 8, &[9], 0), [4, 5, 6, 7, 8]);
    rig.resent(3, 10);
    assert_eq!(rig.scoreboard.marks.len(), 0, "a PSN below una is over");
}

#[test]
fn a_sack_of_what_waits_ends_the_wait() {
    let mut rig = Rig::new();
    assert_eq!(rig.ack(0, 8, &[6], 0), [0, 1, 2, 3, 4, 5]);
    assert_eq!(rig.ack(0, 8, &[1, 2, 4, 7], 0), []);
    assert_eq!((rig.scoreboard.sacked(), rig.scoreboard.waiting.count()), (5, 3));
    assert_eq!(rig.found, [1, 2, 4], "7 did not wait");
    rig.resent(1, 8);
    assert_eq!(
        rig.scoreboard.marks.len(),
        0,
        "it had been resent before it was found, and cannot be lost any more"
    );
    assert_eq!(rig.ack(1, 8, &[3], 0), []);
    assert_eq!(rig.found, [1, 2, 4, 3]);
    assert_eq!(rig.resend_all(1, 8, 1, 7), [], "5 waits, the rest is SACKed");
}

#[test]
fn sacks_outside_the_window_are_ignored() {
    let mut rig = Rig::new();
    assert_eq!(rig.ack(4, 8, &[8, 9, 40], 0), []);
    let sacks = Sacks { sack: Some(psn(3)), bitmap_base: psn(0), bitmap: 0xF };
    assert_eq!(rig.with(|board, losses| board.on_ack(psn(4), psn(8), sacks, 0, losses)), []);
    assert!(rig.scoreboard.is_clean());
}

#[test]
fn a_scoreboard_that_begins_with_a_probe_learns_una_later() {
    let mut rig = Rig::new();
    rig.scoreboard.reset(psn(9), psn(10), false);
    rig.resent(9, 10);
    rig.resent(4, 10);
    assert_eq!([2, 10].map(|at| rig.scoreboard.una_for(psn(at))), [psn(2), psn(4)]);
    assert_eq!(rig.ack(0, 12, &[10], 0), [9, 4, 0, 1, 2, 3, 5, 6, 7, 8], "the oldest mark first");
    assert_eq!(rig.scoreboard.una_for(psn(2)), psn(0));
    assert_eq!(rig.scoreboard.una_for(psn(0).prev()), psn(0), "it is known now");
}
