//! Packets that come one right behind the other have the effect that they have one by one.

use crate::common::rig::{Options, Rig, write};
use crate::frames::{damage, mark};
use datapath::engine::{AsyncEvent, QpHandles};
use datapath::memory::Access;
use datapath::port::RX_BURST;
use datapath::qp::attr::{QpAttr, WriteOrder};
use datapath::queue::*;
use proptest::collection::vec;
use proptest::prelude::*;
use wire::Pmtu;

/// Bytes of the region for each message, of which WRITEs go behind SENDs.
const PLACE_LEN: usize = 2048;
const PLACE: u64 = PLACE_LEN as u64;
const USED: usize = 3 * MESSAGES as usize * PLACE_LEN;
/// Messages at most: with what is put between them they are one burst.
const MESSAGES: u32 = 16;
const _: () = assert!(2 * MESSAGES as usize <= RX_BURST);
/// No frame of ours, and no other that an engine would know.
const STRANGER: [u8; 60] = [0x5A; 60];

#[derive(Clone, Debug)]
struct Message {
    /// Not of the kind of most of the plan.
    is_odd: bool,
    len: u32,
    solicited: bool,
    /// A key that the receiver does not have.
    bad_key: bool,
    fate: Fate,
}

/// What becomes of its first frame on the way.
#[derive(Clone, Debug)]
enum Fate {
    Arrives,
    Lost,
    Twice,
    Marked,
    /// This byte is another.
    Damaged(usize),
    /// This byte is another, and the ICRC holds.
    Forged(usize),
}

fn message() -> impl Strategy<Value = Message> {
    let len = prop_oneof![12 => Just(32_u32), 1 => Just(0), 1 => Just(33), 1 => Just(1000), 1 => Just(1500)];
    let fate = prop_oneof![
        20 => Just(Fate::Arrives),
        1 => Just(Fate::Lost),
        1 => Just(Fate::Twice),
        1 => Just(Fate::Marked),
        1 => (14_usize..90).prop_map(Fate::Damaged),
        2 => (50_usize..62).prop_map(Fate::Forged),
        2 => (70_usize..74).prop_map(Fate::Forged),
    ];
    let rare = || prop::bool::weighted(0.03);
    (prop::bool::weighted(0.1), len, rare(), rare(), fate)
        .prop_map(|(is_odd, len, solicited, bad_key, fate)| Message { is_odd, len, solicited, bad_key, fate })
}

#[derive(Clone, Debug)]
struct Plan {
    /// Most messages are WRITEs, and not SENDs.
    writes: bool,
    messages: Vec<Message>,
    /// Elements of each receive that is posted.
    receives: Vec<usize>,
    completions: u32,
    /// The burst begins with a packet that the receiver has had.
    begins_with_old: bool,
    /// The receiver's queue pair does not permit WRITEs.
    forbids_writes: bool,
    /// Its path MTU.
    pmtu: Pmtu,
    /// Its receives come from a shared queue, whose limit event is armed at so many.
    shared: Option<u32>,
    /// It places nothing that it has not verified.
    strict: bool,
}

fn plan() -> impl Strategy<Value = Plan> {
    let messages = vec(message(), 1..MESSAGES as usize);
    let receives = vec(prop_oneof![15 => Just(1_usize), 1 => Just(2)], 0..2 * MESSAGES as usize);
    let completions = prop_oneof![2 => Just(64_u32), 1 => 1_u32..16];
    let pmtu = prop_oneof![3 => Just(Pmtu::B1024), 1 => Just(Pmtu::B1408), 1 => Just(Pmtu::B512)];
    let shared = prop_oneof![1 => Just(None), 1 => (0..MESSAGES).prop_map(Some)];
    let oddities = (any::<bool>(), prop::bool::weighted(0.2), pmtu, shared, any::<bool>());
    (any::<bool>(), messages, receives, completions, oddities).prop_map(
        |(writes, messages, receives, completions, oddities)| {
            let (begins_with_old, forbids_writes, pmtu, shared, strict) = oddities;
            Plan {
                writes,
                messages,
                receives,
                completions,
                begins_with_old,
                forbids_writes,
                pmtu,
                shared,
                strict,
            }
        },
    )
}

