//! The perftest-like tools: what `srnic *-bw`, `srnic *-lat` and `srnic rpc` are made of.
//!
//! Both sides say `options`, then what the other must know to connect; then, for each size,
//! `ready`, `done` with what was measured, and `checked`.

pub mod atomic;
pub mod bandwidth;
mod bytes;
pub mod cli;
pub mod fetch;
pub mod latency;
mod memory;
pub mod meter;
mod options;
pub mod pattern;
pub mod progress;
pub mod raw;
mod report;
pub mod rpc;
mod session;
pub mod statistics;
pub mod streams;
pub mod table;
pub mod tcp;
pub(crate) mod tool;
