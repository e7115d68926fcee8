//! Scenarios, loss injection and two-process tests.

pub mod swarm;
