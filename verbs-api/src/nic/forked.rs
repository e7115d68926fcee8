//! The stand-in for the engine in a process that was forked from the one that opened the device.

use super::{Hears, Nic};
use crate::bell::Bell;
use crate::error::Error;
#[cfg(feature = "async")]
use crate::wake_deadline::WakeDeadline;
use core::net::IpAddr;
use datapath::address::AddressKey;
use datapath::counters::Counters;
use datapath::engine::{
    AsyncEvent, CreateError, EngineConfig, EngineMemory, ModifyError, QpConfig, QpHandles, QpReport, SrqAttr,
    Turn, Usage,
};
use datapath::memory::{Access, Backing, MemoryKey, ProtectionDomainId, WindowType};
use datapath::port::fault::FaultStats;
use datapath::port::{LinkDown, PortStats};
use datapath::qp::attr::{AddressVector, QpAttr, QpAttrMask};
use datapath::qp::state::QpState;
use datapath::queue::{CompletionQueue, Doorbells, Handed, SharedRecvQueue, SrqCaps};
use datapath::time::Time;
use std::sync::Arc;

/// The object that this process cannot use. Callers on behalf of a program return [`Error::Forked`]
/// before.
const FORKED: &str = "a device of the process that forked this one";

/// An engine that has nothing, does nothing and refuses every call. The real engine's memory is a
/// copy that was made in the middle of anything, and its port belongs to the parent.
#[derive(Clone)]
pub(crate) struct Forked {
    pub doorbells: Doorbells,
    /// The configuration of the real engine.
    pub config: EngineConfig,
}

impl Nic for Forked {
    fn turn(&mut self, _: Time) -> Turn {
        Turn::default()
    }

    fn push(&mut self, _: Option<Handed>, _: Time) -> Turn {
        Turn::default()
    }

    fn settle(&mut self, _: Time) -> Turn {
        Turn::default()
    }

    fn owes_acks(&self) -> bool {
        false
    }

    fn owes(&self) -> bool {
        false
    }

    fn tx_waiting(&self) -> Option<usize> {
        Some(0)
    }

    fn next_deadline(&self) -> Option<Time> {
        None
    }

    fn doorbells(&self) -> Doorbells {
        self.doorbells.clone()
    }

    fn poll_event(&mut self) -> Option<AsyncEvent> {
        None
    }

    fn ring_with(&mut self, _: Arc<Bell>) {}

    fn note_death(&mut self) {}

    fn link_up(&mut self) -> bool {
        false
    }

    fn link_down(&mut self) -> Option<LinkDown> {
        Some(LinkDown::Unknown)
    }

    #[cfg(feature = "async")]
    fn wake_when_link_up(&mut self, _: &Arc<WakeDeadline>) {}

    fn address_holder(&self) -> Option<[u8; 6]> {
        None
    }

    fn config(&self) -> EngineConfig {
        self.config
    }

    fn counters(&self) -> Counters {
        Counters::default()
    }

    fn memory_used(&self) -> EngineMemory {
        EngineMemory::default()
    }

    fn usage(&self) -> Usage {
        Usage::default()
    }

    fn port_stats(&self) -> PortStats {
        PortStats::default()
    }

    fn fault_stats(&self) -> FaultStats {
        FaultStats::default()
    }

    fn allocate_pd(&mut self) -> ProtectionDomainId {
        // No engine has as many: nothing can be made of it.
        ProtectionDomainId(u32::MAX)
    }

    fn register_memory(
        &mut self,
        _: ProtectionDomainId,
        _: Arc<dyn Backing>,
        _: u64,
        _: Access,
    ) -> Result<MemoryKey, Error> {
        Err(Error::Forked)
    }

    fn deregister_memory(&mut self, _: MemoryKey) {}

    fn reregister_memory(
        &mut self,
        _: MemoryKey,
        _: Option<ProtectionDomainId>,
        _: Option<(Arc<dyn Backing>, u64)>,
        _: Option<Access>,
    ) -> Result<MemoryKey, Error> {
        Err(Error::Forked)
    }

    fn allocate_window(&mut self, _: ProtectionDomainId, _: WindowType) -> Result<MemoryKey, Error> {
        Err(Error::Forked)
    }

    fn deallocate_window(&mut self, _: MemoryKey) {}

    fn create_cq(&mut self, _: u32, _: Option<Hears>) -> Result<(u32, CompletionQueue), CreateError> {
        Err(CreateError::Unsupported(FORKED))
    }

    fn resize_cq(&mut self, _: u32, _: &mut CompletionQueue, _: u32) -> Result<(), CreateError> {
        Err(CreateError::Unsupported(FORKED))
    }

    fn destroy_cq(&mut self, _: u32) {}

    fn create_srq(
        &mut self,
        _: ProtectionDomainId,
        _: SrqCaps,
    ) -> Result<(u32, SharedRecvQueue), CreateError> {
        Err(CreateError::Unsupported(FORKED))
    }

    fn arm_srq_limit(&mut self, _: u32, _: u32) -> Result<(), ModifyError> {
        Err(ModifyError::Unsupported(FORKED))
    }

    fn query_srq(&self, _: u32) -> Option<SrqAttr> {
        None
    }

    fn reports(&self, _: Time) -> Vec<QpReport> {
        Vec::new()
    }

    fn destroy_srq(&mut self, _: u32) {}

    fn heard_from(&self, _: IpAddr) -> Option<[u8; 6]> {
        None
    }

    fn create_ah(&mut self, _: ProtectionDomainId, _: &AddressVector) -> Result<AddressKey, CreateError> {
        Err(CreateError::Unsupported(FORKED))
    }

    fn destroy_ah(&mut self, _: AddressKey) {}

    fn create_qp(&mut self, _: &QpConfig) -> Result<QpHandles, CreateError> {
        Err(CreateError::Unsupported(FORKED))
    }

    fn modify_qp(&mut self, _: u32, _: &QpAttr, _: QpAttrMask) -> Result<(), ModifyError> {
        Err(ModifyError::Unsupported(FORKED))
    }

    fn query_qp(&self, _: u32) -> Option<QpAttr> {
        Some(QpAttr { state: QpState::Err, ..QpAttr::default() })
    }

    fn limit_window(&mut self, _: u32, window: u16) -> u16 {
        window
    }

    fn destroy_qp(&mut self, _: u32) {}
}
