//! Packets in the middle of a message have the effect that they have where each is verified before
//! it is placed, as strict placement demands.

use crate::common::rig::{Options, Rig, write};
use crate::frames::{damage, mark};
use crate::scene::{Effect, L3, OPCODE, Scene, UNTOUCHED, forge};
use datapath::memory::Access;
use datapath::qp::attr::{QpAttr, QpAttrMask, WriteOrder};
use datapath::qp::state::QpState;
use datapath::queue::*;
use icrc::Kernel;
use proptest::collection::vec;
use proptest::prelude::*;
use wire::Pmtu;

/// Bytes of the region for each message: of the longest one, and some that nothing may be written
/// to.
const PLACE: usize = 4096 + 512;
const MESSAGES: usize = 6;
const USED: usize = MESSAGES * PLACE;
/// Of a frame: the PSN, and the first byte of the payload of a SEND's packet.
const PSN: std::ops::Range<usize> = 51..54;
const SEND_PAYLOAD: usize = 62;

#[derive(Clone, Debug)]
struct Message {
    opcode: SendOpcode,
    len: u32,
    solicited: bool,
    /// Bytes that its receive lacks.
    lacks: u32,
}

#[derive(Clone, Copy, Debug)]
enum Fate {
    Arrives,
    /// These bits of this byte are others, and the ICRC does not hold.
    Damaged(usize, u8),
    /// These bits of this byte are others, and the ICRC holds.
    Forged(usize, u8),
}

#[derive(Clone, Debug)]
struct Plan {
    pmtu: Pmtu,
    messages: Vec<Message>,
    /// Frames that come, in all and at a time.
    frames: usize,
    burst: usize,
    /// Of the last one.
    fate: Fate,
    /// Every frame from this one on is marked by a switch.
    marked_from: usize,
}

fn plan() -> impl Strategy<Value = Plan> {
    let opcode = prop_oneof![Just(SendOpcode::Write), Just(SendOpcode::Send)];
    let len = prop_oneof![1 => 0..300_u32, 4 => 300..4096_u32, 2 => Just(2048), 2 => Just(4096)];
    let lacks = prop_oneof![9 => Just(0), 1 => 1..2000_u32];
    let message = (opcode, len, any::<bool>(), lacks).prop_map(|(opcode, len, solicited, lacks)| Message {
        opcode,
        len,
        solicited,
        lacks,
    });
    let byte = || prop_oneof![3 => L3..90_usize, 1 => 0..1200_usize];
    let fate = prop_oneof![
        1 => Just(Fate::Arrives),
        1 => (byte(), 1..=255_u8).prop_map(|(at, bits)| Fate::Damaged(at, bits)),
        2 => (byte(), 1..=255_u8).prop_map(|(at, bits)| Fate::Forged(at, bits)),
    ];
    let pmtu = prop_oneof![Just(Pmtu::B256), Just(Pmtu::B512), Just(Pmtu::B1024), Just(Pmtu::B1408)];
    (pmtu, vec(message, 1..MESSAGES), 1..60_usize, 1..20_usize, fate, 0..60_usize).prop_map(
        |(pmtu, messages, frames, burst, fate, marked_from)| Plan {
            pmtu,
            messages,
            frames,
            burst,
            fate,
            marked_from,
        },
    )
}

/// The receiver has got nothing yet.
fn scene(pmtu: Pmtu, messages: &[Message], order: WriteOrder) -> Scene {
    let options = Options::default();
    let attr = QpAttr { path_mtu: pmtu, ..options.attr };
    let receiver = Options { attr: QpAttr { write_order: order, ..attr }, ..options };
    let mut rig = Rig::new(1, 256);
    let handles = rig.connect_as([&Options { attr, ..options }, &receiver]);
    let mut scene = Scene::new(rig, handles, USED);
    for (number, message) in (0..).zip(messages) {
        let at = number * PLACE as u64;
        if message.opcode == SendOpcode::Send {
            let scatter = [scene.rig.sides[1].sge(at, 4096_u32.saturating_sub(message.lacks))];
            scene.handles[1].recv.post(&RecvRequest { wr_id: number, scatter: &scatter }).unwrap();
        }
        let gather = [scene.rig.sides[0].sge(at, message.len)];
        let mut request = write(number, &gather, at, scene.rig.sides[1].key);
        request.opcode = message.opcode;
        request.flags.set(SendFlags::SOLICITED, message.solicited);
        scene.handles[0].send.post(&request).unwrap();
    }
    scene.record()
}

