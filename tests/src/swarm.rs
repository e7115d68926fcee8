//! The seeded swarm (testing.md 12): one seed draws a whole history, and every byte and completion
//! of it is checked.
//!
//! A [`Plan`] holds all that a seed decides: nodes, queue pairs, messages, faults and when they
//! change, resets and errors. [`run`] plays it on simnet. Safety is checked all along by the flows'
//! oracles; then all faults stop, and everything must finish within a limit of virtual time; at
//! last nothing may have leaked. A seed gives the same history everywhere, and the same trace hash.

mod audit;
mod campaign;
mod connection;
mod describe;
mod economy;
mod flow;
mod image;
mod message;
mod oracle;
mod plan;
mod reads;
mod report;
mod results;
mod shared_receives;
mod shares;
mod slow_hosts;
mod variety;
mod weather;
mod window;
mod world;

pub use campaign::{Campaign, Totals};
pub use plan::Plan;
pub use report::{Failure, Outcome};
pub use world::run;
