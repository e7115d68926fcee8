//! What the first histories did not have: plain RoCEv2, promises about the order of WRITEs, memory
//! windows, shared receive queues, completion queues that overflow, and acknowledgements that wait.

use super::message::{Defect, Kind, Limits, Message, ORDERED_BYTES_MAX, Script};
use super::plan::{ConnectionPlan, End, FlowPlan, LifePlan, Plan, limits_of};
use super::shared_receives::SharedReceivesPlan;
use datapath::engine::AckTiming;
use datapath::memory::WindowType;
use datapath::qp::attr::{RecoveryPolicy, WriteOrder};
use simnet::{QpOptions, Rng};
use wire::{Pmtu, WireMode};

/// Half of all seeds keep the histories that they had before; with this number those of `seeds.txt`
/// are among them.
const LATER: u64 = 34;
/// What came after those: keepalives, which change nothing that seeds drew before.
const KEEPALIVES: u64 = 35;
/// Bytes of a shared receive queue, about.
const SHARED_RECEIVE_BYTES: usize = 1 << 19;
/// Bytes of overlapping WRITEs at most.
const OVERLAP_BYTES: usize = 6_000;
/// Bytes of the last packet of such a WRITE at least: it must be known whose they are.
const TAIL_MIN: usize = 8;

/// Changes a history.
pub fn draw(plan: &mut Plan) {
    draw_keepalives(plan);
    let rng = &mut Rng::new(plan.seed ^ LATER << 32);
    if rng.below(2) == 0 {
        return;
    }
    for connection in &mut plan.connections {
        if rng.below(3) == 0 {
            speak_plainly(&mut connection.options);
        }
        if rng.below(3) == 0 {
            draw_order(rng, connection);
        }
        for life in &mut connection.lives {
            if rng.below(3) == 0 {
                draw_windows(rng, life, &connection.options, plan.tidy);
            }
        }
        match rng.below(6) {
            0 | 1 => connection.shared = [0, 1].map(|side| rng.below(2) == 0 && may_share(connection, side)),
            2 if !plan.tidy => cramp(rng, connection),
            _ => {}
        }
    }
    for node in 0..plan.nodes {
        plan.shared_receives[node] = draw_shared_receives(rng, node, &plan.connections);
    }
    plan.rig.acks = [AckTiming::AtOnce, AckTiming::Spaced, AckTiming::BehindPosts][rng.index(3)];
}

/// Ends that ask an idle peer whether it is there, where no silence lasts long enough to end a
/// queue pair.
fn draw_keepalives(plan: &mut Plan) {
    let rng = &mut Rng::new(plan.seed ^ KEEPALIVES << 32);
    if plan.tidy || rng.below(4) > 0 {
        return;
    }
    let ends = plan.connections.iter_mut().flat_map(|connection| &mut connection.options);
    for end in ends.filter(|end| end.timeout > 0 && end.retry_cnt == 7) {
        end.keepalive_ms = [0, 1, 1, 3][rng.index(4)];
    }
}

/// Leaves ends at 1,408 bytes in the SRNIC dialect, as plain RoCEv2 lacks it.
fn speak_plainly(options: &mut [QpOptions; 2]) {
    for end in options.iter_mut().filter(|end| Pmtu::PLAIN.contains(&end.pmtu)) {
        end.wire_mode = WireMode::Plain;
        // Plain has no other.
        end.recovery = RecoveryPolicy::GoBackN;
    }
}

/// Overlapping WRITEs, and promises that order them: the sender's, the receiver's, or both.
fn draw_order(rng: &mut Rng, connection: &mut ConnectionPlan) {
    let promise = rng.below(3);
    for end in &mut connection.options {
        end.write_order.set(WriteOrder::ORDERED_OVERLAP, promise != 0);
        end.write_order.set(WriteOrder::STRICT_PLACEMENT, promise != 1);
    }
    for life in &mut connection.lives {
        for (side, flow) in life.flows.iter_mut().enumerate() {
            if rng.below(2) == 0 {
                let limits = limits_of(&connection.options[side], &connection.options[1 - side]);
                let drawn = ORDERED_BYTES_MAX + 1 + rng.index((3 * limits.pmtu).min(OVERLAP_BYTES));
                let tail = drawn % limits.pmtu;
                let len = if (1..TAIL_MIN).contains(&tail) { drawn + TAIL_MIN } else { drawn };
                let limits = Limits { bytes: OVERLAP_BYTES, ..limits };
                append(flow, |script| script.draw_group(rng, &limits, len));
            }
        }
    }
}

