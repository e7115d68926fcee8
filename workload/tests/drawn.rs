//! The search beside random points, on landscapes that are drawn: boxes of points that are wrong,
//! counters that rise towards them in several ways, and counters that have to do with nothing.
//!
//! Nothing of the search was fitted to any of them: each seed has others.

use simnet::Rng;
use srnic_workload::judge::{Finding, Kind};
use srnic_workload::search::{DIMENSIONS, MinimalSet, Point, Search, Strategy, Trial};

/// Wrong boxes of a landscape, and counters of something else.
const BOXES: usize = 5;
const DISTRACTING: usize = 20;
/// Points in which a random search finds a box in the mean, from and to.
const RARITY: (f64, f64) = (50.0, 500.0);
/// Points after which a search is given up.
const POINTS_MAX: u64 = 4_000;
const SEEDS: u64 = 20;

/// How a counter rises towards a box.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Rise {
    /// By each condition that holds.
    Steps,
    /// By how near each value is to those that do harm, times that of the others: as misses of a
    /// cache rise with connections times regions.
    Product,
    /// Not at all.
    Never,
}

/// A counter of something else: a factor for each value of some dimensions.
struct Other(Vec<Vec<f64>>);

struct Landscape {
    boxes: Vec<MinimalSet>,
    others: Vec<Other>,
    rise: Rise,
}

fn unit(rng: &mut Rng) -> f64 {
    f64::from(u32::try_from(rng.below(1 << 20)).expect("small")) / f64::from(1 << 20)
}

/// Runs of values of three to six dimensions.
fn draw_box(rng: &mut Rng) -> MinimalSet {
    loop {
        let (mut set, mut rarity) = (Vec::new(), 1.0);
        let conditions = 3 + rng.index(4);
        while set.len() < conditions {
            let dimension = rng.index(DIMENSIONS.len());
            if set.iter().any(|(other, _)| *other == dimension) {
                continue;
            }
            let values = DIMENSIONS[dimension].values.len();
            let len = 1 + rng.index(values.div_ceil(2).min(values - 1));
            let first = rng.index(values - len + 1);
            rarity *= values as f64 / len as f64;
            let byte = |value| u8::try_from(value).expect("a dimension has few values");
            set.push((dimension, (first..first + len).map(byte).collect()));
        }
        if (RARITY.0..RARITY.1).contains(&rarity) {
            set.sort();
            return MinimalSet(set);
        }
    }
}

impl Landscape {
    fn draw(seed: u64, rise: Rise) -> Self {
        let rng = &mut Rng::new(seed);
        let boxes = (0..BOXES).map(|_| draw_box(rng)).collect();
        let mut other = || {
            let cares = |rng: &mut Rng| rng.below(3) == 0;
            let factors = |rng: &mut Rng, values: usize| {
                let cares = cares(rng);
                (0..values).map(|_| if cares { 0.2 + unit(rng) } else { 1.0 }).collect()
            };
            Other(DIMENSIONS.iter().map(|dimension| factors(rng, dimension.values.len())).collect())
        };
        let others = (0..DISTRACTING).map(|_| other()).collect();
        Self { boxes, others, rise }
    }

    fn pressure(&self, set: &MinimalSet, point: &Point) -> f64 {
        let holds = |(dimension, values): &(usize, Vec<u8>)| values.contains(&point.0[*dimension]);
        let near = |(dimension, values): &(usize, Vec<u8>)| {
            let away = values.iter().map(|value| value.abs_diff(point.0[*dimension])).min();
            1.0 / (1.0 + f64::from(away.unwrap_or(0)))
        };
        match self.rise {
            Rise::Steps => set.0.iter().filter(|one| holds(one)).count() as f64,
            Rise::Product => set.0.iter().map(near).product(),
            Rise::Never => 1.0,
        }
    }

    fn trial(&self, point: &Point) -> Trial {
        let wrong = self.boxes.iter().any(|set| set.contains(point));
        let finding = || Finding { kind: Kind::Slow, words: String::new() };
        let other = |other: &Other| -> f64 {
            other.0.iter().zip(point.0).map(|(factors, value)| factors[usize::from(value)]).product()
        };
        let others = self.others.iter().map(other);
        let pressures = self.boxes.iter().map(|set| self.pressure(set, point));
        let signals: Vec<f64> = others.chain(pressures).collect();
        // Each counter has something to it that no dimension explains.
        let mut rng =
            Rng::new(point.0.iter().fold(1, |hash: u64, value| hash.wrapping_mul(31) + u64::from(*value)));
        let signals = signals.into_iter().map(|count| count * (1.0 + 0.2 * unit(&mut rng))).collect();
        Trial { findings: wrong.then(finding).into_iter().collect(), signals }
    }

    /// Points until each box is found whole, and sets that are none of them.
    fn search(&self, strategy: Strategy, seed: u64) -> (Vec<u64>, usize) {
        let mut search = Search::new(strategy, seed, |point: &Point| self.trial(point));
        let after = |search: &Search<_>, set: &MinimalSet| {
            search.found().iter().find(|one| one.minimal == *set).map(|one| one.after)
        };
        while search.points() < POINTS_MAX && self.boxes.iter().any(|set| after(&search, set).is_none()) {
            search.step();
        }
        let none = search.found().iter().filter(|one| !self.boxes.contains(&one.minimal)).count();
        (self.boxes.iter().map(|set| after(&search, set).unwrap_or(POINTS_MAX)).collect(), none)
    }
}

fn median(mut of: Vec<u64>) -> u64 {
    of.sort_unstable();
    of[of.len() / 2]
}

/// The median of the points until all boxes are found, by annealing and at random.
fn medians(rise: Rise) -> [u64; 2] {
    [Strategy::Anneal, Strategy::Random].map(|strategy| {
        let runs: Vec<_> =
            (1..=SEEDS).map(|seed| Landscape::draw(seed, rise).search(strategy, seed)).collect();
        let wrong: usize = runs.iter().map(|(_, none)| none).sum();
        let each = |of: fn(&[u64]) -> u64| median(runs.iter().map(|(points, _)| of(points)).collect());
        let all = each(|points| points.iter().copied().max().unwrap_or(0));
        let one = each(|points| {
            let mut sorted = points.to_vec();
            sorted.sort_unstable();
            sorted[sorted.len() / 2]
        });
        println!("{rise:?}, {strategy:?}: all in {all}, half in {one}; {wrong} sets that are none");
        all
    })
}

#[test]
fn counters_that_rise_by_steps_lead_to_all_boxes_in_half_of_the_points() {
    let [annealed, random] = medians(Rise::Steps);
    assert!(annealed * 2 <= random, "annealed {annealed}, at random {random}");
}

#[test]
fn counters_that_multiply_lead_to_all_boxes_in_half_of_the_points() {
    let [annealed, random] = medians(Rise::Product);
    assert!(annealed * 2 <= random, "annealed {annealed}, at random {random}");
}

/// The negative control: without a counter that tells, nothing is gained.
#[test]
fn without_counters_the_search_is_no_better_than_chance() {
    let [annealed, random] = medians(Rise::Never);
    assert!(annealed * 3 > random * 2, "annealed {annealed}, at random {random}");
}
