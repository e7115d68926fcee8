//! What the tools in `bin/` share: `srnic_file`, and the perftest-like ones in [`perf`].

pub mod channel;
pub mod congestion;
pub mod error;
pub mod interrupt;
pub mod perf;
pub mod pump;
