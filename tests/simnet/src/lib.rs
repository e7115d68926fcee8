//! A deterministic network in virtual time, and the rig that runs engines on it.
//!
//! [`Network`] is a switch with an uplink and a downlink for each [`SimPort`]; every link has a
//! bandwidth, a delay, a finite queue that can mark ECN, and seeded [`Faults`]. [`Rig`] puts
//! engines on the ports, registers memory between guard bytes, connects queue pairs, and lets the
//! time jump from event to event. Nothing here reads a clock or draws from a global generator: one
//! seed is one run, and [`Network::trace_hash`] says so.
//!
//! ```
//! use simnet::{QpOptions, Rig, RigOptions};
//!
//! let (mut rig, a, b) = Rig::pair(RigOptions::default(), QpOptions::default());
//! let source = rig.region(a.node(), 4096);
//! let target = rig.region(b.node(), 4096);
//! rig.fill(source.all(), 1);
//! rig.write(a, source.all(), target.all());
//! rig.run_until(|rig| rig.sends(a).len() == 1, 1_000_000).unwrap();
//! rig.verify(target.all(), 1);
//! ```

mod capture;
pub mod filter;
mod forge;
pub mod frame;
mod link;
mod network;
mod port;
mod recorder;
mod rest;
mod rig;
mod rng;
mod stats;
mod trace;
mod transfer;

pub use capture::{Capture, Captured, Fate};
pub use filter::{Passing, Verdict};
pub use forge::Forger;
pub use frame::{Describe, FrameKind};
pub use link::{Faults, LinkConfig, PPM};
pub use network::{LinkId, Network, NodeId, PortOptions};
pub use port::{Scribbles, SimPort};
pub use rest::Rest;
pub use rig::{
    HostModel, Qp, QpOptions, Region, Rig, RigOptions, SlowPathDriver, Span, Srq, Stuck, Work, pattern,
};
pub use rng::Rng;
pub use stats::{KindCounts, LinkStats};
pub use trace::TraceHash;
pub use transfer::{Message, Op, Transfer};
