//! Packets in the middle of a READ's response have the effect that they have where each is verified
//! before it is placed, as strict placement demands.

use crate::common::rig::{Options, Rig, write};
use crate::frames::{damage, mark, shorten};
use crate::scene::{Effect, L3, OPCODE, Scene, UNTOUCHED, forge};
use datapath::memory::Access;
use datapath::qp::attr::{QpAttr, WriteOrder};
use datapath::qp::state::QpState;
use datapath::queue::*;
use icrc::Kernel;
use proptest::collection::vec;
use proptest::prelude::*;
use std::ops::Range;
use wire::{Meta, Opcode, Packet, Pmtu, Ssn, Ssnw};

/// Bytes of the region for each READ: of the longest one, and some that nothing may be written to.
const PLACE: usize = 4096 + 512;
const READS: usize = 4;
const USED: usize = READS * PLACE;
/// A byte of the payload of a packet in the middle.
const IN_PAYLOAD: usize = 500;

#[derive(Clone, Copy, Debug)]
struct Read {
    len: u32,
    /// Into two elements that lie behind one another.
    split: bool,
}

#[derive(Clone, Copy, Debug)]
enum Fate {
    Arrives,
    /// These bits of this byte are others, and the ICRC does not hold.
    Damaged(usize, u8),
    /// These bits of this byte are others, and the ICRC holds.
    Forged(usize, u8),
    /// It has four bytes of payload fewer, and the ICRC holds.
    Short,
    /// It comes before the one that it follows.
    Early,
    /// It comes before the one that it follows, of which these bits of this byte are others.
    EarlyThenDamaged(usize, u8),
}

#[derive(Clone, Debug)]
struct Plan {
    pmtu: Pmtu,
    reads: Vec<Read>,
    /// Frames that come, in all and at a time.
    frames: usize,
    burst: usize,
    /// Of the last one.
    fate: Fate,
    /// Every frame from this one on is marked by a switch.
    marked_from: usize,
}

fn plan() -> impl Strategy<Value = Plan> {
    let len = prop_oneof![1 => 0..300_u32, 4 => 300..4096_u32, 2 => Just(2048), 2 => Just(4096)];
    let read = (len, prop::bool::weighted(0.2)).prop_map(|(len, split)| Read { len, split });
    let byte = || prop_oneof![3 => L3..90_usize, 1 => 0..1200_usize];
    let fate = prop_oneof![
        1 => Just(Fate::Arrives),
        1 => Just(Fate::Early),
        1 => Just(Fate::Short),
        1 => (byte(), 1..=255_u8).prop_map(|(at, bits)| Fate::EarlyThenDamaged(at, bits)),
        2 => (byte(), 1..=255_u8).prop_map(|(at, bits)| Fate::Damaged(at, bits)),
        2 => (byte(), 1..=255_u8).prop_map(|(at, bits)| Fate::Forged(at, bits)),
    ];
    let pmtu = prop_oneof![Just(Pmtu::B256), Just(Pmtu::B512), Just(Pmtu::B1024), Just(Pmtu::B1408)];
    (pmtu, vec(read, 1..READS), 1..40_usize, 1..20_usize, fate, 0..60_usize).prop_map(
        |(pmtu, reads, frames, burst, fate, marked_from)| Plan {
            pmtu,
            reads,
            frames,
            burst,
            fate,
            marked_from,
        },
    )
}

/// The reader has asked, and has got nothing yet.
fn scene(pmtu: Pmtu, reads: &[Read], order: WriteOrder) -> Scene {
    let options = Options::default();
    let access = options.attr.access_flags | Access::REMOTE_READ;
    let [max_rd_atomic, max_dest_rd_atomic] = [4; 2];
    let attr =
        QpAttr { path_mtu: pmtu, access_flags: access, max_rd_atomic, max_dest_rd_atomic, ..options.attr };
    let reader = Options { attr: QpAttr { write_order: order, ..attr }, ..options };
    let mut rig = Rig::new(1, 256);
    let handles = rig.connect_as([&Options { attr, ..options }, &reader]);
    let mut scene = Scene::new(rig, handles, USED);
    for (number, read) in (0..).zip(reads) {
        let at = number * PLACE as u64;
        let first = if read.split { read.len / 3 } else { 0 };
        let whole = [scene.rig.sides[1].sge(at, read.len)];
        let parts = [
            scene.rig.sides[1].sge(at, first),
            scene.rig.sides[1].sge(at + u64::from(first), read.len - first),
        ];
        let scatter = if read.split { &parts[..] } else { &whole[..] };
        let mut request = write(number, scatter, at, scene.rig.sides[0].key);
        request.opcode = SendOpcode::Read;
        scene.handles[1].send.post(&request).unwrap();
    }
    while scene.rig.sides[1].engine.turn(scene.rig.now).sent > 0 {}
    scene.rig.carry();
    scene.record()
}

