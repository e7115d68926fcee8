//! What a queue pair does and what keeps it from doing more, for people who look from outside.

use crate::counters::QpCounters;
use crate::engine::{Core, LimitTimes};
use crate::qp::{QpCold, QpFlags, Qpc};
use crate::qp_state::{QpState, QpType};
use crate::sched::{EventMux, HostReport, SchedFlags};
use crate::time::Time;
use core::fmt;
use core::net::IpAddr;

/// A peer that owes an acknowledgement and was not heard for so long is called silent. Above any
/// round trip, and far below what a person calls a second.
const SILENT_NS: u64 = 200_000_000;

/// What keeps a queue pair from sending more.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum QpLimit {
    /// Its state: before RTS, or in error.
    State,
    /// Nothing is posted that is not done.
    NothingToSend,
    /// The peer has no receive posted (RNR).
    NoReceive,
    /// The peer owes an acknowledgement and has not been heard for 200 ms.
    PeerSilent,
    /// Packets are known to be lost, and being sent again.
    Recovery,
    /// The next request is fenced, or a READ or atomic too many.
    Reads,
    /// As many packets are in the network as the window has, or outstanding as the sequence window
    /// has (docs/adr/0029).
    Credit,
    /// As many packets are in the network as the congestion controller allows, which is less than
    /// the window.
    Congestion,
    /// The peer's host falls behind: it is sent to at a rate, or the congestion window is small for
    /// its marks.
    PeerHost,
    /// Its program has paused it.
    Paused,
    /// Everything is sent; acknowledgements or responses are under way.
    Acknowledgement,
    /// Its tenant is above one of its caps.
    Tenant,
    /// Nothing: it waits for the engine's next turn, or for room in the port.
    Turn,
}

impl QpLimit {
    /// Every one.
    pub const ALL: [Self; 13] = [
        Self::State,
        Self::NothingToSend,
        Self::NoReceive,
        Self::PeerSilent,
        Self::Recovery,
        Self::Reads,
        Self::Credit,
        Self::Congestion,
        Self::PeerHost,
        Self::Paused,
        Self::Acknowledgement,
        Self::Tenant,
        Self::Turn,
    ];
}

impl fmt::Display for QpLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::State => "state",
            Self::NothingToSend => "nothing to send",
            Self::NoReceive => "no receive posted",
            Self::PeerSilent => "peer silent",
            Self::Recovery => "recovery",
            Self::Reads => "reads under way",
            Self::Credit => "no credit",
            Self::Congestion => "congestion window",
            Self::PeerHost => "peer's host",
            Self::Paused => "paused",
            Self::Acknowledgement => "acknowledgement",
            Self::Tenant => "tenant's cap",
            Self::Turn => "its turn",
        })
    }
}

/// A queue pair as it is now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QpReport {
    /// Its number.
    pub qpn: u32,
    /// Its service.
    pub qp_type: QpType,
    /// Its state.
    pub state: QpState,
    /// The peer's number; 0 if it has none.
    pub dest_qpn: u32,
    /// The peer's address; unspecified if it has none.
    pub peer: IpAddr,
    /// Send requests posted and not completed.
    pub requests: u32,
    /// Send requests completed or flushed since the queue pair left the state RESET, modulo 2^32.
    pub completed: u32,
    /// Receive requests posted and not completed; `None` with a shared receive queue.
    pub receives: Option<u32>,
    /// Request packets sent and not acknowledged. While something is missing, up to four windows.
    pub outstanding: u32,
    /// How many may be in the network at most.
    pub window: u32,
    /// How many may be in the network, as the congestion controller has it.
    pub cwnd: u32,
    /// Packets known to be lost that wait to be sent again.
    pub retries: u32,
    /// Something that it sent is missing at the peer.
    pub repairing_tx: bool,
    /// Something that the peer sent is missing here.
    pub repairing_rx: bool,
    /// Smoothed round-trip time in nanoseconds; 0: not measured yet.
    pub srtt_ns: u64,
    /// How long the peer has owed an acknowledgement without being heard, in nanoseconds; 0 if it
    /// owes none.
    pub silent_ns: u64,
    /// What keeps it from sending more.
    pub limit: QpLimit,
    /// How long each limit has held it back, if the device samples latencies.
    pub limit_times: Option<LimitTimes>,
    /// What happened to it since it was created.
    pub counters: QpCounters,
}

