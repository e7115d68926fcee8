//! Multicast groups: which queue pairs take the datagrams that go to them (protocol.md 1.11).

#[cfg(test)]
mod tests;

use crate::tuning::{GROUP_MEMBERS, GROUPS};
use core::net::IpAddr;

/// A group that has members, by their slots.
struct Group {
    ip: IpAddr,
    members: Vec<u32>,
}

/// The groups of an engine.
pub(crate) struct Groups {
    /// By their addresses.
    groups: Vec<Group>,
    /// Other engines of the device may have members of their own.
    shared: bool,
}

/// Why nobody was added.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Full {
    /// There are as many groups as there can be.
    Groups,
    /// The group has as many members as it can.
    Members,
}

impl Groups {
    /// None yet. `shared`: other engines of the device may have members of their own.
    pub const fn new(shared: bool) -> Self {
        Self { groups: Vec::new(), shared }
    }

    fn find(&self, ip: IpAddr) -> Result<usize, usize> {
        self.groups.binary_search_by_key(&ip, |group| group.ip)
    }

    /// Adds a member; false if it is one.
    pub fn join(&mut self, ip: IpAddr, slot: u32) -> Result<bool, Full> {
        let at = match self.find(ip) {
            Ok(at) => at,
            Err(_) if self.groups.len() >= GROUPS => return Err(Full::Groups),
            Err(at) => {
                self.groups.insert(at, Group { ip, members: Vec::new() });
                at
            }
        };
        let members = &mut self.groups[at].members;
        if members.contains(&slot) {
            return Ok(false);
        }
        if members.len() >= GROUP_MEMBERS {
            return Err(Full::Members);
        }
        members.push(slot);
        Ok(true)
    }

    /// Takes a member out; false if it is none.
    pub fn leave(&mut self, ip: IpAddr, slot: u32) -> bool {
        let Ok(at) = self.find(ip) else { return false };
        let members = &mut self.groups[at].members;
        let before = members.len();
        members.retain(|member| *member != slot);
        let left = members.len() < before;
        if members.is_empty() {
            self.groups.remove(at);
        }
        left
    }

    /// Takes a queue pair that ends out of all groups.
    pub fn leave_all(&mut self, slot: u32) {
        self.groups.iter_mut().for_each(|group| group.members.retain(|member| *member != slot));
        self.groups.retain(|group| !group.members.is_empty());
    }

    /// Returns `true` if the queue pair is a member of any.
    pub fn has(&self, slot: u32) -> bool {
        self.groups.iter().any(|group| group.members.contains(&slot))
    }

    /// Groups that have members.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.groups.iter().map(|group| group.ip)
    }

    /// Returns `true` if a datagram that this host sends to the group may have to come back to it.
    #[inline]
    pub fn may_have_members(&self, ip: IpAddr) -> bool {
        self.shared || self.find(ip).is_ok()
    }

    /// Member `index` of a group; `None` if it has no more.
    #[inline]
    pub fn member(&self, ip: IpAddr, index: usize) -> Option<u32> {
        self.groups[self.find(ip).ok()?].members.get(index).copied()
    }
}
