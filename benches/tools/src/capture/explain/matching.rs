//! Which packet at one point is which at another, behind it on the way. Packets that are equal can
//! only be told apart by their times.

use super::stream::View;
use std::collections::BTreeMap;

/// A packet at a point.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Spot {
    /// Number of its frame.
    pub frame: u64,
    /// When, by the clock of that point.
    pub at_ns: u64,
    /// Equal if the packets are.
    pub icrc: u32,
    /// Its PSN, counted on.
    pub psn: i64,
}

/// What became of packets between two points.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Matched {
    /// For each packet at the first point, its index at the second.
    pub arrived: Vec<Option<usize>>,
    /// For each packet at the second point, its index at the first.
    pub origin: Vec<Option<usize>>,
    /// Packets at the second point that equal one which was sent, and are one more.
    pub duplicated: Vec<usize>,
    /// Packets at the second point that were not at the first.
    pub unsent: Vec<usize>,
}

/// The packets of a stream, in the order of the capture.
pub fn spots(view: &View) -> Vec<Spot> {
    let all = view.seen.iter().flat_map(|(psn, seen)| seen.sightings.iter().map(|one| (*psn, one)));
    let spot = |(psn, one): (i64, &super::stream::Sighting)| Spot {
        frame: one.frame,
        at_ns: one.at_ns,
        icrc: one.icrc,
        psn,
    };
    let mut spots: Vec<Spot> = all.map(spot).collect();
    spots.sort_by_key(|spot| spot.frame);
    spots
}

/// Finds for each packet that arrived the one that was sent: of equal ones the last that can have
/// arrived by then, and each once as long as there are enough.
pub fn match_up(sent: &[Spot], seen: &[Spot]) -> Matched {
    let mut classes: BTreeMap<u32, (Vec<usize>, Vec<usize>)> = BTreeMap::new();
    for (index, spot) in sent.iter().enumerate() {
        classes.entry(spot.icrc).or_default().0.push(index);
    }
    for (index, spot) in seen.iter().enumerate() {
        classes.entry(spot.icrc).or_default().1.push(index);
    }
    let way_ns = shortest_way(sent, seen, &classes);
    let mut matched =
        Matched { arrived: vec![None; sent.len()], origin: vec![None; seen.len()], ..Matched::default() };
    for (from, to) in classes.values() {
        let mut left = from.clone();
        for index in to.iter().rev() {
            let can = |one: &usize| way_ns.is_none_or(|way| delay(&sent[*one], &seen[*index]) >= way);
            match left.iter().rposition(can) {
                Some(at) => {
                    let one = left.remove(at);
                    (matched.arrived[one], matched.origin[*index]) = (Some(*index), Some(one));
                }
                None if from.is_empty() => matched.unsent.push(*index),
                None => matched.duplicated.push(*index),
            }
        }
    }
    matched
}

/// Between clocks that need not agree.
fn delay(sent: &Spot, seen: &Spot) -> i128 {
    i128::from(seen.at_ns) - i128::from(sent.at_ns)
}

/// The shortest time that a packet took of which nothing is in doubt.
fn shortest_way(
    sent: &[Spot],
    seen: &[Spot],
    classes: &BTreeMap<u32, (Vec<usize>, Vec<usize>)>,
) -> Option<i128> {
    let certain = classes.values().filter_map(|(from, to)| match (from.as_slice(), to.as_slice()) {
        ([from], [to]) => Some(delay(&sent[*from], &seen[*to])),
        _ => None,
    });
    certain.min()
}
