//! Work requests as the application hands them over.

use super::completion::WcOpcode;
use super::word_ring::{halves, pair};
use crate::address::AddressKey;
use crate::memory::{Binding, Sge};
use crate::qp_state::{QpState, QpType};

/// Longest message, in bytes (protocol.md 1.4).
pub const WORK_REQUEST_BYTES_MAX: u64 = 1 << 31;

/// The operation of a send work request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum SendOpcode {
    /// SEND.
    Send = 0,
    /// SEND with immediate.
    SendWithImm = 1,
    /// RDMA WRITE.
    Write = 2,
    /// RDMA WRITE with immediate.
    WriteWithImm = 3,
    /// SEND that ends a window of the peer's.
    SendWithInv = 4,
    /// RDMA READ.
    Read = 5,
    /// Atomic compare-and-swap of 8 bytes.
    CompareSwap = 6,
    /// Atomic fetch-and-add of 8 bytes.
    FetchAdd = 7,
    /// Ends a window of ours, once everything before it has completed.
    LocalInv = 8,
    /// Binds a memory window, once everything before it has completed.
    BindWindow = 9,
}

impl SendOpcode {
    /// How many there are.
    pub(crate) const COUNT: usize = Self::BindWindow as usize + 1;

    pub(super) const fn from_code(code: u8) -> Self {
        match code {
            0 => Self::Send,
            1 => Self::SendWithImm,
            2 => Self::Write,
            3 => Self::WriteWithImm,
            4 => Self::SendWithInv,
            5 => Self::Read,
            6 => Self::CompareSwap,
            7 => Self::FetchAdd,
            8 => Self::LocalInv,
            _ => Self::BindWindow,
        }
    }

    /// True if queue pairs of that type carry it.
    #[must_use]
    pub const fn is_carried_by(self, service: QpType) -> bool {
        match service {
            QpType::Rc => true,
            QpType::Uc => {
                matches!(self, Self::Send | Self::SendWithImm) || self.is_write() || self.is_local()
            }
            QpType::Ud => matches!(self, Self::Send | Self::SendWithImm),
        }
    }

    /// The kind of operation that its completion names.
    pub(crate) const fn completes_as(self) -> WcOpcode {
        const BY_OPCODE: [WcOpcode; SendOpcode::COUNT] = [
            WcOpcode::Send,
            WcOpcode::Send,
            WcOpcode::RdmaWrite,
            WcOpcode::RdmaWrite,
            WcOpcode::Send,
            WcOpcode::RdmaRead,
            WcOpcode::CompSwap,
            WcOpcode::FetchAdd,
            WcOpcode::LocalInv,
            WcOpcode::BindMw,
        ];
        BY_OPCODE[self as usize]
    }

    /// True if immediate data travel with it.
    #[must_use]
    pub const fn has_imm(self) -> bool {
        matches!(self, Self::SendWithImm | Self::WriteWithImm)
    }

    /// True for the RDMA WRITEs.
    #[must_use]
    pub const fn is_write(self) -> bool {
        matches!(self, Self::Write | Self::WriteWithImm)
    }

    /// True if it consumes a receive work request of the peer.
    #[must_use]
    pub const fn consumes_receive(self) -> bool {
        matches!(self, Self::Send | Self::SendWithImm | Self::SendWithInv | Self::WriteWithImm)
    }

    /// True if it is done when its response is here, not when it is acknowledged: READ and the
    /// atomics.
    #[must_use]
    pub const fn has_response(self) -> bool {
        matches!(self, Self::Read | Self::CompareSwap | Self::FetchAdd)
    }

    /// True if a remote address or key, or a window's, belongs to it.
    #[must_use]
    pub(crate) const fn names_remote(self) -> bool {
        !matches!(self, Self::Send | Self::SendWithImm | Self::SendWithInv | Self::LocalInv)
    }

    /// True for what the engine does by itself, without a packet.
    #[must_use]
    pub const fn is_local(self) -> bool {
        matches!(self, Self::LocalInv | Self::BindWindow)
    }

    /// True for the atomics.
    #[must_use]
    pub const fn is_atomic(self) -> bool {
        matches!(self, Self::CompareSwap | Self::FetchAdd)
    }
}

bitflags::bitflags! {
    /// `ibv_send_flags`.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct SendFlags: u8 {
        /// Waits until all READs and atomics before it have completed; a LOCAL_INV waits for all
        /// requests before it.
        const FENCE = 1;
        /// A successful completion is reported.
        const SIGNALED = 2;
        /// The peer's completion is a solicited event.
        const SOLICITED = 4;
    }
}

/// A send work request.
#[derive(Clone, Copy, Debug)]
pub struct SendRequest<'a> {
    /// The application's own number, returned in the completion.
    pub wr_id: u64,
    /// The operation.
    pub opcode: SendOpcode,
    /// The flags of the request.
    pub flags: SendFlags,
    /// Immediate data, host order, of the `WithImm` opcodes; the key to invalidate of `SendWithInv`
    /// and `LocalInv`.
    pub imm: u32,
    /// WRITE, READ, atomics: first address at the peer. Datagrams: [`DatagramAddress::to_word`].
    pub remote_addr: u64,
    /// WRITE, READ, atomics: key at the peer. `BindWindow`: the window's present key. Datagrams:
    /// the peer's Q_Key.
    pub rkey: u32,
    /// The data.
    pub data: SendData<'a>,
}

