//! Unreliable connections (protocol.md 1.3; IBA 9.9.2): a message arrives whole or not at all, and
//! what comes after a hole is taken from the next packet on that begins a message.

use datapath::counters::Counters;
use datapath::engine::AsyncEvent;
use datapath::memory::Access;
use datapath::qp::state::{QpState, QpType};
use datapath::queue::{PostError, WcOpcode, WcStatus};
use simnet::filter::drop_numbers;
use simnet::{Faults, Forger, FrameKind, Passing, Qp, QpOptions, Region, Rig, RigOptions, Work, pattern};
use wire::{Opcode, Pmtu, Psn, Repr, Reth, WireMode};

const LIMIT_NS: u64 = 1_000_000_000;
const PSN: u32 = 0xFF_FFF0;
const PMTU: usize = 256;
/// Room for one message.
const PLACE: usize = 2048;
const MESSAGES: usize = 40;

fn options() -> QpOptions {
    QpOptions { qp_type: QpType::Uc, pmtu: Pmtu::B256, sq_psn: PSN, ..QpOptions::default() }
}

/// A SEND or a WRITE, with its number as immediate data.
#[derive(Clone, Copy)]
struct Message {
    write: bool,
    len: usize,
}

impl Message {
    fn packets(self) -> usize {
        self.len.div_ceil(PMTU).max(1)
    }
}

fn messages() -> Vec<Message> {
    let lengths = [0, 1, PMTU - 1, PMTU, PMTU + 1, 3 * PMTU, 1000, 5 * PMTU + 7];
    (0..MESSAGES).map(|at| Message { write: at % 3 == 1, len: lengths[at * 5 % lengths.len()] }).collect()
}

/// What becomes of the messages when `prepare` has spoiled the network: the numbers of those that
/// arrived, in the order of their completions. Each of them is checked byte by byte.
fn transfer(seed: u64, prepare: impl FnOnce(&mut Rig, Qp)) -> (Vec<usize>, Counters) {
    let (mut rig, a, b) = Rig::pair(RigOptions::seeded(seed), options());
    let source = rig.region(a.node(), MESSAGES * PLACE);
    // Messages may arrive twice: as many receives again.
    let (receives, targets) =
        (rig.region(b.node(), 4 * MESSAGES * PLACE), rig.region(b.node(), MESSAGES * PLACE));
    let receives_at = |number: usize| receives.at(number * PLACE, PLACE);
    for number in 0..4 * MESSAGES {
        rig.try_post_recv_as(b, &[receives_at(number)], number as u64).expect("posted");
    }
    prepare(&mut rig, a);
    let messages = messages();
    for (number, message) in messages.iter().enumerate() {
        let from = source.at(number * PLACE, message.len);
        rig.fill(from, number as u64);
        let work = match message.write {
            true => Work::write(from, targets.at(number * PLACE, message.len)),
            false => Work::send(from),
        };
        rig.post(a, &work.imm(u32::try_from(number).expect("small")));
    }
    rig.run_until_quiet(LIMIT_NS).expect("nobody waits for anything");
    let sent = rig.sends(a);
    assert!(sent.iter().all(|done| done.status == WcStatus::Success), "nobody tells of a loss");
    assert_eq!(sent.len(), MESSAGES);
    let arrived = rig.recvs(b).iter().map(|done| {
        let number = done.imm as usize;
        let message = messages[number];
        let place = match done.opcode {
            WcOpcode::RecvRdmaWithImm => targets.at(number * PLACE, message.len),
            _ => receives_at(usize::try_from(done.wr_id).expect("small")),
        };
        assert_eq!((done.status, done.byte_len as usize), (WcStatus::Success, message.len));
        assert_eq!(message.write, done.opcode == WcOpcode::RecvRdmaWithImm);
        rig.verify(place.region.at(place.offset, message.len), number as u64);
        number
    });
    let arrived = arrived.collect();
    rig.verify_guards();
    assert_eq!((rig.state(a), rig.state(b)), (QpState::Rts, QpState::Rts));
    (arrived, *rig.counters(b))
}

