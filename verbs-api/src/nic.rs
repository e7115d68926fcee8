//! The engine behind a device, whatever its port: one dynamic call a turn, none a packet.

mod forked;

pub(crate) use forked::Forked;

use crate::bell::Bell;
use crate::completion::ChannelShared;
use crate::error::Error;
use crate::events::Events;
use crate::wake_deadline::WakeDeadline;
use core::net::IpAddr;
use datapath::address::AddressKey;
use datapath::counters::Counters;
use datapath::engine::{
    AsyncEvent, CreateError, Engine, EngineConfig, EngineMemory, ModifyError, QpConfig, QpHandles, QpReport,
    SrqAttr, Turn, Usage,
};
use datapath::memory::{Access, Backing, MemoryKey, ProtectionDomainId, RegisterError, WindowType};
use datapath::port::fault::FaultStats;
use datapath::port::{LinkDown, Port, PortStats};
use datapath::qp::attr::{AddressVector, QpAttr, QpAttrMask};
use datapath::queue::{CompletionQueue, Doorbells, Handed, SharedRecvQueue, SrqCaps};
use datapath::time::Time;
use std::sync::Arc;

/// The receiver of a completion queue's events.
pub(crate) enum Hears {
    /// The program.
    Channel(Arc<ChannelShared>),
    /// The attendant is called after a turn.
    Attendant(Arc<WakeDeadline>),
}

/// The methods of an engine that a device calls, whatever the port; each is that of [`Engine`].
pub(crate) trait Nic: Send {
    fn turn(&mut self, now: Time) -> Turn;
    fn push(&mut self, handed: Option<Handed>, now: Time) -> Turn;
    fn settle(&mut self, now: Time) -> Turn;
    fn owes_acks(&self) -> bool;
    fn owes(&self) -> bool;
    /// Frames that wait in the port to be sent; `None` if it does not know.
    fn tx_waiting(&self) -> Option<usize>;
    fn next_deadline(&self) -> Option<Time>;
    fn doorbells(&self) -> Doorbells;
    fn poll_event(&mut self) -> Option<AsyncEvent>;
    /// Rings for asynchronous events from now on.
    fn ring_with(&mut self, bell: Arc<Bell>);
    /// The engine runs no more.
    fn note_death(&mut self);
    /// Returns `true` if frames can pass. Also notes whether that is new.
    fn link_up(&mut self) -> bool;
    /// Why frames cannot pass; `None` if they can. Also notes whether that is new, as
    /// [`Nic::link_up`] does.
    fn link_down(&mut self) -> Option<LinkDown>;
    /// Has this called when the link comes up.
    #[cfg(feature = "async")]
    fn wake_when_link_up(&mut self, wake_deadline: &Arc<WakeDeadline>);
    fn address_holder(&self) -> Option<[u8; 6]>;
    fn config(&self) -> EngineConfig;
    fn counters(&self) -> Counters;
    fn memory_used(&self) -> EngineMemory;
    fn usage(&self) -> Usage;
    fn port_stats(&self) -> PortStats;
    fn fault_stats(&self) -> FaultStats;
    fn allocate_pd(&mut self) -> ProtectionDomainId;
    fn register_memory(
        &mut self,
        pd: ProtectionDomainId,
        backing: Arc<dyn Backing>,
        iova: u64,
        access: Access,
    ) -> Result<MemoryKey, Error>;
    fn deregister_memory(&mut self, key: MemoryKey);
    fn reregister_memory(
        &mut self,
        key: MemoryKey,
        pd: Option<ProtectionDomainId>,
        memory: Option<(Arc<dyn Backing>, u64)>,
        access: Option<Access>,
    ) -> Result<MemoryKey, Error>;
    fn allocate_window(&mut self, pd: ProtectionDomainId, kind: WindowType) -> Result<MemoryKey, Error>;
    fn deallocate_window(&mut self, key: MemoryKey);
    /// The queue's events go to who hears them.
    fn create_cq(
        &mut self,
        entries: u32,
        hears: Option<Hears>,
    ) -> Result<(u32, CompletionQueue), CreateError>;
    fn resize_cq(
        &mut self,
        number: u32,
        reader: &mut CompletionQueue,
        entries: u32,
    ) -> Result<(), CreateError>;
    fn destroy_cq(&mut self, number: u32);
    fn create_srq(
        &mut self,
        pd: ProtectionDomainId,
        caps: SrqCaps,
    ) -> Result<(u32, SharedRecvQueue), CreateError>;
    fn arm_srq_limit(&mut self, number: u32, limit: u32) -> Result<(), ModifyError>;
    fn query_srq(&self, number: u32) -> Option<SrqAttr>;
    fn reports(&self, now: Time) -> Vec<QpReport>;
    fn destroy_srq(&mut self, number: u32);
    fn heard_from(&self, ip: IpAddr) -> Option<[u8; 6]>;
    fn create_ah(&mut self, pd: ProtectionDomainId, av: &AddressVector) -> Result<AddressKey, CreateError>;
    fn destroy_ah(&mut self, key: AddressKey);
    fn create_qp(&mut self, config: &QpConfig) -> Result<QpHandles, CreateError>;
    fn modify_qp(&mut self, qpn: u32, attr: &QpAttr, mask: QpAttrMask) -> Result<(), ModifyError>;
    fn query_qp(&self, qpn: u32) -> Option<QpAttr>;
    fn limit_window(&mut self, qpn: u32, window: u16) -> u16;
    fn destroy_qp(&mut self, qpn: u32);
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

