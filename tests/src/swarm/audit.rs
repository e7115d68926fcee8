//! After the end: nothing leaked, and the counters agree with each other and with the plan.

use super::plan::ConnectionPlan;
use super::world::World;
use datapath::counters::Counters;
use datapath::engine::AsyncEvent;
use simnet::{LinkId, NodeId};
use wire::WireMode;

/// Checks a world in which everything is done and nothing moves.
///
/// # Panics
/// If something leaked or does not add up.
pub(super) fn check(world: &World<'_>) {
    for node in (0..world.plan.nodes).map(NodeId) {
        check_node(world, node);
    }
    if world.plan.connections.iter().all(ConnectionPlan::is_clean) {
        check_clean(world);
    }
    if world.plan.is_calm() {
        check_calm(world);
    }
}

fn check_node(world: &World<'_>, node: NodeId) {
    let engine = world.rig.engine(node);
    let contexts = world.plan.rig.recovery_contexts as usize;
    assert_eq!(engine.core().free_recovery_contexts(), contexts, "recovery contexts of {node:?} leaked");
    let slow_path = engine.core().slow_path_stats();
    assert_eq!(slow_path.receivers_open, 0, "{node:?}: the slow path keeps receivers of nothing missing");
    let kept_back = kept_back(world, node);
    assert!(
        slow_path.senders_open <= kept_back,
        "{node:?}: the slow path keeps {} senders of nothing missing, {kept_back} at most may",
        slow_path.senders_open
    );
    assert_eq!(engine.next_deadline(), None, "{node:?} has nothing to wait for");
    let counters = engine.core().counters();
    let cramped = world.plan.connections.iter().any(|pair| pair.cramped && pair.nodes.contains(&node.0));
    assert!(cramped || counters.drop_cq_overflow == 0, "{node:?}: the completion queues are long enough");
    let talks_to_itself = world.plan.connections.iter().any(|pair| pair.nodes == [node.0; 2]);
    if !talks_to_itself {
        let sent = counters.tx_requests
            + counters.tx_responses
            + counters.tx_retransmits
            + counters.tx_acks
            + counters.tx_cnps
            + counters.tx_keepalives
            + counters.tx_neighbor;
        let entered = world.rig.net.stats(LinkId::Up(node)).sent - world.replayed[node.0];
        assert_eq!(sent, entered, "{node:?}: frames that the engine counted, and that the link saw");
    }
}

/// Neither errors nor RESETs: each packet was sent once as a new one, and placed.
fn check_clean(world: &World<'_>) {
    let planned: u64 = world.plan.connections.iter().map(packets_of).sum();
    let sent = sum(world, |counters| counters.tx_requests);
    assert_eq!(sent, planned, "each packet is new once");
    let responses: u64 = world.plan.connections.iter().map(responses_of).sum();
    let sent = sum(world, |counters| counters.tx_responses);
    // A Plain responder counts those that it replays.
    assert!(sent == responses || (speaks_plainly(world) && sent > responses), "each response is new once");
    let executed = sum(world, |counters| counters.rx_reads + counters.rx_atomics);
    let answered: u64 = world.plan.connections.iter().map(answered_of).sum();
    assert_eq!(executed, answered, "READs and atomics are executed once");
    let in_order = sum(world, |counters| counters.rx_in_order);
    let out_of_order = sum(world, |counters| counters.rx_out_of_order);
    assert!(
        in_order + out_of_order >= planned,
        "{in_order} + {out_of_order} of {planned} packets were placed"
    );
    assert!(in_order <= planned, "{in_order} of {planned} packets in order: one was executed twice");
    for node in (0..world.plan.nodes).map(NodeId) {
        let expected = |event: &AsyncEvent| matches!(event, AsyncEvent::SqDrained { .. });
        let other = world.rig.events(node).iter().find(|event| !expected(event));
        assert_eq!(other, None, "{node:?} has nothing to report");
    }
    // Who asks late for what was kept back is answered.
    let answers = (0..world.plan.nodes).map(NodeId).any(|node| kept_back(world, node) > 0);
    for (name, value) in totals(world) {
        let is_nak = ["tx_error_naks", "rx_error_naks"].contains(&name);
        let never = name == "retry_exceeded" || (is_nak && !answers);
        assert!(!never || value == 0, "{name} is {value}, and nothing is wrong with any request");
    }
}

/// Streams of responses that the node may keep back at the end.
fn kept_back(world: &World<'_>, node: NodeId) -> usize {
    world.plan.connections.iter().map(|pair| pair.kept_back(node.0)).sum()
}

/// No faults at all: no packet is dropped for what is in it.
fn check_calm(world: &World<'_>) {
    let lost: u64 = (0..world.plan.nodes)
        .flat_map(|node| [LinkId::Up(NodeId(node)), LinkId::Down(NodeId(node))])
        .map(|link| world.rig.net.stats(link).dropped_by.total())
        .sum();
    let undisturbed = lost == 0 && sum(world, |counters| counters.tx_rnr_naks) == 0;
    let never = [
        "drop_encapsulation",
        "drop_malformed",
        "drop_icrc",
        "drop_unknown_qp",
        "drop_wire_mode",
        "drop_opcode_class",
        "drop_address",
        "drop_pkey",
        "drop_qp_state",
        "drop_beyond_window",
        "drop_msn",
        "drop_ssn",
        "drop_bad_ack",
        "drop_unsupported",
    ];
    for (name, value) in totals(world) {
        assert!(!never.contains(&name) || value == 0, "{name} is {value} in a calm history");
        let only_by_loss = ["recoveries", "parked_writes", "tx_nacks"].contains(&name);
        assert!(!only_by_loss || value == 0 || !undisturbed, "{name} is {value}, and nothing was lost");
    }
}

fn speaks_plainly(world: &World<'_>) -> bool {
    world.plan.connections.iter().any(|pair| pair.options[0].wire_mode == WireMode::Plain)
}

fn responses_of(pair: &ConnectionPlan) -> u64 {
    let pmtu = pair.options[0].pmtu.bytes() as usize;
    let flows = pair.lives.iter().flat_map(|life| &life.flows);
    flows.map(|flow| flow.script.responses(pmtu) as u64).sum()
}

fn answered_of(pair: &ConnectionPlan) -> u64 {
    let flows = pair.lives.iter().flat_map(|life| &life.flows);
    flows.map(|flow| flow.script.answered() as u64).sum()
}

fn packets_of(pair: &ConnectionPlan) -> u64 {
    let pmtu = pair.options[0].pmtu.bytes() as usize;
    let flows = pair.lives.iter().flat_map(|life| &life.flows);
    flows.map(|flow| flow.script.packets(pmtu) as u64).sum()
}

fn sum(world: &World<'_>, of: impl Fn(&Counters) -> u64) -> u64 {
    (0..world.plan.nodes).map(|node| of(world.rig.engine(NodeId(node)).core().counters())).sum()
}

fn totals(world: &World<'_>) -> Vec<(&'static str, u64)> {
    let mut totals: Vec<(&'static str, u64)> = Vec::new();
    for node in 0..world.plan.nodes {
        for (index, (name, value)) in world.rig.engine(NodeId(node)).core().counters().iter().enumerate() {
            match totals.get_mut(index) {
                Some((_, total)) => *total += value,
                None => totals.push((name, value)),
            }
        }
    }
    totals
}
