//! Raw Ethernet frames on the port that the RDMA tools use, as cheaply as DPDK moves them: what
//! `srnic raw-bw` and `srnic raw-lat` measure is what the others are compared with.

pub mod bandwidth;
mod frame;
pub mod latency;
mod link;
mod payload;
