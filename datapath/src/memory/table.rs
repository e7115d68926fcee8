//! Keys to regions: the table that every local and remote access goes through.

mod window;

pub use window::{BindError, Binding, WindowType};

use super::{Access, Backing, Mapped, MemoryBudget};
use crate::seed::{Numbers, Purpose, Seed};
use core::ptr::NonNull;
use std::collections::HashMap;
use std::sync::Arc;
use window::Window;

/// A protection domain: regions and queue pairs of different domains never meet.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ProtectionDomainId(pub u32);

/// An lkey or rkey: `index << 8 | key` (protocol.md 1.11).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct MemoryKey(pub u32);

/// Why an access was refused. On the wire all of them are NAK 0x62; locally LOC_PROT_ERR.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AccessError {
    /// No region has this key now.
    #[error("key {key:#010x} names no registered region")]
    UnknownKey {
        /// The key that was presented.
        key: u32,
    },
    /// The region belongs to another protection domain.
    #[error("key {key:#010x} belongs to another protection domain")]
    ProtectionDomain {
        /// The key that was presented.
        key: u32,
    },
    /// The region does not allow it.
    #[error("key {key:#010x} does not allow {wanted:?}")]
    Permission {
        /// The key that was presented.
        key: u32,
        /// What was wanted.
        wanted: Access,
    },
    /// The range is not inside the region, or wraps.
    #[error("range {va:#x} + {len} is not inside the region of key {key:#010x}")]
    Range {
        /// The key that was presented.
        key: u32,
        /// First address.
        va: u64,
        /// Length in bytes.
        len: u64,
    },
}

/// The table has no free entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("all {capacity} memory regions of the device are in use; raise max_mrs or deregister some")]
pub struct MemoryTableFull {
    /// Entries of the table.
    pub capacity: usize,
}

/// Why a region could not be registered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RegisterError {
    /// No free entry.
    #[error(transparent)]
    Full(#[from] MemoryTableFull),
    /// REMOTE_WRITE or REMOTE_ATOMIC without LOCAL_WRITE.
    #[error("{0:?} needs LOCAL_WRITE as well: remote writes and atomics write local memory")]
    InconsistentAccess(Access),
    /// The system has no memory of that size.
    #[error("the system gives no {len} bytes; register less, or a file")]
    OutOfMemory {
        /// Length in bytes.
        len: usize,
    },
    /// The tenant whose protection domain it is may have no more.
    #[error("the tenant's quota of {quota} {what} is used up: deregister some, or raise it")]
    Quota {
        /// Plural name of what is used up.
        what: &'static str,
        /// How many there may be.
        quota: u64,
    },
    /// The region would wrap the 64-bit address space.
    #[error("a region of {len} bytes at {iova:#x} wraps the address space")]
    Wraps {
        /// First address.
        iova: u64,
        /// Length in bytes.
        len: u64,
    },
}

/// What a key is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Holder {
    /// A region, with so many windows bound to it.
    Region { windows: u32 },
    /// A window that every queue pair of the domain may use, on the region in that entry.
    AnyQp { region: u32 },
    /// A window of one queue pair.
    Qp { region: u32, qpn: u32 },
}

/// An address inside a backing that the same [`Region`] keeps alive: asked for once, not for each
/// packet.
#[derive(Clone, Copy)]
struct Base(NonNull<u8>);

// SAFETY: a backing is `Send` and `Sync`, and its bytes are reached only as it allows, wherever the
// pointer is.
unsafe impl Send for Base {}
// SAFETY: as above.
unsafe impl Sync for Base {}

struct Region {
    key: u8,
    holder: Holder,
    /// Its first byte, inside the backing.
    base: Base,
    pd: ProtectionDomainId,
    access: Access,
    iova: u64,
    len: u64,
    backing: Arc<dyn Backing>,
}

