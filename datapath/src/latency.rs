//! Where the time of sampled operations goes (docs/observability.md, "Where the time goes").
//!
//! An operation has six stamps: posted, seen by the engine, first packet out, last packet out,
//! completed, polled. The engine's time moves once a turn, so that what happens in a turn happens
//! at its time: a look at the queue pair's positions behind each turn finds every stamp, and no
//! packet pays for it (docs/adr/0064). Only who posts and who polls say by themselves when they do.

mod config;
mod flight;
mod part;
mod probe;
mod quantiles;
mod table;
mod track;

pub use config::LatencyConfig;
pub use flight::{Slow, SlowOperations};
pub use part::{Part, Parts};
pub(crate) use probe::Polled;
pub use probe::{Posted, Probe};
pub use quantiles::{QUANTILES, Quantiles};
pub(crate) use table::Table;
pub use table::{Key, Operations};
pub use track::Sample;
pub(crate) use track::{Standing, Track};

#[cfg(test)]
mod tests;
