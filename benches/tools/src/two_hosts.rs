//! Workloads of the language on two engines over memif: host 0 posts, and host 1 has the memory and
//! the receives.

mod flows;
mod playable;
mod player;
mod server;
mod terms;

pub use flows::Flows;
pub use playable::{Playable, QPS_MAX};
pub use player::{Player, open};
pub use server::serve;
