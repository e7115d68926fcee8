//! The queues that the host and the NIC share: send, receive and completion queues, and doorbells.
//!
//! Every ring has one writer and one reader. Entries are words in atomics, so that neither side
//! needs `unsafe` to share them; the order between an entry and its index is argued in
//! [`WordRing`].

mod completion;
mod doorbell;
mod entries;
mod hand_over;
mod numbered;
mod recv;
mod send;
mod send_entries;
mod sges;
mod shared_recv;
mod sleep;
mod status;
mod sync;
mod word_ring;
mod work_request;

/// What [`RecvRequest::scatter`] and [`SendData::Gather`] consist of.
pub use crate::memory::Sge;
pub use completion::{
    Completion, CompletionQueue, CompletionWriter, CqOverflow, ResizeError, WcFlags, WcOpcode,
    completion_queue,
};
pub use doorbell::{Doorbells, QpShared};
pub use hand_over::HandOver;
pub(crate) use numbered::Numbered;
pub use recv::{RecvQueue, RecvQueueReader, RecvWqe, recv_queue};
pub(crate) use send::CommonWqe;
pub use send::{Handed, SendProgress, SendQueue, SendQueueReader, SendWqe, send_queue};
pub use shared_recv::{SharedRecvQueue, SharedRecvReader, SrqCaps, shared_recv_queue};
pub use sleep::Sleep;
pub use status::WcStatus;
pub use word_ring::Freed;
pub use word_ring::WordRing;
pub use work_request::{
    ATOMIC_BYTES, DatagramAddress, PostError, QueueCaps, RecvRequest, SendData, SendFlags, SendOpcode,
    SendRequest, WORK_REQUEST_BYTES_MAX,
};

#[cfg(test)]
mod tests;
