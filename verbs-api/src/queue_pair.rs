//! Queue pairs. Reliable connections: build, exchange endpoints, connect, post. Datagrams: build,
//! post.

#[macro_use]
mod common;
mod builder;
mod connect;
mod datagram;
mod manual;
mod parts;

pub use builder::QueuePairBuilder;
pub use connect::PreparedQueuePair;
pub(crate) use datagram::ud_transitions;
pub use datagram::{UdQueuePair, UdQueuePairBuilder};
pub use manual::ManualQueuePair;

use crate::cm::Link;
#[cfg(feature = "async")]
use crate::cm::LinkEnd;
use crate::completion::CqShared;
use crate::device::Device;
use crate::endpoint::{Endpoint, QPN_MAX};
use crate::error::{BatchError, Error};
use crate::shared_receive::SrqShared;
use crate::trace;
use crate::work_request::{Datagram, SendRequest};
use core::mem::offset_of;
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use datapath::qp::attr::{QpAttr, QpAttrMask};
use datapath::qp::state::{QpState, QpType};
use datapath::qpn::MULTICAST_QPN;
use datapath::queue::{QueueCaps, RecvQueue, RecvRequest, SendQueue};
use std::sync::Arc;
use wire::Pmtu;

/// Requests outstanding below which the next is sent at once: none, or one that the peer has
/// answered already while its acknowledgement is under way.
const SENT_AT_ONCE: u32 = 2;
/// Requests of a queue pair that are sent while its program posts more: one that posts a hundred
/// and then polls has the peer wait no longer than that.
const SENT_TOGETHER: u32 = 32;

/// A queue pair of the engine, and the queues that its owner posts to. Destroyed when dropped.
#[repr(C, align(64))]
struct Owned {
    // What sends are posted with, in a cache line.
    send: SendQueue,
    device: Device,
    // What receives are posted with as well, in the next.
    recv: RecvQueue,
    life: Life,
}

const _: () = assert!(offset_of!(Owned, recv) == 64 && size_of::<RecvQueue>() <= 64, "a line each");

/// The engine's end of a queue pair, and everything that must outlive it. Destroyed when dropped.
pub(crate) struct Life {
    device: Device,
    qpn: u32,
    /// The sizes that were asked for.
    caps: QueueCaps,
    /// Kept for as long as the engine may report to them.
    #[cfg_attr(not(feature = "async"), expect(dead_code, reason = "its drop is what counts"))]
    cqs: [Arc<CqShared>; 2],
    srq: Option<Arc<SrqShared>>,
}

impl Life {
    pub const fn device(&self) -> &Device {
        &self.device
    }

    pub const fn qpn(&self) -> u32 {
        self.qpn
    }

    pub const fn caps(&self) -> QueueCaps {
        self.caps
    }

    /// Changes attributes, and the state if `mask` names it. What begins a connection counts on the
    /// tenant's cap of control calls.
    pub fn modify(&self, attr: &QpAttr, mask: QpAttrMask) -> Result<(), Error> {
        if mask.contains(QpAttrMask::STATE) && attr.state == QpState::Init {
            drop(self.device().nic_for(|core| core.tenant_of_qp(self.qpn))?);
        }
        self.modify_in_turn([(attr, mask)])
    }

    /// Pauses the queue pair, or lets it go on.
    pub fn set_paused(&self, paused: bool) -> Result<(), Error> {
        let mut nic = self.device().own_nic()?;
        let core = nic.core_mut();
        Ok(if paused { core.pause_qp(self.qpn) } else { core.resume_qp(self.qpn) }?)
    }

    /// Whether the queue pair is paused.
    pub fn is_paused(&self) -> bool {
        self.device().nic().and_then(|nic| nic.core().is_paused(self.qpn)).unwrap_or_default()
    }

    /// Changes the state several times, and no packet comes in between.
    pub fn modify_in_turn<'a>(
        &self,
        steps: impl IntoIterator<Item = (&'a QpAttr, QpAttrMask)>,
    ) -> Result<(), Error> {
        let mut nic = self.device().own_nic()?;
        steps.into_iter().try_for_each(|(attr, mask)| {
            let result = nic.core_mut().modify_qp(self.qpn, attr, mask);
            trace::modified(self.qpn, attr, mask, &result);
            Ok(result?)
        })
    }

