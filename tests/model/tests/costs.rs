//! Rules that no single schedule needs, but that pay over many.

use srnic_model::defects::Defect;
use srnic_model::run;
use srnic_model::schedule::Schedule;

/// Nothing is lost, and a good part of the packets comes late.
fn only_reorders(schedule: &Schedule) -> bool {
    let faults = &schedule.faults;
    faults.loss_data + faults.loss_ack == 0
        && faults.blackouts.is_empty()
        && faults.reorder_data >= 200
        && schedule.window >= 8
}

#[test]
fn the_adaptive_threshold_saves_retransmissions() {
    let seeds: Vec<u64> = (0..30_000).filter(|&seed| only_reorders(&Schedule::draw(seed))).collect();
    let resent =
        |defect| seeds.iter().map(|&seed| run(seed, defect).expect("no schedule fails").resent).sum::<u64>();
    let (adaptive, fixed) = (resent(None), resent(Some(Defect::ThresholdFixed)));
    println!("{} schedules: {adaptive} resent, {fixed} with a fixed threshold", seeds.len());
    assert!(fixed * 100 > adaptive * 108, "{adaptive} resent, {fixed} with a fixed threshold");
}
