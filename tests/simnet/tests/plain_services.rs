//! Wire mode Plain: shared receive queues, memory windows, credits, implied NAKs and responder
//! resources.

use datapath::memory::{Access, MemoryKey, WindowType};
use datapath::qp::attr::RecoveryPolicy;
use datapath::qp::state::QpState;
use datapath::queue::{SrqCaps, WcFlags, WcStatus};
use simnet::filter::{drop_all, drop_numbers};
use simnet::{Forger, Qp, QpOptions, Rig, RigOptions, Span, Work};
use std::cell::RefCell;
use std::rc::Rc;
use wire::{Aeth, Kind, NakCode, Opcode, Pmtu, Psn, Reth, Syndrome, WireMode};

const LIMIT_NS: u64 = 1_000_000_000;
const PSN: u32 = 0xFF_FFFA;

fn plain() -> QpOptions {
    QpOptions {
        pmtu: Pmtu::B256,
        sq_psn: PSN,
        wire_mode: WireMode::Plain,
        recovery: RecoveryPolicy::GoBackN,
        ..QpOptions::default()
    }
}

#[test]
fn receives_of_a_shared_queue_are_taken_in_turn_and_waited_for() {
    let mut rig = Rig::new(RigOptions::default());
    let (client, server) = (rig.add_node(), rig.add_node());
    let srq = rig.create_srq(server, SrqCaps { max_wr: 16, max_sge: 2 });
    let pairs = [(); 2].map(|()| {
        let sender = rig.create_qp(client, plain());
        let receiver = rig.create_qp(server, QpOptions { srq: Some(srq), ..plain() });
        rig.connect(sender, receiver);
        (sender, receiver)
    });
    let (source, target) = (rig.region(client, 1000), rig.region(server, 8 * 1000));
    rig.fill(source.all(), 4);
    let receive = |rig: &mut Rig, number: usize| {
        rig.post_srq(srq, number as u64, &[target.at(1000 * number, 1000)]).unwrap();
    };
    (0..3).for_each(|number| receive(&mut rig, number));
    // Each loses a packet of its second message.
    rig.net.set_filter(rig.up(pairs[0].0), drop_numbers([5, 11], |_| true));
    for _ in 0..4 {
        for (sender, _) in pairs {
            rig.send(sender, source.all());
        }
    }
    let received = |rig: &Rig| pairs.iter().map(|(_, qp)| rig.recvs(*qp).len()).sum::<usize>();
    rig.run_until(|rig| received(rig) == 3, LIMIT_NS).unwrap();
    rig.run_for(100_000);
    assert_eq!(received(&rig), 3, "there are no more");
    let naks: u64 = pairs.iter().map(|(sender, _)| rig.counters(*sender).rx_rnr_naks).max().unwrap();
    assert!(naks > 0, "the others are told to wait");
    (3..8).for_each(|number| receive(&mut rig, number));
    rig.run_until(|rig| received(rig) == 8, LIMIT_NS).unwrap();
    for (sender, receiver) in pairs {
        rig.run_until(|rig| rig.sends(sender).len() == 4, LIMIT_NS).unwrap();
        assert!(
            rig.recvs(receiver).iter().all(|done| done.status == WcStatus::Success && done.byte_len == 1000)
        );
    }
    (0..8).for_each(|number| rig.verify(target.at(1000 * number, 1000), 4));
}

/// Binds `b`'s window to `part` under the next key.
fn bind(rig: &mut Rig, b: Qp, window: &mut MemoryKey, part: Span) -> u32 {
    let new_key = window.0 & !0xFF | (window.0 + 1) & 0xFF;
    let before = rig.sends(b).len();
    rig.post(b, &Work::bind(window.0, new_key, part, Access::REMOTE_WRITE | Access::REMOTE_READ));
    rig.run_until(|rig| rig.sends(b).len() > before, LIMIT_NS).unwrap();
    assert_eq!(rig.sends(b)[before].status, WcStatus::Success);
    *window = MemoryKey(new_key);
    new_key
}

