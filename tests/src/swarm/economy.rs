//! Nobody repeats himself without a reason: resends, probes and timeouts of a tidy history against
//! what was lost in it.
//!
//! A rule that only saves work breaks no promise when it is broken, so that no other oracle sees
//! it. In a tidy history frames are lost and nothing else happens to them, so each repetition must
//! be explained by one of those losses.

use super::plan::Plan;
use super::world::World;
use datapath::counters::Counters;
use datapath::qp::attr::RecoveryPolicy;
use simnet::{KindCounts, LinkId, LinkStats, NodeId};

/// Packets that one NACK speaks for: losing it, they look lost (docs/adr/0007).
const PACKETS_PER_NACK: u64 = 64;
/// A stream may wait four round trips for its tail probe, and one for the answer, before its
/// retransmission timer fires.
const ROUND_TRIPS_BEFORE_RTO: u64 = 5;
/// Bytes of a frame beside its payload, and of its share of acknowledgements, at most.
const OVERHEAD: u64 = 200;
/// Packets that a turn of an engine sends at least, if it has them.
const PACKETS_PER_TURN: u64 = 16;

/// What was lost, and what was repeated.
#[derive(Clone, Copy, Debug)]
struct Ledger {
    /// Data frames lost on the way.
    data_lost: u64,
    /// NACKs lost on the way.
    nacks_lost: u64,
    /// All frames lost on the way.
    lost: u64,
    /// Packets resent because they were declared lost.
    resent: u64,
    /// Packets resent by timers.
    probes: u64,
    tail_probes: u64,
    timeouts: u64,
    /// Requests sent again because their responses did not come.
    asked_again: u64,
    duplicates: u64,
    /// Packets that a receiver could not take when they came: asked for again, at times more than
    /// once.
    refused: u64,
}

/// Checks a tidy world in which everything is done.
///
/// # Panics
/// If something was sent again that nobody had lost.
pub(super) fn check(world: &World<'_>) {
    if !world.plan.tidy {
        return;
    }
    let ledger = Ledger::of(world);
    assert!(ledger.duplicates <= ledger.resent + ledger.probes, "a duplicate that nobody sent: {ledger:?}");
    let selective = world
        .plan
        .connections
        .iter()
        .all(|connection| connection.options[0].recovery == RecoveryPolicy::SelectiveRepeat);
    if selective && ledger.refused == 0 {
        ledger.check_resends();
        ledger.check_timers(world.plan);
    }
}

impl Ledger {
    fn of(world: &World<'_>) -> Self {
        let nodes = || (0..world.plan.nodes).map(NodeId);
        let links = || nodes().flat_map(|node| [LinkId::Up(node), LinkId::Down(node)]);
        let of_links = |count: fn(&LinkStats) -> u64| -> u64 {
            links().map(|link| count(world.rig.net.stats(link))).sum()
        };
        let of_engines = |count: fn(&Counters) -> u64| -> u64 {
            nodes().map(|node| count(world.rig.engine(node).core().counters())).sum()
        };
        let probes = of_engines(|counters| counters.tx_probes);
        Self {
            data_lost: of_links(|stats| stats.dropped_by.data),
            nacks_lost: of_links(|stats| stats.dropped_by.nack),
            lost: of_links(|stats| KindCounts::total(&stats.dropped_by)),
            resent: of_engines(|counters| counters.tx_retransmits) - probes,
            probes,
            tail_probes: of_engines(|counters| counters.tail_probes),
            timeouts: of_engines(|counters| counters.rto_fired),
            asked_again: of_engines(|counters| counters.response_timeouts),
            duplicates: of_engines(|counters| counters.rx_duplicates),
            refused: of_engines(|counters| {
                counters.tx_rnr_naks
                    + counters.tx_acks_dropped
                    + counters.drop_unplaceable
                    + counters.drop_srq_share
                    + counters.drop_strict_placement
                    + counters.drop_metadata_full
                    + counters.drop_no_context
                    + counters.drop_beyond_window
            }),
        }
    }

    /// With a clean way back each loss costs one resend. A timeout takes all marks away: what is
    /// under way for the second time may then be declared lost once more.
    fn check_resends(&self) {
        let by_losses = self.data_lost * (1 + self.timeouts);
        let by_silence = self.nacks_lost * PACKETS_PER_NACK + self.asked_again;
        assert!(self.resent <= by_losses + by_silence, "resent without a loss: {self:?}");
    }

    /// Where round trips are short, a tail probe needs a loss, and a retransmission timeout needs
    /// that of the probe, too.
    fn check_timers(&self, plan: &Plan) {
        let round_trip = round_trip_ns_max(plan);
        if round_trip < plan.rig.rto.tail_floor_ns {
            assert!(self.tail_probes <= self.lost, "probed without a loss: {self:?}");
        }
        if ROUND_TRIPS_BEFORE_RTO * round_trip < plan.rig.rto.low_floor_ns {
            assert!(2 * self.timeouts <= self.lost, "timed out without losses: {self:?}");
            assert!(self.asked_again <= self.lost, "asked again without a loss: {self:?}");
        }
    }
}

/// How long a round trip can be with all windows full, in nanoseconds.
fn round_trip_ns_max(plan: &Plan) -> u64 {
    let (mut packets, mut bytes) = (0, 0);
    for connection in &plan.connections {
        // An end that answers READs sends two streams.
        let streams = if connection.has_responses() { 2 } else { 1 };
        for end in &connection.options {
            packets += streams * u64::from(end.window);
            bytes += streams * u64::from(end.window) * (u64::from(end.pmtu.bytes()) + OVERHEAD);
        }
    }
    let port = &plan.rig.port;
    let on_the_wire = bytes * (port.up.ps_per_byte + port.down.ps_per_byte) / 1000;
    let in_turns = (packets / PACKETS_PER_TURN + 8) * plan.rig.turn_cost_ns;
    on_the_wire + in_turns + 2 * (port.up.propagation_ns + port.down.propagation_ns)
}
