//! Grants and fairness, seen from the wire.

use crate::common::rig::{Options, Rig, write};
use datapath::engine::QpHandles;
use datapath::queue::*;
use datapath::tuning::{BYTES_PER_TURN, PACKETS_PER_TURN, TX_BATCH, WQES_PER_TURN};
use std::collections::HashMap;
use wire::{Datagram, Kind, Packet, Pmtu};

/// What one queue pair sent in one turn: requests begun, packets, bytes of payload.
#[derive(Default, Debug)]
struct Sent {
    begun: u32,
    packets: usize,
    bytes: usize,
}

/// Requests that stand in the cable of side 0, by destination.
fn sent(rig: &Rig) -> HashMap<u32, Sent> {
    let mut sent: HashMap<u32, Sent> = HashMap::new();
    for frame in rig.sides[0].engine.port().sent() {
        let datagram = Datagram::parse(frame, 4791).unwrap();
        let packet = Packet::parse(&frame[datagram.transport.clone()]).unwrap();
        if packet.opcode().kind() == Kind::Write {
            let sent = sent.entry(packet.dest_qp()).or_default();
            sent.begun += u32::from(packet.opcode().is_start());
            sent.packets += 1;
            sent.bytes += packet.payload().len();
        }
    }
    sent
}

fn options(path_mtu: Pmtu) -> Options {
    let mut options = Options::default();
    options.attr.path_mtu = path_mtu;
    options
}

fn fill(rig: &Rig, handles: &mut QpHandles, length: u32) {
    let [a, b] = &rig.sides;
    while handles.send.post(&write(0, &[a.sge(0, length)], 0, b.key)).is_ok() {}
}

#[test]
fn no_grant_exceeds_its_requests_bytes_or_packets() {
    let (mut wqes, mut packets, mut bytes) = (0, 0, 0);
    for path_mtu in [Pmtu::B256, Pmtu::B1024, Pmtu::B4096] {
        for length in [0, 1, 64, 1_000, 3_000, 4_096, 5_000, 16_384, 100_000] {
            let mut rig = Rig::new(1, 1024);
            let mut handles = rig.connect(&options(path_mtu));
            for turn in 0..100 {
                fill(&rig, &mut handles[0], length);
                let before = rig.sides[0].engine.core().counters().sched_grants;
                rig.sides[0].engine.turn(rig.now);
                rig.sides[1].engine.turn(rig.now);
                let grants = rig.sides[0].engine.core().counters().sched_grants - before;
                let sent = sent(&rig).into_values().next().unwrap_or_default();
                assert!(sent.packets <= TX_BATCH, "{sent:?}");
                // A queue pair alone gets one grant after the other, and uses up each but the last
                // of a turn.
                let of_each = |all: usize| all.div_ceil(usize::try_from(grants).unwrap().max(1));
                let (begun, bytes_each, packets_each) =
                    (of_each(sent.begun as usize), of_each(sent.bytes), of_each(sent.packets));
                assert!(
                    begun <= WQES_PER_TURN as usize
                        && bytes_each <= BYTES_PER_TURN
                        && packets_each <= PACKETS_PER_TURN,
                    "{path_mtu:?}, messages of {length}, turn {turn}, {grants} grants: {sent:?}"
                );
                (wqes, packets, bytes) = (wqes.max(begun), packets.max(packets_each), bytes.max(bytes_each));
                rig.carry();
                rig.sides[0].drain();
                rig.now = rig.now.after(1_000);
            }
        }
    }
    let limits = (WQES_PER_TURN as usize, PACKETS_PER_TURN, BYTES_PER_TURN);
    assert_eq!((wqes, packets, bytes), limits, "all are reached");
}

