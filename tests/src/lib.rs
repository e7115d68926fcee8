//! Scenarios, loss injection and two-process tests.

pub mod fuzz;
pub mod swarm;
