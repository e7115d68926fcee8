//! READs and atomics: what comes back, in which order, and who waits for whom.

use datapath::queue::{PostError, SendOpcode, WcOpcode, WcStatus};
use simnet::{LinkId, Message, Op, QpOptions, Rig, RigOptions, Rng, Transfer, Work};
use wire::Pmtu;

const LIMIT_NS: u64 = 50_000_000;

#[test]
fn a_read_brings_what_is_there() {
    let (mut rig, a, b) = Rig::pair(RigOptions::default(), QpOptions::default());
    let (local, remote) = (rig.region(a.node(), 4000), rig.region(b.node(), 4000));
    rig.fill(remote.all(), 1);
    let wr_id = rig.post(a, &Work::read(local.at(500, 3000), remote.all()));
    rig.run_until(|rig| rig.sends(a).len() == 1, LIMIT_NS).unwrap();
    let done = rig.sends(a)[0];
    assert_eq!((done.wr_id, done.status, done.opcode), (wr_id, WcStatus::Success, WcOpcode::RdmaRead));
    assert_eq!(done.byte_len, 3000);
    rig.verify(local.at(500, 3000), 1);
    rig.verify_untouched(local.at(0, 500));
    rig.verify_untouched(local.at(3500, 500));
    rig.verify_guards();
    assert!(rig.recvs(b).is_empty() && rig.sends(b).is_empty(), "a READ tells the responder nothing");
    let (here, there) = (rig.counters(a), rig.counters(b));
    assert_eq!((here.tx_requests, there.tx_responses, here.rx_responses), (1, 3, 3));
    assert_eq!(here.tx_retransmits + there.tx_retransmits, 0, "nothing was lost");
}

#[test]
fn every_length_at_the_edges_of_a_packet() {
    for pmtu in [Pmtu::B256, Pmtu::B1024, Pmtu::B1408, Pmtu::B4096] {
        let bytes = pmtu.bytes() as usize;
        let lengths = [0, 1, 63, 64, 65, bytes - 1, bytes, bytes + 1, 2 * bytes, 40 * bytes + 17];
        let messages: Vec<Message> =
            lengths.iter().flat_map(|&len| [Op::Read, Op::Atomic].map(|op| Message::new(op, len))).collect();
        let (mut rig, a, b) = Rig::pair(RigOptions::default(), QpOptions { pmtu, ..QpOptions::default() });
        Transfer::new(&mut rig, a, b, messages.clone(), 10).run(&mut rig, LIMIT_NS).unwrap();
        Transfer::new(&mut rig, b, a, messages, 77).run(&mut rig, LIMIT_NS).unwrap();
        assert_eq!(rig.counters(a).tx_retransmits + rig.counters(b).tx_retransmits, 0, "{pmtu:?}");
        let packets: u64 = lengths.iter().map(|len| len.div_ceil(bytes).max(1) as u64 + 1).sum();
        assert_eq!(rig.counters(b).tx_responses, packets, "{pmtu:?}");
        assert_eq!(rig.counters(a).rx_responses, packets, "{pmtu:?}");
    }
}

#[test]
fn all_operations_mixed_in_both_directions() {
    for rd_atomic in [1, 2, 16] {
        let options =
            QpOptions { max_rd_atomic: rd_atomic, max_dest_rd_atomic: rd_atomic, ..QpOptions::default() };
        let (mut rig, a, b) = Rig::pair(RigOptions::default(), options);
        let mut rng = Rng::new(5);
        let mut mix = || Message::mix_of(&Op::WITH_RESPONSES, &mut rng, 300, 20_000);
        let (there, back) = (mix(), mix());
        let mut transfers =
            [Transfer::new(&mut rig, a, b, there, 1), Transfer::new(&mut rig, b, a, back, 1_000_000)];
        Transfer::run_all(&mut transfers, &mut rig, LIMIT_NS).unwrap();
        assert_eq!(rig.counters(a).tx_retransmits + rig.counters(b).tx_retransmits, 0, "nothing was lost");
    }
}

