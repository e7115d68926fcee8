//! Hosts: each has the engine that runs on the wire, or a small model of a NIC beside which the
//! engine stands.

pub mod engine;
pub mod model;

use crate::clock::Ps;
use crate::ideal::Frames;
use crate::memory::SharedMemory;
use crate::packet::{List, Packets};
use crate::port::Arena;
use datapath::engine::{ConfigError, CreateError, ModifyError};
use datapath::memory::RegisterError;
use datapath::port::Port;
use datapath::prefetch;
use datapath::queue::{PostError, WcStatus};
use engine::{End, EngineHost, EngineHostConfig};
use model::{ModelConfig, ModelHost};
use std::sync::Arc;

/// What all hosts of a run are made with.
#[derive(Clone, Copy, Debug)]
pub enum HostConfig {
    /// The engine.
    Engine(EngineHostConfig),
    /// A reference model.
    Model(ModelConfig),
}

impl HostConfig {
    /// Bytes of the frames that carry a flow.
    #[must_use]
    pub const fn frames(&self) -> Frames {
        match self {
            Self::Engine(_) => Frames::SRNIC,
            Self::Model(config) => config.frames,
        }
    }

    /// Payload of a full packet, in bytes.
    #[must_use]
    pub const fn mtu(&self) -> u32 {
        match self {
            Self::Engine(config) => config.mtu.bytes(),
            Self::Model(config) => config.mtu.bytes(),
        }
    }

    /// Longest frame, in bytes.
    #[must_use]
    pub const fn max_frame(&self) -> usize {
        match self {
            Self::Engine(config) => config.max_frame(),
            Self::Model(config) => config.frames.data(config.mtu.bytes()) as usize,
        }
    }

    /// Time between two turns of a host, if there is something to do.
    #[must_use]
    pub const fn turn(&self) -> Ps {
        match self {
            Self::Engine(config) => config.turn,
            Self::Model(config) => config.turn,
        }
    }

    /// Sets the time between two turns of a host.
    pub const fn set_turn(&mut self, turn: Ps) {
        match self {
            Self::Engine(config) => config.turn = turn,
            Self::Model(config) => config.turn = turn,
        }
    }

    /// Bytes of the largest message of flows of at most `flow` bytes, which memory must have.
    #[must_use]
    pub const fn largest_message(&self, flow: u32) -> u32 {
        match self {
            Self::Engine(config) => config.largest_message(flow),
            Self::Model(_) => 1,
        }
    }

    /// As it is for a host whose link takes `ps_per_byte`: models pace by it.
    const fn on_link(self, ps_per_byte: u32) -> Self {
        match self {
            Self::Engine(_) => self,
            Self::Model(config) => Self::Model(ModelConfig { ps_per_byte, ..config }),
        }
    }

    /// Frames of the transmit ring.
    #[must_use]
    pub const fn ring(&self) -> u32 {
        match self {
            Self::Engine(config) => config.ring,
            Self::Model(config) => config.ring,
        }
    }
}

