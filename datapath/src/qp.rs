//! Queue pairs: context (QPC), state machine, requester, responder, and the dialects that they
//! speak.

pub mod attr;

mod context;
mod control_queue;
mod dialect;
mod elements;
mod feedback;
mod first_packet;
mod flags;
mod flush;
mod governed;
mod keepalive;
mod last_word;
mod other_dialect;
mod owed;
mod packet;
mod pair;
mod payload;
pub(crate) mod plain;
mod receives;
mod requester;
mod responder;
mod response;
mod scatter;
mod send_stream;
mod shares;
pub(crate) mod srnic;
mod table;
pub mod transition;
mod tx_slots;
mod units;
mod unreliable;

/// Types and states of queue pairs (protocol.md 1.9), and what each state permits.
pub mod state {
    pub use crate::qp_state::{PostVerdict, QpState, QpType};
}

pub(crate) use context::{
    Attributes, Present, QpCold, QpIdentity, RequesterCursor, ResponderCursor, SqEntry, Watched,
};
pub use context::{HOT_BYTES_MAX, Qpc};
pub(crate) use control_queue::{ControlKind, ControlPacket};
pub(crate) use dialect::{mark, on_packet, on_timer, transmit, transmit_responses, write_ack};
pub(crate) use feedback::adopt_window;
pub(crate) use flags::QpFlags;
pub(crate) use flush::{
    abort, deactivate, fail, fail_sends, flush_and_deactivate, flush_taken, stop_streams,
};
pub(crate) use governed::{charge_host, hear_host, join_host, restart_timers, set_paused, takes_turn};
pub(crate) use keepalive::{Keepalive, on_keepalive_timer};
pub(crate) use last_word::{LastWords, is_answered, keep_last_word};
pub(crate) use other_dialect::note_refused;
pub(crate) use pair::Qp;
pub(crate) use receives::{Receives, Srq, Srqs, Taken};
pub(crate) use requester::{Grant, TransmitEnd, become_idle, reactivate, tell_if_drained};
pub(crate) use responder::RequestPacket;
pub(crate) use srnic::{
    Acknowledgement, Gap, Hull, Reads, Responses, RxRecovery, admit, apply_advance, on_acknowledge,
    on_response_timer, take_middle,
};
pub(crate) use table::{QPN_GSI, QpTable};
pub(crate) use tx_slots::{NotSent, TxSlots};
pub(crate) use units::{Ahead, Completions, Units};
pub(crate) use unreliable::{Incoming, on_datagram, on_unreliable, transmit_unreliable};
