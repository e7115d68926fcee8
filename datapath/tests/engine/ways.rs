//! The straight ways that most requests go send the packets that the general one sends: what
//! another element without bytes, which those do not take, shows.

use crate::common::rig::{Options, Rig, write};
use datapath::memory::{Access, Backing, HeapBacking};
use datapath::qp::attr::QpAttr;
use datapath::queue::*;
use proptest::collection::vec;
use proptest::prelude::*;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use wire::Pmtu;

/// Bytes of the sender's memory, and of a receive: of the longest message and more.
const SOURCE: u32 = 1 << 14;

#[derive(Clone, Debug)]
struct Message {
    opcode: SendOpcode,
    len: u32,
    solicited: bool,
}

#[derive(Clone, Debug)]
struct Plan {
    pmtu: Pmtu,
    window: u16,
    messages: Vec<Message>,
    /// Frames of the sender that are lost, by their number.
    lost: Vec<usize>,
    /// Frames that its port takes in a turn.
    ring: usize,
}

fn plan() -> impl Strategy<Value = Plan> {
    let opcode = prop_oneof![Just(SendOpcode::Write), Just(SendOpcode::Send)];
    let len = prop_oneof![1 => 0..300_u32, 2 => 300..10_000_u32, 1 => Just(8192), 1 => Just(256 * 40)];
    let message =
        (opcode, len, any::<bool>()).prop_map(|(opcode, len, solicited)| Message { opcode, len, solicited });
    let pmtu = prop_oneof![Just(Pmtu::B256), Just(Pmtu::B1024), Just(Pmtu::B1408), Just(Pmtu::B4096)];
    (pmtu, 4..64_u16, vec(message, 1..8), vec(0..100_usize, 0..4), 3..40_usize)
        .prop_map(|(pmtu, window, messages, lost, ring)| Plan { pmtu, window, messages, lost, ring })
}

/// Memory whose bytes tell their place.
fn numbered() -> Arc<HeapBacking> {
    let memory = HeapBacking::new(SOURCE as usize);
    for (byte, at) in (0..251).cycle().zip(0..SOURCE as usize) {
        // SAFETY: it has that many bytes, and nobody else has it yet.
        unsafe { memory.base().add(at).write(byte) };
    }
    Arc::new(memory)
}

/// What the sender's port sent until everything was complete.
fn frames_of(plan: &Plan, with_empty_element: bool) -> Vec<Vec<u8>> {
    let attr = QpAttr { path_mtu: plan.pmtu, ..Options::default().attr };
    let mut rig = Rig::new(1, 256);
    let mut handles = rig.connect(&Options { window: plan.window, attr, ..Options::default() });
    rig.sides[0].engine.port_mut().ring = plan.ring;
    let sent = Rc::new(RefCell::new(Vec::new()));
    let (record, lost) = (Rc::clone(&sent), plan.lost.clone());
    rig.drops = Box::new(move |side, frame| {
        let mut sent = record.borrow_mut();
        if side == 0 {
            sent.push(frame.to_vec());
        }
        side == 0 && lost.contains(&(sent.len() - 1))
    });
    let sender = &mut rig.sides[0];
    let key =
        sender.engine.core_mut().memory_mut().register(sender.pd, numbered(), 0, Access::empty()).unwrap();
    let sge = |addr, length| Sge { addr, length, lkey: key.0 };
    let target = rig.sides[1].sge(0, SOURCE);
    for (number, message) in (0..).zip(&plan.messages) {
        if message.opcode == SendOpcode::Send {
            handles[1].recv.post(&RecvRequest { wr_id: number, scatter: &[target] }).unwrap();
        }
        let elements = [sge(number * 77, message.len), sge(0, 0)];
        let request = write(number, &elements[..1 + usize::from(with_empty_element)], 5, rig.sides[1].key);
        let mut flags = SendFlags::SIGNALED;
        flags.set(SendFlags::SOLICITED, message.solicited);
        handles[0].send.post(&SendRequest { opcode: message.opcode, flags, ..request }).unwrap();
    }
    let mut left = plan.messages.len();
    assert!(rig.run(20_000, |rig| {
        left -= rig.sides[0].drain();
        left == 0
    }));
    drop(rig);
    Rc::into_inner(sent).unwrap().into_inner()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn each_way_sends_the_same_packets(plan in plan()) {
        prop_assert_eq!(frames_of(&plan, false), frames_of(&plan, true));
    }
}
