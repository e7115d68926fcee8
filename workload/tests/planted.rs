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

/// What a search did until it had found each defect.
struct Run {
    /// The point at which each defect was found, with a minimal set that is its range.
    after: Vec<u64>,
    /// Minimal sets that are no defect's range.
    others: Vec<String>,
    /// Points for minimal sets.
    minimising: u64,
}

fn run(strategy: Strategy, seed: u64, blind: bool) -> Run {
    let mut search = Search::new(strategy, seed, |point: &Point| trial(point, &ALL, blind));
    let after = |search: &Search<_>, defect: &Defect| {
        search.found().iter().find(|found| found.minimal == defect.set()).map(|anomaly| anomaly.after)
    };
    while search.points() < POINTS_MAX && ALL.iter().any(|defect| after(&search, defect).is_none()) {
        search.step();
    }
    let is_other = |minimal: &MinimalSet| ALL.iter().all(|defect| defect.set() != *minimal);
    let others = search.found().iter().filter(|found| is_other(&found.minimal));
    Run {
        after: ALL.iter().map(|defect| after(&search, defect).unwrap_or(POINTS_MAX)).collect(),
        others: others.map(|found| format!("seed {seed}: {} at {}", found.minimal, found.point)).collect(),
        minimising: search.minimising(),
    }
}

fn median(of: impl Iterator<Item = u64>) -> u64 {
    let mut of: Vec<u64> = of.collect();
    of.sort_unstable();
    of[of.len() / 2]
}

/// Medians over seeds: of each defect, and of all of them together.
struct Medians {
    each: Vec<u64>,
    all: u64,
    others: Vec<String>,
    minimising: u64,
}

fn medians(strategy: Strategy, seeds: u64, blind: bool) -> Medians {
    let runs: Vec<Run> = (1..=seeds).map(|seed| run(strategy, seed, blind)).collect();
    Medians {
        each: (0..ALL.len()).map(|defect| median(runs.iter().map(|run| run.after[defect]))).collect(),
        all: median(runs.iter().map(|run| run.after.iter().copied().max().unwrap_or(0))),
        minimising: median(runs.iter().map(|run| run.minimising)),
        others: runs.into_iter().flat_map(|run| run.others).collect(),
    }
}

fn compare(seeds: u64) {
    let [annealed, random, blind] =
        [(Strategy::Anneal, false), (Strategy::Random, false), (Strategy::Anneal, true)]
            .map(|(strategy, blind)| medians(strategy, seeds, blind));
    println!("medians of {seeds} seeds: annealed, at random, annealed without the defects' counters");
    for (number, defect) in ALL.iter().enumerate() {
        let [annealed, random, blind] = [&annealed, &random, &blind].map(|of| of.each[number]);
        println!("{annealed:>6} {random:>6} {blind:>6}  {}", defect.name);
    }
    println!("{:>6} {:>6} {:>6}  all of them", annealed.all, random.all, blind.all);
    println!(
        "{:>6} {:>6} {:>6}  points for minimal sets",
        annealed.minimising, random.minimising, blind.minimising
    );
    println!("sets that are no range: {:#?}", [&annealed.others, &random.others, &blind.others]);
    assert!(annealed.all * 2 <= random.all, "annealed {}, at random {}", annealed.all, random.all);
    // Without counters that tell of the defects there is nothing to be gained.
    assert!(blind.all * 2 > random.all, "blind {}, at random {}", blind.all, random.all);
}

#[test]
#[ignore = "a minute in a release build"]
fn planted_defects_are_found_by_twenty_seeds_in_half_of_the_points() {
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
