//! Two engines and a cable: grants, fairness, wake-ups, lives of queue pairs, long messages.

mod ack_delay;
mod acks;
mod bursts;
#[path = "../common/mod.rs"]
mod common;
mod followers;
mod frames;
mod lives;
mod long_messages;
mod memory;
mod middles;
mod policies;
mod read_middles;
mod scene;
mod scheduler;
mod seeds;
mod wake_ups;
mod ways;