impl Effect {
    /// The memory, but for the receive that comes next if a packet was damaged, and may lie there
    /// before that was seen.
    fn visible(&self, plan: &Plan) -> Vec<u8> {
        let mut memory = self.memory.clone();
        let longest = plan.messages.iter().filter(|message| matches!(message.fate, Fate::Damaged(_)));
        let longest = longest.map(|message| message.len as usize).max().unwrap_or_default();
        if !plan.strict && plan.shared.is_none() {
            let next = self.completions.len() * PLACE_LEN;
            memory[next..next + longest].fill(0);
        }
        memory
    }
}

/// Everything that the receiver did in one turn.
#[derive(PartialEq, Debug)]
struct Effect {
    sent: Vec<Vec<u8>>,
    completions: Vec<Completion>,
    events: Vec<AsyncEvent>,
    /// Receives that can be posted again.
    room: usize,
    memory: Vec<u8>,
    counters: datapath::counters::Counters,
}

/// Side 0 sends, and side 1 takes all of it in one turn, each frame behind `between`.
fn play(plan: &Plan, between: Option<&[u8]>) -> Effect {
    let mut rig = Rig::new(1, 128);
    rig.sides[1].use_small_cq(plan.completions);
    let caps = QueueCaps { max_recv_wr: 2 * MESSAGES, ..QueueCaps::default() };
    let options = Options { caps, ..Options::default() };
    let access = if plan.forbids_writes { Access::LOCAL_WRITE } else { options.attr.access_flags };
    let order = if plan.strict { WriteOrder::STRICT_PLACEMENT } else { WriteOrder::empty() };
    let attr = QpAttr { path_mtu: plan.pmtu, access_flags: access, write_order: order, ..options.attr };
    let caps = SrqCaps { max_wr: 2 * MESSAGES, max_sge: 2 };
    let receiver = &mut rig.sides[1];
    let srq = plan.shared.map(|_| receiver.engine.core_mut().create_srq(receiver.pd, caps).unwrap());
    let (srq, shared) = srq.unzip();
    let mut handles = rig.connect_as([&options, &Options { attr, srq, ..options }]);
    let mut receives = Receives { shared };
    fill_once(&mut rig, &mut handles, &mut receives);
    post(plan, &mut rig, &mut handles, &mut receives);
    if let (Some(srq), Some(limit)) = (srq, plan.shared) {
        rig.sides[1].engine.core_mut().arm_srq_limit(srq, limit).unwrap();
    }
    rig.sides[0].engine.turn(rig.now);
    let sent: Vec<Vec<u8>> = rig.sides[0].engine.port().sent().map(<[u8]>::to_vec).collect();
    let receiver = &mut rig.sides[1];
    let frames = arriving(plan, sent);
    for frame in frames.iter().take(MESSAGES as usize) {
        if let Some(between) = between {
            receiver.engine.port_mut().inject(between);
        }
        receiver.engine.port_mut().inject(frame);
    }
    receiver.engine.turn(rig.now);
    let mut memory = vec![0; USED];
    let access = Access::LOCAL_WRITE;
    let all = receiver.engine.core().memory().check(receiver.key.0, receiver.pd, 0, USED as u64, access);
    all.unwrap().read(&mut memory);
    let mut counters = *receiver.engine.core().counters();
    counters.drop_not_ours = 0;
    Effect {
        sent: receiver.engine.port().sent().map(<[u8]>::to_vec).collect(),
        completions: std::iter::from_fn(|| receiver.cq.poll()).collect(),
        events: std::iter::from_fn(|| receiver.engine.core_mut().poll_event()).collect(),
        room: receives.room(&mut handles[1].recv),
        memory,
        counters,
    }
}

/// Where the receiver's receives are posted.
struct Receives {
    shared: Option<SharedRecvQueue>,
}

impl Receives {
    fn try_post(&mut self, own: &mut RecvQueue, request: &RecvRequest<'_>) -> Result<(), PostError> {
        match &mut self.shared {
            Some(shared) => shared.post(request),
            None => own.post(request),
        }
    }

    fn post(&mut self, own: &mut RecvQueue, request: &RecvRequest<'_>) {
        self.try_post(own, request).unwrap();
    }

    /// Fills the queue.
    fn room(&mut self, own: &mut RecvQueue) -> usize {
        let request = RecvRequest { wr_id: 0, scatter: &[] };
        (0..).take_while(|_| self.try_post(own, &request).is_ok()).count()
    }
}

