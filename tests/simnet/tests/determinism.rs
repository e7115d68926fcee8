//! One seed is one run.

use simnet::{Faults, LinkId, Message, QpOptions, Rig, RigOptions, Rng, Transfer};

fn run(seed: u64) -> (u64, u64, u64) {
    let (mut rig, a, b) = Rig::pair(RigOptions::seeded(seed), QpOptions::default());
    let faults = Faults {
        loss_ppm: 20_000,
        duplicate_ppm: 20_000,
        reorder_ppm: 50_000,
        reorder_ns_max: 20_000,
        corrupt_ppm: 10_000,
        jitter_ns_max: 300,
        ..Faults::default()
    };
    rig.net.set_faults(LinkId::Up(a.node()), faults);
    rig.net.set_faults(LinkId::Up(b.node()), faults);
    let messages = Message::mix(&mut Rng::new(9), 100, 20_000);
    let took = Transfer::new(&mut rig, a, b, messages, 1).run(&mut rig, 1_000_000_000).unwrap();
    (rig.net.trace_hash(), took, rig.turns())
}

#[test]
fn the_same_seed_gives_the_same_trace_and_another_does_not() {
    let first = run(42);
    assert_eq!(first, run(42));
    assert_ne!(first.0, run(43).0);
}
