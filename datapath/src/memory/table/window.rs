//! Memory windows: keys to parts of regions, for some time and for some rights (protocol.md 1.11).

use super::{
    Access, Base, Holder, MemoryKey, MemoryTable, MemoryTableFull, ProtectionDomainId, Region, RegisterError,
    key_byte,
};
use crate::memory::{Backing, Sge};
use std::sync::Arc;

/// The type of a memory window: how it is bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WindowType {
    /// By every queue pair of its domain; bound anew at any time.
    One,
    /// By the queue pair that bound it; must be invalidated before it is bound again.
    Two,
}

/// A window, bound or not.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    key: u8,
    pd: ProtectionDomainId,
    kind: WindowType,
}

/// The range of a region that a window shows, once it is bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Binding {
    /// The part of a region, by that region's lkey. A length of 0 unbinds a window of type 1.
    pub range: Sge,
    /// The accesses that peers may make there.
    pub access: Access,
    /// The window's next key: the index of the old one, and another low byte.
    pub new_key: u32,
}

/// Why a window was not bound or invalidated. The work request fails with MW_BIND_ERR or
/// LOC_QP_OP_ERR.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BindError {
    /// The key names no window of this domain, or of this queue pair.
    #[error("key {0:#010x} names no window that this queue pair may bind or invalidate")]
    UnknownWindow(u32),
    /// The new key is that of another entry.
    #[error("new key {new:#010x} is of another index than {old:#010x}")]
    ForeignKey {
        /// The present key.
        old: u32,
        /// The key asked for.
        new: u32,
    },
    /// A window of type 2 is still bound.
    #[error("window {0:#010x} is bound; invalidate it first")]
    Bound(u32),
    /// The region does not exist here, or allows no windows.
    #[error("key {0:#010x} names no region of this domain with MW_BIND")]
    Region(u32),
    /// Rights that the region does not have, or that no peer can use.
    #[error("{0:?} cannot be given: peers' rights only, and writing needs a region with LOCAL_WRITE")]
    Rights(Access),
    /// The range is not inside the region.
    #[error("range {addr:#x} + {length} is not inside the region")]
    Range {
        /// First address.
        addr: u64,
        /// Length in bytes.
        length: u32,
    },
}

/// What a window may let peers do.
const REMOTE: Access = Access::REMOTE_WRITE.union(Access::REMOTE_READ).union(Access::REMOTE_ATOMIC);
const WRITES: Access = Access::REMOTE_WRITE.union(Access::REMOTE_ATOMIC);

impl MemoryTable {
    /// A window that shows nothing yet.
    ///
    /// # Errors
    /// [`MemoryTableFull`]: windows and regions share the table.
    pub fn allocate_window(
        &mut self,
        pd: ProtectionDomainId,
        kind: WindowType,
    ) -> Result<MemoryKey, MemoryTableFull> {
        let capacity = self.entries.len();
        let (index, key) = self.draw().ok_or(MemoryTableFull { capacity })?;
        let slot = &mut self.entries[index as usize];
        slot.window = Some(Window { key, pd, kind });
        Ok(MemoryKey(index << 8 | u32::from(key)))
    }

    /// Ends a window, bound or not, by any key that it has had: a binding may still be under way.
    /// False if there is none.
    pub fn deallocate_window(&mut self, key: MemoryKey) -> bool {
        let index = key.0 >> 8;
        let slot = self.entries.get_mut(index as usize);
        let Some(window) = slot.and_then(|slot| slot.window.take()) else { return false };
        self.unbind(index);
        self.entries[index as usize].last_key = window.key;
        self.free.push(index);
        true
    }

