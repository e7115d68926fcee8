//! The scheduling policies, seen from the wire of an engine.

use crate::common::rig::{Options, Rig, write};
use datapath::engine::QpHandles;
use datapath::queue::*;
use datapath::sched::{SchedAttributes, SchedulerConfig, WEIGHT_LIMIT};
use datapath::tuning::{BYTES_PER_TURN, DOORBELLS_PER_TURN};
use std::collections::HashMap;
use wire::{Datagram, Packet, Pmtu};

/// Priorities above the lowest may take half of the 131 Gb/s that a batch in each turn of 1 us can
/// be.
const HALF: SchedulerConfig =
    SchedulerConfig::StrictPriority { cap_mbps: [0, 8_000, 8_000, 8_000, 8_000, 8_000, 8_000, 8_000] };
const ALL: [SchedulerConfig; 4] =
    [SchedulerConfig::RoundRobin, SchedulerConfig::Weighted, SchedulerConfig::DeficitRoundRobin, HALF];

/// Payload in the cable of side 0, by destination.
fn sent(rig: &Rig) -> HashMap<u32, usize> {
    let mut sent = HashMap::new();
    for frame in rig.sides[0].engine.port().sent() {
        let datagram = Datagram::parse(frame, 4791).unwrap();
        let packet = Packet::parse(&frame[datagram.transport.clone()]).unwrap();
        *sent.entry(packet.dest_qp()).or_default() += packet.payload().len();
    }
    sent
}

fn options(path_mtu: Pmtu, max_send_wr: u32, scheduling: SchedAttributes) -> Options {
    let mut options = Options::default();
    options.attr.path_mtu = path_mtu;
    options.attr.scheduling = scheduling;
    options.caps = QueueCaps { max_send_wr, max_recv_wr: 1, ..QueueCaps::default() };
    options
}

fn fill(rig: &Rig, handles: &mut QpHandles, length: u32) {
    let [a, b] = &rig.sides;
    while handles.send.post(&write(0, &[a.sge(0, length)], 0, b.key)).is_ok() {}
}

/// A turn of both engines; adds the payload that each queue pair sent.
fn step(rig: &mut Rig, bytes: &mut HashMap<u32, usize>) {
    for side in &mut rig.sides {
        side.engine.turn(rig.now);
    }
    for (qpn, sent) in sent(rig) {
        *bytes.entry(qpn).or_default() += sent;
    }
    rig.carry();
    rig.sides[0].drain();
    rig.now = rig.now.after(1_000);
}

/// Payload that queue pairs with endless WRITEs of these lengths sent in `turns`.
fn shares(config: SchedulerConfig, senders: &[(u32, SchedAttributes)], turns: usize) -> Vec<usize> {
    let mut rig = Rig::with_scheduler(senders.len().try_into().unwrap(), 4096, config);
    let mut handles: Vec<_> =
        senders.iter().map(|(_, scheduling)| rig.connect(&options(Pmtu::B4096, 256, *scheduling))).collect();
    let mut bytes = HashMap::new();
    for _ in 0..turns {
        for ([handles, _], (length, _)) in handles.iter_mut().zip(senders) {
            fill(&rig, handles, *length);
        }
        step(&mut rig, &mut bytes);
    }
    handles.iter().map(|[_, peer]| bytes.get(&peer.qpn).copied().unwrap_or(0)).collect()
}

const PLAIN: SchedAttributes = SchedAttributes { weight: 1, priority: 0 };

#[test]
fn no_grant_exceeds_sixteen_kilobytes_under_any_policy() {
    let scheduling = SchedAttributes { weight: WEIGHT_LIMIT, priority: 3 };
    for config in ALL {
        let mut rig = Rig::with_scheduler(1, 1024, config);
        let mut handles = rig.connect(&options(Pmtu::B4096, 128, scheduling));
        let mut most = 0;
        for _ in 0..200 {
            fill(&rig, &mut handles[0], 1 << 17);
            let before = rig.sides[0].engine.core().counters().sched_grants;
            let mut bytes = HashMap::new();
            step(&mut rig, &mut bytes);
            // Alone it gets one grant after the other, until the batch is full.
            let grants =
                usize::try_from(rig.sides[0].engine.core().counters().sched_grants - before).unwrap();
            let sent = bytes.into_values().max().unwrap_or(0);
            assert!(sent <= grants * BYTES_PER_TURN, "{config:?}: {sent} bytes in {grants} grants");
            most = most.max(sent.div_ceil(grants.max(1)));
        }
        assert_eq!(most, BYTES_PER_TURN, "{config:?}");
    }
}

#[test]
fn deficits_even_out_what_message_sizes_would_decide() {
    let senders = [(100_000, PLAIN), (1_024, PLAIN), (256, PLAIN)];
    let by_turns = shares(SchedulerConfig::RoundRobin, &senders, 3_000);
    assert!(by_turns[0] > 5 * by_turns[2], "turns are not bytes: {by_turns:?}");
    let by_bytes = shares(SchedulerConfig::DeficitRoundRobin, &senders, 3_000);
    // The wire's bytes are equal; small messages are 256 of 356 of them, large ones 4096 of 4196.
    assert!(by_bytes[0] < by_bytes[2] * 3 / 2, "{by_bytes:?}");
}

