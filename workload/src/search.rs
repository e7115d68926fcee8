//! A search for scenarios that are not as they should be, after Collie (NSDI '22): it anneals
//! towards large counters, which show that a rare path is near, and finds for each anomaly the
//! smallest set of features that brings it about.

mod minimal;
mod model;
mod propose;
mod space;

pub use minimal::MinimalSet;
pub use space::{DIMENSIONS, Dimension, Point};

use crate::judge::{Finding, Kind, judge, signals};
use crate::play::play;
use propose::Proposer;
use simnet::Rng;

/// What came of a point.
#[derive(Clone, PartialEq, Debug)]
pub struct Trial {
    /// What is not as it should be.
    pub findings: Vec<Finding>,
    /// Counters, of which larger ones are nearer to trouble: as many at each point.
    pub signals: Vec<f64>,
}

/// Plays a point in virtual time, and judges it.
#[must_use]
pub fn trial(point: &Point) -> Trial {
    let scenario = point.scenario();
    match play(&scenario) {
        Ok(outcome) => Trial { findings: judge(&scenario, &outcome), signals: signals(&scenario, &outcome) },
        // The space has valid scenarios only; one that is not is an anomaly, too.
        Err(error) => Trial {
            findings: vec![Finding { kind: Kind::Error, words: error.to_string() }],
            signals: vec![0.0; crate::judge::SIGNALS.len()],
        },
    }
}

/// How the next point is chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Strategy {
    /// By annealing on counters.
    Anneal,
    /// At random: what annealing must beat.
    Random,
}

/// An anomaly.
#[derive(Clone, PartialEq, Debug)]
pub struct Anomaly {
    /// A point that has it: the search for its features ended there.
    pub point: Point,
    /// What is not as it should be there; at least one.
    pub findings: Vec<Finding>,
    /// The features that bring it about.
    pub minimal: MinimalSet,
    /// Points that had been looked at, this one included, without those of minimal sets.
    pub after: u64,
}

/// A search, point by point.
pub struct Search<F> {
    strategy: Strategy,
    try_out: F,
    rng: Rng,
    proposer: Proposer,
    found: Vec<Anomaly>,
    points: u64,
    minimising: u64,
}

/// Draws of a point outside of what is known before the search takes one at random.
const DRAWS: u32 = 30;

impl<T: Into<Option<Trial>>, F: FnMut(&Point) -> T> Search<F> {
    /// Equal seeds make equal searches, if `try_out` gives equal points equal trials. It may return
    /// `None` from some moment on: nothing is played any more.
    pub fn new(strategy: Strategy, seed: u64, try_out: F) -> Self {
        Self {
            strategy,
            try_out,
            rng: Rng::new(seed),
            proposer: Proposer::default(),
            found: Vec::new(),
            points: 0,
            minimising: 0,
        }
    }

    /// Looks at one more point. What is anomalous there, and known from no other point, is added
    /// to [`found`](Self::found), with its minimal set; with all its features, if they were not
    /// looked at to the end.
    pub fn step(&mut self) {
        let point = self.next_point();
        let Some(trial) = (self.try_out)(&point).into() else { return };
        self.points += 1;
        self.proposer.learn(&point, &trial.signals);
        if trial.findings.is_empty() || self.is_known(&point) {
            return;
        }
        let Self { try_out, found, rng, .. } = self;
        let is_known = |point: &Point| found.iter().any(|anomaly| anomaly.minimal.contains(point));
        let is_wrong = |point: &Point| try_out(point).into().is_some_and(|trial| !trial.findings.is_empty());
        let (minimal, ended, tried) = MinimalSet::of(&point, rng, is_known, is_wrong);
        self.minimising += tried + 1;
        let (after, again) = (self.points, (self.try_out)(&ended).into());
        match again.map(|trial| trial.findings) {
            // Where a trial depends on more than its point, what was wrong may not be so again.
            Some(findings) if findings.is_empty() => {}
            Some(findings) => self.found.push(Anomaly { point: ended, findings, minimal, after }),
            None => {
                let minimal = MinimalSet::whole(&point);
                self.found.push(Anomaly { point, findings: trial.findings, minimal, after });
            }
        }
    }