/// Windows for one direction or both; some are taken away, by the peer at the end or by their owner
/// in the middle.
fn draw_windows(rng: &mut Rng, life: &mut LifePlan, options: &[QpOptions; 2], tidy: bool) {
    for (side, end) in options.iter().enumerate() {
        let deregistered = life.withdrawal.is_some_and(|gone| gone.flow == side && !gone.source);
        if rng.below(2) == 0 || deregistered {
            continue;
        }
        let kind = if rng.below(3) == 0 { WindowType::One } else { WindowType::Two };
        life.flows[side].window = Some(kind);
        let sound = life.withdrawal.is_none() && life.defects() == 0;
        match rng.below(4) {
            0 | 1 if kind == WindowType::Two => {
                let inline_max = end.caps.max_inline as usize;
                append(&mut life.flows[side], |script| invalidate(rng, script, inline_max));
            }
            2 if kind == WindowType::Two && sound && !tidy => {
                let messages = life.flows[1 - side].script.messages.len();
                insert(&mut life.flows[1 - side], rng.index(messages + 1), Kind::Unbind);
            }
            _ => {}
        }
    }
    for side in 0..2 {
        if life.flows[1 - side].window.is_some() {
            insert(&mut life.flows[side], 0, Kind::Bind);
        }
    }
}

/// A SEND that ends the window when all that needs it is done.
fn invalidate(rng: &mut Rng, script: &mut Script, inline_max: usize) {
    let len = rng.index(ORDERED_BYTES_MAX + 1);
    let inline = len <= inline_max;
    let source = if inline { Vec::new() } else { vec![super::message::place(&mut script.source_len, len)] };
    let target = vec![super::message::place(&mut script.target_len, len)];
    script.messages.push(Message {
        signaled: rng.below(2) == 0,
        solicited: rng.below(2) == 0,
        // A READ's data are read as they are sent.
        fenced: script.answered() > 0,
        invalidates: true,
        inline,
        source,
        target,
        ..Message::new(Kind::Send, len)
    });
}

/// Adds messages, and has them posted behind all others, with their receives.
fn append(flow: &mut FlowPlan, add: impl FnOnce(&mut Script)) {
    let before = flow.script.messages.len();
    add(&mut flow.script);
    let new = &flow.script.messages[before..];
    let receives = new.iter().filter(|message| message.consumes_receive()).count();
    post_more(&mut flow.posts, new.len());
    post_more(&mut flow.receives, receives);
}

/// Puts a message in between.
fn insert(flow: &mut FlowPlan, at: usize, kind: Kind) {
    for message in &mut flow.script.messages {
        if let Kind::Read(Some(write)) = &mut message.kind
            && *write >= at
        {
            *write += 1;
        }
    }
    flow.script.messages.insert(at, Message::new(kind, 0));
    // At the beginning, since the other direction may wait for it.
    match flow.posts.first_mut() {
        Some((0, count)) => *count += 1,
        _ => flow.posts.insert(0, (0, 1)),
    }
}

fn post_more(lumps: &mut Vec<(u64, usize)>, more: usize) {
    match lumps.last_mut() {
        Some((_, count)) => *count += more,
        None => lumps.push((0, more)),
    }
}

/// Returns `true` if an end can take its receives from a shared queue: none of them is to be wrong.
fn may_share(connection: &ConnectionPlan, side: usize) -> bool {
    connection.lives.iter().all(|life| {
        let messages = &life.flows[1 - side].script.messages;
        let wrong = [Some(Defect::ShortReceive), Some(Defect::ReceiveKey)];
        life.withdrawal.is_none_or(|gone| gone.source || gone.flow == side)
            && !messages.iter().any(|message| wrong.contains(&message.defect))
    })
}

/// Completion queues that a burst may overrun, in one life.
fn cramp(rng: &mut Rng, connection: &mut ConnectionPlan) {
    connection.cramped = true;
    connection.options[rng.index(2)].cq_entries = 2 << rng.below(4);
    connection.lives.truncate(1);
    if matches!(connection.lives[0].end, End::Reset { .. }) {
        connection.lives[0].end = End::Done;
    }
}

/// A queue for the node, if any end there wants it, whose receives hold the longest SEND.
fn draw_shared_receives(
    rng: &mut Rng,
    node: usize,
    connections: &[ConnectionPlan],
) -> Option<SharedReceivesPlan> {
    let ends = connections.iter().flat_map(|connection| [0, 1].map(|side| (connection, side)));
    let ends = ends.filter(|(connection, side)| connection.shared[*side] && connection.nodes[*side] == node);
    let flows = ends.flat_map(|(connection, side)| {
        connection.lives.iter().map(move |life| &life.flows[1 - side].script.messages)
    });
    let sends = flows.map(|messages| messages.iter().filter(|message| message.kind == Kind::Send));
    let longest = sends.map(|sends| sends.map(|message| message.len).max().unwrap_or(0)).max()?;
    let slot_len = longest + rng.index(16);
    let drawn = [2, 4, 16, 64][rng.index(4)];
    let slots = (SHARED_RECEIVE_BYTES / slot_len.max(1)).clamp(2, drawn);
    Some(SharedReceivesPlan { slots, slot_len, pieces: 1 + rng.index(3), lump: 1 + rng.index(slots / 2) })
}
