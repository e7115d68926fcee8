//! Two engines and a cable: grants, fairness, wake-ups, lives of queue pairs.

#[path = "../common/mod.rs"]
mod common;
mod lives;
mod scheduler;
mod wake_ups;