    /// Anomalies, in the order in which they were found.
    pub fn found(&self) -> &[Anomaly] {
        &self.found
    }

    /// Points that were looked at, without those for minimal sets.
    pub const fn points(&self) -> u64 {
        self.points
    }

    /// Points that were looked at for minimal sets.
    pub const fn minimising(&self) -> u64 {
        self.minimising
    }

    fn is_known(&self, point: &Point) -> bool {
        self.found.iter().any(|anomaly| anomaly.minimal.contains(point))
    }

    /// Outside of what is known: there is nothing new.
    fn next_point(&mut self) -> Point {
        for _ in 0..DRAWS {
            let point = match self.strategy {
                Strategy::Anneal => self.proposer.propose(&mut self.rng),
                Strategy::Random => Point::random(&mut self.rng),
            };
            if !self.is_known(&point) && !self.proposer.has_seen(&point) {
                return point;
            }
            self.proposer.pass_over();
        }
        Point::random(&mut self.rng)
    }
}

/// From 0 up to 1.
fn unit(rng: &mut Rng) -> f64 {
    float(usize::try_from(rng.below(1 << 30)).unwrap_or(0)) / f64::from(1 << 30)
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
const fn float(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two defects. From a point of one a step may lead into the other, and then that one is told:
    /// by its features, its point and what is wrong there.
    #[test]
    fn features_point_and_findings_of_an_anomaly_fit_each_other() {
        let defects = [
            MinimalSet(vec![(0, vec![0]), (1, vec![0, 1, 2])]),
            MinimalSet(vec![(0, vec![1, 2]), (3, vec![3, 4, 5])]),
        ];
        let findings = |point: &Point| -> Vec<Finding> {
            let harm = defects.iter().filter(|defect| defect.contains(point));
            harm.map(|defect| Finding { kind: Kind::Late, words: defect.to_string() }).collect()
        };
        for seed in 0..100 {
            let try_out = |point: &Point| Trial {
                findings: findings(point),
                signals: vec![0.0; crate::judge::SIGNALS.len()],
            };
            let mut search = Search::new(Strategy::Random, seed, try_out);
            while search.found().is_empty() {
                search.step();
            }
            let Anomaly { point, findings: told, minimal, .. } = &search.found()[0];
            assert!(minimal.contains(point), "seed {seed}: {minimal} at {point}");
            assert_eq!(told, &findings(point), "seed {seed}");
        }
    }

    /// On a real machine something may happen once.
    #[test]
    fn what_is_wrong_once_is_no_anomaly() {
        let mut trials = 0;
        let try_out = |_: &Point| {
            trials += 1;
            let finding = Finding { kind: Kind::Stuck, words: String::new() };
            let findings = if trials == 3 { vec![finding] } else { Vec::new() };
            Trial { findings, signals: vec![0.0; crate::judge::SIGNALS.len()] }
        };
        let mut search = Search::new(Strategy::Random, 1, try_out);
        (0..10).for_each(|_| search.step());
        assert!(search.found().is_empty() && search.points() == 10, "{:?}", search.found());
    }

    /// Ctrl-C while the features are looked for.
    #[test]
    fn an_anomaly_is_kept_if_its_features_are_not_known() {
        for played in 1..40 {
            let mut left = played;
            let try_out = |_: &Point| -> Option<Trial> {
                left = usize::checked_sub(left, 1)?;
                let findings = vec![Finding { kind: Kind::Stuck, words: String::new() }];
                Some(Trial { findings, signals: vec![0.0; crate::judge::SIGNALS.len()] })
            };
            let mut search = Search::new(Strategy::Random, 1, try_out);
            search.step();
            search.step();
            assert_eq!((search.points(), search.found().len()), (1, 1), "{played}");
            assert!(search.found()[0].minimal.contains(&search.found()[0].point));
        }
    }
}