/// The number of the last frame in the middle of a response.
fn last_middle(scene: &Scene) -> usize {
    scene.frames.iter().rposition(|frame| is_middle(frame)).expect("there is one")
}

fn is_middle(frame: &[u8]) -> bool {
    frame[OPCODE] == Opcode::RcReadResponseMiddle as u8
}

/// A response, or an acknowledgement.
fn is_answer(opcode: u8) -> bool {
    (Opcode::RcReadResponseFirst as u8..=Opcode::RcAtomicAck as u8).contains(&opcode)
}

/// Where the payload of each frame goes that is in the middle of a response.
fn places(plan: &Plan, frames: &[Vec<u8>]) -> Vec<Option<Range<usize>>> {
    let pmtu = plan.pmtu.bytes() as usize;
    let mut of_middles = plan.reads.iter().enumerate().flat_map(|(number, read)| {
        let packets = (read.len as usize).div_ceil(pmtu).max(1);
        (1..packets.saturating_sub(1)).map(move |index| {
            let start = number * PLACE + index * pmtu;
            start..start + pmtu
        })
    });
    frames.iter().map(|frame| is_middle(frame).then(|| of_middles.next().expect("as many"))).collect()
}

/// What the reader did, and where the payload of the last frame goes if that is in the middle of a
/// response.
fn play(plan: &Plan, order: WriteOrder) -> (Effect, Option<Range<usize>>) {
    let mut scene = scene(plan.pmtu, &plan.reads, order);
    let mut frames = std::mem::take(&mut scene.frames);
    frames.truncate(plan.frames);
    let place = places(plan, &frames).pop().flatten();
    frames.iter_mut().skip(plan.marked_from).for_each(|frame| mark(frame));
    let count = frames.len();
    if matches!(plan.fate, Fate::Early | Fate::EarlyThenDamaged(..)) && count > 1 {
        frames.swap(count - 2, count - 1);
    }
    let last = frames.last_mut().expect("each READ is answered");
    match plan.fate {
        Fate::Arrives | Fate::Early => {}
        Fate::EarlyThenDamaged(at, bits) if count > 1 => damage(last, at, bits),
        Fate::EarlyThenDamaged(..) => {}
        Fate::Short if last.len() > L3 + 100 => shorten(last),
        Fate::Short => {}
        Fate::Damaged(at, bits) => damage(last, at, bits),
        // Of requests out of order strict placement takes nothing.
        Fate::Forged(at, bits) if at % last.len() == OPCODE && !is_answer(last[OPCODE] ^ bits) => {}
        Fate::Forged(at, bits) => forge(last, at, bits),
    }
    for burst in frames.chunks(plan.burst) {
        scene.receive(burst);
    }
    (scene.effect(), place)
}

/// Plays it with and without strict placement, and compares.
fn check(plan: &Plan) {
    let (mut fused, place) = play(plan, WriteOrder::empty());
    let (strict, _) = play(plan, WriteOrder::STRICT_PLACEMENT);
    if let (Fate::Damaged(..), Some(place)) = (plan.fate, place) {
        fused.memory[place.clone()].copy_from_slice(&strict.memory[place]);
    }
    assert_eq!(fused.counters, strict.counters, "{plan:?}");
    assert_eq!(fused.completions, strict.completions, "{plan:?}");
    assert_eq!(fused.sent, strict.sent, "{plan:?}");
    assert!(fused.memory == strict.memory, "other bytes in memory: {plan:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn they_have_the_effect_that_they_have_verified_first(plan in plan()) {
        check(&plan);
    }
}

/// Position, request and slot are right in each packet, also of those that are sent in a run.
#[test]
fn each_packet_of_a_response_says_where_it_belongs() {
    let reads = [4000, 256, 2048, 300].map(|len| Read { len, split: false });
    let scene = scene(Pmtu::B256, &reads, WriteOrder::empty());
    let is_response = |frame: &&Vec<u8>| is_answer(frame[OPCODE]) && frame[OPCODE] != Opcode::RcAck as u8;
    let frames = scene.frames.iter().filter(is_response).map(|frame| {
        let packet = Packet::parse(&frame[OPCODE..]).expect("a packet");
        (packet.opcode(), packet.psn(), packet.meta().expect("a META"), packet.ssnw().expect("an SSNW"))
    });
    let mut frames = frames.peekable();
    let mut psn = frames.peek().expect("an answer").1;
    let first_msn = frames.peek().expect("an answer").2.msn;
    for (number, read) in (0_u32..).zip(reads) {
        let packets = read.len.div_ceil(256);
        for index in 0..packets {
            let expected = match (index, index + 1 == packets) {
                (0, true) => Opcode::RcReadResponseOnly,
                (0, false) => Opcode::RcReadResponseFirst,
                (_, false) => Opcode::RcReadResponseMiddle,
                (_, true) => Opcode::RcReadResponseLast,
            };
            let (opcode, at, meta, ssnw) = frames.next().expect("a packet more");
            assert_eq!((opcode, at), (expected, psn), "READ {number}, packet {index}");
            let msn = first_msn.add(number);
            assert_eq!((meta, ssnw), (Meta::of(msn, index), Ssnw::of(index, Ssn::new(number))));
            psn = psn.next();
        }
    }
    assert_eq!(frames.next(), None);
}

