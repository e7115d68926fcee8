//! The requester of the SRNIC dialect: sends requests, takes acknowledgements and responses.

mod acknowledged;
mod ask;
mod common;
mod long;
mod overlap;
mod reads;
mod refused;
mod response;
mod timers;
mod transmit;

pub(crate) use acknowledged::{Acknowledgement, on_acknowledge};
pub(crate) use overlap::Hull;
pub(crate) use reads::Reads;
pub(in crate::qp) use reads::take_answer;
pub(super) use response::go_on;
pub(crate) use response::take_middle;
pub(in crate::qp) use response::{on_response, stop_reads};
pub(in crate::qp) use timers::on_timer;
pub(in crate::qp) use transmit::transmit;
