//! What the responders of all dialects share: checks of requests, placement in order, refusals, the
//! report of a message's end.

mod in_order;
mod place;
mod read;
mod refuse;
mod report;
mod request;

pub(in crate::qp) use in_order::{InOrder, pass};
pub(in crate::qp) use place::{
    behind, check_write, fits_message, fits_packet, in_region, invalidate, permits_writes, place, put,
    to_receive,
};
pub(in crate::qp) use read::{carry_out, check_memory, check_operation, operation_of, packets_of_response};
pub(in crate::qp) use refuse::{Refused, refuse_receive, tell_withdrawn};
pub(in crate::qp) use report::{EndOfMessage, report};
pub(crate) use request::RequestPacket;
