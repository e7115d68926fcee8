//! Send work requests, built from what they do.

use crate::address::AddressHandle;
use datapath::qpn::MULTICAST_QPN;
use datapath::queue::{self, DatagramAddress, SendData, SendFlags, SendOpcode, Sge};

/// A byte of the peer's memory, and the key that opens it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RemoteAddr {
    /// The virtual address in the peer's region.
    pub addr: u64,
    /// Key of its region.
    pub rkey: u32,
}

/// A send work request, for [`QueuePair::post_send`](crate::QueuePair::post_send).
///
/// ```
/// use verbs_api::{RemoteAddr, SendData, SendRequest};
///
/// let to = RemoteAddr { addr: 0x1000, rkey: 0x101 };
/// let request = SendRequest::write(SendData::Inline(b"done"), to).with_imm(7).id(1).signaled();
/// # let _ = request;
/// ```
#[derive(Clone, Copy, Debug)]
pub struct SendRequest<'a>(pub(crate) queue::SendRequest<'a>);

impl<'a> SendRequest<'a> {
    const fn new(opcode: SendOpcode, data: SendData<'a>, to: RemoteAddr) -> Self {
        Self(queue::SendRequest {
            wr_id: 0,
            opcode,
            flags: SendFlags::empty(),
            imm: 0,
            remote_addr: to.addr,
            rkey: to.rkey,
            data,
        })
    }

    /// SEND: the peer's oldest receive takes the data.
    #[must_use]
    pub const fn send(data: SendData<'a>) -> Self {
        Self::new(SendOpcode::Send, data, RemoteAddr { addr: 0, rkey: 0 })
    }

    /// What the engine does by itself: `window` is bound, or `ended` is invalidated.
    pub(crate) const fn local(opcode: SendOpcode, window: u32, ended: u32, data: SendData<'a>) -> Self {
        let mut request = Self::new(opcode, data, RemoteAddr { addr: 0, rkey: window });
        request.0.imm = ended;
        request
    }

    /// A SEND that ends the peer's memory window of this key, once its data are placed: the peer's
    /// completion shows the key and [`WcFlags::WITH_INV`](crate::WcFlags).
    #[must_use]
    pub const fn send_with_invalidate(data: SendData<'a>, rkey: u32) -> Self {
        let mut request = Self::new(SendOpcode::SendWithInv, data, RemoteAddr { addr: 0, rkey: 0 });
        request.0.imm = rkey;
        request
    }

    /// RDMA WRITE: the data go to the peer's memory, and its program learns nothing.
    #[must_use]
    pub const fn write(data: SendData<'a>, to: RemoteAddr) -> Self {
        Self::new(SendOpcode::Write, data, to)
    }

    /// RDMA READ: bytes of the peer's memory come into `into`, which must be registered with local
    /// write.
    ///
    /// ```
    /// use verbs_api::{RemoteAddr, SendRequest, Sge};
    ///
    /// let into = [Sge { addr: 0x2000, length: 4096, lkey: 0x201 }];
    /// let from = RemoteAddr { addr: 0x1000, rkey: 0x101 };
    /// let request = SendRequest::read(&into, from).id(2).signaled();
    /// # let _ = request;
    /// ```
    #[must_use]
    pub const fn read(into: &'a [Sge], from: RemoteAddr) -> Self {
        Self::new(SendOpcode::Read, SendData::Gather(into), from)
    }

    /// Atomic: stores `swap` to the 8 bytes at `at`, host order of the peer, if they are `compare`.
    /// What was there before goes to `result`, 8 bytes as well.
    #[must_use]
    pub const fn compare_and_swap(result: Sge, at: RemoteAddr, compare: u64, swap: u64) -> Self {
        let data = SendData::Atomic { result, compare, swap_or_add: swap };
        Self::new(SendOpcode::CompareSwap, data, at)
    }

    /// Atomic: adds to the 8 bytes at `at`, wrapping. What was there before goes to `result`, 8
    /// bytes as well.
    #[must_use]
    pub const fn fetch_and_add(result: Sge, at: RemoteAddr, add: u64) -> Self {
        let data = SendData::Atomic { result, compare: 0, swap_or_add: add };
        Self::new(SendOpcode::FetchAdd, data, at)
    }

