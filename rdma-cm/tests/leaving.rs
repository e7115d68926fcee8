//! Who has answered a disconnect may leave, and the other end learns of the end all the same
//! (protocol.md 1.14).

mod support;

use rdma_cm::Failure;
use std::time::Duration;
use support::{Faults, MS, Net, Seen, ip};

const LIMIT: Duration = Duration::from_millis(250);

/// A connection that host 0 ends.
fn ending(seed: u64) -> Net {
    let mut net = Net::listening(seed);
    let id = net.connect(0);
    net.run(10 * MS);
    net.close(0, id);
    net
}

/// Host 1 learns of the end, and leaves.
fn answered_and_left(net: &mut Net, limit: Duration) -> bool {
    while net.hosts[1].count(&Seen::Down) == 0 {
        net.run(MS / 10);
    }
    net.leave(1, limit)
}

/// How long host 0 waits for the end.
fn ends_within(net: &mut Net, begun: Duration) -> Duration {
    while net.hosts[0].count(&Seen::Down) == 0 {
        net.run(MS / 10);
    }
    net.now - begun
}

#[test]
fn an_end_that_nothing_disturbs_takes_no_time() {
    let mut net = ending(1);
    let begun = net.now;
    assert!(answered_and_left(&mut net, LIMIT));
    assert!(net.now - begun < MS, "it left after {:?}", net.now - begun);
    assert_eq!(net.hosts[0].cm.owes(net.now), 0, "who has the answer owes nothing");
    assert!(ends_within(&mut net, begun) < MS);
}

#[test]
fn an_answer_that_is_lost_is_given_again_before_leaving() {
    for lost in 1..=4 {
        let mut net = Net::listening(2);
        net.drop = Box::new(move |from, name, count| (from, name) == (1, "DREP") && count < lost);
        let id = net.connect(0);
        net.run(10 * MS);
        net.close(0, id);
        let begun = net.now;
        assert!(answered_and_left(&mut net, LIMIT), "{lost} lost");
        let took = ends_within(&mut net, begun);
        assert!(took < 61 * MS, "{lost} lost, over after {took:?}: {:?}", net.trace);
    }
}

#[test]
fn who_does_not_say_that_it_has_the_answer_is_waited_for_so_long_and_no_longer() {
    let mut net = Net::listening(3);
    // As a stock peer, which says nothing to a DREP.
    net.drop = Box::new(|from, name, _| (from, name) == (0, "DREP"));
    let id = net.connect(0);
    net.run(10 * MS);
    net.close(0, id);
    let begun = net.now;
    assert!(answered_and_left(&mut net, Duration::from_secs(10)));
    let stayed = net.now - begun;
    assert!((LIMIT..LIMIT + MS).contains(&stayed), "it left after {stayed:?}");
}

/// Repeats come after 4, 12, 28 ms and so on. That after 252 ms is the last one before the end of
/// the connection is 500 ms old.
#[test]
fn a_late_repeat_is_waited_for_as_long_as_an_early_one() {
    let mut net = Net::listening(7);
    net.drop = Box::new(|_, name, _| name == "DREP");
    let id = net.connect(0);
    net.run(10 * MS);
    net.close(0, id);
    assert!(answered_and_left(&mut net, Duration::from_secs(10)));
    let mut answers = net.trace.iter().filter(|(_, from, name)| (*from, *name) == (1, "DREP"));
    let (last, ..) = answers.next_back().expect("an answer");
    let stayed = net.now - *last;
    assert!((LIMIT..LIMIT + MS).contains(&stayed), "it left {stayed:?} after its last answer");
}

#[test]
fn who_leaves_without_waiting_for_the_end_is_held_until_it_is_answered() {
    let mut net = Net::listening(4);
    net.drop = Box::new(|_, name, count| name == "DREQ" && count < 3);
    let id = net.connect(0);
    net.run(10 * MS);
    net.close(0, id);
    assert!(net.leave(0, LIMIT));
    net.run(MS);
    assert_eq!(net.hosts[1].count(&Seen::Down), 1, "the other end knows: {:?}", net.trace);
}

#[test]
fn who_cannot_be_reached_any_more_is_not_asked_again() {
    let mut net = ending(5);
    net.kill(1);
    net.run(10 * MS);
    assert_eq!(net.hosts[0].count(&Seen::Down), 0);
    net.hosts[0].cm.handle_unreachable(net.now, ip(2));
    net.run(MS);
    assert_eq!(net.hosts[0].count(&Seen::Down), 1);
    assert_eq!(net.hosts[0].cm.owes(net.now), 0);
}

/// That this host cannot send says nothing of its peer, which is told later.
#[test]
fn who_cannot_send_goes_on_telling_the_peer_of_the_end() {
    let mut net = Net::listening(7);
    net.drop = Box::new(|_, name, count| name == "DREQ" && count < 3);
    let id = net.connect(0);
    net.run(10 * MS);
    net.close(0, id);
    net.hosts[0].cm.handle_unsent(net.now, ip(2));
    assert_eq!(net.hosts[0].count(&Seen::Down), 0, "the peer does not know");
    net.run(1000 * MS);
    assert_eq!([0, 1].map(|host| net.hosts[host].count(&Seen::Down)), [1, 1], "{:?}", net.trace);
    net.drop = Box::new(|_, _, _| true);
    let waits = net.connect(0);
    net.hosts[0].cm.handle_unsent(net.now, ip(2));
    net.run(MS);
    assert_eq!(net.hosts[0].seen[&waits], Seen::Failed(Failure::Unreachable));
}

#[test]
fn a_rejection_that_is_lost_is_given_again_before_leaving() {
    let mut net = Net::listening(6);
    net.hosts[1].policy = support::Policy::Reject;
    net.drop = Box::new(|_, name, count| name == "REJ" && count < 2);
    net.connect(0);
    net.run(MS);
    net.leave(1, 2 * LIMIT);
    assert!(matches!(*net.hosts[0].seen.values().next().expect("one"), Seen::Failed(_)), "{:?}", net.trace);
}

/// Ends of which the first host waited for a second or longer.
fn late_ends(ends: u64, loss: u32, linger: Duration) -> usize {
    let late = |seed: &u64| {
        let mut net = ending(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        net.faults = Faults { loss, ..Faults::default() };
        let begun = net.now;
        answered_and_left(&mut net, linger);
        ends_within(&mut net, begun) >= Duration::from_secs(1)
    };
    (1..=ends).filter(late).count()
}

/// At 5 % one end in two million is late by the reckoning of docs/adr/0032, and none with these
/// seeds. Who answers and goes at once leaves one in twenty behind.
#[test]
fn ten_thousand_ends_through_loss() {
    assert_eq!(late_ends(10_000, 50, LIMIT), 0);
    let late = late_ends(1000, 50, Duration::ZERO);
    assert!((20..100).contains(&late), "{late} of 1000 without the linger");
}
