//! `srnic tunnel` as two processes over memif that loses packets: TCP programs at both sides see
//! what they would see of each other.

mod bytes;
mod drain;
mod ends;
mod failures;
mod held;
mod metrics;
mod moves;
mod setup;
#[expect(dead_code, reason = "what other tests need of it")]
#[path = "../support/mod.rs"]
mod support;
