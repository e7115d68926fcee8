//! Two engines and a cable: grants, fairness, wake-ups.

#[path = "../common/mod.rs"]
mod common;
mod scheduler;
mod wake_ups;