    /// Takes the window down to what the peer takes; returns it.
    pub fn limit_window(&self, window: u16) -> u16 {
        let limited = self.device().nic().and_then(|mut nic| nic.core_mut().limit_window(self.qpn, window));
        limited.unwrap_or(window)
    }

    pub fn join_group(&self, group: IpAddr) -> Result<(), Error> {
        Ok(self.device().own_nic()?.join_group(self.qpn, group)?)
    }

    pub fn leave_group(&self, group: IpAddr) -> Result<(), Error> {
        Ok(self.device().own_nic()?.leave_group(self.qpn, group)?)
    }

    /// Whether it is a member of a multicast group.
    pub fn is_in_group(&self) -> bool {
        self.device().nic().is_some_and(|nic| nic.core().is_in_group(self.qpn))
    }

    /// The attributes of the queue pair and its state.
    pub fn query(&self) -> QpAttr {
        let Some(nic) = self.device().nic() else {
            // In a process that was forked it does nothing.
            return QpAttr { state: QpState::Err, ..QpAttr::default() };
        };
        // It is destroyed by our drop and nothing else.
        nic.core().query_qp(self.qpn).unwrap_or_default()
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        if let Some(mut nic) = self.device().nic() {
            nic.core_mut().destroy_qp(self.qpn);
        }
        trace::destroyed(self.qpn);
    }
}

impl Owned {
    const fn device(&self) -> &Device {
        &self.device
    }

    fn has_srq(&self) -> bool {
        self.life.srq.is_some()
    }

    fn post_send(&mut self, request: &SendRequest<'_>) -> Result<(), Error> {
        self.device.check_process()?;
        let goes_now = goes_now(&self.send);
        self.send.stage(&request.0)?;
        self.device.note_post(&self.send, &request.0);
        submit(&mut self.send, &self.device, goes_now);
        Ok(())
    }

    fn post_datagram(&mut self, datagram: &Datagram<'_>) -> Result<(), Error> {
        let qp_type = self.send.service();
        if qp_type != QpType::Ud {
            return Err(Error::WrongService { what: "datagrams", qp_type });
        }
        if !datagram.to.device().is(self.device()) {
            return Err(Error::OtherDevice { what: "address handle" });
        }
        let qpn = datagram.qpn();
        let fits = if datagram.to.is_group() { qpn == MULTICAST_QPN } else { (1..=QPN_MAX).contains(&qpn) };
        if !fits {
            return Err(Error::DatagramTo { qpn });
        }
        self.post_send(&datagram.request)
    }

    fn batch(&mut self) -> SendBatch<'_> {
        let goes_now = goes_now(&self.send);
        SendBatch { owned: self, goes_now }
    }

    fn post_recv(&mut self, request: &RecvRequest<'_>) -> Result<(), Error> {
        self.device.check_process()?;
        self.device().settle();
        Ok(self.recv.post(request)?)
    }

    fn recv_batch(&mut self) -> RecvBatch<'_> {
        self.device().settle();
        RecvBatch { queue: &mut self.recv }
    }

    fn post_recv_batch(&mut self, requests: &[RecvRequest<'_>]) -> Result<(), Error> {
        self.device.check_process()?;
        self.device().settle();
        let (posted, result) = self.recv.post_batch(requests);
        Ok(result.map_err(|source| BatchError { posted, source })?)
    }
}

/// Returns `true` if the next post is sent at once, unless many queue pairs wait for their turn.
/// Where more is outstanding, the post is sent together with those of others, as soon as the
/// program polls, or has posted [`SENT_TOGETHER`].
pub(crate) fn goes_now(send: &SendQueue) -> bool {
    send.outstanding() < SENT_AT_ONCE
}

/// Posts what was staged: hands it to the engine, or rings.
pub(crate) fn submit(send: &mut SendQueue, device: &Device, goes_now: bool) {
    if (goes_now || send.reaches_multiple_of(SENT_TOGETHER)) && device.push(|| send.hand_over()) {
        return;
    }
    send.submit();
    device.settle();
}