/// The SEND that ends a window does so once: a copy that comes when the window is bound anew leaves
/// it alone.
#[test]
fn a_window_is_written_through_and_invalidated_once() {
    let (mut rig, a, b) = Rig::pair(RigOptions::default(), plain());
    let (source, inbox) = (rig.region(a.node(), 2000), rig.region(b.node(), 100));
    rig.fill(source.all(), 1);
    let pd = rig.pd(b.node());
    let shown = rig.region_with(b.node(), 4000, pd, Access::LOCAL_WRITE | Access::MW_BIND);
    let mut window =
        rig.engine_mut(b.node()).core_mut().memory_mut().allocate_window(pd, WindowType::Two).unwrap();
    let part = shown.at(500, 1000);
    let key = bind(&mut rig, b, &mut window, part);
    rig.post(a, &Work::write(source.at(0, 1000), part).to(part.addr(), key));
    rig.post(a, &Work::read(source.at(1000, 1000), part).to(part.addr(), key));
    rig.post_recv(b, inbox.all());
    // The acknowledgement of the SEND is lost, and so the SEND comes twice.
    rig.run_until(|rig| rig.sends(a).len() == 2, LIMIT_NS).unwrap();
    rig.net.set_filter(rig.up(b), drop_numbers([0], |_| true));
    rig.post(a, &Work::send(source.at(0, 100)).invalidating(key));
    rig.run_until(|rig| rig.recvs(b).len() == 1, LIMIT_NS).unwrap();
    let done = rig.recvs(b)[0];
    assert!(done.flags.contains(WcFlags::WITH_INV) && done.imm == key, "{done:?}");
    rig.verify(part, 1);
    rig.verify(source.at(1000, 1000), 1);
    let key = bind(&mut rig, b, &mut window, part);
    rig.run_until(|rig| rig.sends(a).len() == 3, LIMIT_NS).unwrap();
    assert!(rig.counters(b).rx_duplicates > 0, "it came again");
    rig.post(a, &Work::write(source.at(0, 10), part).to(part.addr(), key));
    rig.run_until(|rig| rig.sends(a).len() == 4, LIMIT_NS).unwrap();
    assert!(rig.sends(a).iter().all(|done| done.status == WcStatus::Success));
    // Invalidated, it is closed.
    rig.post_recv(b, inbox.all());
    rig.post(a, &Work::send(source.at(0, 100)).invalidating(key));
    rig.post(a, &Work::write(source.at(0, 10), part).to(part.addr(), key));
    rig.run_until(|rig| rig.sends(a).len() == 6, LIMIT_NS).unwrap();
    assert_eq!(rig.sends(a)[5].status, WcStatus::RemAccessErr);
}

/// A peer that claims to have no credits is sent to all the same, and ours claims nothing: 0x1f, no
/// information.
#[test]
fn credits_are_neither_given_nor_asked_for() {
    let (mut rig, a, b) = Rig::pair(RigOptions::default(), plain());
    let (source, target) = (rig.region(a.node(), 3000), rig.region(b.node(), 3000));
    let forger = Forger::new(&rig, b, a);
    let mut ack = forger.repr(WireMode::Plain, Opcode::RcAck, Psn::new(PSN).sub(1));
    ack.aeth = Some(Aeth { syndrome: Syndrome::Ack { credits: 0 }, msn: 0 });
    rig.net.set_filter(
        rig.up(b),
        drop_all(|passing| {
            let aeth = passing.packet.and_then(|packet| packet.aeth()).expect("an acknowledgement");
            assert_eq!(aeth.syndrome.to_u8(), 0x1F);
            false
        }),
    );
    for round in 1..=3 {
        rig.post_recv(b, target.all());
        rig.send(a, source.all());
        let now = rig.now();
        rig.net.deliver(now, a.node(), forger.frame(&ack, &[]));
        rig.run_until(|rig| rig.sends(a).len() == round, LIMIT_NS).unwrap();
        ack.bth.psn = last_psn_of(round);
    }
    assert!(rig.sends(a).iter().all(|done| done.status == WcStatus::Success));
    assert_eq!(rig.counters(a).tx_retransmits, 0);
}

/// PSN of the last packet of so many messages of twelve packets.
fn last_psn_of(messages: usize) -> Psn {
    Psn::new(PSN).add(12 * u32::try_from(messages).unwrap()).sub(1)
}

