//! The perftest-like tools: what the programs `srnic_*_bw` and `srnic_*_lat` are made of.
//!
//! Both sides say `options`, then what the other must know to connect; then, for each size, `ready`, `done` with what
//! was measured, and `checked`.

pub mod bandwidth;
pub mod cli;
pub mod latency;
mod memory;
pub mod meter;
mod options;
pub mod pattern;
pub mod raw;
mod report;
mod session;
pub mod statistics;
pub mod table;
mod tool;