/// The bytes of a send work request: where they come from or go to.
#[derive(Clone, Copy, Debug)]
pub enum SendData<'a> {
    /// Registered memory, read by the engine until the request completes; of a READ, where the data
    /// go.
    Gather(&'a [Sge]),
    /// Bytes copied into the queue by the call itself (`IBV_SEND_INLINE`): at most
    /// [`QueueCaps::max_inline`], 32 unless the queue pair was created for more, up to 240.
    Inline(&'a [u8]),
    /// What a window is to show, for `BindWindow`.
    Bind(&'a Binding),
    /// Operands of an atomic.
    Atomic {
        /// Where the value goes that was there before: 8 bytes, host order.
        result: Sge,
        /// What to compare with; unused by fetch-and-add.
        compare: u64,
        /// What to store if it is equal, or to add.
        swap_or_add: u64,
    },
}

/// The destination of a datagram, in the form in which `remote_addr` of its request has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DatagramAddress {
    /// The address handle.
    pub handle: AddressKey,
    /// The peer's queue pair.
    pub qpn: u32,
}

impl DatagramAddress {
    /// This destination as one word.
    #[must_use]
    pub const fn to_word(self) -> u64 {
        pair(self.handle.0, self.qpn)
    }

    /// Reads a word that [`DatagramAddress::to_word`] made.
    #[must_use]
    pub const fn from_word(word: u64) -> Self {
        let (handle, qpn) = halves(word);
        Self { handle: AddressKey(handle), qpn }
    }
}

/// Bytes that an atomic works on.
pub const ATOMIC_BYTES: u32 = 8;

/// A receive work request.
#[derive(Clone, Copy, Debug)]
pub struct RecvRequest<'a> {
    /// The application's own number, returned in the completion.
    pub wr_id: u64,
    /// The memory that the message goes to.
    pub scatter: &'a [Sge],
}

/// Sizes of a queue pair's queues (`ibv_qp_cap`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueCaps {
    /// Send work requests outstanding at most; 1 to 32,767 (protocol.md 2.4, gates). Default 128.
    pub max_send_wr: u32,
    /// Receive work requests outstanding at most; 1 to 32,767. Default 128. With a shared receive
    /// queue it counts as 0.
    pub max_recv_wr: u32,
    /// Elements of a send work request at most; 1 to 16. Default 2.
    pub max_send_sge: u32,
    /// Elements of a receive work request at most; 1 to 16. Default 3.
    pub max_recv_sge: u32,
    /// Bytes of inline data at most; 0 to 240. Default 32.
    pub max_inline: u32,
}

impl QueueCaps {
    /// Largest `max_send_wr` and `max_recv_wr`.
    pub const WR_LIMIT: u32 = 32_767;
    /// Largest number of elements of one work request.
    pub const SGE_LIMIT: u32 = 16;
    /// Largest `max_inline`, in bytes.
    pub const INLINE_LIMIT: u32 = 240;
}

impl Default for QueueCaps {
    fn default() -> Self {
        Self { max_send_wr: 128, max_recv_wr: 128, max_send_sge: 2, max_recv_sge: 3, max_inline: 32 }
    }
}

/// Why a work request was not accepted. Nothing was posted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PostError {
    /// The queue is full. A place is free again as soon as its request is done and all before it
    /// are, signaled or not.
    #[error(
        "the queue holds {capacity} work requests, and the oldest is not done; poll the completion queue until it is, also if no \
         completion is to come of it, or create the queue with more"
    )]
    QueueFull {
        /// Work requests that the queue holds.
        capacity: u32,
    },
    /// The queue pair has no receive queue of its own.
    #[error("the queue pair takes its receives from a shared receive queue; post them there")]
    NoReceiveQueue,
    /// Too many scatter-gather elements.
    #[error(
        "{given} scatter-gather elements; the queue was created for {max}: name fewer, or create it with more"
    )]
    TooManySges {
        /// Elements of the request.
        given: usize,
        /// Elements allowed.
        max: u32,
    },
    /// Too much inline data.
    #[error(
        "{given} bytes of inline data; the queue pair was created for {max}: gather them from registered memory, or create it with a \
         larger `QueueCaps::max_inline`, up to 240"
    )]
    InlineTooLong {
        /// Bytes of the request.
        given: usize,
        /// Bytes allowed.
        max: u32,
    },
    /// The data do not fit the operation.
    #[error(
        "{opcode:?} cannot be posted with these data: a READ needs registered memory, an atomic its operands and a result of 8 bytes, \
         LOCAL_INV nothing, BIND_MW a binding"
    )]
    WrongData {
        /// The operation.
        opcode: SendOpcode,
    },
    /// The queue pair's service has no such operation.
    #[error("{qp_type} queue pairs carry no {opcode:?}; protocol.md 1.3 says which service carries what")]
    WrongService {
        /// The operation.
        opcode: SendOpcode,
        /// The queue pair's type.
        qp_type: QpType,
    },
    /// A datagram is one packet.
    #[error("a datagram of {given} bytes; one is a single packet, here of {max} bytes at most")]
    DatagramTooLong {
        /// Bytes of the request.
        given: u64,
        /// Bytes that a packet carries.
        max: u32,
    },
    /// The message is too long.
    #[error("a message of {given} bytes; at most 2^31 can be sent or received at once: split it")]
    TooLong {
        /// Bytes of the request.
        given: u64,
    },
    /// The queue pair's state does not accept the request.
    #[error("the queue pair is in state {state}, which accepts no {what} requests; modify it first")]
    WrongState {
        /// The state.
        state: QpState,
        /// "send" or "receive".
        what: &'static str,
    },
}

/// Sum of the elements' lengths.
#[inline]
pub(super) fn total_length(sges: &[Sge]) -> u64 {
    // One, mostly.
    if let [sge] = sges {
        return sge.length.into();
    }
    sges.iter().map(|sge| u64::from(sge.length)).sum()
}