fn play(plan: &Plan, order: WriteOrder) -> Effect {
    let mut scene = scene(plan.pmtu, &plan.messages, order);
    let mut frames = std::mem::take(&mut scene.frames);
    frames.truncate(plan.frames);
    frames.iter_mut().skip(plan.marked_from).for_each(|frame| mark(frame));
    let last = frames.last_mut().expect("each message has a packet");
    match plan.fate {
        Fate::Arrives => {}
        Fate::Damaged(at, bits) => damage(last, at, bits),
        // Out of order strict placement takes nothing.
        Fate::Forged(at, _) if PSN.contains(&(at % last.len())) => {}
        Fate::Forged(at, bits) => forge(last, at, bits),
    }
    for burst in frames.chunks(plan.burst) {
        scene.receive(burst);
    }
    scene.effect()
}

/// Plays it with and without strict placement, and compares.
fn check(plan: &Plan) -> Result<(), TestCaseError> {
    let mut fused = play(plan, WriteOrder::empty());
    let strict = play(plan, WriteOrder::STRICT_PLACEMENT);
    if matches!(plan.fate, Fate::Damaged(..)) {
        let place = place_of_last(plan);
        fused.memory[place.clone()].copy_from_slice(&strict.memory[place]);
    }
    prop_assert_eq!(&fused.counters, &strict.counters);
    prop_assert_eq!(&fused.completions, &strict.completions);
    prop_assert_eq!(&fused.sent, &strict.sent);
    prop_assert!(fused.memory == strict.memory, "other bytes in memory");
    Ok(())
}

/// Where the payload of a frame that is damaged may have been written.
fn place_of_last(plan: &Plan) -> std::ops::Range<usize> {
    let pmtu = plan.pmtu.bytes() as usize;
    let mut left = plan.frames;
    for (number, message) in plan.messages.iter().enumerate() {
        let packets = (message.len as usize).div_ceil(pmtu).max(1);
        if left <= packets || number + 1 == plan.messages.len() {
            let index = left.min(packets) - 1;
            // The middle of a message is whole packets, and so may be what the damage makes one of.
            let is_middle = (1..packets - 1).contains(&index);
            let seems_so = index > 0 && matches!(plan.fate, Fate::Damaged(OPCODE, _));
            let start = number * PLACE + index * pmtu;
            return start..start + if is_middle || seems_so { pmtu } else { 0 };
        }
        left -= packets;
    }
    0..0
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn they_have_the_effect_that_they_have_verified_first(plan in plan()) {
        check(&plan)?;
    }
}

fn one(opcode: SendOpcode) -> [Message; 1] {
    [Message { opcode, len: 4096, solicited: false, lacks: 0 }]
}

/// Four packets, of which the third comes damaged at first.
fn damaged_in_the_middle(opcode: SendOpcode, order: WriteOrder) -> Scene {
    let mut scene = scene(Pmtu::B1024, &one(opcode), order);
    let mut frames = scene.frames.clone();
    assert_eq!(frames.len(), 4);
    damage(&mut frames[2], SEND_PAYLOAD + 500, 1);
    scene.receive(&frames[..3]);
    assert_eq!((scene.counters().rx_in_order, scene.counters().drop_icrc), (2, 1), "{opcode:?}");
    scene
}

/// Four packets, of which so many come in one burst.
fn check_four(opcode: SendOpcode, frames: usize, (at, bits): (usize, u8)) {
    for fate in [Fate::Forged(at, bits), Fate::Damaged(at, bits)] {
        let messages = one(opcode).to_vec();
        let plan = Plan { pmtu: Pmtu::B1024, messages, frames, burst: frames, fate, marked_from: 9 };
        check(&plan).unwrap_or_else(|error| panic!("{plan:?}: {error}"));
    }
}

#[test]
fn a_middle_with_any_other_byte_is_not_the_next() {
    for opcode in [SendOpcode::Write, SendOpcode::Send] {
        for at in L3..SEND_PAYLOAD + 16 {
            check_four(opcode, 3, (at, 1));
        }
    }
}

#[test]
fn a_middle_as_the_end_and_an_end_in_the_middle_are_none() {
    for opcode in [SendOpcode::Write, SendOpcode::Send] {
        for bits in 1..0x20 {
            [3, 4].into_iter().for_each(|frames| check_four(opcode, frames, (OPCODE, bits)));
        }
    }
}

/// A burst in which one is damaged, and then all from it on once more.
#[test]
fn a_run_that_a_damaged_packet_ends_goes_on_when_it_comes_again() {
    for opcode in [SendOpcode::Write, SendOpcode::Send] {
        for damaged in 0..8 {
            let messages = [one(opcode), one(opcode)].concat();
            let mut scene = scene(Pmtu::B1024, &messages, WriteOrder::empty());
            let frames = scene.frames.clone();
            let mut burst = frames.clone();
            damage(&mut burst[damaged], SEND_PAYLOAD + 900, 4);
            scene.receive(&burst);
            scene.receive([]);
            scene.receive(&frames[damaged..]);
            scene.receive([]);
            let (memory, counters) = (scene.memory(), scene.counters());
            let pattern: Vec<u8> = (0..251).cycle().take(USED).collect();
            for place in [0, PLACE] {
                assert!(memory[place..place + 4096] == pattern[place..place + 4096], "{opcode:?}, {damaged}");
                assert!(memory[place + 4096..place + PLACE].iter().all(|byte| *byte == UNTOUCHED));
            }
            let taken = counters.rx_in_order + counters.rx_out_of_order;
            assert_eq!((taken, counters.drop_icrc), (8, 1), "{opcode:?}, {damaged}");
        }
    }
}

