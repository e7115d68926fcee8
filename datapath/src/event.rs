//! Asynchronous events: what happened to a queue pair outside any work request.

use core::net::IpAddr;
use std::collections::VecDeque;
use wire::WireMode;

/// Events kept at most; later ones are counted and dropped, so that a silent application costs no
/// memory.
const EVENTS_MAX: usize = 1024;

/// Something that the application should know (`ibv_async_event`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum AsyncEvent {
    /// The queue pair went to ERR, for another reason than its peer's requests
    /// (`IBV_EVENT_QP_FATAL`).
    QpFatal {
        /// Which one.
        qpn: u32,
    },
    /// The queue pair went to ERR, because its peer sent an invalid request
    /// (`IBV_EVENT_QP_REQ_ERR`): an atomic at an address that is no multiple of eight, a message
    /// longer than its receive, an operation out of sequence (protocol.md 1.6, NAK 0x61).
    QpRequestError {
        /// Which one.
        qpn: u32,
    },
    /// The queue pair went to ERR, because its peer asked for memory that it may not reach so
    /// (`IBV_EVENT_QP_ACCESS_ERR`; protocol.md 1.6, NAK 0x62).
    QpAccessError {
        /// Which one.
        qpn: u32,
    },
    /// The first packet came to an RC or UC queue pair that is in RTR still, so that it may go to
    /// RTS (`IBV_EVENT_COMM_EST`). Once in each life of the queue pair; one that goes to RTS
    /// before, as those do that connect by endpoint or by address, has none.
    CommEstablished {
        /// Which one.
        qpn: u32,
    },
    /// The peer speaks another dialect than the queue pair, and neither takes what the other one
    /// sends (protocol.md 1.2): one end has the wrong [`WireMode`]. Once in each life of the queue
    /// pair; what it sends ends with `RetryExcErr`.
    OtherDialect {
        /// Which one.
        qpn: u32,
        /// Where its peer is.
        peer: IpAddr,
        /// What the peer speaks.
        theirs: WireMode,
        /// The peer has been heard in the queue pair's own dialect before, since the queue pair was
        /// created: then this may be a packet that comes late, or a forged one.
        heard: bool,
    },
    /// The last request that had begun before SQD is done.
    SqDrained {
        /// Which queue pair.
        qpn: u32,
    },
    /// Frames can pass: on a memif pair, the peer came (`IBV_EVENT_PORT_ACTIVE`).
    PortActive,
    /// Frames cannot pass any more: on a memif pair, the peer went (`IBV_EVENT_PORT_ERR`). Queue
    /// pairs live on; what they sent in vain ends with `RetryExcErr`.
    PortError,
    /// Another host on the link has the device's IP address, too (docs/protocol.md 1.13). It comes
    /// once, and again if it happens again ten seconds later.
    AddressConflict {
        /// Ethernet address of that host. It may be the device's own: without `mac=` it is made of
        /// the IP address.
        mac: [u8; 6],
        /// This device had the address first, and keeps it. If not, it finds no neighbor and
        /// answers none until the other host is gone.
        ours: bool,
    },
    /// The engine runs no more: the thread that drove it ended by a panic, which it printed.
    DeviceFatal,
    /// Fewer receives are left in a shared receive queue than its limit says; that is disarmed now.
    SrqLimit {
        /// Which queue.
        srq: u32,
    },
    /// A queue pair with a shared receive queue is in ERR and will complete no more receives
    /// (`IBV_EVENT_QP_LAST_WQE_REACHED`).
    LastWqeReached {
        /// Which queue pair.
        qpn: u32,
    },
    /// So many events came while nobody polled that later ones were dropped; this stands where they
    /// would.
    Lost {
        /// How many.
        count: u64,
    },
    /// A completion queue had no room for a completion.
    CqOverrun {
        /// Which queue.
        cq: u32,
        /// The queue pair whose completion was lost.
        qpn: u32,
    },
}

/// The events not yet polled.
#[derive(Debug)]
pub(crate) struct EventLog {
    events: VecDeque<AsyncEvent>,
    lost: u64,
}

impl Default for EventLog {
    fn default() -> Self {
        Self { events: VecDeque::with_capacity(EVENTS_MAX), lost: 0 }
    }
}

impl EventLog {
    pub fn push(&mut self, event: AsyncEvent) {
        if self.events.len() < EVENTS_MAX {
            self.events.push_back(event);
        } else {
            self.lost += 1;
        }
    }

    /// Events that found no room since the last call.
    pub const fn take_lost(&mut self) -> u64 {
        core::mem::replace(&mut self.lost, 0)
    }

    /// Whether none waits, and none was lost.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty() && self.lost == 0
    }

    pub fn pop(&mut self) -> Option<AsyncEvent> {
        self.events.pop_front()
    }
}
