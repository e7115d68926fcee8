//! Where the time of operations goes, as a device with `latency=` tells it: `srnic latency`.
//!
//! `report` reads what a device tells; `text` and `json` show it, and `explain` has sentences for
//! what was slow.

mod explain;
mod json;
mod report;
#[cfg(test)]
mod tests;
mod text;
pub mod tool;
