//! Who gets how much.

use crate::sched::*;
use crate::time::Time;
use crate::tuning::PACKET_OVERHEAD;

/// A link of 100 Gb/s.
const PS_PER_BYTE: u64 = 80;

/// An endless sender: its messages' length, and what it asked for.
#[derive(Clone, Copy)]
struct Sender {
    len: usize,
    attributes: SchedAttributes,
}

const fn sender(len: usize, weight: u8, priority: u8) -> Sender {
    Sender { len, attributes: SchedAttributes { weight, priority } }
}

/// Serves senders that are always ready for `ns` nanoseconds of link time. Returns turns and bytes
/// on the wire of each.
fn serve(config: SchedulerConfig, senders: &[Sender], ns: u64) -> Vec<(u64, u64)> {
    let mut mux = EventMux::new(&config, senders.len());
    let mut flags = vec![SchedFlags::default(); senders.len()];
    let mut served = vec![(0, 0); senders.len()];
    for (slot, sender) in (0u32..).zip(senders) {
        mux.set_attributes(slot, sender.attributes);
        mux.wake(slot, &mut flags[slot as usize], true);
    }
    let mut ps = 0;
    while ps < ns * 1_000 {
        let turn = mux.next_ready(Time(ps / 1_000)).expect("all are ready");
        let slot = turn.slot as usize;
        flags[slot].remove(SchedFlags::QUEUED);
        let len = senders[slot].len;
        // Eight requests at most, as a queue pair has them in a turn, or packets of an endless one.
        let most = if len < 4096 { 8 } else { 16 };
        let packets = turn.bytes.checked_div(len).unwrap_or(most).min(most);
        let wire = (packets * (len + PACKET_OVERHEAD)) as u64;
        served[slot] = (served[slot].0 + 1, served[slot].1 + wire);
        // A turn without a packet takes time, too.
        ps += wire * PS_PER_BYTE + 10_000;
        mux.settle(
            turn.slot,
            &mut flags[slot],
            Usage { bytes: packets * len, packets, ..Usage::default() },
            true,
        );
    }
    served
}

/// Within `percent` of each other.
fn close(a: u64, b: u64, percent: u64) -> bool {
    a.abs_diff(b) * 100 <= percent * a.max(b)
}

#[test]
fn round_robin_gives_equal_turns_and_deficits_equal_bytes() {
    let senders = [sender(4096, 1, 0), sender(64, 1, 0), sender(1024, 1, 0), sender(0, 1, 0)];
    let turns = serve(SchedulerConfig::RoundRobin, &senders, 10_000_000);
    assert!(turns.iter().all(|sender| sender.0.abs_diff(turns[0].0) <= 1), "{turns:?}");
    assert!(turns[0].1 > 10 * turns[1].1, "large messages take more: {turns:?}");
    let bytes = serve(SchedulerConfig::DeficitRoundRobin, &senders, 10_000_000);
    for sender in &bytes[1..] {
        assert!(close(sender.1, bytes[0].1, 3), "{bytes:?}");
    }
}

#[test]
fn weights_are_shares() {
    let senders = [sender(4096, 1, 0), sender(4096, 2, 0), sender(4096, 5, 0)];
    for config in [SchedulerConfig::Weighted, SchedulerConfig::DeficitRoundRobin] {
        let served = serve(config, &senders, 50_000_000);
        assert!(close(served[1].1, 2 * served[0].1, 3), "{config:?}: {served:?}");
        assert!(close(served[2].1, 5 * served[0].1, 3), "{config:?}: {served:?}");
    }
    let equal = serve(SchedulerConfig::RoundRobin, &senders, 10_000_000);
    assert!(close(equal[2].1, equal[0].1, 3), "round robin knows no weights: {equal:?}");
}

#[test]
fn the_highest_priority_takes_all_up_to_its_cap() {
    let senders = [sender(4096, 1, 0), sender(4096, 1, 7)];
    let uncapped = serve(SchedulerConfig::StrictPriority { cap_mbps: [0; PRIORITIES] }, &senders, 5_000_000);
    assert_eq!(uncapped[0].1, 0, "no cap, no rest: {uncapped:?}");
    let mut cap_mbps = [0; PRIORITIES];
    cap_mbps[7] = 10_000;
    let ns = 20_000_000;
    let served = serve(SchedulerConfig::StrictPriority { cap_mbps }, &senders, ns);
    // 10 Gb/s are 1.25 bytes a nanosecond.
    assert!(close(served[1].1, ns * 5 / 4, 3), "{served:?}");
    assert!(served[0].1 > 7 * served[1].1, "the rest of the link: {served:?}");
}

#[test]
fn caps_waste_nothing_where_nobody_else_is_ready() {
    let cap_mbps = [1_000; PRIORITIES];
    let senders = [sender(4096, 1, 3), sender(4096, 1, 5)];
    let ns = 10_000_000;
    let served = serve(SchedulerConfig::StrictPriority { cap_mbps }, &senders, ns);
    let total = served[0].1 + served[1].1;
    assert!(total * PS_PER_BYTE > ns * 900, "the link is busy: {served:?}");
    assert!(close(served[0].1, served[1].1, 10), "above their caps they take turns: {served:?}");
}

#[test]
fn what_a_priority_saves_is_bounded() {
    let mut cap_mbps = [0; PRIORITIES];
    cap_mbps[7] = 1_000;
    let mut mux = EventMux::new(&SchedulerConfig::StrictPriority { cap_mbps }, 2);
    let mut flags = [SchedFlags::default(); 2];
    mux.set_attributes(1, SchedAttributes { weight: 1, priority: 7 });
    // An hour of silence, then both are ready.
    let now = Time(3_600_000_000_000);
    for slot in 0..2 {
        mux.wake(slot, &mut flags[slot as usize], true);
    }
    let mut ahead = 0;
    loop {
        let turn = mux.next_ready(now).unwrap();
        if turn.slot == 0 {
            break;
        }
        ahead += 1;
        flags[1].remove(SchedFlags::QUEUED);
        mux.settle(1, &mut flags[1], Usage { bytes: turn.bytes, packets: 4, ..Usage::default() }, true);
        assert!(ahead < 100, "an hour's worth of bytes at once");
    }
    assert_eq!(ahead, 4);
}

#[test]
fn a_queue_pair_cannot_save_what_it_did_not_use() {
    let mut mux = EventMux::new(&SchedulerConfig::DeficitRoundRobin, 2);
    let mut flags = [SchedFlags::default(); 2];
    mux.set_attributes(0, SchedAttributes { weight: WEIGHT_LIMIT, priority: 0 });
    mux.wake(0, &mut flags[0], true);
    for _ in 0..100 {
        let turn = mux.next_ready(Time::ZERO).unwrap();
        flags[0].remove(SchedFlags::QUEUED);
        mux.settle(turn.slot, &mut flags[0], Usage::default(), true);
    }
    mux.wake(1, &mut flags[1], true);
    let mut in_a_row = 0_usize;
    while mux.next_ready(Time::ZERO).is_some_and(|turn| turn.slot == 0) {
        in_a_row += 1;
        flags[0].remove(SchedFlags::QUEUED);
        mux.settle(0, &mut flags[0], Usage { bytes: 16_000, packets: 4, ..Usage::default() }, true);
        assert!(in_a_row < 1_000);
    }
    assert!(in_a_row <= 17, "{in_a_row} turns of 16 KB: more than its weight and one quantum");
}
