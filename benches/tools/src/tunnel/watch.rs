//! Says what becomes of the link of a tunnel, and of what carries its connections.

use crate::error::Result;
use crate::notice::Notice;
use crate::program;
use crate::pump::Drive;
use srnic_streams::{Endpoint, Stats};
use verbs_api::Device;

/// What was said by now.
pub struct Watch {
    /// Connections can do without the device.
    has_tcp: bool,
    to_tcp: u64,
    to_rdma: u64,
    /// There has been a link.
    was_up: bool,
    /// Of the link, while it is down.
    waits: Option<Notice>,
}

impl Watch {
    /// Nothing was said. With TCP a link that never comes back is waited for like another one.
    pub const fn new(has_tcp: bool) -> Self {
        Self { has_tcp, to_tcp: 0, to_rdma: 0, was_up: false, waits: None }
    }

    /// Looks at both.
    ///
    /// # Errors
    /// [`Error::Removed`](crate::error::Error::Removed), where there is no TCP.
    pub fn look(&mut self, endpoint: &Endpoint) -> Result<()> {
        let Stats { moved_to_tcp, returned_to_rdma, over_tcp, .. } = endpoint.stats();
        let (gone, back) = (moved_to_tcp - self.to_tcp, returned_to_rdma - self.to_rdma);
        if gone + back > 0 {
            program::say(format_args!(
                "{gone} connections went over to TCP, {back} came back to RDMA, {over_tcp} are over TCP"
            ));
        }
        (self.to_tcp, self.to_rdma) = (moved_to_tcp, returned_to_rdma);
        self.look_at_link(endpoint.device())
    }

    fn look_at_link(&mut self, device: &Device) -> Result<()> {
        if device.link_up() {
            if self.waits.take().is_some_and(|notice| notice.was_said()) {
                program::say("the link is up");
            }
            self.was_up = true;
            return Ok(());
        }
        if !self.has_tcp {
            device.check()?;
        }
        let what = if self.was_up { "the link did not come up again" } else { "the link did not come up" };
        self.waits.get_or_insert_default().look(what, || Drive::link_down(device));
        Ok(())
    }
}
