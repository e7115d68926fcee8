//! Planted defects are found, sooner than by chance, and told exactly.

use simnet::Rng;
use srnic_workload::planted::{ALL, Defect, trial};
use srnic_workload::search::{DIMENSIONS, MinimalSet, Point, Search, Strategy};
use std::cell::RefCell;
use std::collections::HashMap;

/// Points after which a search is given up.
const POINTS_MAX: u64 = 2_000;
/// Points in the range of each defect.
const POINTS_IN_RANGE: u32 = 100;

/// What a search did until it had found each defect.
struct Run {
    /// The point at which each defect was found, with a minimal set that is its range.
    after: Vec<u64>,
    /// Minimal sets that are no defect's range.
    others: Vec<String>,
    /// Points for minimal sets.
    minimising: u64,
}

impl Run {
    fn of(strategy: Strategy, seed: u64) -> Self {
        let mut search = Search::new(strategy, seed, |point: &Point| trial(point, &ALL));
        let after = |search: &Search<_>, defect: &Defect| {
            search.found().iter().find(|found| found.minimal == defect.set()).map(|anomaly| anomaly.after)
        };
        while search.points() < POINTS_MAX && ALL.iter().any(|defect| after(&search, defect).is_none()) {
            search.step();
        }
        let is_other = |minimal: &MinimalSet| ALL.iter().all(|defect| defect.set() != *minimal);
        let others = search.found().iter().filter(|found| is_other(&found.minimal));
        let run = Self {
            after: ALL.iter().map(|defect| after(&search, defect).unwrap_or(POINTS_MAX)).collect(),
            others: others.map(|found| format!("{} at {}", found.minimal, found.point)).collect(),
            minimising: search.minimising(),
        };
        println!(
            "{strategy:?}, seed {seed}: {:?}, minimal sets {}, {:?}",
            run.after, run.minimising, run.others
        );
        run
    }

    fn all(&self) -> u64 {
        self.after.iter().copied().max().unwrap_or(0)
    }
}

fn median(of: impl Iterator<Item = u64>) -> u64 {
    let mut of: Vec<u64> = of.collect();
    of.sort_unstable();
    of[of.len() / 2]
}

/// Half of the points within which a search at random has found all defects in half of its runs:
/// each point hits a defect's range with a probability that is known.
fn half_of_random() -> u64 {
    let part = |defect: &Defect| -> f64 {
        let of = |(dimension, values): &(usize, Vec<u8>)| {
            values.len() as f64 / DIMENSIONS[*dimension].values.len() as f64
        };
        defect.set().0.iter().map(of).product()
    };
    let found_by =
        |points: i32| ALL.iter().map(|defect| 1.0 - (1.0 - part(defect)).powi(points)).product::<f64>();
    let median = (1..).find(|points| found_by(*points) >= 0.5).expect("it comes to that");
    u64::try_from(median / 2).expect("positive")
}

/// The search finds all of them, each with its whole range and nothing else, and needs at most half
/// of the points that chance does.
#[test]
fn planted_defects_are_found_whole_in_half_of_the_points() {
    let run = Run::of(Strategy::Anneal, 1);
    assert_eq!(run.others, [""; 0]);
    assert!(run.all() <= half_of_random(), "{:?}, and half of random is {}", run.after, half_of_random());
}

/// `cargo test --release -p srnic-workload --features planted --test planted -- --ignored
/// --nocapture` shows each run, and the medians.
#[test]
#[ignore = "ten minutes in a release build"]
fn planted_defects_are_found_by_twenty_seeds_in_half_of_the_points() {
    let runs = |strategy| (1..=20).map(|seed| Run::of(strategy, seed)).collect::<Vec<_>>();
    let (annealed, random) = (runs(Strategy::Anneal), runs(Strategy::Random));
    println!("medians of points until found: annealed, at random");
    let each = |runs: &[Run], defect: usize| median(runs.iter().map(|run| run.after[defect]));
    for (number, defect) in ALL.iter().enumerate() {
        println!("{:>4} {:>4}  {}", each(&annealed, number), each(&random, number), defect.name);
    }
    let all = [&annealed, &random].map(|runs| median(runs.iter().map(Run::all)));
    println!("{:>4} {:>4}  all of them", all[0], all[1]);
    let minimising = [&annealed, &random].map(|runs| median(runs.iter().map(|run| run.minimising)));
    println!("{:>4} {:>4}  points for minimal sets", minimising[0], minimising[1]);
    let whole = annealed.iter().filter(|run| run.others.is_empty() && run.all() < POINTS_MAX).count();
    println!("{whole} of 20 annealed searches found the five ranges, exactly, and nothing else");
    assert!(all[0] * 2 <= all[1], "annealed {}, at random {}", all[0], all[1]);
    assert!(whole > 10, "{whole}");
}

/// So a minimal set can be exact.
#[test]
fn defects_do_harm_in_their_whole_range_and_nowhere_else() {
    let rng = &mut Rng::new(1);
    let mut wrong = Vec::new();
    for defect in &ALL {
        let harm = |point: &Point| trial(point, std::slice::from_ref(defect)).findings;
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
            trial(point, &ALL)
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
