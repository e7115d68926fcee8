//! The first packets: what is sent arrives, and both sides are told.

use datapath::queue::{PostError, WcFlags, WcOpcode, WcStatus};
use simnet::{LinkId, Message, Op, QpOptions, Rig, RigOptions, Rng, Transfer, Work};
use wire::Pmtu;

const LIMIT_NS: u64 = 50_000_000;

#[test]
fn a_write_arrives() {
    let (mut rig, a, b) = Rig::pair(RigOptions::default(), QpOptions::default());
    let (source, target) = (rig.region(a.node(), 3000), rig.region(b.node(), 4000));
    rig.fill(source.all(), 1);
    let wr_id = rig.write(a, source.all(), target.at(500, 3000));
    rig.run_until(|rig| rig.sends(a).len() == 1, LIMIT_NS).unwrap();
    let done = rig.sends(a)[0];
    assert_eq!((done.wr_id, done.status, done.opcode), (wr_id, WcStatus::Success, WcOpcode::RdmaWrite));
    rig.verify(target.at(500, 3000), 1);
    rig.verify_untouched(target.at(0, 500));
    rig.verify_untouched(target.at(3500, 500));
    rig.verify_guards();
    assert!(rig.recvs(b).is_empty(), "a plain WRITE tells the responder nothing");
}

#[test]
fn a_send_arrives() {
    let (mut rig, a, b) = Rig::pair(RigOptions::default(), QpOptions::default());
    let (source, target) = (rig.region(a.node(), 3000), rig.region(b.node(), 4000));
    rig.fill(source.all(), 2);
    let recv_id = rig.post_recv(b, target.all());
    rig.send(a, source.all());
    rig.run_until(|rig| rig.sends(a).len() == 1 && rig.recvs(b).len() == 1, LIMIT_NS).unwrap();
    let got = rig.recvs(b)[0];
    assert_eq!((got.wr_id, got.status, got.opcode), (recv_id, WcStatus::Success, WcOpcode::Recv));
    assert_eq!((got.byte_len, got.qpn), (3000, rig.qpn(b)));
    rig.verify(target.at(0, 3000), 2);
    rig.verify_untouched(target.at(3000, 1000));
    rig.verify_guards();
}

#[test]
fn every_operation_of_every_size_at_the_edges_of_a_packet() {
    for pmtu in [Pmtu::B256, Pmtu::B1024, Pmtu::B4096] {
        let bytes = pmtu.bytes() as usize;
        let lengths = [0, 1, 63, 64, 65, bytes - 1, bytes, bytes + 1, 2 * bytes, 40 * bytes + 17];
        let messages: Vec<Message> =
            lengths.iter().flat_map(|&len| Op::ALL.map(|op| Message::new(op, len))).collect();
        let (mut rig, a, b) = Rig::pair(RigOptions::default(), QpOptions { pmtu, ..QpOptions::default() });
        let mut there = Transfer::new(&mut rig, a, b, messages.clone(), 10);
        there.run(&mut rig, LIMIT_NS).unwrap();
        let mut back = Transfer::new(&mut rig, b, a, messages, 77);
        back.run(&mut rig, LIMIT_NS).unwrap();
        assert_eq!(rig.counters(a).tx_retransmits + rig.counters(b).tx_retransmits, 0, "{pmtu:?}");
        let packets: u64 = lengths.iter().map(|len| 4 * len.div_ceil(bytes).max(1) as u64).sum();
        assert_eq!(rig.counters(a).tx_requests, packets, "{pmtu:?}");
        assert_eq!(rig.counters(b).rx_in_order, packets, "{pmtu:?}");
    }
}

#[test]
fn both_directions_at_once() {
    let (mut rig, a, b) = Rig::pair(RigOptions::default(), QpOptions::default());
    let mut rng = Rng::new(5);
    let (there, back) = (Message::mix(&mut rng, 300, 20_000), Message::mix(&mut rng, 300, 20_000));
    let mut transfers =
        [Transfer::new(&mut rig, a, b, there, 1), Transfer::new(&mut rig, b, a, back, 1_000_000)];
    Transfer::run_all(&mut transfers, &mut rig, LIMIT_NS).unwrap();
    assert_eq!(rig.counters(a).tx_retransmits + rig.counters(b).tx_retransmits, 0, "nothing was lost");
}

