//! What is to be said of captures.

use super::connection::Connection;
use super::rules::Violation;

/// Frames of all captures by what became of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// All.
    pub frames: u64,
    /// RoCEv2 packets with a wrong ICRC: receivers drop them.
    pub spoiled: u64,
    /// Frames that ought to be RoCEv2 and cannot be parsed.
    pub unparsed: u64,
    /// Frames that were not captured whole.
    pub cut: u64,
}

/// What is to be said. Displays as text.
#[derive(Clone, PartialEq, Debug)]
pub struct Report {
    /// The frames.
    pub counts: Counts,
    /// The connections, in the order in which they were seen.
    pub connections: Vec<Connection>,
}

impl Counts {
    /// Whether every frame was captured whole, can be parsed and has the ICRC that it must.
    #[must_use]
    pub const fn is_clean(&self) -> bool {
        self.spoiled == 0 && self.unparsed == 0 && self.cut == 0
    }
}

impl Report {
    /// Whether all frames are as they should be, and no rule was broken.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.counts.is_clean() && self.violations().next().is_none()
    }

    /// Rules that were broken, in all connections.
    pub fn violations(&self) -> impl Iterator<Item = &Violation> {
        self.connections.iter().flat_map(|connection| &connection.violations)
    }
}
