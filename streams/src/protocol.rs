//! The protocol of streams (docs/streams.md), sans I/O: messages, calls of the application and the
//! loss of the carrier go in; headers of messages, and what may be read or written, come out.

mod connection;
mod descriptor;
mod header;
mod hello;
mod incoming;
mod outgoing;
#[cfg(test)]
mod tests;
mod violation;

pub use connection::{Connection, End, Fate, Message, Reading, Received};
pub use descriptor::Descriptor;
pub use header::{Header, Kind};
pub use hello::{Features, Hello, HelloError};
pub use incoming::{Arrival, Piece, Slot};
pub use outgoing::{Room, WriteRefused};
pub use violation::{Reason, Violation};

/// Receives beside the counted ones: one each for an update of credit, its answer, a Fin and a
/// Reset, of which at most one each is under way (docs/streams.md, "Credit").
pub const EXTRA_RECEIVES: u32 = 4;
