//! Multicast groups: joining and leaving them.

use crate::engine::{Core, GroupError};
use crate::groups::Full;
use crate::neighbor;
use crate::qp_state::QpType;
use crate::tuning::{GROUP_MEMBERS, GROUPS};
use core::net::IpAddr;
use wire::encap::group_mac;

impl Core {
    /// Makes a queue pair a member of a group, whatever the port lets through. False if it is one.
    pub(in crate::engine) fn join_group(&mut self, qpn: u32, group: IpAddr) -> Result<bool, GroupError> {
        let slot = self.member_slot(qpn, group)?;
        self.units.groups.join(group, slot).map_err(|full| match full {
            Full::Groups => GroupError::Full { what: "multicast groups of the device", capacity: GROUPS },
            Full::Members => GroupError::Full { what: "members of the group", capacity: GROUP_MEMBERS },
        })
    }

    /// A queue pair is a member of a group no more.
    pub(in crate::engine) fn leave_group(&mut self, qpn: u32, group: IpAddr) -> Result<(), GroupError> {
        let slot = self.member_slot(qpn, group)?;
        if self.units.groups.leave(group, slot) { Ok(()) } else { Err(GroupError::NotMember(group)) }
    }

    /// The slot of a queue pair that may be a member of the group.
    fn member_slot(&self, qpn: u32, group: IpAddr) -> Result<u32, GroupError> {
        let slot = self.qps.find(qpn).ok_or(GroupError::UnknownQp(qpn))?;
        let (_, cold) = self.qps.peek(slot).ok_or(GroupError::UnknownQp(qpn))?;
        let own = self.config.ip;
        match cold.attributes.qp_type {
            QpType::Ud if !group.is_multicast() => Err(GroupError::NotAGroup(group)),
            QpType::Ud if group.is_ipv4() != own.is_ipv4() => Err(GroupError::OtherFamily { group, own }),
            QpType::Ud => Ok(slot),
            other => Err(GroupError::Service(other)),
        }
    }

    /// Returns `true` if the queue pair is a member of a multicast group.
    #[must_use]
    pub fn is_in_group(&self, qpn: u32) -> bool {
        self.qps.find(qpn).is_some_and(|slot| self.units.groups.has(slot))
    }

    /// The multicast Ethernet addresses that the port must let through: those of neighbor
    /// discovery, and of the groups that have members.
    #[must_use]
    pub fn group_macs(&self) -> Vec<[u8; 6]> {
        let mut macs = neighbor::multicast_macs(self.config.ip);
        macs.extend(self.units.groups.addresses().map(group_mac));
        macs
    }
}