/// The registered regions of one engine.
pub struct MemoryTable {
    entries: Vec<Slot>,
    free: Vec<u32>,
    keys: Numbers,
    /// Windows that show something to one queue pair.
    bound: usize,
    /// Those of protection domains that have one.
    budgets: HashMap<ProtectionDomainId, Arc<MemoryBudget>>,
}

#[derive(Default)]
struct Slot {
    /// A region, or what a window is bound to.
    region: Option<Region>,
    /// The window that has this entry, if one does.
    window: Option<Window>,
    last_key: u8,
}

impl Slot {
    /// A key made of `random` that is neither 0 nor the last one.
    fn next_key(&mut self, random: u16) -> u8 {
        let key = key_byte(u32::from(random) % 255) + 1;
        self.last_key = if key == self.last_key { key % 255 + 1 } else { key };
        self.last_key
    }
}

impl MemoryTable {
    /// A table for `capacity` regions (at most 2^24, the width of a key's index). `seed` draws the
    /// entries and the keys, so that a peer cannot count from a key that it was given to one that
    /// it was not (docs/security.md).
    #[must_use]
    pub fn new(capacity: usize, seed: Seed) -> Self {
        let capacity = u32::try_from(capacity.min(1 << 24)).unwrap_or(1 << 24);
        let entries = (0..capacity).map(|_| Slot::default()).collect();
        Self {
            entries,
            free: (0..capacity).collect(),
            keys: seed.numbers(Purpose::Keys),
            bound: 0,
            budgets: HashMap::new(),
        }
    }

    /// A free entry and a key for it that is neither 0 nor the last one. The key 0 of entry 0 would
    /// be the number 0, which users take for "no key".
    fn draw(&mut self) -> Option<(u32, u8)> {
        let [k0, k1, _, _, i0, i1, i2, i3] = self.keys.next_u64().to_le_bytes();
        let pick = u32::from_le_bytes([i0, i1, i2, i3]) as usize % self.free.len().max(1);
        let index = (pick < self.free.len()).then(|| self.free.swap_remove(pick))?;
        let slot = &mut self.entries[index as usize];
        Some((index, slot.next_key(u16::from_le_bytes([k0, k1]))))
    }

    /// Registers `backing` at `iova` (the address that work requests and peers use).
    ///
    /// # Errors
    /// [`RegisterError`] if the table is full, the access flags contradict each other, or the range
    /// wraps.
    pub fn register(
        &mut self,
        pd: ProtectionDomainId,
        backing: Arc<dyn Backing>,
        iova: u64,
        access: Access,
    ) -> Result<MemoryKey, RegisterError> {
        if !access.is_consistent() {
            return Err(RegisterError::InconsistentAccess(access));
        }
        let len = backing.len() as u64;
        if iova.checked_add(len).is_none() {
            return Err(RegisterError::Wraps { iova, len });
        }
        let budget = self.budgets.get(&pd).cloned();
        budget.iter().try_for_each(|budget| budget.check(1, len))?;
        let base = Base(backing.base());
        let capacity = self.entries.len();
        let (index, key) = self.draw().ok_or(MemoryTableFull { capacity })?;
        budget.iter().for_each(|budget| budget.take(len));
        self.entries[index as usize].region =
            Some(Region { key, holder: Holder::Region { windows: 0 }, base, pd, access, iova, len, backing });
        Ok(MemoryKey(index << 8 | u32::from(key)))
    }

    /// Ends the region: its keys are refused from now on. Returns false if the key names no region,
    /// or windows are bound to it (protocol.md 1.11).
    pub fn deregister(&mut self, key: MemoryKey) -> bool {
        let index = key.0 >> 8;
        let Some(slot) = self.entries.get_mut(index as usize) else { return false };
        let free = Holder::Region { windows: 0 };
        if slot.region.as_ref().is_none_or(|region| region.key != key_byte(key.0) || region.holder != free) {
            return false;
        }
        if let Some(ended) = slot.region.take()
            && let Some(budget) = self.budgets.get(&ended.pd)
        {
            budget.give_back(ended.len);
        }
        self.free.push(index);
        true
    }

