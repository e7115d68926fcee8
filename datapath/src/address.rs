//! Address handles: where datagrams go, resolved once and named by a key (protocol.md 1.11, UD).

#[cfg(test)]
mod tests;

use crate::memory::ProtectionDomainId;
use core::net::IpAddr;
use std::collections::VecDeque;
use wire::Template;

/// An address handle as work requests name it: `index << 8 | key`, so that one that was destroyed
/// is not taken for its successor.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct AddressKey(pub u32);

/// Where the packets of an address handle go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Address {
    pub pd: ProtectionDomainId,
    pub template: Template,
    /// The host is this very engine.
    pub loopback: bool,
    /// It is a multicast group, of which this host may have members.
    pub group: Option<IpAddr>,
    /// The UDP source port is that of a flow label; else it derives from the two QPNs.
    pub has_label: bool,
}

#[derive(Default)]
struct Slot {
    address: Option<Address>,
    /// Of the handle that is there, or was there last.
    key: u8,
}

/// All address handles of an engine.
pub(crate) struct AddressTable {
    slots: Vec<Slot>,
    /// A slot that is given back is used again last.
    free: VecDeque<u32>,
}

impl AddressTable {
    /// Room for `capacity` handles, 2^24 at most.
    pub fn new(capacity: u32) -> Self {
        let capacity = capacity.min(1 << 24);
        Self { slots: (0..capacity).map(|_| Slot::default()).collect(), free: (0..capacity).collect() }
    }

    /// Handles that fit.
    pub fn capacity(&self) -> usize {
        self.slots.len()
    }

    /// Handles that exist.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// A handle for `address`; `None` if there is no room.
    pub fn insert(&mut self, address: Address) -> Option<AddressKey> {
        let index = self.free.pop_front()?;
        let slot = &mut self.slots[index as usize];
        slot.key = slot.key % u8::MAX + 1;
        slot.address = Some(address);
        Some(AddressKey(index << 8 | u32::from(slot.key)))
    }

    /// Ends a handle; false if there is none.
    pub fn remove(&mut self, key: AddressKey) -> bool {
        let slot = self.slots.get_mut((key.0 >> 8) as usize).filter(|slot| slot.is(key));
        let removed = slot.is_some_and(|slot| slot.address.take().is_some());
        if removed {
            self.free.push_back(key.0 >> 8);
        }
        removed
    }

    /// The address of a handle, for a queue pair of its own protection domain.
    #[inline]
    pub fn get(&self, key: AddressKey, pd: ProtectionDomainId) -> Option<&Address> {
        let slot = self.slots.get((key.0 >> 8) as usize).filter(|slot| slot.is(key))?;
        slot.address.as_ref().filter(|address| address.pd == pd)
    }
}

impl Slot {
    fn is(&self, key: AddressKey) -> bool {
        key.0.to_le_bytes()[0] == self.key
    }
}