/// What was expected before a loss is not expected behind it.
#[test]
fn nothing_damaged_is_written_where_an_earlier_packet_was() {
    let long = Message { opcode: SendOpcode::Write, len: 4096, solicited: false, lacks: 0 };
    let mut scene = scene(Pmtu::B512, &[long], WriteOrder::empty());
    let frames = scene.frames.clone();
    for burst in [&frames[..2], &frames[3..4], &frames[2..3]] {
        scene.receive(burst);
    }
    // The slow path says in the next turn that nothing is missing any more.
    scene.receive([]);
    let before = scene.memory();
    let mut stale = frames[4].clone();
    stale[54..70].copy_from_slice(&frames[2][54..70]);
    damage(&mut stale, 500, 1);
    scene.receive([&stale]);
    assert_eq!(scene.counters().drop_icrc, 1);
    assert!(scene.memory() == before, "written where the third packet is");
    scene.receive(&frames[4..]);
    assert_eq!((scene.counters().recoveries, scene.counters().rx_in_order), (1, 6));
}

#[test]
fn what_is_damaged_lies_where_it_will_lie_when_it_was_sent_again_and_nowhere_else() {
    for opcode in [SendOpcode::Write, SendOpcode::Send] {
        let mut scene = damaged_in_the_middle(opcode, WriteOrder::empty());
        let before = scene.memory();
        assert!(before[3072..].iter().all(|byte| *byte == UNTOUCHED), "{opcode:?}: written behind it");
        let is_written = before[2048..3072] != [UNTOUCHED; 1024];
        assert_eq!(
            is_written,
            Kernel::detected() != Kernel::PORTABLE,
            "{opcode:?}: in the pass that verifies"
        );
        assert!(scene.rig.sides[1].cq.poll().is_none(), "{opcode:?}: complete without it");
        let frames = scene.frames.clone();
        scene.receive(&frames[2..]);
        let pattern: Vec<u8> = (0..251).cycle().take(4096).collect();
        assert!(scene.memory()[..4096] == pattern, "{opcode:?}");
        assert_eq!(scene.counters().rx_in_order, 4, "{opcode:?}");
    }
}

#[test]
fn strict_placement_writes_nothing_that_was_not_verified() {
    for opcode in [SendOpcode::Write, SendOpcode::Send] {
        let scene = damaged_in_the_middle(opcode, WriteOrder::STRICT_PLACEMENT);
        let place = &scene.memory()[2048..3072];
        assert!(place.iter().all(|byte| *byte == UNTOUCHED), "{opcode:?}");
    }
}

/// Returns `true` if the third of four packets of a WRITE is placed if `change` comes between it
/// and those before.
fn is_placed_after(change: impl FnOnce(&mut Scene)) -> bool {
    let mut scene = scene(Pmtu::B1024, &one(SendOpcode::Write), WriteOrder::empty());
    let frames = scene.frames.clone();
    scene.receive(&frames[..2]);
    change(&mut scene);
    scene.receive(&frames[2..3]);
    scene.memory()[2048..3072] != [UNTOUCHED; 1024]
}

#[test]
fn what_has_changed_in_between_holds() {
    let modify = |scene: &mut Scene, attr: QpAttr, mask: QpAttrMask| {
        let qpn = scene.handles[1].qpn;
        scene.rig.sides[1].engine.core_mut().modify_qp(qpn, &attr, mask).unwrap();
    };
    assert!(is_placed_after(|_| {}));
    assert!(!is_placed_after(|scene| {
        let attr = QpAttr { access_flags: Access::LOCAL_WRITE, ..QpAttr::default() };
        modify(scene, attr, QpAttrMask::ACCESS_FLAGS);
    }));
    assert!(!is_placed_after(|scene| {
        modify(scene, QpAttr { state: QpState::Err, ..QpAttr::default() }, QpAttrMask::STATE);
    }));
}

#[test]
fn a_key_that_has_ended_in_between_is_refused() {
    let mut scene = scene(Pmtu::B1024, &one(SendOpcode::Write), WriteOrder::empty());
    let frames = scene.frames.clone();
    scene.receive(&frames[..2]);
    let receiver = &mut scene.rig.sides[1];
    assert!(receiver.engine.core_mut().memory_mut().deregister(receiver.key));
    scene.receive(&frames[2..]);
    let counters = scene.counters();
    assert_eq!((counters.rx_in_order, counters.tx_error_naks), (2, 1));
}