/// Why a host cannot do what it is asked.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The engine's configuration.
    #[error("a host's engine cannot be made: {0}")]
    Config(#[from] ConfigError),
    /// An object of the engine.
    #[error("a host's engine refuses: {0}")]
    Create(#[from] CreateError),
    /// A region.
    #[error("a host's memory cannot be registered: {0}")]
    Register(#[from] RegisterError),
    /// A transition of a queue pair.
    #[error("a queue pair cannot be connected: {0}")]
    Modify(#[from] ModifyError),
    /// A flow.
    #[error("a flow cannot be posted: {0}")]
    Post(#[from] PostError),
    /// A thread.
    #[error("a thread cannot be started: {0}")]
    Thread(std::io::Error),
    /// A window is longer than a message takes from one part of the network to another: a bug.
    #[error("a message for {} ps arrived when {} ps had passed; please report this", at.0, until.0)]
    Late {
        /// When it was to arrive.
        at: Ps,
        /// Until when its receiver had run.
        until: Ps,
    },
    /// The mapping of the shared memory.
    #[error("the hosts' memory cannot be mapped: {0}")]
    Memory(#[from] std::io::Error),
}

/// When a host takes its next turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// As soon as it may: more has arrived.
    Soon,
    /// When its ring has room again.
    Room,
    /// Then, or when something arrives.
    At(Ps),
}

/// What sends and receives in a host.
enum Transport {
    Engine(Box<EngineHost>),
    Model(Box<ModelHost>, ModelConfig),
}

/// A simulated host.
pub struct Host {
    /// When its next turn is; no turn is due at another moment.
    pub turn_at: Ps,
    /// It is busy until then.
    pub busy_until: Ps,
    /// Frames that have arrived, and when the first of them did. They are here, apart from the
    /// transport, since many come between two turns.
    inbox: List,
    inbox_since: Ps,
    transport: Transport,
}

impl Host {
    /// Host `number`, with the memory of all hosts, and a link of `ps_per_byte`.
    ///
    /// # Errors
    /// [`HostError`].
    pub fn new(
        (number, ps_per_byte): (u32, u32),
        seed: u64,
        config: &HostConfig,
        memory: &Arc<SharedMemory>,
    ) -> Result<Self, HostError> {
        let transport = match config.on_link(ps_per_byte) {
            HostConfig::Engine(config) => {
                Transport::Engine(Box::new(EngineHost::new(number, seed, &config, memory)?))
            }
            HostConfig::Model(config) => Transport::Model(Box::new(ModelHost::new(number)), config),
        };
        let inbox = List::default();
        Ok(Self { turn_at: Ps::NEVER, busy_until: Ps(0), inbox, inbox_since: Ps(0), transport })
    }

    /// The host with the engine; `None`: it has a model.
    #[must_use]
    pub const fn engine(&self) -> Option<&EngineHost> {
        match &self.transport {
            Transport::Engine(host) => Some(host),
            Transport::Model(..) => None,
        }
    }

    pub(crate) const fn engine_mut(&mut self) -> Option<&mut EngineHost> {
        match &mut self.transport {
            Transport::Engine(host) => Some(host),
            Transport::Model(..) => None,
        }
    }

    pub(crate) const fn model_mut(&mut self) -> Option<(&mut ModelHost, &ModelConfig)> {
        match &mut self.transport {
            Transport::Engine(_) => None,
            Transport::Model(host, config) => Some((host, config)),
        }
    }

    /// Frames that it has sent, and frames that it has taken from its link.
    #[must_use]
    pub fn frames(&self) -> (u64, u64) {
        match &self.transport {
            Transport::Engine(host) => {
                let stats = host.engine.port().stats();
                (stats.tx_frames, stats.rx_frames)
            }
            Transport::Model(host, _) => host.frames,
        }
    }

    /// A packet has arrived.
    pub fn receive(&mut self, now: Ps, packets: &mut Packets, packet: u32) {
        if self.inbox.len == 0 {
            self.inbox_since = now;
        }
        self.inbox.push(packets, packet);
    }

    /// Starts to fetch what a turn needs first.
    pub fn prefetch(&self, packets: &Packets) {
        match &self.transport {
            Transport::Engine(host) => prefetch::read_all(&host.engine),
            Transport::Model(host, _) => prefetch::read_all(&**host),
        }
        if let Some(first) = self.inbox.first() {
            packets.prefetch(first);
        }
    }

    /// Takes a turn with room for so many frames, which are then in the arena.
    pub fn turn(&mut self, now: Ps, mut arena: Box<Arena>, room: u32) -> Option<Box<Arena>> {
        match &mut self.transport {
            Transport::Engine(host) => {
                if self.inbox.len > 0 {
                    host.engine.note_drained(self.inbox_since.to_time());
                }
                host.engine.port_mut().begin(arena, self.inbox, room);
                host.engine.turn(now.to_time());
                let (arena, inbox) = host.engine.port_mut().end()?;
                self.inbox = inbox;
                Some(arena)
            }
            Transport::Model(host, config) => {
                host.turn(config, now, (&mut self.inbox, &mut arena), room);
                Some(arena)
            }
        }
    }

    /// When it takes its next turn.
    #[must_use]
    pub fn next(&self) -> Next {
        if self.inbox.len > 0 {
            return Next::Soon;
        }
        let refused = match &self.transport {
            Transport::Engine(host) => host.engine.port().refused,
            Transport::Model(host, _) => host.refused,
        };
        if refused {
            return Next::Room;
        }
        Next::At(match &self.transport {
            Transport::Engine(host) => host.engine.next_deadline().map_or(Ps::NEVER, Ps::of_time),
            Transport::Model(host, config) => host.deadline(config),
        })
    }

    /// Bytes of a flow from this host, under way by the queue pair `end`, if it has one, whose
    /// arrival is known.
    pub(crate) fn acknowledged(&self, flow: usize, end: Option<End>) -> u32 {
        match (&self.transport, end) {
            (Transport::Engine(host), Some(end)) => host.completed(end),
            (Transport::Model(host, config), _) => {
                let flow = u32::try_from(flow).unwrap_or(u32::MAX);
                host.acknowledged(config, flow).unwrap_or(0)
            }
            _ => 0,
        }
    }

    /// A flow from this host that has ended, and how.
    ///
    /// # Errors
    /// [`HostError::Post`].
    pub fn poll(&mut self) -> Result<Option<(usize, WcStatus)>, HostError> {
        Ok(match &mut self.transport {
            Transport::Engine(host) => {
                host.poll()?.map(|(flow, status)| (usize::try_from(flow).unwrap_or(usize::MAX), status))
            }
            Transport::Model(host, _) => host.poll().map(|flow| (flow as usize, WcStatus::Success)),
        })
    }
}