/// The opcode, the flags and the pad, and each byte behind them, of each packet of a response.
#[test]
fn a_packet_with_any_other_header_is_not_the_next() {
    let reads = vec![Read { len: 4096, split: false }];
    for frames in 2..=5 {
        let opcodes = (1..0x20).map(|bits| (OPCODE, bits));
        let flags = (0..8).map(|bit| (OPCODE + 1, 1 << bit));
        for (at, bits) in opcodes.chain(flags).chain((OPCODE + 2..70).map(|at| (at, 1))) {
            for fate in [Fate::Forged(at, bits), Fate::Damaged(at, bits)] {
                let reads = reads.clone();
                check(&Plan { pmtu: Pmtu::B1024, reads, frames, burst: frames, fate, marked_from: 9 });
            }
        }
    }
}

/// The packet that is missing is verified before it is placed.
#[test]
fn in_recovery_nothing_damaged_is_placed() {
    let (reads, fate) = (vec![Read { len: 4096, split: false }], Fate::EarlyThenDamaged(IN_PAYLOAD, 1));
    for frames in 2..=5 {
        let reads = reads.clone();
        check(&Plan { pmtu: Pmtu::B1024, reads, frames, burst: 1, fate, marked_from: 9 });
    }
}

/// Four packets, of which the third comes damaged.
fn damaged(order: WriteOrder) -> Scene {
    let mut scene = scene(Pmtu::B1024, &[Read { len: 4096, split: false }], order);
    let third = last_middle(&scene);
    let before = scene.frames[..third].to_vec();
    scene.receive(&before);
    let mut damaged = scene.frames[third].clone();
    damage(&mut damaged, IN_PAYLOAD, 1);
    scene.receive([&damaged]);
    assert_eq!((scene.counters().rx_responses, scene.counters().drop_icrc), (2, 1));
    scene
}

/// Returns `true` if the third of four packets lies in its place.
fn is_written(scene: &Scene) -> bool {
    scene.memory()[2048..3072] != [UNTOUCHED; 1024]
}

#[test]
fn what_is_damaged_lies_where_it_will_lie_when_it_was_sent_again_and_nowhere_else() {
    let mut scene = damaged(WriteOrder::empty());
    assert_eq!(is_written(&scene), Kernel::detected() != Kernel::PORTABLE, "in the pass that verifies");
    assert!(scene.memory()[3072..].iter().all(|byte| *byte == UNTOUCHED), "written behind it");
    assert!(scene.rig.sides[1].cq.poll().is_none(), "complete without it");
    let rest = scene.frames[last_middle(&scene)..].to_vec();
    scene.receive(&rest);
    let pattern: Vec<u8> = (0..251).cycle().take(4096).collect();
    assert!(scene.memory()[..4096] == pattern);
    assert_eq!(scene.rig.sides[1].cq.poll().map(|done| done.status), Some(WcStatus::Success));
}

#[test]
fn nothing_that_was_not_verified_is_written_where_it_may_not_be() {
    assert!(!is_written(&damaged(WriteOrder::STRICT_PLACEMENT)), "strict placement");
    let mut ended = scene(Pmtu::B1024, &[Read { len: 4096, split: false }], WriteOrder::empty());
    let frames = ended.frames.clone();
    ended.rig.sides[1].force(ended.handles[1].qpn, QpState::Err);
    ended.receive(&frames);
    assert!(ended.memory().iter().all(|byte| *byte == UNTOUCHED), "a queue pair in ERR");
}

/// A key that has ended meanwhile fails the READ, as it does where each packet is verified first.
#[test]
fn a_key_that_has_ended_in_between_is_refused() {
    let mut scene = scene(Pmtu::B1024, &[Read { len: 4096, split: false }], WriteOrder::empty());
    let (frames, third) = (scene.frames.clone(), last_middle(&scene));
    scene.receive(&frames[..third]);
    let reader = &mut scene.rig.sides[1];
    assert!(reader.engine.core_mut().memory_mut().deregister(reader.key));
    scene.receive(&frames[third..]);
    assert_eq!(scene.rig.sides[1].cq.poll().map(|done| done.status), Some(WcStatus::LocProtErr));
}
