//! Networks of thousands of hosts in virtual time.
//!
//! A host runs the engine that runs on the wire ([`datapath::engine::Engine`]). Its port folds
//! payloads: a packet in flight is its first bytes and its ICRC, and the receiving port puts the
//! rest, which is the same everywhere, back in its place. So engines copy, seal and verify all
//! bytes, and a packet takes 112 bytes of memory.

pub mod calendar;
pub mod clock;
pub mod fabric;
pub mod file;
pub mod host;
pub mod ideal;
pub mod limits;
pub mod link;
pub mod memory;
pub mod oracle;
pub mod packet;
pub mod pfc;
pub mod plan;
pub mod port;
pub mod scheme;
pub mod summary;
pub mod switch;
pub mod topology;
pub mod workload;
