//! The engine behind a device, whatever its port: one dynamic call a turn, none a packet.

use crate::bell::Bell;
use crate::completion::ChannelShared;
use crate::events::Events;
use crate::wake_deadline::WakeDeadline;
use core::net::IpAddr;
use datapath::engine::{AsyncEvent, Core, CreateError, Engine, GroupError, Turn};
use datapath::port::fault::FaultStats;
use datapath::port::{LinkDown, Port, PortStats, Rest};
use datapath::queue::{CompletionQueue, Handed};
use datapath::sched::TenantId;
use datapath::time::Time;
use std::sync::Arc;

/// The receiver of a completion queue's events.
pub(crate) enum Hears {
    /// The program.
    Channel(Arc<ChannelShared>),
    /// The attendant is called after a turn.
    Attendant(Arc<WakeDeadline>),
}

/// What a turn did, and what it left.
pub(crate) struct Turned {
    pub turn: Turn,
    /// Acknowledgements wait for the next turn or push, as [`Core::owes_acks`] says.
    pub owes_acks: bool,
}

/// An engine on any port. What needs no port is called of its [`Core`]; the rest is as of
/// [`Engine`].
pub(crate) trait Nic: Send {
    fn core(&self) -> &Core;
    fn core_mut(&mut self) -> &mut Core;
    fn turn(&mut self, now: Time) -> Turned;
    fn push(&mut self, handed: Option<Handed>, now: Time) -> Turned;
    fn settle(&mut self, now: Time) -> Turn;
    fn owes(&self) -> bool;
    /// Frames that wait in the port to be sent; `None` if it does not know.
    fn tx_waiting(&self) -> Option<usize>;
    /// When a turn has something to do even if nothing comes.
    fn next_deadline(&self) -> Option<Time>;
    /// For a thread that is going to sleep ([`Port::rest`]). `None`: the link is new, so that there
    /// is something to do.
    fn rest(&mut self) -> Option<Rest>;
    fn poll_event(&mut self) -> Option<AsyncEvent>;
    /// Rings for asynchronous events from now on.
    fn ring_with(&mut self, bell: Arc<Bell>);
    /// The engine runs no more.
    fn note_death(&mut self);
    /// Tells who hears it what the engine completed, and what happened: after each call, as turns
    /// do by themselves.
    fn tell(&mut self);
    /// Returns `true` if frames can pass. Also notes whether that is new.
    fn link_up(&mut self) -> bool;
    /// Why frames cannot pass; `None` if they can. Also notes whether that is new, as
    /// [`Nic::link_up`] does.
    fn link_down(&mut self) -> Option<LinkDown>;
    /// Has this called when the link comes up.
    #[cfg(feature = "async")]
    fn wake_when_link_up(&mut self, wake_deadline: &Arc<WakeDeadline>);
    fn port_stats(&self) -> PortStats;
    fn fault_stats(&self) -> FaultStats;
    /// The queue's events go to who hears them.
    fn create_cq(
        &mut self,
        tenant: TenantId,
        entries: u32,
        hears: Option<Hears>,
    ) -> Result<(u32, CompletionQueue), CreateError>;
    fn destroy_cq(&mut self, number: u32);
    /// As of [`Engine`]: the port lets the group's frames through, too.
    fn join_group(&mut self, qpn: u32, group: IpAddr) -> Result<(), GroupError>;
    fn leave_group(&mut self, qpn: u32, group: IpAddr) -> Result<(), GroupError>;
}

/// An engine, and how its port tells what its faults did.
pub(crate) struct Driven<P: Port> {
    pub engine: Engine<P>,
    /// The receivers of completion events, by the number of the completion queue.
    pub hears: Vec<Option<Hears>>,
    /// Events that the engine does not log itself.
    pub events: Events,
    pub fault_stats: fn(&P) -> FaultStats,
}

impl<P: Port> Driven<P> {
    /// An engine on a port whose link may be up already.
    pub fn new(mut engine: Engine<P>, fault_stats: fn(&P) -> FaultStats) -> Self {
        let up = engine.port().link_up();
        engine.core_mut().note_link(up);
        Self { engine, hears: Vec::new(), events: Events::new(up), fault_stats }
    }

    /// Returns `true` if frames can pass now. Who comes to a link asks whether its address is free.
    fn look_at_link(&mut self) -> bool {
        let up = self.engine.port().link_up();
        if self.events.note_link(up) {
            self.engine.core_mut().note_link(up);
        }
        up
    }

