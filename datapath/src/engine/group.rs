//! Multicast groups of an engine, and what its port lets through for them.

use super::{Engine, GroupError};
use crate::port::Port;
use core::net::IpAddr;

impl<P: Port> Engine<P> {
    /// From now on a queue pair of type UD takes the datagrams that go to a multicast group
    /// (`ibv_attach_mcast`), also from other queue pairs of this device, and from itself. One that
    /// is a member stays one.
    ///
    /// # Errors
    /// [`GroupError`]; nothing has changed then.
    pub fn join_group(&mut self, qpn: u32, group: IpAddr) -> Result<(), GroupError> {
        let is_new = self.core.join_group(qpn, group)?;
        let filter = self.wire.port.set_groups(&self.core.group_macs());
        if is_new && filter.is_err() {
            self.core.leave_group(qpn, group)?;
        }
        Ok(filter?)
    }

    /// A queue pair takes datagrams to that group no more (`ibv_detach_mcast`). One that ends
    /// leaves all its groups.
    ///
    /// # Errors
    /// [`GroupError::NotMember`], and as joining it.
    pub fn leave_group(&mut self, qpn: u32, group: IpAddr) -> Result<(), GroupError> {
        self.core.leave_group(qpn, group)?;
        // A port that lets too much through is no fault: nobody here takes it.
        let _ = self.wire.port.set_groups(&self.core.group_macs());
        Ok(())
    }
}