#[test]
fn two_queue_pairs_of_one_engine_read_inside_it() {
    let mut rig = Rig::new(RigOptions::default());
    let node = rig.add_node();
    let (a, b) = rig.connected(node, node, QpOptions::default());
    let messages = Message::mix_of(&Op::WITH_RESPONSES, &mut Rng::new(8), 200, 30_000);
    let mut transfers =
        [Transfer::new(&mut rig, a, b, messages.clone(), 1), Transfer::new(&mut rig, b, a, messages, 5000)];
    Transfer::run_all(&mut transfers, &mut rig, LIMIT_NS).unwrap();
    assert_eq!(rig.net.stats(LinkId::Up(node)).sent, 0, "nothing left the engine");
}

#[test]
fn a_read_is_scattered_over_odd_lengths() {
    let options = QpOptions { pmtu: Pmtu::B256, ..QpOptions::default() };
    let (mut rig, a, b) = Rig::pair(RigOptions::default(), options);
    let (local, remote) = (rig.region(a.node(), 4096), rig.region(b.node(), 4096));
    rig.fill(remote.all(), 4);
    let parts = [(7, 1), (100, 255), (500, 0), (600, 300), (1100, 13), (2001, 431)];
    let scatter: Vec<_> = parts.iter().map(|&(offset, len)| local.at(offset, len)).collect();
    rig.post(a, &Work::read_scatter(&scatter, remote.at(1000, 1000)));
    rig.run_until(|rig| rig.sends(a).len() == 1, LIMIT_NS).unwrap();
    let got: Vec<u8> = scatter.iter().flat_map(|&span| rig.bytes(span)).collect();
    assert_eq!(got, rig.bytes(remote.at(1000, 1000)));
    for (from, to) in [(0, 7), (8, 100), (355, 600), (900, 1100), (1113, 2001), (2432, 4096)] {
        rig.verify_untouched(local.at(from, to - from));
    }
    rig.verify_guards();
}

#[test]
fn no_more_reads_are_under_way_than_may_be() {
    for (rd_atomic, expected) in [(1, 1), (3, 3), (8, 8)] {
        let options = QpOptions { max_rd_atomic: rd_atomic, ..QpOptions::default() };
        let (mut rig, a, b) = Rig::pair(RigOptions::default(), options);
        let (local, remote) = (rig.region(a.node(), 20_000), rig.region(b.node(), 20_000));
        // The responses are held back: no READ completes.
        let up = rig.up(b);
        rig.net.set_filter(up, simnet::filter::hold(|_| true));
        for index in 0..20 {
            rig.post(a, &Work::read(local.at(1000 * index, 100), remote.at(1000 * index, 100)));
        }
        rig.run_for(10_000);
        assert_eq!(rig.counters(a).tx_requests, expected, "max_rd_atomic {rd_atomic}");
        let turns = rig.turns();
        rig.run_for(10_000);
        assert!(rig.turns() - turns < 10, "a queue pair that waits is not scheduled");
        rig.net.heal();
        rig.net.release_held(rig.now());
        rig.run_until(|rig| rig.sends(a).len() == 20, LIMIT_NS).unwrap();
    }
}

#[test]
fn a_fence_waits_for_reads_and_atomics_and_nothing_else_does() {
    for (fenced, sent) in [(false, 3), (true, 2)] {
        let (mut rig, a, b) = Rig::pair(RigOptions::default(), QpOptions::default());
        let (local, remote) = (rig.region(a.node(), 1000), rig.region(b.node(), 1000));
        rig.fill(remote.all(), 7);
        let up = rig.up(b);
        rig.net.set_filter(up, simnet::filter::hold(|_| true));
        rig.post(a, &Work::read(local.at(0, 100), remote.at(0, 100)));
        rig.post(a, &Work::fetch_add(local.at(104, 8), remote.at(104, 8), 5));
        let write = Work::write(local.at(500, 100), remote.at(0, 100));
        rig.post(a, &if fenced { write.fenced() } else { write });
        rig.run_for(10_000);
        assert_eq!(rig.counters(a).tx_requests, sent, "fenced: {fenced}");
        rig.net.heal();
        rig.net.release_held(rig.now());
        rig.run_until(|rig| rig.sends(a).len() == 3, LIMIT_NS).unwrap();
        let opcodes: Vec<_> = rig.sends(a).iter().map(|done| done.opcode).collect();
        assert_eq!(opcodes, [WcOpcode::RdmaRead, WcOpcode::FetchAdd, WcOpcode::RdmaWrite]);
        rig.verify(local.at(0, 100), 7);
        rig.verify_untouched(remote.at(0, 100));
    }
}