    /// What ends each turn.
    #[inline]
    fn turned(&mut self, turn: Turn) -> Turned {
        self.announce();
        Turned { turn, owes_acks: self.engine.core().owes_acks() }
    }

    /// Mostly nobody is to be told of anything.
    #[inline]
    fn announce(&mut self) {
        if self.engine.core().has_cq_events() {
            self.tell_of_completions();
        }
        if self.events.may_ring() {
            self.events.tell(self.engine.core());
        }
    }

    #[cold]
    fn tell_of_completions(&mut self) {
        while let Some(number) = self.engine.core_mut().poll_cq_event() {
            match self.hears.get(number as usize) {
                Some(Some(Hears::Channel(channel))) => channel.tell(number),
                Some(Some(Hears::Attendant(wake_deadline))) => wake_deadline.wake_now(),
                Some(None) | None => {}
            }
        }
    }
}

impl<P: Port + Send> Nic for Driven<P> {
    fn core(&self) -> &Core {
        self.engine.core()
    }

    fn core_mut(&mut self) -> &mut Core {
        self.engine.core_mut()
    }

    fn turn(&mut self, now: Time) -> Turned {
        let turn = self.engine.turn(now);
        if self.events.is_link_due(now) {
            self.events.look_later(now);
            self.look_at_link();
        }
        self.turned(turn)
    }

    fn push(&mut self, handed: Option<Handed>, now: Time) -> Turned {
        let turn = self.engine.push(handed, now);
        self.turned(turn)
    }

    fn settle(&mut self, now: Time) -> Turn {
        self.engine.settle(now)
    }

    fn owes(&self) -> bool {
        self.engine.owes()
    }

    fn tx_waiting(&self) -> Option<usize> {
        self.engine.port().tx_waiting()
    }

    fn next_deadline(&self) -> Option<Time> {
        [self.engine.next_deadline(), self.engine.port().next_due()].into_iter().flatten().min()
    }

    fn rest(&mut self) -> Option<Rest> {
        let (before, now) = (self.events.up(), self.look_at_link());
        (before == now).then(|| self.engine.port_mut().rest())
    }

    fn poll_event(&mut self) -> Option<AsyncEvent> {
        self.events.poll(self.engine.core_mut())
    }

    fn ring_with(&mut self, bell: Arc<Bell>) {
        self.events.ring_with(bell);
    }

    fn note_death(&mut self) {
        self.events.note_death();
    }

    fn tell(&mut self) {
        self.announce();
    }

    fn link_up(&mut self) -> bool {
        self.look_at_link()
    }

    fn link_down(&mut self) -> Option<LinkDown> {
        if self.link_up() {
            return None;
        }
        self.engine.port().link_down().or(Some(LinkDown::Unknown))
    }

    #[cfg(feature = "async")]
    fn wake_when_link_up(&mut self, wake_deadline: &Arc<WakeDeadline>) {
        self.events.wake_when_link_up(wake_deadline);
    }

    fn port_stats(&self) -> PortStats {
        self.engine.port().stats()
    }

    fn fault_stats(&self) -> FaultStats {
        (self.fault_stats)(self.engine.port())
    }

    fn create_cq(
        &mut self,
        tenant: TenantId,
        entries: u32,
        hears: Option<Hears>,
    ) -> Result<(u32, CompletionQueue), CreateError> {
        let (number, reader) = self.engine.core_mut().create_cq_of(tenant, entries)?;
        if hears.is_some() {
            self.engine.core_mut().listen_to_cq(number);
        }
        let index = number as usize;
        if index >= self.hears.len() {
            self.hears.resize_with(index + 1, || None);
        }
        self.hears[index] = hears;
        Ok((number, reader))
    }

    fn destroy_cq(&mut self, number: u32) {
        self.engine.core_mut().destroy_cq(number);
        if let Some(Hears::Channel(channel)) = self.hears.get_mut(number as usize).and_then(Option::take) {
            channel.forget(number);
        }
    }

    fn join_group(&mut self, qpn: u32, group: IpAddr) -> Result<(), GroupError> {
        self.engine.join_group(qpn, group)
    }

    fn leave_group(&mut self, qpn: u32, group: IpAddr) -> Result<(), GroupError> {
        self.engine.leave_group(qpn, group)
    }
}
