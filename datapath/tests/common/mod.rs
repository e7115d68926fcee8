//! What the integration tests share.
#![allow(dead_code, reason = "each test binary uses a part of it")]

pub mod counting;
pub mod memory_port;
pub mod rig;