#[test]
fn without_loss_everything_arrives_in_order() {
    let (arrived, counters) = transfer(1, |_, _| {});
    assert_eq!(arrived, (0..MESSAGES).collect::<Vec<_>>());
    let packets: usize = messages().iter().map(|message| message.packets()).sum();
    assert_eq!((counters.rx_unreliable, counters.uc_messages_lost), (packets as u64, 0));
    assert_eq!(counters.tx_acks, 0, "nothing is acknowledged");
}

#[test]
fn one_lost_packet_costs_its_message_and_no_other() {
    let owners: Vec<usize> = messages()
        .iter()
        .enumerate()
        .flat_map(|(number, message)| core::iter::repeat_n(number, message.packets()))
        .collect();
    for (packet, owner) in owners.iter().enumerate() {
        let (arrived, counters) = transfer(2, |rig, a| {
            let data = |passing: &Passing<'_>| passing.kind() == FrameKind::Data;
            rig.net.set_filter(rig.up(a), drop_numbers([packet as u64], data));
        });
        let expected: Vec<usize> = (0..MESSAGES).filter(|number| number != owner).collect();
        assert_eq!(arrived, expected, "packet {packet}, of message {owner}, is lost: {counters:?}");
    }
}

#[test]
fn whatever_the_network_does_no_completion_is_torn() {
    let lossy = Faults { loss_ppm: 50_000, ..Faults::default() };
    let wild = Faults {
        duplicate_ppm: 30_000,
        reorder_ppm: 30_000,
        reorder_ns_max: 5_000,
        corrupt_ppm: 20_000,
        truncate_ppm: 10_000,
        ..lossy
    };
    let mut lost = 0;
    for seed in 0..60 {
        for faults in [lossy, wild] {
            let (arrived, counters) = transfer(seed, |rig, a| {
                let link = rig.up(a);
                rig.net.set_faults(link, faults);
            });
            lost += counters.uc_messages_lost + counters.drop_uc_sequence;
            if faults.duplicate_ppm == 0 {
                assert!(arrived.is_sorted_by(|one, other| one < other), "seed {seed}: {arrived:?}");
            }
            assert!(arrived.len() > MESSAGES / 4, "seed {seed}: {arrived:?}");
        }
    }
    assert!(lost > 200, "{lost}: the network was to lose more");
}

/// A receiver, and what is sent to it by hand.
struct Bench {
    rig: Rig,
    b: Qp,
    /// What the peer may write.
    open: Region,
    /// What it may not.
    secret: Region,
    forger: Forger,
}

fn bench() -> Bench {
    let (mut rig, a, b) = Rig::pair(RigOptions::default(), options());
    let open = rig.region(b.node(), 1024);
    let pd = rig.pd(b.node());
    let secret = rig.region_with(b.node(), 1024, pd, Access::LOCAL_WRITE);
    let forger = Forger::new(&rig, a, b);
    Bench { rig, b, open, secret, forger }
}

impl Bench {
    /// A packet, `ahead` of the first PSN, of `len` bytes of `fill`.
    fn inject(&mut self, opcode: Opcode, ahead: u32, reth: Option<Reth>, len: usize, fill: u8) {
        let mut repr = self.repr(opcode, ahead);
        repr.reth = reth;
        self.send(&repr, &vec![fill; len]);
    }

    fn repr(&self, opcode: Opcode, ahead: u32) -> Repr {
        self.forger.repr(WireMode::Plain, opcode, Psn::new(PSN).add(ahead))
    }

    fn send(&mut self, repr: &Repr, payload: &[u8]) {
        let frame = self.forger.frame(repr, payload);
        self.rig.net.deliver(self.rig.now(), self.b.node(), frame);
        self.rig.run_for(2000);
    }

    fn counters(&self) -> &Counters {
        self.rig.counters(self.b)
    }

    /// Receives that completed, by their bytes.
    fn received(&self) -> Vec<u32> {
        self.rig.recvs(self.b).iter().map(|done| done.byte_len).collect()
    }
}

use Opcode::{UcSendFirst, UcSendLast, UcSendMiddle, UcSendOnly, UcWriteFirst, UcWriteLast, UcWriteOnly};

