//! Shared receive queues (protocol.md 1.11, 2.5): who gets which receive, what happens when they
//! run out, and what becomes of those that were taken and never filled.

use datapath::engine::{AsyncEvent, CreateError, ModifyError};
use datapath::memory::Access;
use datapath::qp::state::{QpState, QpType};
use datapath::queue::{Completion, PostError, SrqCaps, WcStatus};
use simnet::filter::{drop_psn, hold};
use simnet::{Faults, Forger, NodeId, Qp, QpOptions, Region, Rig, RigOptions, Rng, Srq, Work};
use std::collections::BTreeMap;
use wire::{Meta, Msn, Opcode, Pmtu, Psn, Ssn, Ssnw, WireMode};

const LIMIT_NS: u64 = 1_000_000_000;
const PSN: u32 = 0x00_1000;
const BUFFER: usize = 2000;

/// A receiver with one shared queue, and senders connected to it.
struct Bench {
    rig: Rig,
    server: NodeId,
    srq: Srq,
    /// Sender and receiver of each connection.
    pairs: Vec<(Qp, Qp)>,
    source: Region,
    /// Receive `n` goes to `BUFFER` bytes at `n * BUFFER`.
    buffers: Region,
}

fn options() -> QpOptions {
    QpOptions { pmtu: Pmtu::B256, sq_psn: PSN, min_rnr_timer: 1, ..QpOptions::default() }
}

fn bench(connections: usize, max_wr: u32) -> Bench {
    let mut rig = Rig::new(RigOptions::default());
    let (client, server) = (rig.add_node(), rig.add_node());
    let srq = rig.create_srq(server, SrqCaps { max_wr, max_sge: 2 });
    let pairs = (0..connections).map(|_| {
        let sender = rig.create_qp(client, options());
        let receiver = rig.create_qp(server, QpOptions { srq: Some(srq), ..options() });
        rig.connect(sender, receiver);
        (sender, receiver)
    });
    let pairs = pairs.collect();
    let source = rig.region(client, 64 * BUFFER);
    let buffers = rig.region(server, 1024 * BUFFER);
    rig.fill(source.all(), 1);
    Bench { rig, server, srq, pairs, source, buffers }
}

impl Bench {
    fn post(&mut self, number: usize) -> Result<(), PostError> {
        self.rig.post_srq(self.srq, number as u64, &[self.buffers.at(number * BUFFER, BUFFER)])
    }

    fn post_all(&mut self, numbers: impl IntoIterator<Item = usize>) {
        for number in numbers {
            self.post(number).unwrap();
        }
    }

    /// wr_id and status of the receives that completed at a connection.
    fn ends(&self, connection: usize) -> Vec<(u64, WcStatus)> {
        ends(self.rig.recvs(self.pairs[connection].1))
    }

    fn received(&self) -> usize {
        self.pairs.iter().map(|(_, receiver)| self.rig.recvs(*receiver).len()).sum()
    }

    fn run_until_received(&mut self, count: usize) {
        let receivers: Vec<Qp> = self.pairs.iter().map(|(_, receiver)| *receiver).collect();
        let done = |rig: &mut Rig| receivers.iter().map(|qp| rig.recvs(*qp).len()).sum::<usize>() >= count;
        self.rig.run_until(done, LIMIT_NS).unwrap();
    }

    fn available(&self) -> u32 {
        self.rig.srq_attr(self.srq).available
    }

    fn srq_events(&mut self) -> usize {
        self.rig.poll();
        let limit = AsyncEvent::SrqLimit { srq: self.srq.number() };
        self.rig.events(self.server).iter().filter(|event| **event == limit).count()
    }

    /// Drops packet `index` of a connection once.
    fn lose(&mut self, connection: usize, index: u32) {
        let (sender, _) = self.pairs[connection];
        self.rig.net.set_filter(self.rig.up(sender), drop_psn(Psn::new(PSN + index), 1));
    }
}

fn ends(completions: &[Completion]) -> Vec<(u64, WcStatus)> {
    completions.iter().map(|done| (done.wr_id, done.status)).collect()
}

