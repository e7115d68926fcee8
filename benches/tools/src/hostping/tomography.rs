//! Which part is to blame, from probes that cross several parts each: binary tomography, as
//! Hostping (NSDI '23) does it with loopback tests.
//!
//! What a good probe crosses is good. What only bad probes cross is suspected, and of the suspects
//! those are bad that explain the bad probes; who more probers blame is asked first. A bad probe
//! that crosses only good parts contradicts them: they are gray, as parts are that fail at times.

mod history;
#[cfg(test)]
mod tests;

pub use history::History;

use std::cmp::Reverse;
use std::collections::BTreeSet;

/// One probe and its outcome.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Probe {
    /// Who probed: bad probes of different probers are better evidence than those of one.
    pub prober: usize,
    /// The parts that it crossed, by index.
    pub links: Vec<usize>,
    /// Whether it was as it should be.
    pub good: bool,
}

/// What is known of a part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// No probe crossed it.
    Unseen,
    /// A good probe crossed it, and every bad one is explained without it.
    Good,
    /// Only bad probes crossed it, but other parts explain them all.
    Shadowed,
    /// Good probes crossed it, and a bad one that no other part explains: it fails at times.
    Gray,
    /// Only bad probes crossed it, and it explains some of them.
    Bad {
        /// 0 for the part that most probers blame.
        rank: usize,
        /// Probers that blame it.
        probers: usize,
    },
}

/// The verdict on each of `links` parts. Parts that the probes cannot tell apart get equal
/// verdicts, but for their ranks.
///
/// Links of a probe that are not below `links` are passed over.
#[must_use]
pub fn blame(probes: &[Probe], links: usize) -> Vec<Verdict> {
    let good = crossed_by(probes.iter().filter(|probe| probe.good), links);
    let bad: Vec<&Probe> = probes.iter().filter(|probe| !probe.good).collect();
    let mut verdicts: Vec<Verdict> =
        good.iter().map(|good| if *good { Verdict::Good } else { Verdict::Unseen }).collect();
    for probe in bad.iter().filter(|probe| known(probe, links).all(|link| good[link])) {
        known(probe, links).for_each(|link| verdicts[link] = Verdict::Gray);
    }
    let mut suspects: Vec<Suspect> =
        (0..links).filter(|link| !good[*link]).map(|link| Suspect::new(link, &bad)).collect();
    suspects.retain(|suspect| !suspect.crossed.is_empty());
    suspects.sort_by_key(Suspect::order);
    for suspect in &suspects {
        verdicts[suspect.link] = Verdict::Shadowed;
    }
    for (rank, suspect) in needed(&suspects).into_iter().enumerate() {
        verdicts[suspect.link] = Verdict::Bad { rank, probers: suspect.probers };
    }
    verdicts
}

/// Its links that there are.
fn known(probe: &Probe, links: usize) -> impl Iterator<Item = usize> + '_ {
    probe.links.iter().copied().filter(move |link| *link < links)
}

fn crossed_by<'a>(probes: impl Iterator<Item = &'a Probe>, links: usize) -> Vec<bool> {
    let mut crossed = vec![false; links];
    for probe in probes {
        known(probe, links).for_each(|link| crossed[link] = true);
    }
    crossed
}

/// A part that no good probe crossed.
struct Suspect {
    link: usize,
    /// The bad probes that crossed it, by index.
    crossed: BTreeSet<usize>,
    /// How many different probers sent those.
    probers: usize,
}

impl Suspect {
    fn new(link: usize, bad: &[&Probe]) -> Self {
        let crossing = || bad.iter().enumerate().filter(|(_, probe)| probe.links.contains(&link));
        let probers: BTreeSet<usize> = crossing().map(|(_, probe)| probe.prober).collect();
        Self { link, crossed: crossing().map(|(index, _)| index).collect(), probers: probers.len() }
    }

    /// Who is blamed by most probers comes first, then who explains most.
    fn order(&self) -> (Reverse<usize>, Reverse<usize>, usize) {
        (Reverse(self.probers), Reverse(self.crossed.len()), self.link)
    }
}

/// Those of the ranked suspects that explain what none before them does, and those that look
/// just like one of them.
fn needed(suspects: &[Suspect]) -> Vec<&Suspect> {
    let mut explained = BTreeSet::new();
    let mut needed: Vec<&Suspect> = Vec::new();
    for suspect in suspects {
        let explains_more = !suspect.crossed.is_subset(&explained);
        if explains_more || needed.iter().any(|other| other.crossed == suspect.crossed) {
            explained.extend(&suspect.crossed);
            needed.push(suspect);
        }
    }
    needed
}
