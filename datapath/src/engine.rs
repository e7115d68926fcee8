//! The poll loop, and nothing else: one turn takes what arrived, lets the slow path and the timers
//! speak, and sends.

mod admin;
mod due;
mod error;
mod idle;
mod loopback;
mod prefetch;
mod receive;
mod send;

pub use crate::config::{AckTiming, ConfigError, EngineConfig, WINDOW_LIMIT};
pub use crate::event::AsyncEvent;
pub use crate::qpn::QPS_LIMIT;
pub use admin::{
    CQ_ENTRIES_MAX, EngineMemory, QpConfig, QpHandles, QpLimit, QpMemory, QpReport, SrqAttr, Usage,
};
pub use error::{CreateError, ModifyError};

use crate::counters::Counters;
use crate::memory::MemoryTable;
use crate::neighbor::{Neighbor, NeighborConfig};
use crate::port::Port;
use crate::qp::QpFlags;
use crate::qp::{self, QpTable, Units};
use crate::queue::{CompletionWriter, Doorbells, Handed};
use crate::slow_path::CtrlQ;
use crate::time::Time;
use crate::tuning;
use core::net::IpAddr;
use loopback::Wire;
use sr_recovery::thread::Remote;
use sr_recovery::{Command, SlowPathStats, StreamId};

/// A software RDMA NIC: one port, its queue pairs, and the loop that serves them.
///
/// Sans I/O: it reads no clock, draws no random number and spawns nothing. Whoever owns it calls
/// [`Engine::turn`].
pub struct Engine<P: Port> {
    wire: Wire<P>,
    qps: QpTable,
    units: Units,
    neighbor: Neighbor,
    doorbells: Doorbells,
    config: EngineConfig,
    next_pd: u32,
    cq_users: admin::Users,
    srq_users: admin::Users,
    /// The port had no slot for something in the last turn.
    port_was_full: bool,
    /// An acknowledgement that was asked for waits for a post.
    holds_acks: bool,
    /// Queue pairs that become idle before the turn is over.
    idle: idle::Idle,
    /// Whose turns come next.
    upcoming: prefetch::Upcoming,
}

/// What one turn did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Turn {
    /// Frames received, self-loopback and those for other engines of the device included.
    pub received: usize,
    /// Frames sent, self-loopback included.
    pub sent: usize,
}

impl<P: Port> Engine<P> {
    /// An engine on `port`. Everything it will need is allocated here.
    ///
    /// # Errors
    /// [`ConfigError`] if a size is out of range or the port's frames are too short.
    pub fn new(port: P, config: EngineConfig) -> Result<Self, ConfigError> {
        Self::over(port, config, |config| CtrlQ::stepped(config.slow_path()))
    }

    /// An engine on `port` whose slow path runs in another thread. `remote` is the engine's end of
    /// it ([`sr_recovery::thread::pair`]), made with [`EngineConfig::slow_path`].
    ///
    /// # Errors
    /// As [`Engine::new`].
    pub fn with_slow_path(port: P, config: EngineConfig, remote: Remote) -> Result<Self, ConfigError> {
        Self::over(port, config, |_| CtrlQ::threaded(remote))
    }

    fn over(
        port: P,
        config: EngineConfig,
        ctrl_q: impl FnOnce(&EngineConfig) -> CtrlQ,
    ) -> Result<Self, ConfigError> {
        config.validate()?;
        let caps = port.caps();
        admin::check_port(&caps)?;
        Ok(Self {
            neighbor: Neighbor::new(&NeighborConfig {
                mac: caps.mac,
                ip: config.ip,
                vlan: config.vlan,
                capacity: tuning::NEIGHBORS,
                nonce: config.host_nonce,
                defends: config.engine.index() == 0,
            }),
            wire: Wire::new(port),
            qps: QpTable::new(config.max_qps, config.engine, config.seed, admin::vacant),
            units: Units::new(&config, ctrl_q(&config)),
            doorbells: Doorbells::new(config.max_qps as usize),
            config,
            next_pd: 1,
            cq_users: admin::Users::default(),
            srq_users: admin::Users::default(),
            port_was_full: false,
            holds_acks: false,
            idle: idle::Idle::new(),
            upcoming: prefetch::Upcoming::new(),
        })
    }

    /// One turn of the loop, at time `now`, which must not go backwards. Allocates nothing, locks
    /// nothing, waits for nothing.
    pub fn turn(&mut self, now: Time) -> Turn {
        self.begin_turn(now);
        if self.units.drained_at == Time::ZERO {
            self.units.drained_at = self.units.now;
        }
        let received = self.receive() + self.wire.port.take_passed_on();
        self.step_slow_path();
        self.take_doorbells();
        self.fire_timers();
        let sent = self.send(received <= tuning::HOLD_BURST);
        self.wire.port.tx_flush();
        self.deactivate_idle();
        Turn { received, sent }
    }

    /// The sending half of a turn, for who has just posted to one queue pair and waits for this to
    /// return: nothing is taken in. Acknowledgements that were held back go out behind what was
    /// posted. Else as [`Engine::turn`].
    ///
    /// Where as many queue pairs have their turn before it as a batch has packets, it would not be
    /// in that batch. Then only acknowledgements go out here, and its requests with a turn to come:
    /// who posts to one after the other would send for all the others, and take in nothing
    /// meanwhile.
    pub fn push(&mut self, handed: Option<Handed>, now: Time) -> Turn {
        let waits = self.units.mux.behind() >= tuning::TX_BATCH;
        // One in which nothing is taken in: every stream is silent.
        self.begin_turn(now);
        if !waits {
            self.take_doorbells();
        }
        let slot = handed.map(|handed| handed.slot);
        if let Some(slot) = slot {
            self.take_handed(slot);
        }
        let sent = if waits { self.send_held_acks() } else { self.send_before_acks(slot) };
        self.wire.port.tx_flush();
        self.deactivate_idle();
        Turn { received: 0, sent }
    }