#[test]
fn messages_take_receives_in_the_order_in_which_they_arrive() {
    let mut bench = bench(3, 16);
    bench.post_all(0..6);
    for (number, connection) in [2, 0, 2, 1, 0, 1].into_iter().enumerate() {
        let (sender, _) = bench.pairs[connection];
        let len = 300 * number;
        bench.rig.post(sender, &Work::send(bench.source.at(number, len)));
        bench.run_until_received(number + 1);
        let got = *bench.rig.recvs(bench.pairs[connection].1).last().unwrap();
        assert_eq!((got.wr_id, got.byte_len as usize), (number as u64, len));
        assert_eq!(got.qpn, bench.rig.qpn(bench.pairs[connection].1));
        let sent = bench.rig.bytes(bench.source.at(number, len));
        assert_eq!(bench.rig.bytes(bench.buffers.at(number * BUFFER, len)), sent);
    }
    bench.rig.verify_guards();
}

#[test]
fn a_write_with_immediate_takes_one_and_a_plain_write_does_not() {
    let mut bench = bench(1, 4);
    let (sender, receiver) = bench.pairs[0];
    let target = bench.rig.region(bench.server, BUFFER);
    bench.post_all(0..2);
    bench.rig.write(sender, bench.source.at(0, 700), target.at(0, 700));
    bench.rig.post(sender, &Work::write(bench.source.at(0, 900), target.at(0, 900)).imm(7));
    bench.rig.send(sender, bench.source.at(0, 10));
    bench.run_until_received(2);
    let got: Vec<_> =
        bench.rig.recvs(receiver).iter().map(|done| (done.wr_id, done.imm, done.byte_len)).collect();
    assert_eq!(got, [(0, 7, 900), (1, 0, 10)]);
    bench.rig.verify_untouched(bench.buffers.at(0, BUFFER));
}

#[test]
fn the_message_that_was_lost_is_not_starved_by_those_behind_it() {
    let mut bench = bench(1, 8);
    bench.post_all(0..3);
    bench.lose(0, 0);
    let (sender, receiver) = bench.pairs[0];
    for number in 0..6 {
        bench.rig.send(sender, bench.source.at(0, 100 + number));
    }
    // Five arrive before the first: one of them fits behind it, the rest come again.
    bench.run_until_received(3);
    assert_eq!(bench.ends(0), [0, 1, 2].map(|number| (number, WcStatus::Success)));
    let lengths: Vec<_> = bench.rig.recvs(receiver).iter().map(|done| done.byte_len).collect();
    assert_eq!(lengths, [100, 101, 102], "in the order in which they were sent");
    bench.post_all(3..6);
    bench.run_until_received(6);
    assert_eq!(bench.rig.recvs(receiver)[5].byte_len, 105);
}

#[test]
fn a_packet_takes_receives_for_all_ssns_up_to_its_own_or_none() {
    let mut bench = bench(2, 8);
    let (sender, _) = bench.pairs[0];
    // Messages 0 to 2 are held back; message 3 needs four receives.
    let first = Psn::new(PSN + 3);
    let early =
        move |passing: &simnet::Passing<'_>| passing.data_psn().is_some_and(|psn| psn.is_before(first));
    bench.rig.net.set_filter(bench.rig.up(sender), hold(early));
    bench.post_all(0..3);
    for _ in 0..4 {
        bench.rig.send(sender, bench.source.at(0, 50));
    }
    bench.rig.run_for(5_000);
    assert_eq!(bench.available(), 3, "three are not enough: none was taken");
    let (_, receiver) = bench.pairs[0];
    assert_eq!(bench.rig.counters(receiver).drop_unplaceable, 1);
    bench.post(3).unwrap();
    bench.rig.net.heal();
    bench.rig.net.release_held(bench.rig.now());
    bench.run_until_received(4);
    assert_eq!(bench.ends(0), [0, 1, 2, 3].map(|number| (number, WcStatus::Success)));
    assert_eq!(bench.available(), 0);
}

#[test]
fn an_empty_queue_answers_rnr_and_goes_on_when_it_is_filled() {
    let mut bench = bench(2, 8);
    for connection in 0..2 {
        bench.rig.send(bench.pairs[connection].0, bench.source.at(0, 1000));
    }
    bench.rig.run_for(50_000);
    let (_, receiver) = bench.pairs[0];
    assert_eq!(bench.received(), 0);
    assert!(bench.rig.counters(receiver).tx_rnr_naks >= 4, "both were told, more than once");
    bench.post(0).unwrap();
    bench.run_until_received(1);
    bench.rig.run_for(50_000);
    assert_eq!(bench.received(), 1, "one receive, one message");
    bench.post(1).unwrap();
    bench.run_until_received(2);
    assert_eq!((bench.ends(0).len(), bench.ends(1).len()), (1, 1));
}

