//! The perftest-like tools: what `srnic_write_bw`, `srnic_send_bw`, `srnic_write_lat` and `srnic_send_lat` are
//! made of.
//!
//! Both sides say `options`, an `endpoint` a queue pair, and `region` over the side channel; then, for each size,
//! `ready`, `done` with what was measured, and `checked`.

pub mod bandwidth;
pub mod cli;
pub mod latency;
mod memory;
pub mod meter;
mod options;
pub mod pattern;
mod report;
mod session;
pub mod statistics;
pub mod table;