/// Every place of the receive queue was used before: one that is free still says where something
/// went.
fn fill_once(rig: &mut Rig, handles: &mut [QpHandles; 2], receives: &mut Receives) {
    for _ in 0..2 * MESSAGES {
        let [gather, scatter] = [(0, 8), (1, 2040)].map(|(side, len)| [rig.sides[side].sge(0, len)]);
        receives.post(&mut handles[1].recv, &RecvRequest { wr_id: 99, scatter: &scatter });
        let request = write(99, &gather, 0, rig.sides[1].key);
        handles[0].send.post(&SendRequest { opcode: SendOpcode::Send, ..request }).unwrap();
        assert!(rig.run(100, |rig| rig.sides[0].drain() == 1));
        assert_eq!(rig.sides[1].drain(), 1);
    }
}

fn post(plan: &Plan, rig: &mut Rig, handles: &mut [QpHandles; 2], receives: &mut Receives) {
    let [sender, receiver] = &rig.sides;
    let pattern: Vec<u8> = (0..251).cycle().take(USED).collect();
    let access = Access::LOCAL_WRITE;
    let source = sender.engine.core().memory().check(sender.key.0, sender.pd, 0, USED as u64, access);
    source.unwrap().write(&pattern);
    for (wr_id, elements) in (0..).zip(&plan.receives) {
        let at = wr_id * PLACE;
        let halves = [receiver.sge(at, 40), receiver.sge(at + 40, 2000)];
        let whole = [receiver.sge(at, 2040)];
        let scatter = if *elements == 2 { &halves[..] } else { &whole };
        receives.post(&mut handles[1].recv, &RecvRequest { wr_id, scatter });
    }
    for (wr_id, message) in (0..).zip(&plan.messages) {
        let gather = [sender.sge(wr_id * PLACE, message.len)];
        let mut request = write(wr_id, &gather, (u64::from(2 * MESSAGES) + wr_id) * PLACE, receiver.key);
        if message.is_odd == plan.writes {
            request.opcode = SendOpcode::Send;
        }
        request.flags.set(SendFlags::SOLICITED, message.solicited);
        request.rkey ^= u32::from(message.bad_key);
        handles[0].send.stage(&request).unwrap();
    }
    handles[0].send.submit();
}

/// The frames as they come out of the network.
fn arriving(plan: &Plan, sent: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    if plan.begins_with_old {
        let mut old = sent[0].clone();
        let psn = u32::from_be_bytes([0, old[51], old[52], old[53]]).wrapping_sub(1).to_be_bytes();
        old[51..54].copy_from_slice(&psn[1..]);
        wire::icrc::seal(&mut old[14..]);
        frames.push(old);
    }
    let fates = plan.messages.iter().map(|message| &message.fate).chain(std::iter::repeat(&Fate::Arrives));
    for (mut frame, fate) in sent.into_iter().zip(fates) {
        match fate {
            Fate::Arrives => {}
            Fate::Lost => continue,
            Fate::Twice => frames.push(frame.clone()),
            Fate::Marked => mark(&mut frame),
            Fate::Damaged(at) => damage(&mut frame, *at, 1),
            Fate::Forged(at) => {
                damage(&mut frame, *at, 1);
                wire::icrc::seal(&mut frame[14..]);
            }
        }
        frames.push(frame);
    }
    frames
}

/// Returns `true` if the frames of a plan that nothing happens to are all taken.
fn takes_all(writes: bool, shared: Option<u32>) {
    let message = Message { is_odd: false, len: 32, solicited: false, bad_key: false, fate: Fate::Arrives };
    let plan = Plan {
        writes,
        messages: vec![message; 12],
        receives: vec![1; 12],
        completions: 64,
        begins_with_old: false,
        forbids_writes: false,
        pmtu: Pmtu::B1024,
        shared,
        strict: false,
    };
    let effect = play(&plan, None);
    assert_eq!(effect.counters.rx_in_order, 12 + u64::from(2 * MESSAGES));
    assert_eq!(effect.completions.len(), if writes { 0 } else { 12 });
    assert_eq!(effect, play(&plan, Some(&STRANGER)));
}

/// Bytes of a shared receive.
const SHARED: u32 = 100;
const SENT: u8 = 0x77;