#[test]
fn patience_with_an_empty_queue_ends_as_with_one_of_its_own() {
    let mut bench = bench(1, 8);
    let impatient = QpOptions { rnr_retry: 2, ..options() };
    let sender = bench.rig.create_qp(bench.pairs[0].0.node(), impatient);
    let receiver = bench.rig.create_qp(bench.server, QpOptions { srq: Some(bench.srq), ..impatient });
    bench.rig.connect(sender, receiver);
    bench.rig.send(sender, bench.source.at(0, 100));
    bench.rig.run_until(|rig| !rig.sends(sender).is_empty(), LIMIT_NS).unwrap();
    assert_eq!(bench.rig.sends(sender)[0].status, WcStatus::RnrRetryExcErr);
    assert_eq!(bench.rig.counters(receiver).tx_rnr_naks, 3, "told, and twice more after a wait");
    // The queue itself is as before, for everybody else.
    bench.post(0).unwrap();
    bench.rig.send(bench.pairs[0].0, bench.source.at(0, 100));
    bench.run_until_received(1);
    assert_eq!(bench.ends(0), [(0, WcStatus::Success)]);
}

#[test]
fn the_limit_event_comes_once_for_each_time_that_it_is_armed() {
    let mut bench = bench(1, 16);
    let (server, number) = (bench.server, bench.srq.number());
    bench.post_all(0..10);
    bench.rig.engine_mut(server).core_mut().arm_srq_limit(number, 8).unwrap();
    let (sender, _) = bench.pairs[0];
    for sent in 1..=6 {
        bench.rig.send(sender, bench.source.at(0, 600));
        bench.run_until_received(sent);
        assert_eq!(bench.srq_events(), usize::from(sent > 2), "{sent} taken of ten");
        assert_eq!(bench.rig.srq_attr(bench.srq).limit, if sent > 2 { 0 } else { 8 });
    }
    bench.rig.engine_mut(server).core_mut().arm_srq_limit(number, 4).unwrap();
    assert_eq!(bench.srq_events(), 1, "four are left, which is not below four");
    bench.rig.engine_mut(server).core_mut().arm_srq_limit(number, 5).unwrap();
    assert_eq!(bench.srq_events(), 2, "armed below: at once");
    bench.rig.engine_mut(server).core_mut().arm_srq_limit(number, 4).unwrap();
    bench.rig.engine_mut(server).core_mut().arm_srq_limit(number, 0).unwrap();
    bench.rig.send(sender, bench.source.at(0, 600));
    bench.run_until_received(7);
    assert_eq!(bench.srq_events(), 2, "disarmed");
    let refused = bench.rig.engine_mut(server).core_mut().arm_srq_limit(number, 17);
    assert_eq!(refused, Err(ModifyError::SrqLimit { given: 17, max_wr: 16 }));
    let unknown = bench.rig.engine_mut(server).core_mut().arm_srq_limit(99, 1);
    assert_eq!(unknown, Err(ModifyError::UnknownSrq(99)));
}

#[test]
fn max_wr_counts_until_the_completion() {
    let mut bench = bench(1, 3);
    bench.post_all(0..3);
    assert_eq!(bench.post(3), Err(PostError::QueueFull { capacity: 3 }), "three, not the ring's four");
    let (sender, _) = bench.pairs[0];
    // The first packet takes the receive, the last one never comes.
    bench.rig.net.set_filter(bench.rig.up(sender), drop_psn(Psn::new(PSN + 1), u32::MAX));
    bench.rig.send(sender, bench.source.at(0, 500));
    bench.rig.run_for(20_000);
    assert_eq!(bench.available(), 2);
    assert_eq!(bench.post(3), Err(PostError::QueueFull { capacity: 3 }), "taken is not completed");
    bench.rig.net.heal();
    bench.run_until_received(1);
    bench.post(3).unwrap();
    assert_eq!(bench.post(4), Err(PostError::QueueFull { capacity: 3 }));
}

/// A connection that took receives 0 to 2 without completing one; 3 is left in the queue.
fn with_receives_taken() -> Bench {
    let mut bench = bench(2, 8);
    bench.post_all(0..4);
    let (sender, receiver) = bench.pairs[0];
    bench.rig.net.set_filter(bench.rig.up(sender), drop_psn(Psn::new(PSN), u32::MAX));
    for _ in 0..3 {
        bench.rig.send(sender, bench.source.at(0, 100));
    }
    bench.rig.run_for(20_000);
    assert_eq!((bench.available(), bench.rig.recvs(receiver).len()), (1, 0));
    bench.rig.net.heal();
    bench
}