/// What lies behind a READ is acknowledged, so the READ or its response is lost: it goes again at
/// once, before any timer.
#[test]
fn an_acknowledgement_behind_a_read_is_its_nak() {
    for lost in [Kind::ReadRequest, Kind::ReadResponse] {
        let (mut rig, a, b) = Rig::pair(RigOptions::default(), plain());
        let (here, there) = (rig.region(a.node(), 1000), rig.region(b.node(), 1000));
        rig.fill(there.at(0, 600), 3);
        let from = if lost == Kind::ReadRequest { a } else { b };
        let link = rig.up(from);
        let of = move |passing: &simnet::Passing<'_>| {
            passing.packet.is_some_and(|packet| packet.opcode().kind() == lost)
        };
        rig.net.set_filter(link, drop_numbers([0, 1, 2], of));
        rig.post(a, &Work::read(here.at(0, 600), there.at(0, 600)));
        rig.post(a, &Work::write(here.at(600, 300), there.at(600, 300)));
        rig.run_until(|rig| rig.sends(a).len() == 2 || rig.counters(a).rto_fired > 0, LIMIT_NS).unwrap();
        if lost == Kind::ReadResponse {
            assert_eq!(rig.counters(a).rto_fired, 0, "the acknowledgement of the WRITE was enough");
        }
        rig.run_until(|rig| rig.sends(a).len() == 2, LIMIT_NS).unwrap();
        rig.verify(here.at(0, 600), 3);
    }
}

/// A peer may have as many READs and atomics under way as it was told; one more is an invalid
/// request. What is kept is answered again, whole or in part, and nothing beyond it.
#[test]
fn responder_resources_are_counted_and_replayed_within_their_range() {
    let options = QpOptions { max_dest_rd_atomic: 2, ..plain() };
    let (mut rig, a, b) = Rig::pair(RigOptions::default(), options);
    let memory = rig.region(b.node(), 8000);
    let forger = Forger::new(&rig, a, b);
    let said = Rc::new(RefCell::new(Vec::new()));
    let heard = Rc::clone(&said);
    let up = rig.up(b);
    rig.net.set_filter(
        up,
        drop_all(move |passing| {
            let packet = passing.packet.expect("a RoCE packet");
            let syndrome = packet.aeth().map(|aeth| aeth.syndrome);
            heard.borrow_mut().push((packet.opcode(), packet.psn(), syndrome));
            true
        }),
    );
    let psn = |index: u32| Psn::new(PSN).add(index);
    let read = |rig: &mut Rig, index: u32, at: u64, dma_len: u32| {
        let mut repr = forger.repr(WireMode::Plain, Opcode::RcReadRequest, psn(index));
        repr.reth = Some(Reth { va: memory.iova + at, rkey: memory.key, dma_len });
        let now = rig.now();
        rig.net.deliver(now, b.node(), forger.frame(&repr, &[]));
    };
    let answers = |rig: &mut Rig| {
        rig.run_for(30_000);
        said.borrow_mut().drain(..).map(|(_, psn, _)| psn).collect::<Vec<_>>()
    };
    read(&mut rig, 0, 0, 700);
    read(&mut rig, 3, 1000, 300);
    assert_eq!(answers(&mut rig), [0, 1, 2, 3, 4].map(psn));
    // From its second packet on; then more than it had, of other memory, and of what was never
    // asked for.
    read(&mut rig, 1, 256, 444);
    assert_eq!(answers(&mut rig), [1, 2].map(psn));
    let before = rig.counters(b).drop_unexpected_response;
    read(&mut rig, 1, 256, 445);
    read(&mut rig, 1, 300, 100);
    read(&mut rig, 4, 0, 10);
    assert_eq!(answers(&mut rig), []);
    assert_eq!(rig.counters(b).drop_unexpected_response, before + 3);
    // Two that are long enough to be unanswered when a third comes.
    read(&mut rig, 5, 0, 8000);
    read(&mut rig, 37, 0, 8000);
    read(&mut rig, 69, 0, 8000);
    rig.run_for(200_000);
    let last = said.borrow().last().copied();
    let refused = (Opcode::RcAck, psn(69), Some(Syndrome::Nak(NakCode::InvalidRequest)));
    assert_eq!(last, Some(refused), "behind all that was accepted");
    assert_eq!(rig.state(b), QpState::Err);
}
