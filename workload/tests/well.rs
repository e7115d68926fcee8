//! Nothing is found where nothing is wrong.

use srnic_workload::search::{Search, Strategy, trial};

/// Points that are looked at.
const POINTS: u64 = 2_000;

#[test]
fn nothing_is_found_in_two_thousand_points() {
    let mut search = Search::new(Strategy::Anneal, 1, trial);
    while search.points() < POINTS {
        search.step();
    }
    let found: Vec<String> = search
        .found()
        .iter()
        .map(|anomaly| {
            format!("{:?}\n  {}\n  {}", anomaly.findings, anomaly.minimal, anomaly.point.scenario())
        })
        .collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}