    /// Sends every acknowledgement that is owed, whatever it waits for.
    pub fn settle(&mut self, now: Time) -> Turn {
        self.begin_turn(now);
        let sent = self.send_every_ack();
        self.wire.port.tx_flush();
        Turn { received: 0, sent }
    }

    /// As a doorbell, but for the fences.
    fn take_handed(&mut self, slot: u32) {
        let Some(qp) = self.qps.get(slot) else { return };
        if qp.hot.flags.contains(QpFlags::ACTIVE) || qp.cold.send_queue.shared().take_quietly() {
            self.on_doorbell(slot);
        }
    }

    /// Whether acknowledgements wait for the next turn or for [`Engine::push`], and for nothing
    /// else.
    #[must_use]
    pub fn owes_acks(&self) -> bool {
        self.holds_acks || !(self.spaces_acks() || self.units.ack_list.is_empty())
    }

    fn spaces_acks(&self) -> bool {
        self.config.acks != AckTiming::AtOnce
    }

    #[inline]
    fn begin_turn(&mut self, now: Time) {
        self.units.turn = self.units.turn.wrapping_add(1);
        self.units.now = self.units.now.max(now);
        self.wire.port.set_now(self.units.now);
    }

    /// Says that nothing had arrived by `at`: what the next turn takes came later. A driver knows
    /// that if an interrupt woke it, and a simulation knows it. Without this, what a turn takes may
    /// have come at any time since the last turn that found the port empty (docs/protocol.md 2.2).
    pub fn note_drained(&mut self, at: Time) {
        self.units.drained_at = self.units.drained_at.max(at);
    }

    /// The earliest time at which a turn has something to do even if nothing arrives and nobody
    /// posts.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Time> {
        if self.has_work() {
            return Some(self.units.now);
        }
        let spaced = (!self.units.ack_list.is_empty()).then(|| self.units.now.after(tuning::ACK_SPACING));
        [self.units.timers.next_deadline(), self.neighbor.next_deadline(), spaced].into_iter().flatten().min()
    }

    /// Whether the next turn has something to do right now.
    #[must_use]
    pub fn has_work(&self) -> bool {
        self.units.mux.waiting() > 0
            || !self.doorbells.is_empty()
            || !self.units.control.is_empty()
            || self.owes_acks()
            || !self.units.ctrl_q.is_idle()
            || self.wire.loopback_waiting() > 0
            || self.neighbor.has_output()
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

    /// Whether somebody would miss what this engine has yet to do: requests that may be sent,
    /// acknowledgements, responses that their requesters have not acknowledged, and answers to
    /// peers of queue pairs that are just gone. Looks at every queue pair, if there is nothing to
    /// do at once.
    #[must_use]
    pub fn owes(&self) -> bool {
        let mut pairs = self.qps.slots().filter_map(|slot| self.qps.peek(slot));
        let owes_responses =
            |cold: &qp::QpCold| cold.responses.as_deref().is_some_and(|sent| !sent.is_idle());
        self.has_work()
            || !self.units.ack_list.is_empty()
            || self.units.last_words.are_awaited(self.units.now)
            || pairs.any(|(_, cold)| owes_responses(cold))
    }

    /// The Ethernet address that `ip` sent from when it sent to queue pair 1 lately, which
    /// connection managers talk to.
    #[must_use]
    pub fn heard_from(&self, ip: IpAddr) -> Option<[u8; 6]> {
        self.neighbor.heard_from(self.units.now, ip)
    }

    /// Where queue pairs ring, for a thread that sleeps until one does.
    #[must_use]
    pub const fn doorbells(&self) -> &Doorbells {
        &self.doorbells
    }

    /// The port.
    pub const fn port(&self) -> &P {
        &self.wire.port
    }

    /// The port, to change it.
    pub const fn port_mut(&mut self) -> &mut P {
        &mut self.wire.port
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

    /// Whether [`Engine::poll_event`] has any.
    #[must_use]
    pub fn has_events(&self) -> bool {
        !self.units.events.is_empty()
    }

    /// A completion queue whose armed wish was answered since it was armed. Ask after each turn,
    /// and after calls that may complete requests, until there is none.
    #[inline]
    pub fn poll_cq_event(&mut self) -> Option<u32> {
        while let Some(number) = self.units.cqs_to_tell.pop() {
            let writer = self.units.cqs.get_mut(number as usize).and_then(Option::as_mut);
            if writer.is_some_and(CompletionWriter::take_event) {
                return Some(number);
            }
        }
        None
    }

    /// Decisions of the slow path.
    fn step_slow_path(&mut self) {
        for _ in 0..tuning::COMMANDS_PER_TURN {
            let Some(command) = self.units.ctrl_q.step() else { break };
            let stream = stream_of(&command);
            let Some(mut qp) = self.qps.get(stream.qp) else { continue };
            match command {
                Command::Advance { generation, epsn, bitmap, .. } if stream.response => {
                    qp::apply_response_advance(&mut qp, &mut self.units, generation, epsn, bitmap);
                }
                Command::Advance { generation, epsn, bitmap, .. } => {
                    qp::apply_advance(&mut qp, &mut self.units, generation, epsn, bitmap);
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