#[test]
fn atomics_do_what_they_say() {
    let (mut rig, a, b) = Rig::pair(RigOptions::default(), QpOptions::default());
    let (local, remote) = (rig.region(a.node(), 64), rig.region(b.node(), 64));
    let word = remote.at(16, 8);
    rig.set(word, &(u64::MAX - 1).to_ne_bytes());
    rig.post(a, &Work::fetch_add(local.at(0, 8), word, 3));
    rig.post(a, &Work::compare_swap(local.at(8, 8), word, 7, 9));
    rig.post(a, &Work::compare_swap(local.at(16, 8), word, 1, 0x0102_0304_0506_0708));
    rig.post(a, &Work::fetch_add(local.at(24, 8), word, 0));
    rig.run_until(|rig| rig.sends(a).len() == 4, LIMIT_NS).unwrap();
    let found: Vec<u64> = rig
        .bytes(local.at(0, 32))
        .chunks(8)
        .map(|word| u64::from_ne_bytes(word.try_into().unwrap()))
        .collect();
    assert_eq!(found, [u64::MAX - 1, 1, 1, 0x0102_0304_0506_0708]);
    let ends: Vec<_> = rig.sends(a).iter().map(|done| (done.status, done.opcode, done.byte_len)).collect();
    let [add, swap] = [WcOpcode::FetchAdd, WcOpcode::CompSwap].map(|opcode| (WcStatus::Success, opcode, 8));
    assert_eq!(ends, [add, swap, swap, add]);
    rig.verify_untouched(remote.at(0, 16));
    rig.verify_untouched(remote.at(24, 40));
    rig.verify_guards();
}

#[test]
fn what_cannot_be_posted() {
    let (mut rig, a, b) = Rig::pair(RigOptions::default(), QpOptions::default());
    let (local, remote) = (rig.region(a.node(), 64), rig.region(b.node(), 64));
    for len in [0, 4, 7, 9, 16] {
        let refused = rig.try_post(a, &Work::fetch_add(local.at(0, len), remote.at(0, 8), 1));
        assert_eq!(refused, Err(PostError::WrongData { opcode: SendOpcode::FetchAdd }), "{len}");
    }
    assert_eq!(rig.counters(a).tx_requests, 0);
}

#[test]
fn a_queue_pair_without_reads_fails_one_in_its_turn() {
    let options = QpOptions { max_rd_atomic: 0, ..QpOptions::default() };
    let (mut rig, a, b) = Rig::pair(RigOptions::default(), options);
    let (local, remote) = (rig.region(a.node(), 3000), rig.region(b.node(), 3000));
    rig.write(a, local.all(), remote.all());
    rig.post(a, &Work::write(local.all(), remote.all()).fenced());
    rig.post(a, &Work::read(local.all(), remote.all()));
    rig.write(a, local.all(), remote.all());
    rig.run_until(|rig| rig.sends(a).len() == 4, LIMIT_NS).unwrap();
    let ends: Vec<_> = rig.sends(a).iter().map(|done| done.status).collect();
    let success = WcStatus::Success;
    assert_eq!(ends, [success, success, WcStatus::LocQpOpErr, WcStatus::WrFlushErr]);
    assert_eq!(rig.counters(b).rx_reads, 0);
}
