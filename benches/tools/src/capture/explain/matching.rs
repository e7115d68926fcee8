//! Which packet at one point is which at another, behind it on the way. Packets that are equal can
//! only be told apart by their times, and by their places among those of which nothing is in doubt.

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
    let certain = certain(&classes);
    let way_ns = certain.iter().map(|(from, to)| delay(&sent[*from], &seen[*to])).min();
    let newest = newest_before(sent.len(), &certain);
    let mut matched =
        Matched { arrived: vec![None; sent.len()], origin: vec![None; seen.len()], ..Matched::default() };
    for (from, to) in classes.values() {
        let mut left = from.clone();
        for index in to.iter().rev() {
            // One that comes sooner than any other was only fast, as a burst has one time, if it is
            // the first, or came behind what was sent between it and its copy before. If nothing
            // was, all arrived where as many came as were sent.
            let is_behind = |one: usize| {
                let place = from.partition_point(|other| *other < one);
                let Some(before) = place.checked_sub(1).map(|place| newest[from[place]]) else { return true };
                let is_told = newest[one] > before;
                if is_told { newest[one] < Some(*index) } else { from.len() == to.len() }
            };
            let is_in_time = |one: usize| way_ns.is_none_or(|way| delay(&sent[one], &seen[*index]) >= way);
            let can = |one: &usize| is_in_time(*one) || is_behind(*one);
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

/// The packets of which nothing is in doubt: their indexes at the first point and at the second.
fn certain(classes: &BTreeMap<u32, (Vec<usize>, Vec<usize>)>) -> Vec<(usize, usize)> {
    let certain = classes.values().filter_map(|(from, to)| match (from.as_slice(), to.as_slice()) {
        ([from], [to]) => Some((*from, *to)),
        _ => None,
    });
    certain.collect()
}

/// For each of `count` packets that were sent, the greatest index at the second point of those that
/// were sent before it, as far as nothing is in doubt.
fn newest_before(count: usize, certain: &[(usize, usize)]) -> Vec<Option<usize>> {
    let mut arrived = vec![None; count];
    certain.iter().for_each(|(from, to)| arrived[*from] = Some(*to));
    let mut newest = None;
    let before = |to: Option<usize>| {
        let before = newest;
        newest = newest.max(to);
        before
    };
    arrived.into_iter().map(before).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packets by their checksums and times, in the order of the capture.
    fn point(packets: &[(u32, u64)]) -> Vec<Spot> {
        let spot =
            |(frame, (icrc, at_ns)): (u64, &(u32, u64))| Spot { frame, at_ns: *at_ns, icrc: *icrc, psn: 0 };
        (0..).zip(packets).map(spot).collect()
    }

    /// What became of packets 1, 2, 3, where 1 is sent again behind 2.
    fn sent() -> Vec<Spot> {
        point(&[(1, 0), (2, 50_000), (1, 90_000), (3, 100_000)])
    }

    /// The receiver's clock is another, and it reads all that waits for it at one time: the resend
    /// seems to be faster than any other.
    #[test]
    fn a_resend_that_was_fast_has_arrived() {
        let matched = match_up(&sent(), &point(&[(1, 7), (2, 60_000), (1, 60_000), (3, 150_000)]));
        assert_eq!(matched.arrived, [Some(0), Some(1), Some(2), Some(3)]);
        assert_eq!((matched.duplicated, matched.unsent), (vec![], vec![]));
    }

    /// Nothing was sent between the two: only times tell which has arrived.
    #[test]
    fn of_copies_beside_each_other_the_one_that_was_sent_in_time_has_arrived() {
        let sent = point(&[(2, 0), (1, 50_000), (1, 90_000), (3, 100_000)]);
        let matched = match_up(&sent, &point(&[(2, 7), (1, 50_007), (3, 100_007)]));
        assert_eq!(matched.arrived, [Some(0), Some(1), None, Some(2)]);
    }

    /// What comes twice before anything else was there twice before it was sent again.
    #[test]
    fn a_copy_that_comes_before_the_resend_is_the_networks() {
        let matched = match_up(&sent(), &point(&[(1, 7), (1, 8), (2, 60_000), (3, 150_000)]));
        assert_eq!(matched.arrived, [Some(1), Some(2), None, Some(3)]);
        assert_eq!(matched.duplicated, [0]);
    }
}
