//! Which commands become one, and which stay apart.

use wire::Psn;

use super::Outbox;
use crate::{Command, StreamId};

const REQUESTS: StreamId = StreamId { qp: 0, response: false };
const RESPONSES: StreamId = StreamId { qp: 0, response: true };

fn psn(position: u32) -> Psn {
    Psn::new(0xFF_FFFE).add(position)
}

/// Neighbours, a gap, another life, another stream.
const PACKETS: [(StreamId, u32, u32); 5] =
    [(REQUESTS, 1, 0), (REQUESTS, 1, 1), (REQUESTS, 1, 3), (REQUESTS, 2, 4), (RESPONSES, 2, 5)];
/// The runs that they make: the first PSN and the last.
const RUNS: [(StreamId, u32, u32, u32); 4] =
    [(REQUESTS, 1, 0, 1), (REQUESTS, 1, 3, 3), (REQUESTS, 2, 4, 4), (RESPONSES, 2, 5, 5)];

fn take(outbox: &mut Outbox) -> Vec<Command> {
    std::iter::from_fn(|| outbox.pop()).collect()
}

#[test]
fn neighbours_of_one_life_that_are_lost_are_one_command() {
    let mut outbox = Outbox::new(64);
    for (stream, generation, at) in PACKETS {
        outbox.push_lost(stream, generation, psn(at));
    }
    let expected = RUNS.map(|(stream, generation, first, last)| Command::Lost {
        stream,
        generation,
        first: psn(first),
        last: psn(last),
    });
    assert_eq!(take(&mut outbox), expected);
}

#[test]
fn neighbours_of_one_life_that_are_found_are_one_command() {
    let mut outbox = Outbox::new(64);
    for (stream, generation, at) in PACKETS {
        outbox.push_found(stream, generation, psn(at));
    }
    let expected = RUNS.map(|(stream, generation, first, last)| Command::Found {
        stream,
        generation,
        first: psn(first),
        last: psn(last),
    });
    assert_eq!(take(&mut outbox), expected);
}

#[test]
fn a_scoreboard_replaces_the_one_before_of_its_own_life_only() {
    let mut outbox = Outbox::new(64);
    let scoreboard =
        |stream, generation, seq| Command::Scoreboard { stream, generation, seq, sacked: 0, clean: false };
    for (stream, generation, seq) in [(REQUESTS, 1, 1), (REQUESTS, 1, 2), (REQUESTS, 2, 3), (RESPONSES, 2, 4)]
    {
        outbox.push_scoreboard(scoreboard(stream, generation, seq));
    }
    let expected = [scoreboard(REQUESTS, 1, 2), scoreboard(REQUESTS, 2, 3), scoreboard(RESPONSES, 2, 4)];
    assert_eq!(take(&mut outbox), expected);
}
