//! Planted defects are found, sooner than by chance, and told exactly.

use simnet::Rng;
use srnic_workload::planted::{ALL, Defect, trial};
use srnic_workload::search::{MinimalSet, Point, Search, Strategy};
use std::cell::RefCell;
use std::collections::HashMap;

/// Points after which a search is given up.
const POINTS_MAX: u64 = 4_000;
/// Points in the range of each defect.
const POINTS_IN_RANGE: u32 = 40;

/// How many points a search takes until it has found each defect.
fn points_until_found(strategy: Strategy, seed: u64, blind: bool) -> Vec<u64> {
    let mut search = Search::new(strategy, seed, |point: &Point| trial(point, &ALL, blind));
    let missing = |found: &[MinimalSet]| ALL.iter().any(|defect| !found.contains(&defect.set()));
    let sets =
        |search: &Search<_>| search.found().iter().map(|anomaly| anomaly.minimal.clone()).collect::<Vec<_>>();
    let mut known = 0;
    while search.points() < POINTS_MAX && missing(&sets(&search)) {
        search.step();
        for anomaly in search.found().iter().skip(known) {
            let is_planted = ALL.iter().any(|defect| defect.set() == anomaly.minimal);
            assert!(
                is_planted,
                "seed {seed}: {:?}\n{}\n{}",
                anomaly.findings, anomaly.minimal, anomaly.point
            );
            known += 1;
        }
    }
    let of = |defect: &Defect| search.found().iter().find(|found| found.minimal == defect.set());
    ALL.iter().map(|defect| of(defect).map_or(POINTS_MAX, |anomaly| anomaly.after)).collect()
}

fn median(mut of: Vec<u64>) -> u64 {
    of.sort_unstable();
    of[of.len() / 2]
}

/// Medians over seeds: of each defect, and of all of them together.
fn medians(strategy: Strategy, seeds: u64, blind: bool) -> (Vec<u64>, u64) {
    let runs: Vec<Vec<u64>> = (1..=seeds).map(|seed| points_until_found(strategy, seed, blind)).collect();
    let each = (0..ALL.len()).map(|defect| median(runs.iter().map(|run| run[defect]).collect())).collect();
    (each, median(runs.iter().map(|run| run.iter().copied().max().unwrap_or(0)).collect()))
}

fn compare(seeds: u64) {
    let annealed = medians(Strategy::Anneal, seeds, false);
    let random = medians(Strategy::Random, seeds, false);
    println!("points until found, medians of {seeds} seeds: annealed {annealed:?}, at random {random:?}");
    assert!(annealed.1 * 2 <= random.1, "annealed {annealed:?}, at random {random:?}");
}

#[test]
#[ignore = "not seen to hold yet: minimal sets of some points are smaller than the range"]
fn planted_defects_are_found_in_half_of_the_points() {
    compare(3);
}

#[test]
#[ignore = "not seen to hold yet, and long"]
fn planted_defects_are_found_by_twenty_seeds() {
    compare(20);
}

/// So a minimal set can be exact.
#[test]
fn defects_do_harm_in_their_whole_range_and_nowhere_else() {
    let rng = &mut Rng::new(1);
    let mut wrong = Vec::new();
    for defect in &ALL {
        let harm = |point: &Point| trial(point, std::slice::from_ref(defect), false).findings;
        for _ in 0..POINTS_IN_RANGE {
            let mut point = Point::random(rng);
            let outside = harm(&point);
            if !defect.set().contains(&point) && !outside.is_empty() {
                wrong.push(format!("{outside:?} outside of {}: {point}", defect.name));
            }
            for (dimension, values) in defect.set().0 {
                point = point.with(dimension, values[rng.index(values.len())].into());
            }
            if harm(&point).is_empty() {
                wrong.push(format!("no harm by {}: {point}", defect.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_search_is_the_same_each_time() {
    let run = || {
        let seen = RefCell::new(Vec::new());
        let mut search = Search::new(Strategy::Anneal, 5, |point: &Point| {
            seen.borrow_mut().push(*point);
            trial(point, &ALL, false)
        });
        (0..100).for_each(|_| search.step());
        drop(search);
        seen.into_inner()
    };
    let points = run();
    assert_eq!(points, run());
    let distinct: HashMap<Point, ()> = points.iter().map(|point| (*point, ())).collect();
    assert!(distinct.len() > 50);
}