#[test]
fn retransmissions_keep_to_the_grant_too() {
    let mut rig = Rig::new(1, 1024);
    let mut handles = rig.connect(&options(Pmtu::B4096));
    let (mut count, mut probes_before, mut grants_before, mut full) = (0u32, 0u64, 0u64, 0);
    rig.drops = Box::new(move |from, _| {
        count = count.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        from == 0 && count >> 30 == 0
    });
    for turn in 0..3_000 {
        fill(&rig, &mut handles[0], 4_096);
        for side in &mut rig.sides {
            side.engine.turn(rig.now);
        }
        let sent = sent(&rig).into_values().next().unwrap_or_default();
        // Probes pass the gates and the grant.
        let counters = rig.sides[0].engine.core().counters();
        let grants = usize::try_from(counters.sched_grants - grants_before).unwrap();
        grants_before = counters.sched_grants;
        let probes = usize::try_from(counters.tx_probes - probes_before).unwrap();
        probes_before = counters.tx_probes;
        assert!(probes <= 2);
        assert!(
            sent.bytes <= grants * BYTES_PER_TURN + probes * 4_096 && sent.packets <= TX_BATCH + probes,
            "turn {turn}, {grants} grants: {sent:?}, {probes} probes"
        );
        full += usize::from(sent.packets == TX_BATCH);
        rig.carry();
        rig.sides[0].drain();
        rig.now = rig.now.after(1_000);
    }
    assert!(rig.sides[0].engine.core().counters().tx_retransmits > 1_000 && full > 100);
}

/// Jain's index: 1 if all are equal, 1/n if one has everything.
fn jain(shares: &[usize]) -> f64 {
    let sum: f64 = shares.iter().map(|share| *share as f64).sum();
    let squares: f64 = shares.iter().map(|share| (*share as f64).powi(2)).sum();
    sum * sum / (shares.len() as f64 * squares)
}

/// Serves `pairs` queue pairs for `turns`, each with endless WRITEs of the length that `length`
/// names; returns the packets that each sent.
fn shares(pairs: u32, turns: usize, length: impl Fn(usize) -> u32) -> Vec<usize> {
    let caps = QueueCaps { max_send_wr: 32, max_recv_wr: 1, ..QueueCaps::default() };
    let mut rig = Rig::new(pairs, 1024);
    let options = Options { caps, ..options(Pmtu::B1024) };
    let mut handles: Vec<_> = (0..pairs).map(|_| rig.connect(&options)).collect();
    let mut packets: HashMap<u32, usize> = HashMap::new();
    for turn in 0..turns {
        // Whoever has room posts again; a third of them in each turn is enough for nobody to run
        // dry.
        for (index, [handles, _]) in handles.iter_mut().enumerate().skip(turn % 3).step_by(3) {
            fill(&rig, handles, length(index));
        }
        for side in &mut rig.sides {
            side.engine.turn(rig.now);
        }
        for (qpn, sent) in sent(&rig) {
            *packets.entry(qpn).or_default() += sent.packets;
        }
        rig.carry();
        rig.sides[0].drain();
        rig.now = rig.now.after(1_000);
    }
    handles.iter().map(|[_, peer]| packets.get(&peer.qpn).copied().unwrap_or(0)).collect()
}

#[test]
fn a_thousand_queue_pairs_with_endless_small_writes_get_the_same() {
    let shares = shares(1_000, 2_500, |_| 64);
    assert_eq!(shares.iter().sum::<usize>(), 2_500 * 32, "the batch is always full");
    assert!(jain(&shares) >= 0.99, "{}", jain(&shares));
}

#[test]
fn an_elephant_does_not_starve_the_mice() {
    // The elephant may send 16 packets a grant, each mouse 8: its share is at most twice theirs.
    let shares = shares(200, 2_000, |index| if index == 0 { 1 << 19 } else { 64 });
    let mice: Vec<_> = shares[1..].to_vec();
    assert!(jain(&mice) >= 0.99, "{}", jain(&mice));
    let mouse = mice.iter().sum::<usize>() as f64 / mice.len() as f64;
    let elephant = shares[0] as f64;
    assert!((0.9..=2.2).contains(&(elephant / mouse)), "elephant {elephant}, mouse {mouse}");
}