    /// The protection domain that a region or window belongs to, if it exists.
    #[must_use]
    pub fn domain_of(&self, key: MemoryKey) -> Option<ProtectionDomainId> {
        let region = self.entries.get((key.0 >> 8) as usize)?.region.as_ref();
        region.filter(|region| region.key == key_byte(key.0)).map(|region| region.pd)
    }

    /// Has what a protection domain registers from now on count on a budget. It must have
    /// registered nothing yet.
    pub fn set_budget(&mut self, pd: ProtectionDomainId, budget: Arc<MemoryBudget>) {
        self.budgets.insert(pd, budget);
    }

    /// What the regions of a protection domain take counts no more.
    pub fn end_budget(&mut self, pd: ProtectionDomainId) {
        self.budgets.remove(&pd);
    }

    /// Registered regions.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// True if nothing is registered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Checks an access of `len` bytes at `va` by the owner of a region and returns the memory
    /// behind it. A zero-length access is always allowed and validates nothing (protocol.md 1.4).
    ///
    /// # Errors
    /// [`AccessError`] says which check failed.
    #[inline(always)]
    pub fn check(
        &self,
        key: u32,
        pd: ProtectionDomainId,
        va: u64,
        len: u64,
        wanted: Access,
    ) -> Result<Mapped<'_>, AccessError> {
        self.check_as(key, (None, pd), va, len, wanted)
    }

    /// Checks an access by the peer of queue pair `qpn`, who may have the key of a window as well.
    ///
    /// # Errors
    /// As [`MemoryTable::check`].
    #[inline(always)]
    pub fn check_remote(
        &self,
        key: u32,
        (qpn, pd): (u32, ProtectionDomainId),
        va: u64,
        len: u64,
        wanted: Access,
    ) -> Result<Mapped<'_>, AccessError> {
        self.check_as(key, (Some(qpn), pd), va, len, wanted)
    }

    #[inline(always)]
    fn check_as(
        &self,
        key: u32,
        (peer_of, pd): (Option<u32>, ProtectionDomainId),
        va: u64,
        len: u64,
        wanted: Access,
    ) -> Result<Mapped<'_>, AccessError> {
        if len == 0 {
            return Ok(Mapped::empty());
        }
        let region = self
            .entries
            .get((key >> 8) as usize)
            .and_then(|slot| slot.region.as_ref())
            .filter(|region| region.key == key_byte(key) && region.holder.admits(peer_of))
            .ok_or(AccessError::UnknownKey { key })?;
        if region.pd != pd {
            return Err(AccessError::ProtectionDomain { key });
        }
        if !region.access.contains(wanted) {
            return Err(AccessError::Permission { key, wanted });
        }
        let range_error = AccessError::Range { key, va, len };
        let offset = va.checked_sub(region.iova).ok_or(range_error)?;
        let end = offset.checked_add(len).ok_or(range_error)?;
        if end > region.len {
            return Err(range_error);
        }
        let (offset, len) = (
            usize::try_from(offset).map_err(|_| range_error)?,
            usize::try_from(len).map_err(|_| range_error)?,
        );
        // SAFETY: offset + len <= region.len, and that many bytes follow the base in the backing,
        // which the table keeps alive while it is borrowed and which does not move.
        Ok(unsafe { Mapped::new(region.base.0.add(offset), len) })
    }
}

impl Holder {
    /// Returns `true` if the owner (`None`) or the peer of a queue pair may use the key.
    #[inline]
    fn admits(self, peer_of: Option<u32>) -> bool {
        match self {
            Self::Region { .. } => true,
            Self::AnyQp { .. } => peer_of.is_some(),
            Self::Qp { qpn, .. } => peer_of == Some(qpn),
        }
    }
}

/// The low 8 bits of a key.
const fn key_byte(key: u32) -> u8 {
    key.to_le_bytes()[0]
}
