//! Unreliable datagrams (UD): one queue pair talks to many.

use super::Owned;
use super::parts::Parts;
use crate::completion::CompletionQueue;
use crate::error::Error;
use crate::memory::ProtectionDomain;
use crate::shared_receive::SharedReceiveQueue;
use crate::work_request::Datagram;
use core::net::IpAddr;
use datapath::qp::attr::{QpAttr, QpAttrMask};
use datapath::qp::state::{QpState, QpType};
use datapath::qp::transition::TransitionRule;
use datapath::queue::QueueCaps;
use std::sync::Arc;
use wire::WireMode;

/// How a queue pair of type UD comes from RESET to RTS: the states, and what each transition is
/// given.
pub(crate) fn ud_transitions() -> [(QpState, QpAttrMask); 3] {
    [(QpState::Reset, QpState::Init), (QpState::Init, QpState::Rtr), (QpState::Rtr, QpState::Rts)]
        .map(|(from, to)| (to, TransitionRule::attributes(QpType::Ud, from, to)))
}

/// Sizes and the Q_Key of a [`UdQueuePair`]; made by [`ProtectionDomain::ud_queue_pair`].
#[must_use = "a builder makes nothing until `build`"]
pub struct UdQueuePairBuilder {
    parts: Parts,
    attr: QpAttr,
}

impl UdQueuePairBuilder {
    pub(crate) fn new(
        domain: &ProtectionDomain,
        send_cq: &CompletionQueue,
        recv_cq: &CompletionQueue,
    ) -> Self {
        // Nothing is resent, so there is no window to remember.
        let parts = Parts { qp_type: QpType::Ud, window: 1, ..Parts::new(domain, send_cq, recv_cq) };
        Self { attr: QpAttr { sq_psn: domain.device().new_psn(), ..QpAttr::default() }, parts }
    }

    /// Sizes of the queues (`ibv_qp_cap`).
    pub const fn caps(mut self, caps: QueueCaps) -> Self {
        self.parts.caps = caps;
        self
    }

    /// Sets the Q_Key that senders must know for their datagrams to be taken. Default 0.
    pub const fn qkey(mut self, qkey: u32) -> Self {
        self.attr.qkey = qkey;
        self
    }

    /// Takes receives from a shared queue instead of one of its own.
    pub fn srq(mut self, srq: &SharedReceiveQueue) -> Self {
        self.parts.srq = Some(Arc::clone(srq.shared()));
        self
    }

    /// Makes it the device's general services queue pair: its number is 1, its Q_Key always
    /// 0x80010000, and connection managers talk to it (protocol.md 1.12). A device has one at most.
    pub const fn general_services(mut self) -> Self {
        self.parts.gsi = true;
        self
    }

    /// Makes the queue pair, ready to receive and to send.
    ///
    /// # Errors
    /// [`Error::Create`], [`Error::OtherDevice`].
    pub fn build(self) -> Result<UdQueuePair, Error> {
        let owned = self.parts.create()?;
        for (state, mask) in ud_transitions() {
            owned.life.modify(&QpAttr { state, ..self.attr }, mask)?;
        }
        Ok(UdQueuePair { owned })
    }
}

/// An unreliable datagram queue pair (UD): each request goes where it says, and may be lost on the
/// way.
///
/// A message is one packet, of [`max_message`](Self::max_message) bytes at most. A receive must
/// have room for [`Grh::LEN`](crate::Grh::LEN) bytes more, which come first and say who sent it;
/// its completion has the sender's queue pair in `src_qp`. What finds no receive, or one that is
/// too short, is dropped and counted.
///
/// ```
/// use verbs_api::{Access, Datagram, Device, Driver, Grh, RecvRequest, SendData, WcStatus};
///
/// # fn main() -> Result<(), verbs_api::Error> {
/// let here = Device::open("sim:datagram")?;
/// let there = Device::builder().driver(Driver::THREAD).open("sim:datagram")?;
/// let (pd, cq) = (here.alloc_pd(), here.create_cq(16)?);
/// let mut pair = pd.ud_queue_pair(&cq, &cq).build()?;
/// let (its_pd, mut its_cq) = (there.alloc_pd(), there.create_cq(16)?);
/// let mut its_pair = its_pd.ud_queue_pair(&its_cq, &its_cq).qkey(0x1234).build()?;
///
/// let buffer = its_pd.register(Grh::LEN + 1024, Access::LOCAL_WRITE)?;
/// its_pair.post_recv(&RecvRequest { wr_id: 1, scatter: &[buffer.slice(..)?] })?;
///
/// let to = pd.create_ah_to(there.ip())?;
/// pair.post_send(&Datagram::new(SendData::Inline(b"hello"), &to, its_pair.qpn(), 0x1234))?;
/// let done = loop {
///     if let Some(completion) = its_cq.poll() {
///         break completion;
///     }
/// };
/// assert_eq!((done.status, done.byte_len, done.src_qp), (WcStatus::Success, 45, pair.qpn()));
/// let mut area = [0; Grh::LEN];
/// buffer.read(0, &mut area)?;
/// assert_eq!(Grh::parse(&area).map(|grh| grh.src), Some(here.ip()));
/// # Ok(()) }
/// ```
///
/// A datagram may go to all members of a multicast group ([`join_group`](Self::join_group),
/// [`Datagram::to_group`]).
///
/// It carries nothing but datagrams:
///
/// ```compile_fail,E0308
/// # use verbs_api::{RemoteAddr, SendData, SendRequest, UdQueuePair};
/// fn no_write(pair: &mut UdQueuePair, to: RemoteAddr) {
///     let _ = pair.post_send(&SendRequest::write(SendData::Inline(b"hello"), to));
/// }
/// ```
pub struct UdQueuePair {
    owned: Owned,
}

impl UdQueuePair {
    /// Posts a datagram. With at most one outstanding on the queue pair it is sent at once, unless
    /// many queue pairs wait for their turn; otherwise when someone polls.
    ///
    /// # Errors
    /// [`Error::Post`], [`Error::OtherDevice`]; nothing was posted then.
    pub fn post_send(&mut self, datagram: &Datagram<'_>) -> Result<(), Error> {
        self.owned.post_datagram(datagram)
    }

    /// From now on it takes the datagrams that go to a multicast group, too (`ibv_attach_mcast`;
    /// protocol.md 1.11), also those of this host and of itself. One that is a member stays one,
    /// until it leaves or is dropped. Switches are told nothing: one that snoops IGMP or MLD needs
    /// to be told that the group is here.
    ///
    /// # Errors
    /// [`Error::Group`]: it is no multicast address, or of another family than the device's; the
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

    /// Longest message, in bytes: one packet.
    #[must_use]
    pub fn max_message(&self) -> u32 {
        self.owned.device().path_mtu_max().in_dialect(WireMode::Plain).bytes()
    }

    /// Lets it send again after SQE.
    ///
    /// # Errors
    /// [`Error::Connect`] in ERR.
    pub fn resume_after_error(&mut self) -> Result<(), Error> {
        let attr = QpAttr { state: QpState::Rts, ..QpAttr::default() };
        self.owned.life.modify(&attr, QpAttrMask::STATE)
    }
}

common_calls!(UdQueuePair, state: "RTS; SQE after a send that could not be sent, whose completion says why; ERR after another failure.");