/// A connected queue pair (RC, or UC if it was built as `unreliable`; state RTS).
///
/// One thread posts at a time, which the compiler sees to:
///
/// ```compile_fail,E0499
/// # use verbs_api::{QueuePair, SendData, SendRequest};
/// fn two_threads(pair: &mut QueuePair) {
///     std::thread::scope(|scope| {
///         scope.spawn(|| pair.post_send(&SendRequest::send(SendData::Inline(b"one"))));
///         scope.spawn(|| pair.post_send(&SendRequest::send(SendData::Inline(b"two"))));
///     });
/// }
/// ```
///
/// Dropping it destroys it: what is outstanding ends without completions. If it was connected by
/// address the peer is told, and its end goes to ERR; else the peer's requests time out.
pub struct QueuePair {
    // Goes first: what happens to the connection concerns no queue pair of a number that another
    // may have by then.
    link: Option<Link>,
    owned: Owned,
    remote: Endpoint,
    path_mtu: Pmtu,
    window: u16,
}

impl QueuePair {
    /// Returns `true` if both its queues complete there.
    #[cfg(feature = "async")]
    pub(crate) fn completes_at(&self, cq: &Arc<CqShared>) -> bool {
        self.owned.life.cqs.iter().all(|own| Arc::ptr_eq(own, cq))
    }

    /// The device that it is of.
    pub(crate) fn device(&self) -> &Device {
        self.owned.device()
    }

    /// A hint: a send request will be posted to this queue pair soon. Fetches into the processor's
    /// caches what that begins with. With thousands of queue pairs, each of which has left the
    /// caches when its turn comes, say so a few posts ahead.
    ///
    /// ```
    /// use verbs_api::{Error, QueuePair, SendData, SendRequest};
    ///
    /// fn tell_all(pairs: &mut [QueuePair], text: &[u8]) -> Result<(), Error> {
    ///     for number in 0..pairs.len() {
    ///         if let Some(coming) = pairs.get(number + 3) {
    ///             coming.prefetch();
    ///         }
    ///         pairs[number].post_send(&SendRequest::send(SendData::Inline(text)).signaled())?;
    ///     }
    ///     Ok(())
    /// }
    /// ```
    #[inline]
    pub fn prefetch(&self) {
        datapath::prefetch::read_all(&self.owned.send);
    }

    /// Starts to fetch what the next post of a receive request touches.
    #[inline]
    pub fn prefetch_recv(&self) {
        datapath::prefetch::read_all(&self.owned.device);
        datapath::prefetch::read_all(&self.owned.recv);
    }

    /// Posts a send request. With at most one outstanding on the queue pair it is sent at once,
    /// unless many queue pairs wait for their turn; otherwise when someone polls.
    ///
    /// # Errors
    /// [`Error::Post`]; nothing was posted then. A full queue empties by polling its completion
    /// queue, whether its requests are signaled or not.
    pub fn post_send(&mut self, request: &SendRequest<'_>) -> Result<(), Error> {
        self.owned.post_send(request)
    }