/// Two pairs of queue pairs, whose receivers share `receives`; and the frames of SENDs of so many
/// bytes, each by one of them.
fn sends_to_shared(receives: u64, sends: &[(usize, u32)]) -> (Rig, Vec<Vec<u8>>) {
    let mut rig = Rig::new(2, 128);
    let receiver = &mut rig.sides[1];
    let caps = SrqCaps { max_wr: 16, max_sge: 1 };
    let (srq, mut shared) = receiver.engine.core_mut().create_srq(receiver.pd, caps).unwrap();
    for wr_id in 0..receives {
        let scatter = [receiver.sge(wr_id * u64::from(SHARED), SHARED)];
        shared.post(&RecvRequest { wr_id, scatter: &scatter }).unwrap();
    }
    let (own, of_shared) = (Options::default(), Options { srq: Some(srq), ..Options::default() });
    let mut pairs = [0, 1].map(|_| rig.connect_as([&own, &of_shared]));
    let sender = &rig.sides[0];
    let all = sender.engine.core().memory().check(
        sender.key.0,
        sender.pd,
        0,
        2 * u64::from(SHARED),
        Access::LOCAL_WRITE,
    );
    all.unwrap().write(&[SENT; 2 * SHARED as usize]);
    for (pair, len) in sends {
        let gather = [sender.sge(0, *len)];
        let request = write(0, &gather, 0, rig.sides[1].key);
        pairs[*pair][0].send.post(&SendRequest { opcode: SendOpcode::Send, ..request }).unwrap();
    }
    rig.sides[0].engine.turn(rig.now);
    let frames = rig.sides[0].engine.port().sent().map(<[u8]>::to_vec).collect();
    (rig, frames)
}

/// One turn of the receiver, to which these come; what completes.
fn take(rig: &mut Rig, frames: &[Vec<u8>]) -> Vec<(u64, u32)> {
    let receiver = &mut rig.sides[1];
    frames.iter().for_each(|frame| receiver.engine.port_mut().inject(frame));
    receiver.engine.turn(rig.now);
    std::iter::from_fn(|| receiver.cq.poll()).map(|done| (done.wr_id, done.byte_len)).collect()
}

/// What is damaged on its way to a shared receive queue must not lie in a receive that another's
/// message comes to.
#[test]
fn a_shared_receive_has_nothing_but_the_message_that_it_completes_with() {
    let (mut rig, mut frames) = sends_to_shared(3, &[(0, 64), (0, 64), (1, 8)]);
    damage(&mut frames[1], 70, 1);
    assert_eq!(take(&mut rig, &frames), [(0, 64), (1, 8)]);
    let (receiver, mut place) = (&rig.sides[1], [0; SHARED as usize]);
    assert_eq!(receiver.engine.core().counters().drop_icrc, 1);
    let access = Access::LOCAL_WRITE;
    let at = u64::from(SHARED);
    let second = receiver.engine.core().memory().check(receiver.key.0, receiver.pd, at, at, access);
    second.unwrap().read(&mut place);
    assert_eq!((place[..8] == [SENT; 8], place[8..] == [0; 92]), (true, true), "{place:02x?}");
}

/// A packet that came too early has taken receives for those before it, and was dropped, as its own
/// is too short.
#[test]
fn receives_that_were_taken_before_are_used_before_others() {
    let (mut rig, frames) = sends_to_shared(8, &[(0, 64), (0, 64), (0, 200)]);
    assert_eq!(take(&mut rig, &frames[2..]), []);
    assert_eq!(take(&mut rig, &frames[..2]), [(0, 64), (1, 64)]);
}

#[test]
fn writes_and_sends_that_nothing_happens_to_are_taken() {
    takes_all(true, None);
    takes_all(false, None);
    takes_all(false, Some(4));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn whatever_happens_to_them_it_is_as_if_they_came_apart(plan in plan()) {
        let together = play(&plan, None);
        let apart = play(&plan, Some(&STRANGER));
        prop_assert_eq!(&together.counters, &apart.counters);
        prop_assert_eq!(&together.completions, &apart.completions);
        prop_assert_eq!(&together.sent, &apart.sent);
        prop_assert_eq!(&together.events, &apart.events);
        prop_assert_eq!(together.room, apart.room);
        prop_assert!(together.visible(&plan) == apart.visible(&plan), "other bytes in memory");
    }
}