    /// Tells who hears it what the engine completed, and what happened.
    #[inline]
    fn tell(&mut self) {
        while let Some(number) = self.engine.core_mut().poll_cq_event() {
            match self.hears.get(number as usize) {
                Some(Some(Hears::Channel(channel))) => channel.tell(number),
                Some(Some(Hears::Attendant(wake_deadline))) => wake_deadline.wake_now(),
                Some(None) | None => {}
            }
        }
        if self.events.may_ring() {
            self.events.tell(&self.engine);
        }
    }
}

impl<P: Port + Send> Nic for Driven<P> {
    fn turn(&mut self, now: Time) -> Turn {
        let turn = self.engine.turn(now);
        if self.events.is_link_due(now) {
            self.events.look_later(now);
            self.look_at_link();
        }
        self.tell();
        turn
    }

    fn push(&mut self, handed: Option<Handed>, now: Time) -> Turn {
        let turn = self.engine.push(handed, now);
        self.tell();
        turn
    }

    fn settle(&mut self, now: Time) -> Turn {
        self.engine.settle(now)
    }

    fn owes_acks(&self) -> bool {
        self.engine.core().owes_acks()
    }

    fn owes(&self) -> bool {
        self.engine.owes()
    }

    fn tx_waiting(&self) -> Option<usize> {
        self.engine.port().tx_waiting()
    }

    fn next_deadline(&self) -> Option<Time> {
        self.engine.next_deadline()
    }

    fn doorbells(&self) -> Doorbells {
        self.engine.core().doorbells().clone()
    }

    fn poll_event(&mut self) -> Option<AsyncEvent> {
        self.events.poll(&mut self.engine)
    }

    fn ring_with(&mut self, bell: Arc<Bell>) {
        self.events.ring_with(bell);
        self.tell();
    }

    fn note_death(&mut self) {
        self.events.note_death();
        self.tell();
    }