/// What was taken is flushed in SSN order, what was not is left to the other connection, and all of
/// it can be posted again.
fn verify_flush_of_the_taken(mut bench: Bench) {
    assert_eq!(bench.ends(0), [0, 1, 2].map(|number| (number, WcStatus::WrFlushErr)));
    assert_eq!(bench.available(), 1);
    bench.post_all([4, 5, 6, 7, 8, 9, 10]);
    assert_eq!(bench.post(11), Err(PostError::QueueFull { capacity: 8 }));
    for _ in 0..8 {
        bench.rig.send(bench.pairs[1].0, bench.source.at(0, 100));
    }
    bench.run_until_received(3 + 8);
    assert_eq!(bench.ends(1), [3, 4, 5, 6, 7, 8, 9, 10].map(|number| (number, WcStatus::Success)));
}

#[test]
fn err_flushes_what_was_taken_and_says_that_it_was_the_last() {
    let mut bench = with_receives_taken();
    let (_, receiver) = bench.pairs[0];
    bench.rig.to_err(receiver);
    bench.rig.poll();
    let last = AsyncEvent::LastWqeReached { qpn: bench.rig.qpn(receiver) };
    let events: Vec<_> = bench.rig.events(bench.server).iter().filter(|event| **event == last).collect();
    assert_eq!(events.len(), 1);
    verify_flush_of_the_taken(bench);
}

#[test]
fn reset_flushes_what_was_taken() {
    let mut bench = with_receives_taken();
    let (_, receiver) = bench.pairs[0];
    bench.rig.reset(receiver);
    bench.rig.poll();
    verify_flush_of_the_taken(bench);
}

#[test]
fn destroying_the_queue_pair_flushes_what_was_taken() {
    let mut bench = with_receives_taken();
    let qpn = bench.rig.qpn(bench.pairs[0].1);
    assert!(bench.rig.engine_mut(bench.server).core_mut().destroy_qp(qpn));
    bench.rig.poll();
    verify_flush_of_the_taken(bench);
}

#[test]
fn a_message_that_is_too_long_ends_its_own_receive_only() {
    let mut bench = bench(2, 8);
    bench.post_all(0..2);
    let (sender, receiver) = bench.pairs[0];
    bench.rig.send(sender, bench.source.at(0, BUFFER + 1));
    bench.run_until_received(1);
    assert_eq!(bench.ends(0), [(0, WcStatus::LocLenErr)]);
    assert_eq!((bench.rig.state(receiver), bench.available()), (QpState::Err, 1));
    bench.rig.send(bench.pairs[1].0, bench.source.at(0, BUFFER));
    bench.run_until_received(2);
    assert_eq!(bench.ends(1), [(1, WcStatus::Success)]);
    bench.rig.verify_guards();
}

#[test]
fn a_queue_in_use_is_not_destroyed() {
    let mut bench = bench(1, 4);
    bench.post(0).unwrap();
    let (server, number, qpn) = (bench.server, bench.srq.number(), bench.rig.qpn(bench.pairs[0].1));
    let engine = bench.rig.engine_mut(server);
    assert!(!engine.core_mut().destroy_srq(number), "a queue pair takes receives from it");
    assert!(engine.core_mut().destroy_qp(qpn));
    assert!(engine.core_mut().destroy_srq(number));
    assert!(!engine.core_mut().destroy_srq(number), "it ends once");
    assert_eq!(engine.core().query_srq(number), None);
    assert_eq!(bench.rig.create_srq(server, SrqCaps::default()).number(), number);
}

#[test]
fn what_cannot_be_is_refused() {
    let mut bench = bench(1, 4);
    let pd = bench.rig.pd(bench.server);
    let engine = bench.rig.engine_mut(bench.server);
    for caps in [
        SrqCaps { max_wr: 0, max_sge: 1 },
        SrqCaps { max_wr: SrqCaps::WR_LIMIT + 1, max_sge: 1 },
        SrqCaps { max_wr: 1, max_sge: 0 },
        SrqCaps { max_wr: 1, max_sge: 17 },
    ] {
        assert!(
            matches!(engine.core_mut().create_srq(pd, caps), Err(CreateError::OutOfRange { .. })),
            "{caps:?}"
        );
    }
    let (_, receiver) = bench.pairs[0];
    let own = bench.rig.try_post_recv(receiver, &[]);
    assert_eq!(own, Err(PostError::NoReceiveQueue));
    let three = [bench.buffers.at(0, 1); 3];
    let refused = bench.rig.post_srq(bench.srq, 0, &three);
    assert_eq!(refused, Err(PostError::TooManySges { given: 3, max: 2 }));
}