    /// Binds a window, for the queue pair `qpn` of domain `pd`. Its old key ends.
    ///
    /// # Errors
    /// [`BindError`]; nothing has changed then.
    pub fn bind_window(
        &mut self,
        key: u32,
        (qpn, pd): (u32, ProtectionDomainId),
        binding: &Binding,
    ) -> Result<(), BindError> {
        let window =
            self.window(key).filter(|window| window.pd == pd).ok_or(BindError::UnknownWindow(key))?;
        let index = key >> 8;
        if binding.new_key >> 8 != index {
            return Err(BindError::ForeignKey { old: key, new: binding.new_key });
        }
        let Sge { addr, length, lkey } = binding.range;
        if window.kind == WindowType::Two && self.entries[index as usize].region.is_some() {
            return Err(BindError::Bound(key));
        }
        if length == 0 && window.kind == WindowType::Two {
            return Err(BindError::Range { addr, length });
        }
        let holder = match window.kind {
            WindowType::One => Holder::AnyQp { region: lkey >> 8 },
            WindowType::Two => Holder::Qp { region: lkey >> 8, qpn },
        };
        let shown = if length == 0 { None } else { Some(self.part(pd, binding, holder)?) };
        self.unbind(index);
        if shown.is_some() {
            self.count_window(lkey >> 8, 1);
            self.bound += usize::from(window.kind == WindowType::Two);
        }
        let slot = &mut self.entries[index as usize];
        slot.region = shown;
        slot.window = Some(Window { key: key_byte(binding.new_key), ..window });
        Ok(())
    }

    /// Ends what a window of type 2 shows, for the queue pair that bound it: LOCAL_INV, and SENDs
    /// with invalidate.
    ///
    /// # Errors
    /// [`BindError::UnknownWindow`] for every key that is not one; nothing has changed then.
    pub fn invalidate(&mut self, key: u32, qpn: u32) -> Result<(), BindError> {
        self.check_invalidate(key, qpn)?;
        self.unbind(key >> 8);
        Ok(())
    }

    /// Checks whether [`MemoryTable::invalidate`] would succeed.
    ///
    /// # Errors
    /// The same.
    pub fn check_invalidate(&self, key: u32, qpn: u32) -> Result<(), BindError> {
        let slot = self.entries.get((key >> 8) as usize);
        let region = slot.and_then(|slot| slot.region.as_ref());
        let holds = region.is_some_and(|region| {
            region.key == key_byte(key) && matches!(region.holder, Holder::Qp { qpn: own, .. } if own == qpn)
        });
        if holds { Ok(()) } else { Err(BindError::UnknownWindow(key)) }
    }

    /// Ends what the windows of a queue pair show that is no more. Looks at every entry, unless no
    /// queue pair has such windows.
    pub fn unbind_queue_pair(&mut self, qpn: u32) {
        if self.bound == 0 {
            return;
        }
        for index in (0_u32..).take(self.entries.len()) {
            let region = self.entries[index as usize].region.as_ref();
            let of_it = |region: &Region| matches!(region.holder, Holder::Qp { qpn: own, .. } if own == qpn);
            if region.is_some_and(of_it) {
                self.unbind(index);
            }
        }
    }