#[test]
fn weights_given_to_queue_pairs_are_their_shares() {
    let senders = [1, 2, 4].map(|weight| (100_000, SchedAttributes { weight, priority: 0 }));
    for config in [SchedulerConfig::Weighted, SchedulerConfig::DeficitRoundRobin] {
        let shares = shares(config, &senders, 4_000);
        for (share, weight) in shares.iter().zip([1, 2, 4]) {
            let ratio = *share as f64 / (shares[0] * weight) as f64;
            assert!((0.95..=1.05).contains(&ratio), "{config:?}: {shares:?}");
        }
    }
}

#[test]
fn a_capped_priority_gets_its_cap_and_the_others_the_rest() {
    let senders = [(100_000, PLAIN), (100_000, SchedAttributes { weight: 1, priority: 7 })];
    let shares = shares(HALF, &senders, 4_000);
    // 8 Gb/s for 4 ms are 4 MB, headers included.
    let capped = 4_000_000.0 * 4096.0 / 4196.0;
    assert!((0.9..=1.1).contains(&(shares[1] as f64 / capped)), "{shares:?}");
    assert!(shares[0] > 5 * shares[1], "{shares:?}");
}

/// Work that comes and goes, through a port that is often full: everything completes under every
/// policy.
#[test]
fn no_wake_up_is_lost_under_any_policy() {
    const PAIRS: u32 = 24;
    for (config, seed) in ALL.into_iter().flat_map(|config| [(config, 1_u32), (config, 2)]) {
        let mut rig = Rig::with_scheduler(PAIRS, 4096, config);
        let mut state = seed;
        let mut draw = move |below: u32| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) % below
        };
        let mut handles: Vec<_> = (0u8..)
            .take(PAIRS as usize)
            .map(|i| {
                rig.connect(&options(Pmtu::B1024, 16, SchedAttributes { weight: 1 + i % 9, priority: i % 8 }))
            })
            .collect();
        rig.sides[0].engine.port_mut().ring = 3;
        let (mut posted, mut completed) = (0, 0);
        for _ in 0..2_000 {
            for _ in 0..draw(3) {
                let index = draw(PAIRS) as usize;
                let length = [0, 64, 1_024, 9_000][draw(4) as usize];
                let [a, b] = &rig.sides;
                let gather = [a.sge(0, length)];
                let request = write(0, &gather, 0, b.key);
                posted += usize::from(handles[index][0].send.post(&request).is_ok());
            }
            rig.step();
            completed += rig.sides[0].drain();
        }
        let all = rig.run(20_000, |rig| {
            completed += rig.sides[0].drain();
            completed == posted
        });
        assert!(all, "{config:?}: {completed} of {posted}");
        assert!(
            posted > 1_000 && rig.sides[0].engine.core().counters().tx_ring_full > 0,
            "{config:?}: {posted}"
        );
    }
}

/// Jain's index: 1 if all are equal, 1/n if one has everything.
fn jain(shares: &[usize]) -> f64 {
    let sum: f64 = shares.iter().map(|share| *share as f64).sum();
    let squares: f64 = shares.iter().map(|share| (*share as f64).powi(2)).sum();
    sum * sum / (shares.len() as f64 * squares)
}

#[test]
fn ten_thousand_queue_pairs_get_the_same_under_every_policy() {
    const PAIRS: u32 = 10_000;
    const LENGTH: u32 = 1_024;
    const TURNS: usize = 7_500;
    for config in ALL {
        let mut rig = Rig::with_scheduler(PAIRS, 4096, config);
        let options = Options { window: 32, ..options(Pmtu::B1024, 64, PLAIN) };
        let mut handles: Vec<_> = (0..PAIRS).map(|_| rig.connect(&options)).collect();
        handles.iter_mut().for_each(|[handles, _]| fill(&rig, handles, LENGTH));
        let mut bytes = HashMap::new();
        // Until all doorbells are taken, those that rang first have more.
        for _ in 0..PAIRS as usize / DOORBELLS_PER_TURN + 1 {
            step(&mut rig, &mut bytes);
        }
        bytes.clear();
        // 8 packets a grant, 4 grants a turn: three rounds of round robin, six of deficits.
        for _ in 0..TURNS {
            step(&mut rig, &mut bytes);
        }
        let shares: Vec<_> =
            handles.iter().map(|[_, peer]| bytes.get(&peer.qpn).copied().unwrap_or(0)).collect();
        assert_eq!(shares.iter().sum::<usize>(), TURNS * 32 * LENGTH as usize, "{config:?}: always full");
        assert!(jain(&shares) >= 0.99, "{config:?}: {}", jain(&shares));
    }
}
