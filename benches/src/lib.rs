//! What the tools in `bin/` share: `srnic_file`, the perftest-like ones in [`perf`], and `srnic_pcap`.

pub mod capture;
pub mod channel;
pub mod congestion;
pub mod error;
pub mod interrupt;
pub mod perf;
pub mod pump;