#[test]
fn the_receives_name_memory_of_the_shared_queues_own_domain() {
    let mut rig = Rig::new(RigOptions::default());
    let (client, server) = (rig.add_node(), rig.add_node());
    let srq = rig.create_srq(server, SrqCaps::default());
    let other = rig.engine_mut(server).core_mut().allocate_pd();
    let sender = rig.create_qp(client, options());
    let receiver = rig.create_qp(server, QpOptions { srq: Some(srq), pd: Some(other), ..options() });
    rig.connect(sender, receiver);
    let source = rig.region(client, 100);
    let ours = rig.region(server, 100);
    let theirs = rig.region_with(server, 100, other, Access::LOCAL_WRITE);
    rig.fill(source.all(), 5);
    rig.post_srq(srq, 1, &[ours.all()]).unwrap();
    rig.post_srq(srq, 2, &[theirs.all()]).unwrap();
    rig.send(sender, source.all());
    rig.send(sender, source.all());
    rig.run_until(|rig| rig.recvs(receiver).len() == 2, LIMIT_NS).unwrap();
    assert_eq!(ends(rig.recvs(receiver)), [(1, WcStatus::Success), (2, WcStatus::LocProtErr)]);
    rig.verify(ours.all(), 5);
    rig.verify_untouched(theirs.all());
}

#[test]
fn a_hostile_ssn_does_not_empty_the_queue() {
    let mut bench = bench(1, 64);
    bench.post_all(0..64);
    let (sender, receiver) = bench.pairs[0];
    let forger = Forger::new(&bench.rig, sender, receiver);
    for (psn, msn, ssn) in [(5, 1, 2), (5, 0, 63), (20, 19, 20)] {
        let mut repr = forger.repr(WireMode::Srnic, Opcode::RcSendOnly, Psn::new(PSN + psn));
        repr.meta = Some(Meta { msn: Msn::new(msn), offset: 0 });
        repr.ssnw = Some(Ssnw { offset_hi: 0, ssn: Ssn::new(ssn) });
        let frame = forger.frame(&repr, &[0; 8]);
        bench.rig.net.deliver(bench.rig.now(), bench.server, frame);
        bench.rig.run_for(2_000);
        assert_eq!(bench.available(), 64, "SSN {ssn} of message {msn}");
    }
}

/// A SEND of one packet that stands so many packets, messages and receives ahead of the first of
/// its connection.
fn send_from_ahead(bench: &mut Bench, connection: usize, ahead: u32) {
    let (sender, receiver) = bench.pairs[connection];
    let forger = Forger::new(&bench.rig, sender, receiver);
    let mut repr = forger.repr(WireMode::Srnic, Opcode::RcSendOnly, Psn::new(PSN + ahead));
    repr.meta = Some(Meta { msn: Msn::new(ahead), offset: 0 });
    repr.ssnw = Some(Ssnw { offset_hi: 0, ssn: Ssn::new(ahead) });
    let frame = forger.frame(&repr, &[0; 8]);
    bench.rig.net.deliver(bench.rig.now(), bench.server, frame);
    bench.rig.run_for(2_000);
}

#[test]
fn what_comes_too_early_leaves_receives_for_the_other_connections() {
    let mut bench = bench(4, 512);
    bench.post_all(0..512);
    send_from_ahead(&mut bench, 0, 511);
    assert_eq!(bench.available(), 512, "more than its share: none was taken");
    // Two thirds of what there is are the most that one may have ahead of its turn.
    for (connection, ahead, left) in [(0, 340, 171), (1, 113, 57), (2, 38, 57), (2, 37, 19), (0, 341, 19)] {
        send_from_ahead(&mut bench, connection, ahead);
        assert_eq!(bench.available(), left, "{ahead} ahead on connection {connection}");
    }
    let (sender, receiver) = bench.pairs[3];
    assert_eq!(bench.rig.counters(receiver).drop_srq_share, 3);
    bench.rig.send(sender, bench.source.at(0, 100));
    bench.run_until_received(1);
    assert_eq!(bench.ends(3), [(493, WcStatus::Success)]);
}

