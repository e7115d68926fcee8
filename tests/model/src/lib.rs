//! An executable model of the stream rules of protocol.md 2.4 and 2.5, fuzzed.
//!
//! It is written to be read beside the protocol, not to be fast or to be reused: two hosts, a few
//! queue pairs with both directions in use, a slow path as an actor of its own, and a network that
//! loses, copies, delays and reorders. A [`schedule::Schedule`] is drawn from one seed; [`run`]
//! plays it under the eyes of an [`oracle::Oracle`] and says what went wrong. [`defects::Defect`]
//! breaks one rule at a time, to show that the oracle would notice.
//!
//! Where to find what: a stream's receiving rules are in [`receive`] and [`rx`], its sending rules
//! in [`tx`] and [`timers`]; [`responder`] and [`requester`] own two streams each; [`slow_path`]
//! has the bitmaps. What must hold is in [`oracle`] (packets), [`ledger`] (messages and memory) and
//! at the end of [`world`] (everything finishes). docs/adr/0003-model-findings.md tells what came
//! of it.

pub mod context;
pub mod defects;
pub mod ledger;
pub mod memory;
pub mod network;
pub mod oracle;
pub mod packet;
pub mod queue_pair;
pub mod receive;
pub mod receive_queue;
pub mod requester;
pub mod responder;
pub mod rng;
pub mod rx;
pub mod schedule;
pub mod slots;
pub mod slow_path;
pub mod timers;
pub mod tx;
pub mod world;

use defects::Defect;
use schedule::Schedule;
use world::{Stats, World};

/// Plays the schedule of `seed`, with one rule broken or none.
///
/// # Errors
/// What the oracle saw first.
pub fn run(seed: u64, defect: Option<Defect>) -> Result<Stats, String> {
    World::new(&Schedule::draw(seed), defect).run()
}
