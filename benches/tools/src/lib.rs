//! What the tools in `bin/` share: `srnic_file`, the perftest-like ones in [`perf`], `srnic_pcap`,
//! `srnic_stat` and `srnic_switch`.

pub mod capture;
pub mod channel;
pub mod completions;
pub mod congestion;
pub mod dial;
pub mod error;
pub mod interrupt;
pub mod link;
pub mod log;
pub mod notice;
pub mod output;
pub mod perf;
pub mod perftest_peer;
pub mod ping;
pub mod pump;
pub mod rping;
pub mod stat;
pub mod switch;