#[test]
fn the_last_receive_is_taken_by_a_message_whose_turn_it_is_only() {
    let mut bench = bench(2, 8);
    bench.post(0).unwrap();
    send_from_ahead(&mut bench, 0, 1);
    bench.post(1).unwrap();
    send_from_ahead(&mut bench, 0, 1);
    assert_eq!(bench.available(), 2);
    bench.rig.send(bench.pairs[1].0, bench.source.at(0, 100));
    bench.run_until_received(1);
    assert_eq!(bench.ends(1), [(0, WcStatus::Success)]);
}

#[test]
fn every_receive_is_filled_once_whatever_is_lost() {
    for seed in 1..=6 {
        random_history(seed);
    }
}

/// Four connections send messages that name themselves; receives are posted at random, too few of
/// them, and posted again when they complete.
fn random_history(seed: u64) {
    const CONNECTIONS: usize = 4;
    const EACH: usize = 120;
    let mut rng = Rng::new(seed);
    let mut bench = bench(CONNECTIONS, 12);
    for (sender, receiver) in bench.pairs.clone() {
        for qp in [sender, receiver] {
            bench.rig.net.set_faults(bench.rig.up(qp), Faults::loss(30_000));
        }
    }
    let mut sent = [0; CONNECTIONS];
    let mut free: Vec<usize> = (0..12).collect();
    let mut got: BTreeMap<usize, Vec<Vec<u8>>> = BTreeMap::new();
    let mut expected: BTreeMap<usize, Vec<Vec<u8>>> = BTreeMap::new();
    let mut done = 0;
    for _ in 0..1_000_000 {
        let connection = rng.index(CONNECTIONS);
        if sent[connection] < EACH && rng.below(2) == 0 {
            let mut message = vec![0; 8 + rng.index(180)];
            message[..8].copy_from_slice(&(connection << 32 | sent[connection]).to_le_bytes());
            let work = Work::send_inline(&message);
            if bench.rig.try_post(bench.pairs[connection].0, &work).is_ok() {
                sent[connection] += 1;
                expected.entry(connection).or_default().push(message);
            }
        }
        if !free.is_empty() && rng.below(3) == 0 {
            let number = free.swap_remove(rng.index(free.len()));
            bench.post(number).unwrap();
        }
        bench.rig.run_for(rng.below(3_000));
        for connection in 0..CONNECTIONS {
            let (_, receives) = bench.rig.take_completions(bench.pairs[connection].1);
            for completion in receives {
                assert_eq!(completion.status, WcStatus::Success, "seed {seed}");
                let number = usize::try_from(completion.wr_id).unwrap();
                assert!(!free.contains(&number), "seed {seed}: receive {number} was not posted");
                let span = bench.buffers.at(number * BUFFER, completion.byte_len as usize);
                got.entry(connection).or_default().push(bench.rig.bytes(span));
                free.push(number);
                done += 1;
            }
        }
        if done == CONNECTIONS * EACH {
            break;
        }
    }
    assert_eq!(got, expected, "seed {seed}: every message once, in order, unbroken");
    assert_eq!(free.len() + bench.available() as usize, 12, "seed {seed}: no receive is lost");
    bench.rig.verify_guards();
}

/// A message that does not fit its receive is dropped, but the shared receive that was looked at
/// stays with its queue pair: no other has it, for as long as the peer says nothing more.
#[test]
fn a_dropped_message_keeps_no_shared_receive() {
    let mut rig = Rig::new(RigOptions::default());
    let (left, right) = (rig.add_node(), rig.add_node());
    let srq = rig.create_srq(right, SrqCaps { max_wr: 4, max_sge: 1 });
    let options = QpOptions { qp_type: QpType::Uc, ..QpOptions::default() };
    let takes = QpOptions { srq: Some(srq), ..options };
    let pairs: Vec<_> = (0..2)
        .map(|_| {
            let (a, b) = (rig.create_qp(left, options), rig.create_qp(right, takes));
            rig.connect(a, b);
            (a, b)
        })
        .collect();
    let (local, inbox) = (rig.region(left, 1000), rig.region(right, 1000));
    rig.post_srq(srq, 7, &[inbox.at(0, 100)]).unwrap();
    rig.send(pairs[0].0, local.at(0, 200));
    rig.run_for(100_000);
    assert_eq!(rig.counters(pairs[0].1).drop_receive_too_short, 1);
    assert_eq!(rig.srq_attr(srq).available, 1, "nobody uses it");
    rig.send(pairs[1].0, local.at(0, 50));
    rig.run_for(100_000);
    assert_eq!(rig.recvs(pairs[1].1).len(), 1);
}