    /// Adds immediate data, in host order; the peer's completion shows it. A WRITE then takes a
    /// receive, too. READs and atomics carry none.
    #[must_use]
    pub const fn with_imm(mut self, imm: u32) -> Self {
        self.0.opcode = match self.0.opcode {
            SendOpcode::Write | SendOpcode::WriteWithImm => SendOpcode::WriteWithImm,
            SendOpcode::Send | SendOpcode::SendWithImm => SendOpcode::SendWithImm,
            response => response,
        };
        self.0.imm = imm;
        self
    }

    /// Waits until all READs and atomics before it have completed (`IBV_SEND_FENCE`).
    #[must_use]
    pub const fn fenced(mut self) -> Self {
        self.0.flags = self.0.flags.union(SendFlags::FENCE);
        self
    }

    /// The number that its completion shows; 0 if not set.
    #[must_use]
    pub const fn id(mut self, wr_id: u64) -> Self {
        self.0.wr_id = wr_id;
        self
    }

    /// Reports success, too; without it only a failure completes. That a later request of the queue
    /// pair has completed says that this one is done, and its memory may change.
    ///
    /// Its place in the queue is free again as soon as it is done and all before it are, signaled
    /// or not: when the peer has acknowledged it or, of a READ or atomic, answered. Whoever runs
    /// the engine takes that in, so who signals nothing polls all the same, and sees by
    /// [`outstanding`](crate::QueuePair::outstanding) how many places are taken.
    #[must_use]
    pub const fn signaled(mut self) -> Self {
        self.0.flags = self.0.flags.union(SendFlags::SIGNALED);
        self
    }

    /// The peer's completion is a solicited event.
    #[must_use]
    pub const fn solicited(mut self) -> Self {
        self.0.flags = self.0.flags.union(SendFlags::SOLICITED);
        self
    }
}

/// A datagram to send, for [`UdQueuePair::post_send`](crate::UdQueuePair::post_send).
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'a> {
    pub(crate) request: SendRequest<'a>,
    pub(crate) to: &'a AddressHandle,
}

impl<'a> Datagram<'a> {
    /// `data`, to queue pair `qpn` of the host that `to` names. It is taken if `qkey` is that of
    /// the queue pair.
    #[must_use]
    pub const fn new(data: SendData<'a>, to: &'a AddressHandle, qpn: u32, qkey: u32) -> Self {
        let address = DatagramAddress { handle: to.key(), qpn };
        let addr = RemoteAddr { addr: address.to_word(), rkey: qkey };
        Self { request: SendRequest::new(SendOpcode::Send, data, addr), to }
    }

    /// `data`, to all members of the multicast group that `to` names whose Q_Key is `qkey`, those
    /// of this host included.
    #[must_use]
    pub const fn to_group(data: SendData<'a>, to: &'a AddressHandle, qkey: u32) -> Self {
        Self::new(data, to, MULTICAST_QPN, qkey)
    }

    /// The queue pair that it goes to.
    pub(crate) const fn qpn(&self) -> u32 {
        DatagramAddress::from_word(self.request.0.remote_addr).qpn
    }

    /// Adds immediate data, in host order; the receiver's completion shows it.
    #[must_use]
    pub const fn with_imm(self, imm: u32) -> Self {
        Self { request: self.request.with_imm(imm), ..self }
    }

    /// The number that its completion shows; 0 if not set.
    #[must_use]
    pub const fn id(self, wr_id: u64) -> Self {
        Self { request: self.request.id(wr_id), ..self }
    }

    /// Reports success, too; without it only a failure completes.
    #[must_use]
    pub const fn signaled(self) -> Self {
        Self { request: self.request.signaled(), ..self }
    }

    /// The receiver's completion is a solicited event.
    #[must_use]
    pub const fn solicited(self) -> Self {
        Self { request: self.request.solicited(), ..self }
    }
}
