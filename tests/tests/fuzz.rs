//! The hostile peer, for a fixed number of rounds (testing.md 13); `cargo xtask fuzz --seconds 600`
//! plays as many as fit.

use srnic_tests::fuzz::{Report, round};
use wire::Opcode;

const ROUNDS: u64 = if cfg!(debug_assertions) { 120 } else { 400 };
const FRAMES: u32 = 1000;

#[test]
fn a_hostile_peer_breaks_nothing_and_every_drop_is_counted() {
    let mut report = Report::default();
    for seed in 1..=ROUNDS {
        report.add(&round(seed, FRAMES));
    }
    assert_eq!((report.rounds, report.frames), (ROUNDS, ROUNDS * u64::from(FRAMES)));
    for opcode in Opcode::ALL {
        let forged = report.forged.get(&(*opcode as u8)).copied().unwrap_or(0);
        assert!(forged >= ROUNDS / 4, "{opcode:?}: {forged} times");
    }
    assert!(report.counters.drop_uc_access > ROUNDS, "{:?}", report.counters);
    // It came everywhere: each reason to drop a packet that a peer can give was given, and so was
    // each to take one.
    let never = [
        "drop_cq_overflow",
        "drop_metadata_full",
        "drop_no_context",
        "drop_group_copy",
        // The victim has no tenants.
        "drop_tenant_share",
    ];
    let counters = report.counters;
    for (name, count) in
        counters.iter().filter(|(name, _)| name.starts_with("drop_") && !never.contains(name))
    {
        assert!(count > 0, "{name}: no round came there: {counters:?}");
    }
    for (name, count) in
        counters.iter().filter(|(name, _)| name.starts_with("rx_") && !name.ends_with("_marked"))
    {
        assert!(count > 0, "{name}: no round came there: {counters:?}");
    }
}

#[test]
fn a_seed_gives_one_round() {
    assert_eq!(round(7, 300), round(7, 300));
    assert_ne!(round(7, 300).counters, round(8, 300).counters);
}