#[test]
fn psns_wrap_in_the_middle_of_messages() {
    for sq_psn in [0xFF_FFF0, 0xFF_FFFF, 0] {
        let options = QpOptions { sq_psn, pmtu: Pmtu::B256, window: 16, ..QpOptions::default() };
        let (mut rig, a, b) = Rig::pair(RigOptions::default(), options);
        let messages = Message::mix(&mut Rng::new(sq_psn.into()), 60, 3000);
        Transfer::new(&mut rig, a, b, messages, 3).run(&mut rig, LIMIT_NS).unwrap();
    }
}

#[test]
fn inline_data_need_no_region() {
    let (mut rig, a, b) = Rig::pair(RigOptions::default(), QpOptions::default());
    let target = rig.region(b.node(), 600);
    rig.post_recv(b, target.at(200, 200));
    let bytes: Vec<u8> = (0..200).collect();
    let mut scratch = bytes.clone();
    rig.post(a, &Work::write_inline(&scratch, target.at(0, 200)));
    rig.post(a, &Work::send_inline(&scratch).imm(0xDEAD_BEEF));
    rig.post(a, &Work::write_inline(&scratch[..7], target.at(400, 7)));
    scratch.fill(0);
    rig.run_until(|rig| rig.sends(a).len() == 3, LIMIT_NS).unwrap();
    assert_eq!(rig.bytes(target.at(0, 200)), bytes);
    assert_eq!(rig.bytes(target.at(200, 200)), bytes);
    assert_eq!(rig.bytes(target.at(400, 7)), bytes[..7]);
    rig.verify_untouched(target.at(407, 193));
    assert_eq!((rig.recvs(b)[0].imm, rig.recvs(b)[0].byte_len), (0xDEAD_BEEF, 200));
    let too_long = rig.try_post(a, &Work::send_inline(&[0; 201]));
    assert_eq!(too_long, Err(PostError::InlineTooLong { given: 201, max: 200 }));
}

#[test]
fn scatter_and_gather_over_odd_lengths() {
    let options = QpOptions { pmtu: Pmtu::B256, ..QpOptions::default() };
    let (mut rig, a, b) = Rig::pair(RigOptions::default(), options);
    let (source, target) = (rig.region(a.node(), 4096), rig.region(b.node(), 4096));
    rig.fill(source.all(), 4);
    // 1 + 255 + 0 + 300 + 13 + 431 = 1000 bytes, taken from all over the source, in this order.
    let parts = [(7, 1), (100, 255), (500, 0), (600, 300), (1100, 13), (2001, 431)];
    let gather: Vec<_> = parts.iter().map(|&(offset, len)| source.at(offset, len)).collect();
    let expected: Vec<u8> = gather.iter().flat_map(|&span| rig.bytes(span)).collect();
    // 3 + 0 + 500 + 290 + 250 = 1043 bytes to receive into: the last element is not filled.
    let holes = [(10, 3), (20, 0), (30, 500), (1000, 290), (2000, 250)];
    let scatter: Vec<_> = holes.iter().map(|&(offset, len)| target.at(offset, len)).collect();
    rig.try_post_recv(b, &scatter).unwrap();
    rig.post(a, &Work::send_gather(&gather));
    rig.post(a, &Work::write_gather(&gather, target.at(3000, 1000)));
    rig.run_until(|rig| rig.sends(a).len() == 2 && rig.recvs(b).len() == 1, LIMIT_NS).unwrap();
    assert_eq!(rig.recvs(b)[0].byte_len, 1000);
    let got: Vec<u8> = scatter.iter().flat_map(|&span| rig.bytes(span)).collect();
    assert_eq!(got[..1000], expected);
    assert!(got[1000..].iter().all(|byte| *byte == 0), "nothing behind the message's end");
    assert_eq!(rig.bytes(target.at(3000, 1000)), expected);
    for (from, to) in [(0, 10), (13, 30), (530, 1000), (1290, 2000), (2207, 3000), (4000, 4096)] {
        rig.verify_untouched(target.at(from, to - from));
    }
    rig.verify_guards();
}

#[test]
fn unsignaled_requests_free_their_slots() {
    let mut options = QpOptions::default();
    options.caps.max_send_wr = 4;
    let (mut rig, a, b) = Rig::pair(RigOptions::default(), options);
    let (source, target) = (rig.region(a.node(), 8), rig.region(b.node(), 8));
    rig.fill(source.all(), 9);
    for round in 1..=20 {
        for _ in 0..3 {
            rig.post(a, &Work::write(source.all(), target.all()).unsignaled());
        }
        let last = rig.write(a, source.all(), target.all());
        let full = rig.try_post(a, &Work::write(source.all(), target.all()));
        assert_eq!(full, Err(PostError::QueueFull { capacity: 4 }));
        rig.run_until(|rig| rig.sends(a).len() == round, LIMIT_NS).unwrap();
        assert_eq!(rig.sends(a)[round - 1].wr_id, last);
    }
    assert_eq!(rig.sends(a).len(), 20, "the unsignaled ones are silent");
}