/// Packets as (opcode, PSN from the first on, bytes), and the lengths of the messages that they
/// make.
type Case = (&'static str, &'static [(Opcode, u32, usize)], &'static [u32]);

const CASES: &[Case] = &[
    ("in order", &[(UcSendFirst, 0, 256), (UcSendMiddle, 1, 256), (UcSendLast, 2, 10)], &[522]),
    ("a hole", &[(UcSendFirst, 0, 256), (UcSendLast, 2, 10), (UcSendOnly, 3, 7)], &[7]),
    ("late", &[(UcSendFirst, 0, 256), (UcSendLast, 2, 10), (UcSendMiddle, 1, 256), (UcSendLast, 2, 9)], &[]),
    (
        "the end of another message",
        &[(UcSendFirst, 0, 256), (UcSendFirst, 1, 256), (UcSendLast, 2, 1)],
        &[257],
    ),
    ("no beginning", &[(UcSendMiddle, 0, 256), (UcSendLast, 1, 10), (UcSendOnly, 99, 3)], &[3]),
    ("any PSN begins", &[(UcSendFirst, 77, 256), (UcSendLast, 78, 1), (UcSendOnly, 5, 2)], &[257, 2]),
    ("a short FIRST", &[(UcSendFirst, 0, 252), (UcSendLast, 1, 10)], &[]),
    ("a long ONLY", &[(UcSendOnly, 0, 257), (UcSendOnly, 1, 256)], &[256]),
    ("an empty LAST", &[(UcSendFirst, 0, 256), (UcSendLast, 1, 0), (UcSendLast, 1, 1)], &[]),
    ("another kind", &[(UcSendFirst, 0, 256), (UcWriteLast, 1, 10), (UcSendLast, 1, 10)], &[]),
    (
        "more than the receive holds",
        &[(UcSendFirst, 0, 256), (UcSendMiddle, 1, 256), (UcSendLast, 2, 89), (UcSendOnly, 3, 5)],
        &[5],
    ),
    (
        "as much as the receive holds",
        &[(UcSendFirst, 0, 256), (UcSendMiddle, 1, 256), (UcSendLast, 2, 88)],
        &[600],
    ),
];

#[test]
fn a_message_is_what_its_packets_make() {
    for (what, packets, lengths) in CASES {
        let mut bench = bench();
        let buffer = bench.rig.region(bench.b.node(), 1200);
        for offset in [0, 600] {
            bench.rig.post_recv(bench.b, buffer.at(offset, 600));
        }
        for (opcode, ahead, len) in *packets {
            bench.inject(*opcode, *ahead, None, *len, 0x5A);
        }
        assert_eq!(bench.received(), *lengths, "{what}: {:?}", bench.counters());
        assert!(bench.rig.recvs(bench.b).iter().all(|done| done.status == WcStatus::Success), "{what}");
        let dropped = bench.counters().drop_uc_sequence + bench.counters().drop_receive_too_short;
        let taken = bench.counters().rx_unreliable;
        assert_eq!(dropped + taken, packets.len() as u64, "{what}: each packet is counted once");
        assert_eq!(bench.rig.state(bench.b), QpState::Rts, "{what}: nothing of it ends the queue pair");
        bench.rig.verify_guards();
    }
}

#[test]
fn a_write_goes_where_it_may_or_nowhere() {
    type Target = fn(&Bench) -> Reth;
    let cases: [(&str, Target); 8] = [
        ("behind the region", |bench| Reth { va: bench.open.iova + 800, rkey: bench.open.key, dma_len: 300 }),
        ("before the region", |bench| Reth { va: bench.open.iova - 1, rkey: bench.open.key, dma_len: 300 }),
        ("another key", |bench| Reth { va: bench.open.iova, rkey: bench.open.key ^ 1, dma_len: 300 }),
        ("no right", |bench| Reth { va: bench.secret.iova, rkey: bench.secret.key, dma_len: 300 }),
        ("around the end", |bench| Reth { va: u64::MAX - 100, rkey: bench.open.key, dma_len: 300 }),
        ("too long", |bench| Reth { va: bench.open.iova, rkey: bench.open.key, dma_len: u32::MAX }),
        ("longer than it is", |bench| Reth { va: bench.open.iova, rkey: bench.open.key, dma_len: 301 }),
        ("shorter than it is", |bench| Reth { va: bench.open.iova, rkey: bench.open.key, dma_len: 200 }),
    ];
    for (what, target) in cases {
        let mut bench = bench();
        let reth = target(&bench);
        bench.inject(UcWriteFirst, 0, Some(reth), 256, 0x5A);
        bench.inject(UcWriteLast, 1, None, 44, 0x5A);
        let counters = *bench.counters();
        assert_eq!(counters.drop_uc_access, 1, "{what}: {counters:?}");
        // The first packet of one that is longer than it is may have been placed: it was granted.
        if what != "longer than it is" {
            bench.rig.verify_untouched(bench.open.all());
        }
        bench.rig.verify_untouched(bench.secret.all());
        bench.rig.verify_guards();
        let good = Reth { va: bench.open.iova + 700, rkey: bench.open.key, dma_len: 300 };
        bench.inject(UcWriteFirst, 2, Some(good), 256, 0xA5);
        bench.inject(UcWriteLast, 3, None, 44, 0xA5);
        assert_eq!(bench.rig.bytes(bench.open.at(700, 300)), [0xA5; 300], "{what}: the next one arrives");
    }
}

#[test]
fn a_region_that_ends_in_the_middle_of_a_message_is_written_no_more() {
    let mut bench = bench();
    let open = bench.open;
    let reth = Reth { va: open.iova, rkey: open.key, dma_len: 300 };
    bench.inject(UcWriteFirst, 0, Some(reth), 256, 0x5A);
    assert!(bench.rig.deregister(open));
    bench.inject(UcWriteLast, 1, None, 44, 0x5A);
    assert_eq!(bench.rig.bytes(open.at(256, 44)), [0; 44]);
    assert_eq!((bench.counters().drop_uc_access, bench.counters().uc_messages_lost), (1, 1));
}

#[test]
fn a_write_with_immediate_without_a_receive_is_not_written() {
    let mut bench = bench();
    let open = bench.open;
    let reth = Reth { va: open.iova, rkey: open.key, dma_len: 8 };
    bench.inject(Opcode::UcWriteOnlyImm, 0, Some(reth), 8, 0x5A);
    assert_eq!(bench.counters().drop_no_receive, 1);
    bench.rig.verify_untouched(open.all());
    bench.rig.post_recv(bench.b, open.at(0, 0));
    bench.inject(Opcode::UcWriteOnlyImm, 1, Some(reth), 8, 0x5A);
    assert_eq!((bench.received(), bench.rig.bytes(open.at(0, 8))), (vec![8], vec![0x5A; 8]));
    bench.inject(UcWriteOnly, 2, Some(Reth { va: 0, rkey: 0, dma_len: 0 }), 0, 0);
    assert_eq!(bench.counters().drop_uc_access, 0, "with no bytes nothing is checked");
}

#[test]
fn packets_of_other_services_are_none_of_its() {
    let mut bench = bench();
    bench.inject(Opcode::RcSendOnly, 0, None, 8, 1);
    bench.inject(Opcode::UdSendOnly, 0, None, 8, 1);
    bench.inject(Opcode::RcAck, 0, None, 0, 1);
    let repr = bench.forger.repr(WireMode::Srnic, Opcode::RcSendOnly, Psn::new(PSN));
    bench.send(&repr, &[1; 8]);
    assert_eq!((bench.counters().drop_opcode_class, bench.counters().drop_wire_mode), (3, 1));
    assert_eq!(bench.counters().rx_unreliable, 0);
}

#[test]
fn a_request_that_cannot_be_sent_stops_sends_and_nothing_else() {
    let (mut rig, a, b) = Rig::pair(RigOptions::default(), options());
    let (source, target) = (rig.region(a.node(), 4096), rig.region(b.node(), 4096));
    rig.fill(source.all(), 5);
    let error = rig.try_post(a, &Work::read(source.at(0, 8), target.at(0, 8))).expect_err("UC reads nothing");
    assert!(matches!(error, PostError::WrongService { qp_type: QpType::Uc, .. }), "{error}");
    rig.post(a, &Work::write(source.all(), target.all()).wr_id(1));
    rig.post(a, &Work::write(source.all(), target.all()).lkey(source.key ^ 1).wr_id(2));
    rig.post(a, &Work::write(source.all(), target.all()).wr_id(3).unsignaled());
    rig.run_until_quiet(LIMIT_NS).unwrap();
    let ended: Vec<_> = rig.sends(a).iter().map(|done| (done.wr_id, done.status)).collect();
    assert_eq!(ended, [(1, WcStatus::Success), (2, WcStatus::LocProtErr), (3, WcStatus::WrFlushErr)]);
    assert_eq!((rig.state(a), rig.state(b)), (QpState::Sqe, QpState::Rts));
    rig.verify(target.all(), 5);
    // It still receives.
    rig.post_recv(a, source.at(0, 8));
    rig.post(b, &Work::send_inline(b"hello"));
    rig.run_until_quiet(LIMIT_NS).unwrap();
    assert_eq!((rig.recvs(a).len(), rig.bytes(source.at(0, 5))), (1, b"hello".to_vec()));
    rig.to_state(a, QpState::Rts);
    rig.post(a, &Work::write(source.at(0, 5), target.at(0, 5)).wr_id(4));
    rig.run_until_quiet(LIMIT_NS).unwrap();
    assert_eq!((rig.sends(a)[3].wr_id, rig.sends(a)[3].status), (4, WcStatus::Success));
    assert_eq!(rig.bytes(target.at(0, 5)), b"hello");
}

#[test]
fn a_queue_that_drains_finishes_what_it_began() {
    let (mut rig, a, b) = Rig::pair(RigOptions::default(), options());
    let (source, target) = (rig.region(a.node(), 64 * 1024), rig.region(b.node(), 64 * 1024));
    rig.fill(source.all(), 6);
    for wr_id in [1, 2] {
        rig.post(a, &Work::write(source.all(), target.all()).wr_id(wr_id));
    }
    rig.turn(a.node());
    rig.to_state(a, QpState::Sqd);
    assert!(rig.sends(a).is_empty() && rig.events(a.node()).is_empty(), "it is in the middle of the first");
    rig.run_until_quiet(LIMIT_NS).unwrap();
    assert_eq!(rig.events(a.node()), [AsyncEvent::SqDrained { qpn: rig.qpn(a) }]);
    assert_eq!(rig.sends(a).len(), 1, "the second has not begun");
    rig.to_state(a, QpState::Rts);
    rig.run_until_quiet(LIMIT_NS).unwrap();
    assert_eq!(rig.sends(a).len(), 2);
    rig.verify(target.all(), 6);
    assert_eq!(rig.bytes(target.at(0, 64)), pattern(6, 64));
    assert_eq!(rig.counters(a).tx_unreliable, 512);
}

/// The last of several datagrams or UC messages of one turn finds the completion queue full. Those
/// before it are done, and their completions were written: the program must see them.
#[test]
fn completions_written_before_an_overflow_are_shown() {
    let options = QpOptions { qp_type: QpType::Uc, cq_entries: 4, ..QpOptions::default() };
    let (mut rig, a, b) = Rig::pair(RigOptions::default(), options);
    let (local, remote) = (rig.region(a.node(), 100), rig.region(b.node(), 100));
    rig.set_auto_poll(false);
    let batch: Vec<_> = (0..5).map(|_| Work::write(local.at(0, 10), remote.at(0, 10))).collect();
    assert_eq!(rig.post_batch(a, &batch).0, 5);
    rig.run_for(1_000_000);
    rig.poll();
    assert_eq!(rig.events(a.node()).len(), 2, "{:?}", rig.events(a.node()));
    assert_eq!(rig.state(a), QpState::Err);
    assert_eq!(rig.sends(a).len(), 4, "as many as the queue holds");
}
