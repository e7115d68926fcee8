//! The control path: memory, completion queues, queue pairs and their states.

mod address;
mod group;
mod memory;
mod modify;
mod pause;
mod queue_pair;
mod report;
mod shared_receive;
mod tenants;
mod users;

pub use memory::EngineMemory;
pub(super) use queue_pair::vacant;
pub use queue_pair::{QpConfig, QpHandles, QpMemory};
pub use report::{QpLimit, QpReport};
pub(super) use report::{limit_of, report};
pub use shared_receive::SrqAttr;
pub use tenants::TenantReport;
pub(super) use tenants::TenantTable;
pub(super) use users::Users;

use super::{ConfigError, Core, CreateError};
use crate::memory::ProtectionDomainId;
use crate::port::PortCaps;
use crate::queue::{CompletionQueue, CompletionWriter, completion_queue};
use wire::emit::ICRC_LEN;
use wire::encap::HEADER_LEN_MAX;
use wire::{Layout, Opcode, Pmtu, WireMode};

/// Largest completion queue.
pub const CQ_ENTRIES_MAX: u32 = 1 << 22;

/// Objects of an engine that are in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// Queue pairs.
    pub queue_pairs: usize,
    /// Completion queues.
    pub completion_queues: usize,
    /// Shared receive queues.
    pub shared_receive_queues: usize,
    /// Memory regions, and windows.
    pub memory_regions: usize,
    /// Address handles.
    pub address_handles: usize,
    /// Streams that have a loss to repair.
    pub recovery_contexts: usize,
}

/// Longest frame that a path MTU can need.
pub(super) fn frame_len_max(pmtu: Pmtu) -> usize {
    let longest =
        Layout::of(WireMode::Srnic, Opcode::RcWriteLastImm).map_or(0, |layout| usize::from(layout.len));
    HEADER_LEN_MAX + longest + pmtu.bytes() as usize + ICRC_LEN
}

/// The largest path MTU of plain RoCEv2 whose packets fit a port that [`check_port`] took.
pub(super) fn plain_path_mtu_max(caps: &PortCaps) -> Pmtu {
    let fits = |pmtu: &&Pmtu| frame_len_max(**pmtu) <= caps.max_frame;
    Pmtu::PLAIN.iter().rev().find(fits).copied().unwrap_or(Pmtu::B256)
}

/// A port must carry at least the smallest path MTU.
pub(super) fn check_port(caps: &PortCaps) -> Result<(), ConfigError> {
    let needed = frame_len_max(Pmtu::B256);
    if caps.max_frame < needed {
        return Err(ConfigError::FramesTooShort { max_frame: caps.max_frame, needed });
    }
    Ok(())
}

fn check_cq_entries(entries: u32) -> Result<(), CreateError> {
    CreateError::check("entries", entries, 1, CQ_ENTRIES_MAX)
}

impl Core {
    /// A new protection domain.
    pub const fn allocate_pd(&mut self) -> ProtectionDomainId {
        let pd = ProtectionDomainId(self.next_pd);
        self.next_pd = self.next_pd.wrapping_add(1);
        pd
    }

    /// Creates a completion queue of at least `entries` entries. Returns its number and the
    /// application's end.
    ///
    /// # Errors
    /// [`CreateError`] if there are too many, or `entries` is 0 or above 2^22.
    pub fn create_cq(&mut self, entries: u32) -> Result<(u32, CompletionQueue), CreateError> {
        check_cq_entries(entries)?;
        let capacity = self.config.max_cqs;
        let exhausted = CreateError::Exhausted { what: "completion queues", capacity };
        let number = self.units.cqs.free_number(capacity).ok_or(exhausted)?;
        let (reader, writer) = completion_queue(entries);
        self.units.cqs.insert(number, writer);
        Ok((number, reader))
    }

    /// Lets the application arm a completion queue. False if it does not exist.
    pub fn listen_to_cq(&mut self, number: u32) -> bool {
        // Each queue is on the list at most once: pushing must not allocate in a turn.
        let room = self.units.cqs.numbers().saturating_sub(self.units.cqs_to_tell.len());
        self.units.cqs_to_tell.reserve(room);
        self.units.cqs.get_mut(number).map(CompletionWriter::listen).is_some()
    }

    /// Gives a completion queue at least `entries` entries; what waits in it is kept. `reader` must
    /// be its other end.
    ///
    /// # Errors
    /// [`CreateError`] if it does not exist, `entries` is 0 or above 2^22, or more waits than that.
    pub fn resize_cq(
        &mut self,
        number: u32,
        reader: &mut CompletionQueue,
        entries: u32,
    ) -> Result<(), CreateError> {
        check_cq_entries(entries)?;
        Ok(self.units.cqs.get_mut(number).ok_or(CreateError::UnknownCq(number))?.resize(reader, entries)?)
    }

    /// How much is in use.
    #[must_use]
    pub fn usage(&self) -> Usage {
        Usage {
            queue_pairs: self.qps.len(),
            completion_queues: self.units.cqs.len(),
            shared_receive_queues: self.units.srqs.len(),
            memory_regions: self.units.memory.len(),
            address_handles: self.units.addresses.len(),
            recovery_contexts: self.config.recovery_contexts as usize - self.units.contexts.len(),
        }
    }

    /// Destroys a completion queue. False if it does not exist or a queue pair still uses it.
    pub fn destroy_cq(&mut self, number: u32) -> bool {
        if self.cq_users.has(number) {
            return false;
        }
        self.units.cqs_to_tell.retain(|told| *told != number);
        self.forget_tenant_of_cq(number);
        self.units.cqs.remove(number)
    }
}
