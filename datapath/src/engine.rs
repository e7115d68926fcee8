//! The poll loop, and nothing else: one turn takes what arrived, lets the slow path and the timers
//! speak, and sends.

mod admin;
mod ahead;
mod backlog;
mod core;
mod due;
mod error;
mod group;
mod idle;
mod loopback;
mod prefetch;
mod receive;
mod send;
mod watch;

pub use self::core::Core;
pub use crate::config::{AckTiming, ConfigError, EngineConfig, WINDOW_LIMIT};
pub use crate::event::AsyncEvent;
pub use crate::qpn::QPS_LIMIT;
pub use admin::{
    CQ_ENTRIES_MAX, EngineMemory, QpConfig, QpHandles, QpLimit, QpMemory, QpReport, SrqAttr, TenantReport,
    Usage,
};
pub use error::{CreateError, GroupError, ModifyError};
pub use watch::{LatencyReport, LimitTimes};

use crate::port::Port;
use crate::queue::Handed;
use crate::slow_path::CtrlQ;
use crate::time::Time;
use crate::tuning;
use loopback::Wire;
use sr_recovery::thread::Remote;

/// A software RDMA NIC: one port, its queue pairs, and the loop that serves them.
///
/// Sans I/O: it reads no clock, draws no random number and spawns nothing. Whoever owns it calls
/// [`Engine::turn`]. What it does without its port is in its [`Core`], the control path above all.
pub struct Engine<P: Port> {
    wire: Wire<P>,
    core: Core,
    /// The port had no slot for something in the last turn, or none within its bound.
    port_was_full: bool,
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
        let ctrl_q = ctrl_q(&config);
        Ok(Self { wire: Wire::new(port), core: Core::new(caps, config, ctrl_q), port_was_full: false })
    }

    /// What of it knows no port.
    pub const fn core(&self) -> &Core {
        &self.core
    }

    /// What of it knows no port, to change it.
    pub const fn core_mut(&mut self) -> &mut Core {
        &mut self.core
    }

    /// One turn of the loop, at time `now`, which must not go backwards. Allocates nothing, locks
    /// nothing, waits for nothing.
    pub fn turn(&mut self, now: Time) -> Turn {
        self.begin_turn(now);
        let units = &mut self.core.units;
        if units.drained_at == Time::ZERO {
            units.drained_at = units.now;
        }
        let received = self.receive() + self.wire.port.take_passed_on();
        self.core.step_slow_path();
        self.core.take_doorbells();
        self.core.fire_timers();
        let sent = self.send(received <= tuning::HOLD_BURST);
        self.wire.port.tx_flush();
        self.core.deactivate_idle();
        self.core.watch(self.port_was_full);
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
        let slot = handed.map(|handed| handed.slot);
        let waits = self.core.units.mux.behind(slot) >= tuning::TX_BATCH;
        // One in which nothing is taken in: every stream is silent.
        self.begin_turn(now);
        if !waits {
            self.core.take_doorbells();
        }
        if let Some(slot) = slot {
            self.core.take_handed(slot);
        }
        let sent = if waits { self.send_held_acks(false) } else { self.send_before_acks(slot) };
        self.wire.port.tx_flush();
        self.core.deactivate_idle();
        self.core.watch(self.port_was_full);
        Turn { received: 0, sent }
    }

    /// Sends every acknowledgement that is owed, whatever it waits for.
    pub fn settle(&mut self, now: Time) -> Turn {
        self.begin_turn(now);
        let sent = self.send_held_acks(true);
        self.wire.port.tx_flush();
        Turn { received: 0, sent }
    }

    #[inline]
    fn begin_turn(&mut self, now: Time) {
        let units = &mut self.core.units;
        units.turn = units.turn.wrapping_add(1);
        units.now = units.now.max(now);
        self.wire.port.set_now(units.now);
    }

    /// Says that nothing had arrived by `at`: what the next turn takes came later. A driver knows
    /// that if an interrupt woke it, and a simulation knows it. Without this, what a turn takes may
    /// have come at any time since the last turn that found the port empty (docs/protocol.md 2.2).
    pub fn note_drained(&mut self, at: Time) {
        self.core.units.drained_at = self.core.units.drained_at.max(at);
    }

    /// The earliest time at which a turn has something to do even if nothing arrives and nobody
    /// posts.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Time> {
        if self.has_work() { Some(self.core.units.now) } else { self.core.next_deadline() }
    }

    /// Whether the next turn has something to do right now.
    #[must_use]
    pub fn has_work(&self) -> bool {
        self.wire.loopback_waiting() > 0 || self.core.has_work()
    }

    /// Whether somebody would miss what this engine has yet to do: requests that may be sent,
    /// acknowledgements, responses that their requesters have not acknowledged, and answers to
    /// peers of queue pairs that are just gone. Looks at every queue pair, if there is nothing to
    /// do at once.
    #[must_use]
    pub fn owes(&self) -> bool {
        self.has_work() || self.core.owes_later()
    }

    /// The port.
    pub const fn port(&self) -> &P {
        &self.wire.port
    }

    /// The port, to change it.
    pub const fn port_mut(&mut self) -> &mut P {
        &mut self.wire.port
    }
}
