//! Queue pairs that several threads use at once.

use crate::address::resolved;
use crate::device::Device;
use crate::error::Error;
use crate::queue_pair::{Life, goes_now, submit};
use core::net::IpAddr;
use core::time::Duration;
use datapath::qp::attr::{QpAttr, QpAttrMask};
use datapath::qp::state::{QpState, QpType};
use datapath::queue::{QueueCaps, RecvQueue, RecvRequest, SendProgress, SendQueue, SendRequest};
use spin::Yield;
use spin::mutex::{SpinMutex, SpinMutexGuard};
use std::time::Instant;

/// A queue pair in the states that the program drives, as
/// [`ManualQueuePair`](crate::ManualQueuePair) is, for any number of threads: its send queue and
/// its receive queue have a lock each, which is held as long as the guard is kept. A thread that
/// waits for one spins and yields, so threads of real-time priority must not share a queue pair
/// with others. Made by
/// [`QueuePairBuilder::create_raw`](crate::QueuePairBuilder::create_raw).
///
/// Dropping it destroys it: what is outstanding ends without completions.
pub struct QueuePair {
    send: SpinMutex<SendQueue, Yield>,
    /// Of the send queue, without its lock.
    progress: SendProgress,
    recv: SpinMutex<RecvQueue, Yield>,
    life: Life,
    qp_type: QpType,
}

impl QueuePair {
    pub(crate) fn new(send: SendQueue, recv: RecvQueue, life: Life) -> Self {
        let (qp_type, progress) = (send.service(), send.progress());
        Self { progress, send: SpinMutex::new(send), recv: SpinMutex::new(recv), life, qp_type }
    }

    /// The send queue, locked until the value is dropped.
    pub fn send(&self) -> SendGuard<'_> {
        // A panic between two stages leaves whole requests only.
        let queue = self.send.lock();
        let goes_now = goes_now(&queue);
        SendGuard { queue, device: self.life.device(), goes_now }
    }

    /// The receive queue, locked until the value is dropped.
    pub fn recv(&self) -> RecvGuard<'_> {
        let device = self.life.device();
        device.settle();
        RecvGuard { queue: self.recv.lock(), device }
    }

    /// Changes the attributes that `mask` names, and the state if it names that (`ibv_modify_qp`).
    /// With an address vector this waits until the peer's Ethernet address is known.
    ///
    /// # Errors
    /// [`Error::Connect`]; nothing has changed then.
    pub fn modify(&self, attr: &QpAttr, mask: QpAttrMask) -> Result<(), Error> {
        if mask.contains(QpAttrMask::AV) && attr.av.dst_ip != self.life.device().ip() {
            // Without a link, such as before the peer's process is there, nobody would answer.
            // What is wrong with it is the modification's to say.
            let _ = self.life.device().wait_link(LINK_LIMIT);
        }
        resolved(self.life.device(), || self.life.modify(attr, mask))
    }

    /// A queue pair of type UD takes the datagrams that go to a multicast group, too
    /// (`ibv_attach_mcast`; protocol.md 1.11), also those of this host and of itself. One that is a
    /// member stays one, until it leaves or is dropped. Switches are told nothing: one that snoops
    /// IGMP or MLD needs to be told that the group is here.
    ///
    /// # Errors
    /// [`Error::Group`]: it is of another type; the address is no multicast address, or of another
    /// family than the device's; the device has as many groups as it can, or the group as many
    /// members; the port does not let its frames through.
    pub fn join_group(&self, group: IpAddr) -> Result<(), Error> {
        self.life.join_group(group)
    }

    /// It takes datagrams to that group no more (`ibv_detach_mcast`).
    ///
    /// # Errors
    /// [`Error::Group`], also if it is no member.
    pub fn leave_group(&self, group: IpAddr) -> Result<(), Error> {
        self.life.leave_group(group)
    }

    /// Returns `true` if it is a member of a multicast group.
    #[must_use]
    pub fn is_in_group(&self) -> bool {
        self.life.is_in_group()
    }

    /// Takes its window down to what the peer takes, 1 at least; before RTS. Returns the window.
    pub fn limit_window(&self, window: u16) -> u16 {
        self.life.limit_window(window)
    }

    /// The attributes of this queue pair and its state (`ibv_query_qp`).
    #[must_use]
    pub fn query(&self) -> QpAttr {
        self.life.query()
    }

    /// Waits until every request that is posted now has come to its end, `limit` at most, and
    /// drives the engine of a polled device meanwhile: those of datagrams and of unreliable
    /// connections end when they are sent, those of reliable ones when they are acknowledged. False
    /// if some are left, which is so at once in a process that was forked from the device's.
    #[must_use]
    pub fn wait_sent(&self, limit: Duration) -> bool {
        let device = self.life.device();
        let (posted, start) = (self.progress.posted(), Instant::now());
        while !self.progress.has_ended(posted) {
            if start.elapsed() >= limit || device.check_process().is_err() {
                return false;
            }
            device.progress();
            std::thread::yield_now();
        }
        true
    }

    /// Its state.
    #[must_use]
    pub fn state(&self) -> QpState {
        self.send.lock().state()
    }

    /// Sizes of its queues, as they were asked for.
    #[must_use]
    pub const fn caps(&self) -> QueueCaps {
        self.life.caps()
    }

    /// The number of this queue pair.
    #[must_use]
    pub const fn qpn(&self) -> u32 {
        self.life.qpn()
    }

    /// The type of this queue pair.
    #[must_use]
    pub const fn qp_type(&self) -> QpType {
        self.qp_type
    }
}

/// How long a modification waits for the link of its device.
const LINK_LIMIT: Duration = Duration::from_secs(10);

/// A locked send queue. What was posted goes to the engine, or the doorbell rings, when it is
/// dropped.
pub struct SendGuard<'a> {
    queue: SpinMutexGuard<'a, SendQueue>,
    device: &'a Device,
    goes_now: bool,
}

impl SendGuard<'_> {
    /// Adds a request. Its memory is looked at when it is sent, its inline data now.
    ///
    /// # Errors
    /// [`Error::Post`]; the request was not added then, those before it were.
    pub fn post(&mut self, request: &SendRequest<'_>) -> Result<(), Error> {
        self.device.check_process()?;
        self.queue.stage(request)?;
        self.device.note_post(&self.queue, request);
        Ok(())
    }

    /// Takes back everything that was added.
    pub fn discard(&mut self) {
        self.queue.discard();
    }
}

impl Drop for SendGuard<'_> {
    fn drop(&mut self) {
        submit(&mut self.queue, self.device, self.goes_now);
    }
}

/// A locked receive queue. The engine sees what was posted when it is dropped.
pub struct RecvGuard<'a> {
    queue: SpinMutexGuard<'a, RecvQueue>,
    device: &'a Device,
}

impl RecvGuard<'_> {
    /// Adds a request.
    ///
    /// # Errors
    /// [`Error::Post`]; the request was not added then, those before it were.
    pub fn post(&mut self, request: &RecvRequest<'_>) -> Result<(), Error> {
        self.device.check_process()?;
        Ok(self.queue.stage(request)?)
    }
}

impl Drop for RecvGuard<'_> {
    fn drop(&mut self) {
        self.queue.submit();
    }
}
