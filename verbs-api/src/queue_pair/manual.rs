//! A queue pair whose states the program drives itself.

use super::{Owned, SendBatch};
use crate::error::Error;
use crate::work_request::{Datagram, SendRequest};
use core::net::IpAddr;
use datapath::qp::state::QpType;

/// A queue pair that begins in RESET, with every transition and mask of `ibv_modify_qp`
/// (protocol.md 1.9), from [`QueuePairBuilder::create`](super::QueuePairBuilder::create).
/// [`QueuePair`](super::QueuePair) is the easy way.
///
/// What a state does not permit is an error when called, not when compiled. A `Device` resolves an
/// address vector without an Ethernet address while it runs: a transition that fails with
/// [`ModifyError::ResolvingNeighbor`](crate::ModifyError) is to be tried again.
///
/// ```
/// use verbs_api::{Device, QpAttr, QpAttrMask, QpState};
///
/// # fn main() -> Result<(), verbs_api::Error> {
/// let device = Device::open("sim:manual")?;
/// let (pd, cq) = (device.alloc_pd(), device.create_cq(16)?);
/// let mut pair = pd.queue_pair(&cq, &cq).create()?;
/// let init = QpAttr { state: QpState::Init, ..pair.query() };
/// let mask = QpAttrMask::STATE | QpAttrMask::PKEY_INDEX | QpAttrMask::PORT;
/// let error = pair.modify(&init, mask).err().map(|error| error.to_string());
/// assert_eq!(
///     error.as_deref(),
///     Some("RC QP RESET to INIT: missing ACCESS_FLAGS: set them and add them to the mask")
/// );
/// pair.modify(&init, mask | QpAttrMask::ACCESS_FLAGS)?;
/// assert_eq!(pair.state(), QpState::Init);
/// # Ok(()) }
/// ```
///
/// Dropping it destroys it: what is outstanding ends without completions, and the peer's requests
/// time out.
pub struct ManualQueuePair {
    owned: Owned,
}

impl ManualQueuePair {
    pub(super) const fn new(owned: Owned) -> Self {
        Self { owned }
    }

    /// Takes its window down to what the peer takes, 1 at least; before RTS. Returns the window.
    pub fn limit_window(&mut self, window: u16) -> u16 {
        self.owned.life.limit_window(window)
    }

    /// Posts a send request.
    ///
    /// # Errors
    /// [`Error::Post`], also in a state that takes none; [`Error::WrongService`] on a queue pair of
    /// type UD; nothing was posted then.
    pub fn post_send(&mut self, request: &SendRequest<'_>) -> Result<(), Error> {
        let qp_type = self.qp_type();
        if qp_type == QpType::Ud {
            return Err(Error::WrongService { what: "requests without an address", qp_type });
        }
        self.owned.post_send(request)
    }

    /// Posts a datagram, on a queue pair of type UD.
    ///
    /// # Errors
    /// [`Error::Post`], [`Error::OtherDevice`], and [`Error::WrongService`] on another type;
    /// nothing was posted then.
    pub fn post_datagram(&mut self, datagram: &Datagram<'_>) -> Result<(), Error> {
        self.owned.post_datagram(datagram)
    }

    /// A queue pair of type UD takes the datagrams that go to a multicast group, too (`ibv_attach_mcast`;
    /// protocol.md 1.11), also those of this host and of itself. One that is a member stays one,
    /// until it leaves or is dropped. Switches are told nothing: one that snoops IGMP or MLD needs
    /// to be told that the group is here.
    ///
    /// # Errors
    /// [`Error::Group`]: it is of another type; the address is no multicast address, or of another family than the device's; the
    /// device has as many groups as it can, or the group as many members; the port does not let
    /// its frames through.
    pub fn join_group(&mut self, group: IpAddr) -> Result<(), Error> {
        self.owned.life.join_group(group)
    }

    /// It takes datagrams to that group no more (`ibv_detach_mcast`).
    ///
    /// # Errors
    /// [`Error::Group`], also if it is no member.
    pub fn leave_group(&mut self, group: IpAddr) -> Result<(), Error> {
        self.owned.life.leave_group(group)
    }

    /// Begins a batch of send requests, as [`QueuePair::batch`](super::QueuePair::batch).
    pub fn batch(&mut self) -> SendBatch<'_> {
        self.owned.batch()
    }

    /// The type of this queue pair.
    #[must_use]
    pub const fn qp_type(&self) -> QpType {
        self.owned.send.service()
    }
}

common_calls!(ManualQueuePair, state: "the program's, until a failure changes it.");
