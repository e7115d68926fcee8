//! Streams of one host, by number, in the order in which they have their turns.

use super::*;

const ADDRESS: IpAddr = IpAddr::V4(core::net::Ipv4Addr::new(10, 0, 0, 2));
const CONFIG: HostRateConfig = HostRateConfig::DEFAULT;

/// Of stream 0, which has more to send.
fn sign(delay_ns: u32, srtt_ns: u64) -> HostSign {
    HostSign { delay_ns, srtt_ns, stream: 0, una: Psn::new(0), nxt: Psn::new(100), app_limited: false }
}

/// A host whose rate is 1 GB/s from now on.
fn slow() -> (Hosts, u16, Time) {
    let mut hosts = Hosts::new(CONFIG, 16);
    let host = hosts.join(ADDRESS, Time(0)).expect("the first");
    assert_eq!(hosts.charge(host, 100_000, Time(0)), None);
    let now = Time(100_000);
    let sign = sign(52_000, 0);
    assert_eq!(hosts.learn(host, sign, now), None);
    assert!(hosts.rate(host).is_some_and(|rate| rate.abs_diff(1_000_000_000) < 300_000_000));
    (hosts, host, now)
}

/// As [`slow`], where a turn of stream 0 has closed the gate and so many streams, from 1 on, wait.
fn closed(waiting: u32) -> (Hosts, u16, Time) {
    let (mut hosts, host, now) = slow();
    assert!(hosts.admit(host, 0, now).is_some());
    assert_eq!(hosts.charge(host, 20_000, now), None);
    for stream in 1..=waiting {
        assert_eq!(hosts.admit(host, stream, now), None);
    }
    (hosts, host, now)
}

#[test]
fn without_a_rate_everybody_has_its_turn() {
    let mut hosts = Hosts::new(CONFIG, 16);
    let host = hosts.join(ADDRESS, Time(0)).expect("the first");
    assert_eq!(hosts.join(ADDRESS, Time(0)), Some(host), "it is known");
    for stream in 0..16 {
        assert_eq!(hosts.admit(host, stream, Time(5)), Some(usize::MAX));
        assert_eq!(hosts.charge(host, 1 << 20, Time(5)), None);
    }
    assert_eq!((hosts.waiting(), hosts.next_deadline()), (0, None));
}

#[test]
fn streams_wait_for_the_gate_and_have_their_turns_in_order() {
    let (mut hosts, host, now) = closed(4);
    assert_eq!(hosts.pop_open(now.after(1_000)), None, "too early");
    let mut order = Vec::new();
    let mut at = now;
    while let Some(due) = hosts.next_deadline() {
        at = due;
        while let Some(stream) = hosts.pop_open(at) {
            assert!(hosts.admit(host, stream, at).is_some());
            order.push(stream);
            assert_eq!(hosts.charge(host, 20_000, at), None);
        }
    }
    assert_eq!(order, [1, 2, 3, 4]);
    assert!(at.since(now) > 60_000 && at.since(now) < 130_000, "five turns at about 1 GB/s: {at:?}");
    assert_eq!(hosts.waiting(), 0);
}

/// One that was put back and sends nothing, or ends, holds nobody up.
#[test]
fn who_does_not_use_its_turn_leaves_it_to_the_next() {
    let (mut hosts, host, now) = closed(5);
    let at = now.after(100_000);
    assert_eq!(hosts.pop_open(at), Some(1));
    assert_eq!(hosts.pop_open(at), None, "one at a time");
    assert!(hosts.admit(host, 1, at).is_some());
    assert_eq!(hosts.charge(host, 0, at), Some(2));
    assert_eq!(hosts.forget(host, 2, at), [None, Some(3)]);
    assert_eq!(hosts.forget(host, 5, at), [Some(5), None], "the last of the list");
    assert_eq!(hosts.forget(host, 0, at), [None; 2], "it does not wait");
    assert!(hosts.admit(host, 3, at).is_some());
    assert_eq!(hosts.charge(host, 0, at), Some(4));
    assert_eq!(hosts.waiting(), 0);
}

/// It failed in its turn, and nobody says what it sent (seed 223758 of the swarm).
#[test]
fn who_ends_in_its_turn_leaves_the_next_to_others() {
    let (mut hosts, host, now) = closed(2);
    let at = now.after(100_000);
    assert_eq!(hosts.pop_open(at), Some(1));
    assert!(hosts.admit(host, 1, at).is_some());
    assert_eq!(hosts.forget(host, 1, at), [None, Some(2)]);
}

/// Another one's debt comes between: it is the first of the list still.
#[test]
fn who_finds_the_gate_closed_again_stays_first() {
    let (mut hosts, host, now) = closed(2);
    let at = now.after(100_000);
    assert_eq!(hosts.pop_open(at), Some(1));
    hosts.charge(host, 1_000_000, at);
    assert_eq!(hosts.admit(host, 1, at), None);
    let later = hosts.next_deadline().expect("they wait");
    assert!(later.since(at) > 600_000);
    assert_eq!(hosts.pop_open(later.after(10_000)), Some(1));
}

#[test]
fn a_host_that_nobody_has_is_another_one() {
    let (mut hosts, host, now) = slow();
    assert_eq!(hosts.join(ADDRESS, now), Some(host));
    hosts.leave(host);
    assert!(hosts.rate(host).is_some(), "somebody has it");
    hosts.leave(host);
    assert_eq!(hosts.join(ADDRESS, now), Some(host), "its number is free");
    assert_eq!(hosts.rate(host), None);
}

/// A host that is not kept busy may sleep: what waits there is not its doing.
#[test]
fn who_has_nothing_to_send_does_not_say_that_a_host_is_slow() {
    let mut hosts = Hosts::new(CONFIG, 16);
    let host = hosts.join(ADDRESS, Time(0)).expect("the first");
    let slept = HostSign { app_limited: true, ..sign(500_000, 1_000) };
    for step in 1..10 {
        hosts.learn(host, slept, Time(step * 100_000));
    }
    assert_eq!(hosts.rate(host), None);
    hosts.learn(host, HostSign { app_limited: false, ..slept }, Time(2_000_000));
    assert!(hosts.rate(host).is_some());
}

/// A smoothed round trip is long after losses: what is seen to come back counts as well.
#[test]
fn steps_are_a_round_trip_apart() {
    let (mut hosts, host, now) = slow();
    let rate = hosts.rate(host);
    let early = HostSign { una: Psn::new(100), ..sign(100_000, 1_000_000) };
    hosts.learn(host, early, now.after(60_000));
    assert_eq!(hosts.rate(host), rate, "what was next to send at the last step is not acknowledged");
    let other = HostSign { stream: 1, una: Psn::new(101), ..early };
    hosts.learn(host, other, now.after(60_000));
    assert_eq!(hosts.rate(host), rate, "another stream's numbers say nothing");
    let round = HostSign { una: Psn::new(101), ..early };
    hosts.learn(host, round, now.after(10_000));
    assert_eq!(hosts.rate(host), rate, "no sooner than the target");
    hosts.learn(host, round, now.after(60_000));
    assert!(hosts.rate(host) < rate);
}
