//! What of an engine knows no port: its queue pairs, what they share, and the control path.

use super::{AckTiming, AsyncEvent, EngineConfig, admin, backlog, idle, prefetch, watch};
use crate::counters::Counters;
use crate::memory::MemoryTable;
use crate::neighbor::{Neighbor, NeighborConfig};
use crate::port::PortCaps;
use crate::qp::{self, QpCold, QpFlags, QpTable, Units};
use crate::queue::{CompletionWriter, Doorbells};
use crate::slow_path::CtrlQ;
use crate::time::Time;
use crate::tuning;
use ::core::net::IpAddr;
use sr_recovery::{Command, SlowPathStats, StreamId};

/// An engine without its port: queue pairs and what they share, address resolution, and the control
/// path (`ibv_create_qp` and the like). It is compiled once, whatever the ports.
///
/// [`Engine::core`](super::Engine::core) gives access to it.
pub struct Core {
    pub(super) qps: QpTable,
    pub(super) units: Units,
    pub(super) neighbor: Neighbor,
    pub(super) doorbells: Doorbells,
    pub(super) config: EngineConfig,
    /// Of the port.
    pub(super) caps: PortCaps,
    pub(super) next_pd: u32,
    pub(super) tenants: admin::TenantTable,
    pub(super) cq_users: admin::Users,
    pub(super) srq_users: admin::Users,
    /// An acknowledgement that was asked for waits for a post.
    pub(super) holds_acks: bool,
    /// Queue pairs that become idle before the turn is over.
    pub(super) idle: idle::Idle,
    /// Whose turns come next.
    pub(super) upcoming: prefetch::Upcoming,
    /// Frames that turns left in the port.
    pub(super) backlog: backlog::Backlog,
    /// Where the time of sampled operations goes, if some are.
    pub(super) watch: Option<Box<watch::Watch>>,
}

impl Core {
    /// For a port that can do `caps`. Everything that it will need is allocated here.
    pub(super) fn new(caps: PortCaps, config: EngineConfig, ctrl_q: CtrlQ) -> Self {
        Self {
            neighbor: Neighbor::new(&NeighborConfig {
                mac: caps.mac,
                ip: config.ip,
                vlan: config.vlan,
                capacity: tuning::NEIGHBORS,
                nonce: config.host_nonce,
                defends: config.engine.index() == 0,
            }),
            qps: QpTable::new(config.max_qps, config.engine, config.seed, admin::vacant),
            units: Units::new(&config, ctrl_q),
            doorbells: Doorbells::new(config.max_qps as usize),
            config,
            caps,
            next_pd: 1,
            tenants: admin::TenantTable::default(),
            cq_users: admin::Users::default(),
            srq_users: admin::Users::default(),
            holds_acks: false,
            idle: idle::Idle::new(),
            upcoming: prefetch::Upcoming::new(),
            backlog: backlog::Backlog::new(),
            watch: config.latency.map(|latency| Box::new(watch::Watch::new(latency, config.max_qps))),
        }
    }

    /// Whether acknowledgements wait for the next turn or for
    /// [`Engine::push`](super::Engine::push), and for nothing else.
    #[must_use]
    #[inline]
    pub fn owes_acks(&self) -> bool {
        self.holds_acks || !(self.spaces_acks() || self.units.ack_list.is_empty())
    }

    #[inline]
    pub(super) fn spaces_acks(&self) -> bool {
        self.config.acks != AckTiming::AtOnce
    }

    /// When a turn has something to do that has nothing to do right now.
    pub(super) fn next_deadline(&self) -> Option<Time> {
        let spaced = (!self.units.ack_list.is_empty()).then(|| self.units.now.after(tuning::ACK_SPACING));
        let timers = self.units.timers.next_deadline();
        let parked = self.units.mux.next_deadline();
        let hosts = self.units.hosts.as_ref().and_then(|hosts| hosts.next_deadline());
        [timers, self.neighbor.next_deadline(), spaced, parked, hosts].into_iter().flatten().min()
    }

    /// Whether the next turn has something to do right now, whatever waits in the port.
    pub(super) fn has_work(&self) -> bool {
        self.units.mux.waiting() > 0
            || !self.doorbells.is_empty()
            || !self.units.control.is_empty()
            || self.owes_acks()
            || !self.units.ctrl_q.is_idle()
            || self.neighbor.has_output()
    }

    /// Whether somebody would miss what this engine has to do later.
    pub(super) fn owes_later(&self) -> bool {
        let mut pairs = self.qps.slots().filter_map(|slot| self.qps.peek(slot));
        let owes_responses = |cold: &QpCold| cold.responses.as_deref().is_some_and(|sent| !sent.is_idle());
        !self.units.ack_list.is_empty()
            || self.units.last_words.are_awaited(self.units.now)
            || self.units.mux.next_deadline().is_some()
            || self.units.hosts.as_ref().is_some_and(|hosts| hosts.waiting() > 0)
            || pairs.any(|(_, cold)| owes_responses(cold))
    }

