//! A hostile peer that speaks raw packets to a live engine (testing.md 13).
//!
//! One seed makes one round: a victim with connections of every service, which do honest work all
//! along, and frames that nobody honest would send: every opcode with every field near a good value
//! or at an edge, sealed by a right ICRC; frames of the honest traffic again, late, out of order
//! and with bits turned; and noise. Nothing may crash, nothing outside what was granted may be
//! written or leave in a packet, every frame must leave a trace in a counter, and afterwards new
//! connections must work.

mod packets;
mod scene;

use datapath::counters::Counters;
use packets::Source;
use scene::Scene;
use simnet::{Describe, Rng};
use std::collections::BTreeMap;
use wire::encap::ROCE_UDP_PORT;
use wire::{Datagram, EncapError};

/// What rounds did.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// Rounds.
    pub rounds: u64,
    /// Frames of the hostile peer.
    pub frames: u64,
    /// Of those, packets that were made from nothing, by opcode.
    pub forged: BTreeMap<u8, u64>,
    /// What the victims counted.
    pub counters: Counters,
}

impl Report {
    /// Adds another report.
    pub fn add(&mut self, other: &Self) {
        self.rounds += other.rounds;
        self.frames += other.frames;
        for (opcode, count) in &other.forged {
            *self.forged.entry(*opcode).or_default() += count;
        }
        self.counters.add(&other.counters);
    }
}

/// Names the seed of a round that ends by a panic.
struct Told(u64);

impl Drop for Told {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the round of seed {} failed; `cargo xtask fuzz --seed {0}` plays it again", self.0);
        }
    }
}

/// One round of so many hostile frames.
///
/// # Panics
/// If anything does not hold, with a word on what; standard error then names the seed.
#[must_use]
pub fn round(seed: u64, frames: u32) -> Report {
    let told = Told(seed);
    let mut rng = Rng::new(seed);
    let mut scene = Scene::new(seed);
    let mut source = Source::default();
    for _ in 0..frames {
        if rng.hits(300_000) {
            scene.work(&mut rng);
        }
        let (kind, frame) = source.next(&mut rng, &scene);
        let before = *scene.counters();
        let traced = is_roce(&frame);
        let shown = format!("{kind:?}: {}", Describe(&frame));
        scene.deliver(frame);
        if rng.hits(150_000) {
            // Its burst goes on.
            continue;
        }
        scene.run_for(600 + rng.below(3000) * u64::from(rng.hits(300_000)));
        if traced {
            assert!(left_a_trace(&before, scene.counters()), "{shown} is gone, and nothing says so");
        }
    }
    scene.run_for(100_000);
    scene.verify();
    scene.still_lives();
    drop(told);
    Report { rounds: 1, frames: frames.into(), forged: source.forged, counters: *scene.counters() }
}

/// Returns `true` if the engine counts it, not the neighbor module.
fn is_roce(frame: &[u8]) -> bool {
    !matches!(Datagram::parse(frame, ROCE_UDP_PORT), Err(EncapError::NotRoce))
}

/// Returns `true` if anything was counted beside the arrival itself and the engine's own business.
fn left_a_trace(before: &Counters, after: &Counters) -> bool {
    const OWN: [&str; 3] = ["rx_packets", "doorbells", "sched_grants"];
    let changed = before.iter().zip(after.iter()).filter(|(old, new)| old.1 != new.1);
    changed.map(|(_, (name, _))| name).any(|name| !OWN.contains(&name))
}