    fn link_up(&mut self) -> bool {
        let up = self.look_at_link();
        self.tell();
        up
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

    fn address_holder(&self) -> Option<[u8; 6]> {
        self.engine.core().address_holder()
    }

    fn config(&self) -> EngineConfig {
        *self.engine.core().config()
    }

    fn counters(&self) -> Counters {
        *self.engine.core().counters()
    }

    fn memory_used(&self) -> EngineMemory {
        self.engine.core().memory_used()
    }

    fn usage(&self) -> Usage {
        self.engine.core().usage()
    }

    fn port_stats(&self) -> PortStats {
        self.engine.port().stats()
    }

    fn fault_stats(&self) -> FaultStats {
        (self.fault_stats)(self.engine.port())
    }

    fn allocate_pd(&mut self) -> ProtectionDomainId {
        self.engine.core_mut().allocate_pd()
    }

    fn register_memory(
        &mut self,
        pd: ProtectionDomainId,
        backing: Arc<dyn Backing>,
        iova: u64,
        access: Access,
    ) -> Result<MemoryKey, Error> {
        Ok(self.engine.core_mut().register_memory(pd, backing, iova, access)?)
    }

    fn deregister_memory(&mut self, key: MemoryKey) {
        self.engine.core_mut().deregister_memory(key);
    }

    fn reregister_memory(
        &mut self,
        key: MemoryKey,
        pd: Option<ProtectionDomainId>,
        memory: Option<(Arc<dyn Backing>, u64)>,
        access: Option<Access>,
    ) -> Result<MemoryKey, Error> {
        let changed = self.engine.core_mut().reregister_memory(key, pd, memory, access);
        changed.map_err(|error| error.map_or(Error::RegionShared, Error::Register))
    }

    fn allocate_window(&mut self, pd: ProtectionDomainId, kind: WindowType) -> Result<MemoryKey, Error> {
        Ok(self.engine.core_mut().allocate_window(pd, kind).map_err(RegisterError::Full)?)
    }

    fn deallocate_window(&mut self, key: MemoryKey) {
        self.engine.core_mut().deallocate_window(key);
    }

    fn create_cq(
        &mut self,
        entries: u32,
        hears: Option<Hears>,
    ) -> Result<(u32, CompletionQueue), CreateError> {
        let (number, reader) = self.engine.core_mut().create_cq(entries)?;
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

    fn resize_cq(
        &mut self,
        number: u32,
        reader: &mut CompletionQueue,
        entries: u32,
    ) -> Result<(), CreateError> {
        self.engine.core_mut().resize_cq(number, reader, entries)
    }

    fn destroy_cq(&mut self, number: u32) {
        self.engine.core_mut().destroy_cq(number);
        if let Some(Hears::Channel(channel)) = self.hears.get_mut(number as usize).and_then(Option::take) {
            channel.forget(number);
        }
    }

    fn create_srq(
        &mut self,
        pd: ProtectionDomainId,
        caps: SrqCaps,
    ) -> Result<(u32, SharedRecvQueue), CreateError> {
        self.engine.core_mut().create_srq(pd, caps)
    }

    fn arm_srq_limit(&mut self, number: u32, limit: u32) -> Result<(), ModifyError> {
        let result = self.engine.core_mut().arm_srq_limit(number, limit);
        self.tell();
        result
    }

    fn reports(&self, now: Time) -> Vec<QpReport> {
        self.engine.core().reports(now)
    }

    fn query_srq(&self, number: u32) -> Option<SrqAttr> {
        self.engine.core().query_srq(number)
    }

    fn destroy_srq(&mut self, number: u32) {
        self.engine.core_mut().destroy_srq(number);
    }

    fn heard_from(&self, ip: IpAddr) -> Option<[u8; 6]> {
        self.engine.core().heard_from(ip)
    }

    fn create_ah(&mut self, pd: ProtectionDomainId, av: &AddressVector) -> Result<AddressKey, CreateError> {
        self.engine.core_mut().create_ah(pd, av)
    }

    fn destroy_ah(&mut self, key: AddressKey) {
        self.engine.core_mut().destroy_ah(key);
    }

    fn create_qp(&mut self, config: &QpConfig) -> Result<QpHandles, CreateError> {
        self.engine.core_mut().create_qp(config)
    }

    fn modify_qp(&mut self, qpn: u32, attr: &QpAttr, mask: QpAttrMask) -> Result<(), ModifyError> {
        let result = self.engine.core_mut().modify_qp(qpn, attr, mask);
        self.tell();
        result
    }

    fn query_qp(&self, qpn: u32) -> Option<QpAttr> {
        self.engine.core().query_qp(qpn)
    }

    fn limit_window(&mut self, qpn: u32, window: u16) -> u16 {
        self.engine.core_mut().limit_window(qpn, window).unwrap_or(window)
    }

    fn destroy_qp(&mut self, qpn: u32) {
        self.engine.core_mut().destroy_qp(qpn);
    }
}
