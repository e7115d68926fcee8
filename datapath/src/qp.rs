//! Queue pairs: context (QPC), state machine, requester, responder.

pub mod attr;
pub mod state;

mod context;
mod flush;
mod receives;
mod requester;
mod responder;
mod table;

pub(crate) use context::{Attributes, QpCold, QpIdentity, RequesterCursor, ResponderCursor, SqEntry};
pub use context::{HOT_BYTES_MAX, Qpc};
pub(crate) use flush::{fail, flush_and_rest, flush_taken, rest_for_good, stop_streams};
pub(crate) use receives::{Receives, Srq, Srqs, Taken};
pub(crate) use requester::{
    Grant, TransmitEnd, is_ready, on_acknowledge, on_command, on_timer, rest, tell_if_drained, transmit,
};
pub(crate) use responder::{RequestPacket, RxRecovery, apply_advance, on_request, write_ack};
pub(crate) use table::QpTable;