    /// The link came up, or there is none: once it is up, asks whether another host has the
    /// device's address (docs/protocol.md 1.13).
    pub fn note_link(&mut self, up: bool) {
        if up {
            self.neighbor.probe_address();
        } else {
            self.neighbor.suspend_probe();
        }
    }

    /// Ethernet address of another host that has the device's IP address and had it first. No
    /// neighbor is found meanwhile.
    #[must_use]
    pub const fn address_holder(&self) -> Option<[u8; 6]> {
        self.neighbor.address_holder()
    }

    /// The Ethernet address that `ip` sent from when it sent to queue pair 1 lately, which
    /// connection managers talk to.
    #[must_use]
    pub fn heard_from(&self, ip: IpAddr) -> Option<[u8; 6]> {
        self.neighbor.heard_from(self.units.now, ip)
    }

    /// Remembers where a host sent from to queue pair 1, as if it had just done so: it waits for an
    /// answer, and others may have sent since.
    pub fn note_heard(&mut self, ip: IpAddr, mac: [u8; 6]) {
        self.neighbor.note_heard(self.units.now, ip, mac);
    }

    /// Where queue pairs ring, for a thread that sleeps until one does.
    #[must_use]
    pub const fn doorbells(&self) -> &Doorbells {
        &self.doorbells
    }

    /// What was counted.
    #[must_use]
    pub const fn counters(&self) -> &Counters {
        &self.units.counters
    }

    /// What the slow path did. When nothing is missing anywhere, it keeps state of no stream.
    #[must_use]
    pub fn slow_path_stats(&self) -> SlowPathStats {
        self.units.ctrl_q.stats()
    }

    /// The registered memory.
    #[must_use]
    pub const fn memory(&self) -> &MemoryTable {
        &self.units.memory
    }

    /// The registered memory, to register more.
    pub const fn memory_mut(&mut self) -> &mut MemoryTable {
        &mut self.units.memory
    }

    /// What the engine was made with.
    #[must_use]
    pub const fn config(&self) -> &EngineConfig {
        &self.config
    }

    /// The oldest asynchronous event not yet polled.
    pub fn poll_event(&mut self) -> Option<AsyncEvent> {
        match self.units.events.pop() {
            // Those that were lost were younger than all that were kept.
            None => Some(self.units.events.take_lost())
                .filter(|count| *count > 0)
                .map(|count| AsyncEvent::Lost { count }),
            event => event,
        }
    }

    /// Whether [`Core::poll_event`] has any.
    #[must_use]
    pub fn has_events(&self) -> bool {
        !self.units.events.is_empty()
    }

    /// Returns `true` if [`Core::poll_cq_event`] may have one.
    #[must_use]
    #[inline]
    pub fn has_cq_events(&self) -> bool {
        !self.units.cqs_to_tell.is_empty()
    }

    /// A completion queue whose armed wish was answered since it was armed. Ask after each turn,
    /// and after calls that may complete requests, until there is none.
    pub fn poll_cq_event(&mut self) -> Option<u32> {
        while let Some(number) = self.units.cqs_to_tell.pop() {
            if self.units.cqs.get_mut(number).is_some_and(CompletionWriter::take_event) {
                return Some(number);
            }
        }
        None
    }

    /// As a doorbell, but for the fences.
    pub(super) fn take_handed(&mut self, slot: u32) {
        let Some(qp) = self.qps.get(slot) else { return };
        if qp.hot.flags.contains(QpFlags::ACTIVE) || qp.cold.send_queue.shared().take_quietly() {
            self.on_doorbell(slot);
        }
    }

    /// Decisions of the slow path.
    #[inline]
    pub(super) fn step_slow_path(&mut self) {
        if !self.units.ctrl_q.is_idle() {
            self.take_decisions();
        }
    }

    #[cold]
    #[inline(never)]
    fn take_decisions(&mut self) {
        for _ in 0..tuning::COMMANDS_PER_TURN {
            let Some(command) = self.units.ctrl_q.step() else { break };
            let stream = stream_of(&command);
            let Some(mut qp) = self.qps.get(stream.qp) else { continue };
            match command {
                Command::Advance { generation, epsn, bitmap, .. } => {
                    qp::apply_advance(&mut qp, &mut self.units, stream, generation, epsn, bitmap);
                }
                Command::Lost { .. } | Command::Found { .. } | Command::Scoreboard { .. } => {
                    qp.on_command(&mut self.units, stream, &command);
                }
            }
        }
    }
}

const fn stream_of(command: &Command) -> StreamId {
    match command {
        Command::Advance { stream, .. }
        | Command::Lost { stream, .. }
        | Command::Found { stream, .. }
        | Command::Scoreboard { stream, .. } => *stream,
    }
}
