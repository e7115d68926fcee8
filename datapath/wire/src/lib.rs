//! RoCEv2 and SRNIC packet formats, serial numbers, ICRC.
//!
//! No I/O, no `unsafe`, and never a panic on any bytes. `protocol.md` sections 1 and 2 are the specification.
//!
//! # Receiving
//! [`encap::Datagram::parse`] finds the transport packet (BTH to ICRC) in an Ethernet frame, [`icrc::verify`]
//! checks it, and [`Packet::parse`] makes the one length check after which every getter is a load at a fixed
//! offset.
//!
//! # Sending
//! [`encap::Template::emit`] writes Ethernet to UDP, [`bth::emit`] and the `emit` of each header write at the
//! offsets of [`Layout::of`], and [`icrc::seal`] closes the packet. [`Repr`] does the same from an owned value,
//! for tests and tools.
#![forbid(unsafe_code)]

mod bytes;

pub mod bth;
pub mod emit;
pub mod encap;
pub mod entropy;
pub mod ext;
pub mod headers;
pub mod icrc;
pub mod layout;
pub mod mode;
pub mod opcode;
pub mod packet;
pub mod pmtu;
pub mod repr;
pub mod serial;
pub mod srnic;
pub mod syndrome;

pub use bth::Bth;
pub use encap::{Datagram, Ecn, EncapError, Flow, Template};
pub use ext::{Aeth, AtomicEth, Deth, Reth};
pub use headers::Headers;
pub use layout::Layout;
pub use mode::WireMode;
pub use opcode::{Kind, Opcode, Position, Transport};
pub use packet::{Packet, ParseError};
pub use pmtu::Pmtu;
pub use repr::Repr;
pub use serial::{Msn, Psn, Serial, Ssn};
pub use srnic::{AckFlags, Ackx, Meta, Rdw, Ssnw};
pub use syndrome::{NakCode, Syndrome, rnr_timer_code, rnr_timer_ns};
