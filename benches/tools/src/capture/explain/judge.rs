//! What happened to each packet, and whether a resend was needed.

use super::matching::{Matched, Spot, match_up, spots};
use super::stream::{Seen, Sighting, View, on_wire};
use std::collections::{BTreeMap, BTreeSet};

/// What happened to a packet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum What {
    /// It was sent and did not arrive.
    Lost,
    /// It arrived behind one that was sent after it.
    Reordered,
    /// The network delivered it once more.
    Duplicated,
    /// It arrived, and was not sent where the other end was captured.
    Unsent,
    /// It was sent again, as no packet before it with this PSN had arrived.
    Needed,
    /// It was sent again, as its receiver had refused what arrived.
    Refused,
    /// It was sent again, and had arrived.
    Needless,
    /// It was sent again; nothing tells whether it had arrived.
    Unjudged,
}

/// One packet to which something happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event {
    /// What.
    pub what: What,
    /// Its PSN.
    pub psn: u32,
    /// Number of the frame, in the capture where that was seen.
    pub frame: u64,
}

impl What {
    /// Its name in documents.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Reordered => "reordered",
            Self::Duplicated => "duplicated",
            Self::Unsent => "unsent",
            Self::Needed => "resent, needed",
            Self::Refused => "resent, refused before",
            Self::Needless => "resent, needless",
            Self::Unjudged => "resent, unjudged",
        }
    }
}

/// Neither a probe nor a timer sends a packet again so soon (protocol.md 2.4), in nanoseconds: an
/// equal packet that comes earlier was made by the network.
const RESEND_AFTER_NS: u64 = 30_000;

/// What one point shows.
pub fn one(view: &View, acknowledged: bool) -> Vec<Event> {
    let trip_ns = view.round_trip_min();
    let mut events = Vec::new();
    for (psn, seen) in &view.seen {
        let mut note = |what, one: &Sighting| {
            events.push(Event { what, psn: on_wire(*psn), frame: one.frame });
        };
        if let Some(first) = seen.sightings.first().filter(|_| seen.late) {
            let resent = first.asked && (first.ack_req || !seen.first.is_srnic());
            if resent {
                note(What::Lost, first);
                note(What::Needed, first);
            } else {
                note(What::Reordered, first);
            }
        }
        judge_repeats(seen, acknowledged, trip_ns, &mut note);
    }
    events.sort_by_key(|event| event.frame);
    events
}

fn judge_repeats(seen: &Seen, acknowledged: bool, trip_ns: u64, note: &mut impl FnMut(What, &Sighting)) {
    let mut reported = seen.duplicates;
    let pairs: Vec<(&Sighting, &Sighting)> =
        seen.sightings.iter().zip(seen.sightings.iter().skip(1)).collect();
    for (before, again) in pairs.into_iter().rev() {
        let soon = again.at_ns.saturating_sub(before.at_ns) < RESEND_AFTER_NS;
        // What it says so soon it cannot say of this one.
        let covered = seen.covered_ns.is_some_and(|at| at < again.at_ns.saturating_add(trip_ns / 2));
        if before.icrc == again.icrc && soon && !again.asked && !before.refused {
            note(What::Duplicated, again);
        } else if !acknowledged {
            note(What::Unjudged, again);
        } else if covered || reported > 0 {
            reported = reported.saturating_sub(1);
            note(What::Needless, again);
        } else if before.refused {
            note(What::Refused, again);
        } else {
            note(What::Lost, before);
            note(What::Needed, again);
        }
    }
}

/// What two points show, the first on the sender's side.
pub fn two(up: &View, down: &View) -> Vec<Event> {
    let (sent, seen) = (spots(up), spots(down));
    let matched = match_up(&sent, &seen);
    let event = |what, spot: &Spot| Event { what, psn: on_wire(spot.psn), frame: spot.frame };
    let mut events: Vec<Event> = Vec::new();
    let lost = sent.iter().zip(&matched.arrived).filter(|(_, arrived)| arrived.is_none());
    events.extend(lost.map(|(spot, _)| event(What::Lost, spot)));
    events.extend(matched.duplicated.iter().map(|index| event(What::Duplicated, &seen[*index])));
    events.extend(matched.unsent.iter().map(|index| event(What::Unsent, &seen[*index])));
    events.extend(overtaken(&matched).map(|index| event(What::Reordered, &seen[index])));
    let refused = refused_frames(down);
    let mut by_psn: BTreeMap<i64, Vec<usize>> = BTreeMap::new();
    for (index, spot) in sent.iter().enumerate() {
        by_psn.entry(spot.psn).or_default().push(index);
    }
    for indexes in by_psn.values() {
        for (at, again) in indexes.iter().enumerate().skip(1) {
            let arrived = indexes[..at].iter().filter_map(|before| matched.arrived[*before]);
            let taken: Vec<bool> = arrived.map(|index| !refused.contains(&seen[index].frame)).collect();
            let what = match (taken.is_empty(), taken.contains(&true)) {
                (true, _) => What::Needed,
                (false, false) => What::Refused,
                (false, true) => What::Needless,
            };
            events.push(event(what, &sent[*again]));
        }
    }
    events.sort_by_key(|event| (event.psn, event.frame));
    events
}

/// Packets that arrived behind one that was sent later.
fn overtaken(matched: &Matched) -> impl Iterator<Item = usize> {
    let mut last = None;
    matched.origin.iter().enumerate().filter_map(move |(index, origin)| {
        let origin = (*origin)?;
        let behind = last.is_some_and(|last| origin < last);
        last = last.max(Some(origin));
        behind.then_some(index)
    })
}

fn refused_frames(view: &View) -> BTreeSet<u64> {
    let all = view.seen.values().flat_map(|seen| &seen.sightings);
    all.filter(|one| one.refused).map(|one| one.frame).collect()
}
