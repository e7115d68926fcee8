//! The polling RDMA engine: what SRNIC puts into an FPGA, as one sans-I/O state machine per core.
//!
//! The engine is generic over a [`port::Port`] and takes the time as an argument; the same code
//! runs on DPDK and on the deterministic network of the tests.

pub mod address;
mod config;
pub mod counters;
pub mod engine;
mod event;
mod frame;
mod groups;
pub mod latency;
pub mod memory;
pub mod neighbor;
pub mod port;
pub mod prefetch;
pub mod qp;
mod qp_state;
pub mod qpn;
pub mod queue;
pub mod sched;
pub mod seed;
pub mod slow_path;
pub mod stream;
pub mod time;
pub mod tuning;