#[test]
fn a_batch_is_posted_as_far_as_it_fits() {
    let mut options = QpOptions::default();
    options.caps.max_send_wr = 8;
    let (mut rig, a, b) = Rig::pair(RigOptions::default(), options);
    let (source, target) = (rig.region(a.node(), 1024), rig.region(b.node(), 10 * 100));
    rig.fill(source.all(), 9);
    let batch: Vec<Work> =
        (0..10).map(|index| Work::write(source.at(0, 100), target.at(100 * index, 100))).collect();
    let (accepted, why) = rig.post_batch(a, &batch);
    assert_eq!((accepted, why), (8, Err(PostError::QueueFull { capacity: 8 })));
    rig.run_until(|rig| rig.sends(a).len() == 8, LIMIT_NS).unwrap();
    for index in 0..8 {
        rig.verify(target.at(100 * index, 100), 9);
    }
    rig.verify_untouched(target.at(800, 200));
}

#[test]
fn two_queue_pairs_of_one_engine_talk_inside_it() {
    let mut rig = Rig::new(RigOptions::default());
    let node = rig.add_node();
    let (a, b) = rig.connected(node, node, QpOptions::default());
    let messages = Message::mix(&mut Rng::new(8), 200, 30_000);
    let mut transfers =
        [Transfer::new(&mut rig, a, b, messages.clone(), 1), Transfer::new(&mut rig, b, a, messages, 5000)];
    Transfer::run_all(&mut transfers, &mut rig, LIMIT_NS).unwrap();
    assert_eq!(rig.net.stats(LinkId::Up(node)).sent, 0, "nothing left the engine");
}

#[test]
fn many_queue_pairs_between_many_nodes() {
    let mut rig = Rig::new(RigOptions::default());
    let nodes: Vec<_> = (0..4).map(|_| rig.add_node()).collect();
    let mut transfers = Vec::new();
    for round in 0..3 {
        for (from, left) in nodes.iter().enumerate() {
            for right in &nodes[from + 1..] {
                let (a, b) = rig.connected(*left, *right, QpOptions::default());
                let seed = 1000 * (transfers.len() as u64 + round);
                let messages = Message::mix(&mut Rng::new(seed), 40, 10_000);
                transfers.push(Transfer::new(&mut rig, a, b, messages.clone(), seed));
                transfers.push(Transfer::new(&mut rig, b, a, messages, seed + 500));
            }
        }
    }
    Transfer::run_all(&mut transfers, &mut rig, LIMIT_NS).unwrap();
}

#[test]
fn the_solicited_flag_reaches_the_receiver() {
    let (mut rig, a, b) = Rig::pair(RigOptions::default(), QpOptions::default());
    let (source, target) = (rig.region(a.node(), 3000), rig.region(b.node(), 3000));
    for _ in 0..2 {
        rig.post_recv(b, target.all());
    }
    rig.post(a, &Work::send(source.all()).solicited());
    rig.post(a, &Work::send(source.all()));
    rig.run_until(|rig| rig.recvs(b).len() == 2, LIMIT_NS).unwrap();
    let solicited: Vec<bool> =
        rig.recvs(b).iter().map(|done| done.flags.contains(WcFlags::SOLICITED)).collect();
    assert_eq!(solicited, [true, false]);
}

#[test]
fn over_ipv6_and_with_a_vlan_tag() {
    for (ipv6, vlan) in [(true, None), (false, Some(100)), (true, Some(4094))] {
        let mut options = RigOptions { ipv6, vlan, ..RigOptions::default() };
        options.port.up.faults.loss_ppm = 20_000;
        options.port.up.mark_frames = Some(4);
        let (mut rig, a, b) = Rig::pair(options, QpOptions::default());
        let messages = Message::mix(&mut Rng::new(12), 60, 10_000);
        Transfer::new(&mut rig, a, b, messages, 1).run(&mut rig, LIMIT_NS).unwrap();
        assert!(rig.net.stats(rig.up(a)).marked > 0);
        assert!(rig.counters(b).rx_ce_marked > 0, "marks are seen whatever carries them");
    }
}
