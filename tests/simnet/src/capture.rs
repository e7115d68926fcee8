//! What each node sent and received, and what the network did to it: a capture whose truth is
//! known.

use crate::network::{LinkId, NodeId};
use datapath::time::Time;

/// A frame at a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Captured {
    /// When it was sent or received.
    pub at: Time,
    /// By whom.
    pub node: NodeId,
    /// The frame.
    pub frame: Vec<u8>,
}

/// What happened to a frame on a link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fate {
    /// The link.
    pub link: LinkId,
    /// Its fate in a word, as [`Network::recent`](crate::Network::recent) has it; `duplicated` for
    /// one that was delivered twice.
    pub fate: &'static str,
    /// The frame as it entered the link.
    pub frame: Vec<u8>,
}

/// All frames since the capture began.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Capture {
    /// At the nodes, in order.
    pub frames: Vec<Captured>,
    /// On the links: one for each frame that entered one, in order, and `duplicated` behind it.
    pub fates: Vec<Fate>,
}

impl Capture {
    /// The frames at one node.
    pub fn of(&self, node: NodeId) -> impl Iterator<Item = &Captured> {
        self.frames.iter().filter(move |captured| captured.node == node)
    }

    pub(crate) fn see(&mut self, at: Time, node: NodeId, frame: &[u8]) {
        self.frames.push(Captured { at, node, frame: frame.to_vec() });
    }

    pub(crate) fn suffer(&mut self, link: LinkId, fate: &'static str, frame: &[u8]) {
        self.fates.push(Fate { link, fate, frame: frame.to_vec() });
    }
}
