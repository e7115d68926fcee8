//! RoCEv2 and SRNIC packet formats, serial numbers, ICRC.
//!
//! No I/O, no `unsafe`, and never a panic on any bytes. `protocol.md` sections 1 and 2 are the specification.
#![forbid(unsafe_code)]

pub mod serial;

pub use serial::{Msn, Psn, Serial, Ssn};