    /// Begins a batch of send requests: one doorbell for all of them, when the batch is dropped.
    /// Requests are written as they are added, so that their data need to live no longer than that.
    ///
    /// ```
    /// use verbs_api::{Error, QueuePair, SendData, SendRequest};
    ///
    /// fn send_all(pair: &mut QueuePair, texts: &[String]) -> Result<(), Error> {
    ///     let mut batch = pair.batch();
    ///     for text in texts {
    ///         // What an error ends before the last has posted all before it.
    ///         batch.post_send(&SendRequest::send(SendData::Inline(text.as_bytes())))?;
    ///     }
    ///     Ok(())
    /// }
    /// ```
    pub fn batch(&mut self) -> SendBatch<'_> {
        self.owned.batch()
    }

    /// Moves it to ERR: everything posted completes with `WrFlushErr`, and the peer's requests time
    /// out.
    ///
    /// # Errors
    /// [`Error::Connect`] if the engine refuses.
    pub fn abort(&mut self) -> Result<(), Error> {
        let attr = QpAttr { state: QpState::Err, ..QpAttr::default() };
        self.owned.life.modify(&attr, QpAttrMask::STATE)
    }

    /// Ends a connection that was made by address (`rdma_disconnect`): the queue pair goes to ERR,
    /// as [`abort`](Self::abort) has it, and so does the peer's, as soon as its device makes
    /// progress. Waits for the peer's answer, `limit` at most; true if it came, if the peer does
    /// not answer at all, or if the link is down: on a memif pair the peer's device is gone then,
    /// which is seen within a tenth of a second or so. What was sent is to be complete before.
    ///
    /// If the peer was first, this returns at once, when the answer to it is on its way.
    ///
    /// A queue pair that was connected by endpoints is only aborted, and the answer is true: the
    /// peer is not told.
    ///
    /// # Errors
    /// [`Error::Connect`] if the engine refuses.
    pub fn disconnect(&mut self, limit: Duration) -> Result<bool, Error> {
        self.abort()?;
        Ok(self.link.as_ref().is_none_or(|link| link.disconnect(limit)))
    }

    /// Returns `true` if it was disconnected or has failed.
    #[cfg(feature = "async")]
    pub(crate) fn is_in_err(&self) -> bool {
        self.owned.life.query().state == QpState::Err
    }

    /// A handle that tells when a connection that was made by address is over.
    #[cfg(feature = "async")]
    pub(crate) fn link_end(&self) -> Option<LinkEnd> {
        self.link.as_ref().map(Link::end)
    }

    /// Returns `true` if a connection that was made by address is over: either end has
    /// disconnected. Does not run the engine.
    #[must_use]
    pub fn is_disconnected(&self) -> bool {
        self.link.as_ref().is_some_and(Link::is_over)
    }

    /// The private data that the peer's program sent when the connection was made by address,
    /// without zeros at its end. Empty for other connections.
    #[must_use]
    pub fn private_data(&self) -> &[u8] {
        self.link.as_ref().map_or(&[], |link| link.private_data())
    }

    /// Whom it was connected to by address (`rdma_get_peer_addr`).
    #[must_use]
    pub fn peer_addr(&self) -> Option<SocketAddr> {
        self.link.as_ref().map(Link::peer)
    }

    /// Makes this queue pair an end of the connection `link`.
    pub(crate) fn linked(self, link: Link) -> Self {
        Self { link: Some(link), ..self }
    }

    /// The other end.
    #[must_use]
    pub fn remote(&self) -> &Endpoint {
        &self.remote
    }

    /// Packets outstanding at most: the smaller of both ends' windows.
    #[must_use]
    pub fn window(&self) -> u16 {
        self.window
    }

    /// Largest payload of its packets.
    #[must_use]
    pub fn path_mtu(&self) -> Pmtu {
        self.path_mtu
    }
}

common_calls!(QueuePair, state: "RTS, or ERR after a failure.");

/// Send requests that are posted together, from [`QueuePair::batch`]. The engine sees them when
/// this is dropped; if the queue pair had at most one outstanding they are sent at once, as by
/// [`QueuePair::post_send`].
pub struct SendBatch<'a> {
    owned: &'a mut Owned,
    goes_now: bool,
}

impl SendBatch<'_> {
    /// Adds a request.
    ///
    /// # Errors
    /// [`Error::Post`]; the request was not added then, those before it were.
    pub fn post_send(&mut self, request: &SendRequest<'_>) -> Result<(), Error> {
        self.owned.device.check_process()?;
        self.owned.send.stage(&request.0)?;
        self.owned.device.note_post(&self.owned.send, &request.0);
        Ok(())
    }
}

impl Drop for SendBatch<'_> {
    fn drop(&mut self) {
        submit(&mut self.owned.send, &self.owned.device, self.goes_now);
    }
}

/// Receive requests that are posted together, from [`QueuePair::recv_batch`]. The engine sees them
/// when this is dropped.
pub struct RecvBatch<'a> {
    queue: &'a mut RecvQueue,
}

impl RecvBatch<'_> {
    /// Adds a request.
    ///
    /// # Errors
    /// [`Error::Post`]; the request was not added then, those before it were.
    pub fn post_recv(&mut self, request: &RecvRequest<'_>) -> Result<(), Error> {
        Ok(self.queue.stage(request)?)
    }
}

impl Drop for RecvBatch<'_> {
    fn drop(&mut self) {
        self.queue.submit();
    }
}