impl Core {
    /// Every queue pair, as of the last turn; `now` is the time since when peers may be silent.
    #[must_use]
    pub fn reports(&self, now: Time) -> Vec<QpReport> {
        let slots = 0..u32::try_from(self.qps.capacity()).unwrap_or(u32::MAX);
        let pairs = slots.filter_map(|slot| self.qps.peek(slot));
        pairs
            .map(|(qpc, cold)| QpReport {
                limit_times: self.limit_times(cold.slot, qpc.id.qpn, now),
                ..report((qpc, cold), &self.units.mux, now)
            })
            .collect()
    }
}

impl Core {
    /// Every host that queue pairs send to, if hosts may have rates
    /// ([`EngineConfig::host_rates`](crate::config::EngineConfig::host_rates)).
    #[must_use]
    pub fn hosts(&self) -> Vec<HostReport> {
        self.units.hosts.as_ref().map(|hosts| hosts.reports()).unwrap_or_default()
    }
}

/// How long the peer has owed an acknowledgement without being heard.
fn silent_ns(qpc: &Qpc, cold: &QpCold, now: Time) -> u64 {
    match qpc.tx.outstanding() {
        0 => 0,
        _ => now.since(cold.heard_at.max(qpc.tx.progress_at())),
    }
}

/// The queue pair as it is, but for its limits' times.
pub(in crate::engine) fn report((qpc, cold): (&Qpc, &QpCold), mux: &EventMux, now: Time) -> QpReport {
    QpReport {
        qpn: qpc.id.qpn,
        qp_type: cold.attributes.qp_type,
        state: qpc.id.state,
        dest_qpn: qpc.id.dest_qpn,
        peer: cold.attributes.attr.av.dst_ip,
        requests: cold.send_queue.tail().wrapping_sub(qpc.req.head),
        completed: qpc.req.head,
        receives: cold.receives.posted(qpc.rsp.recv_head),
        outstanding: qpc.tx.outstanding(),
        window: cold.attributes.window.into(),
        cwnd: qpc.tx.cwnd(),
        retries: qpc.tx.retry_pending(),
        repairing_tx: qpc.tx.recovering(),
        repairing_rx: cold.rx_recovery.is_some(),
        srtt_ns: cold.watchdog.rtt.srtt_ns(),
        silent_ns: silent_ns(qpc, cold, now),
        limit: limit_of((qpc, cold), mux, now),
        limit_times: None,
        counters: cold.counters,
    }
}

/// The first that applies, from what ends it all to what is merely slow.
pub(in crate::engine) fn limit_of((qpc, cold): (&Qpc, &QpCold), mux: &EventMux, now: Time) -> QpLimit {
    let is_parked = || mux.tenants().is_some_and(|tenants| tenants.is_parked(cold.slot));
    let unsent = qpc.req.sent > 0 || cold.send_queue.tail() != qpc.req.next;
    if !qpc.id.state.continues_sends() {
        QpLimit::State
    } else if cold.send_queue.tail() == qpc.req.head {
        QpLimit::NothingToSend
    } else if qpc.sched.contains(SchedFlags::PAUSED) {
        QpLimit::Paused
    } else if cold.rnr.is_some() {
        QpLimit::NoReceive
    } else if silent_ns(qpc, cold, now) >= SILENT_NS {
        QpLimit::PeerSilent
    } else if qpc.tx.recovering() || qpc.tx.retry_pending() > 0 {
        QpLimit::Recovery
    } else if qpc.flags.contains(QpFlags::READ_WAIT) {
        QpLimit::Reads
    } else if !unsent {
        QpLimit::Acknowledgement
    } else if qpc.sched.contains(SchedFlags::WAITS_FOR_HOST) {
        QpLimit::PeerHost
    } else if qpc.tx.may_send_new() {
        if is_parked() { QpLimit::Tenant } else { QpLimit::Turn }
    } else if qpc.tx.may_resend() || qpc.tx.cwnd() >= cold.attributes.window.into() {
        // Either the sequence window is full, or the controller takes nothing off the window.
        QpLimit::Credit
    } else if cold.tx_recovery.path.is_marked_by_host() {
        QpLimit::PeerHost
    } else {
        QpLimit::Congestion
    }
}