    /// Changes a region in place (`ibv_rereg_mr`): what is `None` stays. Its old key ends; the new
    /// one is returned.
    ///
    /// # Errors
    /// `None` if the key names no region, or windows are bound to it; [`RegisterError`] as for a
    /// new one. Nothing has changed then.
    pub fn reregister(
        &mut self,
        key: MemoryKey,
        pd: Option<ProtectionDomainId>,
        memory: Option<(Arc<dyn Backing>, u64)>,
        access: Option<Access>,
    ) -> Result<MemoryKey, Option<RegisterError>> {
        let index = key.0 >> 8;
        let [random, ..] = self.keys.next_u32().to_le_bytes();
        let slot = self.entries.get_mut(index as usize).ok_or(None)?;
        // Taken back: what is refused must not make room for the last key.
        let last_key = slot.last_key;
        let new_key = slot.next_key(random.into());
        slot.last_key = last_key;
        let free = Holder::Region { windows: 0 };
        let region = slot.region.as_mut().filter(|region| region.key == key_byte(key.0)).ok_or(None)?;
        if region.holder != free {
            return Err(None);
        }
        let access = access.unwrap_or(region.access);
        if !access.is_consistent() {
            return Err(Some(RegisterError::InconsistentAccess(access)));
        }
        let len = memory.as_ref().map_or(region.len, |(backing, _)| backing.len() as u64);
        let owner = pd.unwrap_or(region.pd);
        let (old, new) = (self.budgets.get(&region.pd), self.budgets.get(&owner));
        if let Some(new) = new {
            // What it has already, it keeps.
            let (regions, bytes) = if owner == region.pd { (1, region.len) } else { (0, 0) };
            new.check(1 - regions, len.saturating_sub(bytes)).map_err(Some)?;
        }
        if let Some((backing, iova)) = memory {
            if iova.checked_add(len).is_none() {
                return Err(Some(RegisterError::Wraps { iova, len }));
            }
            region.base = Base(backing.base());
            (region.backing, region.iova) = (backing, iova);
        }
        old.into_iter().for_each(|budget| budget.give_back(region.len));
        new.into_iter().for_each(|budget| budget.take(len));
        region.len = len;
        region.access = access;
        region.pd = pd.unwrap_or(region.pd);
        region.key = new_key;
        slot.last_key = new_key;
        Ok(MemoryKey(index << 8 | u32::from(new_key)))
    }

    fn window(&self, key: u32) -> Option<Window> {
        let slot = self.entries.get((key >> 8) as usize)?;
        slot.window.filter(|window| window.key == key_byte(key))
    }

    /// The part of a region that a window is to show.
    fn part(&self, pd: ProtectionDomainId, binding: &Binding, holder: Holder) -> Result<Region, BindError> {
        let Sge { addr, length, lkey } = binding.range;
        let region = self.entries.get((lkey >> 8) as usize).and_then(|slot| slot.region.as_ref());
        let region = region
            .filter(|region| region.key == key_byte(lkey) && region.pd == pd)
            .filter(|region| matches!(region.holder, Holder::Region { .. }))
            .filter(|region| region.access.contains(Access::MW_BIND))
            .ok_or(BindError::Region(lkey))?;
        let access = binding.access;
        let writes_readonly = access.intersects(WRITES) && !region.access.contains(Access::LOCAL_WRITE);
        if !REMOTE.contains(access) || writes_readonly {
            return Err(BindError::Rights(access));
        }
        let outside = BindError::Range { addr, length };
        let start = addr.checked_sub(region.iova).ok_or(outside)?;
        if start.checked_add(length.into()).is_none_or(|end| end > region.len) {
            return Err(outside);
        }
        let start = usize::try_from(start).map_err(|_| outside)?;
        // SAFETY: start + length <= region.len, the bytes behind the region's base.
        let base = Base(unsafe { region.base.0.add(start) });
        let backing = Arc::clone(&region.backing);
        Ok(Region {
            key: key_byte(binding.new_key),
            holder,
            base,
            pd,
            access,
            iova: addr,
            len: length.into(),
            backing,
        })
    }

    /// The window in an entry shows nothing any more.
    fn unbind(&mut self, index: u32) {
        let Some(shown) = self.entries[index as usize].region.take() else { return };
        if let Holder::AnyQp { region } | Holder::Qp { region, .. } = shown.holder {
            self.count_window(region, -1);
        }
        self.bound -= usize::from(matches!(shown.holder, Holder::Qp { .. }));
    }

    /// A region counts the windows that are bound to it.
    fn count_window(&mut self, region: u32, change: i32) {
        let region = self.entries.get_mut(region as usize).and_then(|slot| slot.region.as_mut());
        if let Some(Region { holder: Holder::Region { windows }, .. }) = region {
            *windows = windows.saturating_add_signed(change);
        }
    }
}
