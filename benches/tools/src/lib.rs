//! The tools of the program `srnic`: [`subcommands`] names all of them, and [`perf`] has those that
//! are like perftest's.

pub mod affinity;
pub mod between;
pub mod capture;
pub mod channel;
pub mod completions;
pub mod congestion;
pub mod descriptors;
pub mod devinfo;
pub mod dial;
pub mod error;
pub mod fabric;
pub mod file;
pub mod front;
pub mod hostping;
pub mod install;
pub mod interrupt;
pub mod lab;
pub mod latency;
pub mod link;
pub mod log;
pub mod notice;
pub mod output;
pub mod pcap;
pub mod perf;
pub mod perftest_peer;
pub mod ping;
mod place;
pub mod program;
pub mod pump;
pub mod rping;
pub mod run;
mod screen;
pub mod stat;
pub mod subcommands;
pub mod switch;
pub mod tunnel;
