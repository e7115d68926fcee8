//! Raw Ethernet frames on the port that the RDMA tools use, as cheaply as DPDK moves them: what
//! `srnic_raw_bw` and `srnic_raw_lat` measure is what the others are compared with.

pub mod bandwidth;
mod frame;
pub mod latency;
mod link;
mod payload;
