//! What goes wrong around the engines, and when it changes.

use simnet::{Faults, HostModel, LinkId, NodeId, Rng};

/// Something that happens at a point of time, to links or nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// The faults of a link are these from now on.
    Faults(LinkId, Faults),
    /// So many of a million data frames that enter the link are lost, and no others.
    LoseData(LinkId, u32),
    /// The queue of a link holds this many frames, and marks behind so many.
    Queue(LinkId, usize, Option<usize>),
    /// A node takes no turns any more, or goes on.
    Freeze(NodeId, bool),
    /// A node's host takes so long for its work from now on.
    Host(NodeId, HostModel),
    /// Copies of so many of a million frames that enter the link are kept; some of those frames are
    /// held back.
    Capture(LinkId, u32),
    /// What was kept enters its link again.
    Replay,
}

/// Changes until all faults stop.
pub fn draw(rng: &mut Rng, nodes: usize, storm_ns: u64) -> Vec<(u64, Change)> {
    let mut changes = Vec::new();
    for _ in 0..rng.below(10) {
        let at = if rng.below(3) == 0 { 0 } else { rng.below(storm_ns) };
        let node = NodeId(rng.index(nodes));
        let link = if rng.below(2) == 0 { LinkId::Up(node) } else { LinkId::Down(node) };
        match rng.below(12) {
            0..=6 => changes.push((at, Change::Faults(link, draw_faults(rng)))),
            7 => {
                let mark = (rng.below(2) == 0).then(|| rng.index(8));
                changes.push((at, Change::Queue(link, 3 + rng.index(40), mark)));
            }
            8 => changes.push((at, Change::Queue(link, 1024, Some(rng.index(30))))),
            9 | 10 => {
                changes.push((at, Change::Freeze(node, true)));
                changes.push((at + 2_000 + rng.below(storm_ns / 2), Change::Freeze(node, false)));
            }
            _ => {
                changes.push((at, Change::Capture(link, 50_000)));
                changes.push((at + rng.below(storm_ns), Change::Replay));
            }
        }
    }
    changes
}

/// Losses and nothing else: on single links, of data alone or of all frames.
pub fn draw_losses(rng: &mut Rng, nodes: usize) -> Vec<(u64, Change)> {
    let data_only = rng.below(2) == 0;
    let links = (0..nodes).map(NodeId).flat_map(|node| [LinkId::Up(node), LinkId::Down(node)]);
    let mut changes = Vec::new();
    for link in links {
        let ppm = [0, 2_000, 10_000, 50_000][rng.index(4)];
        let lose =
            if data_only { Change::LoseData(link, ppm) } else { Change::Faults(link, Faults::loss(ppm)) };
        changes.push((0, lose));
    }
    changes
}

/// Frames of the time before a RESET come back after it.
pub fn late_frames(rng: &mut Rng, nodes: [usize; 2], reset_ns: u64, gap_ns: u64) -> Vec<(u64, Change)> {
    let from = reset_ns.saturating_sub(rng.below(30_000));
    let mut changes: Vec<_> =
        nodes.iter().map(|&node| (from, Change::Capture(LinkId::Up(NodeId(node)), 200_000))).collect();
    let back = reset_ns + gap_ns;
    changes.extend(nodes.iter().map(|&node| (back, Change::Capture(LinkId::Up(NodeId(node)), 0))));
    changes.push((back + rng.below(20_000), Change::Replay));
    changes
}

fn draw_faults(rng: &mut Rng) -> Faults {
    let mut faults = Faults { reorder_ns_max: 1_000 + rng.below(60_000), ..Faults::default() };
    let level = |rng: &mut Rng| [1_000, 10_000, 50_000, 200_000][rng.index(4)];
    match rng.below(10) {
        0 => return Faults::default(),
        1 if rng.below(3) == 0 => return Faults::black_hole(),
        _ => {}
    }
    if rng.below(2) == 0 {
        faults.loss_ppm = level(rng);
    }
    if rng.below(4) == 0 {
        faults.burst_ppm = level(rng) / 5;
        faults.burst_frames_max = 1 + u32::try_from(rng.below(30)).unwrap_or(0);
    }
    if rng.below(4) == 0 {
        faults.duplicate_ppm = level(rng);
    }
    if rng.below(4) == 0 {
        faults.reorder_ppm = level(rng);
    }
    if rng.below(6) == 0 {
        faults.corrupt_ppm = level(rng);
    }
    if rng.below(8) == 0 {
        faults.truncate_ppm = level(rng);
    }
    if rng.below(4) == 0 {
        faults.jitter_ns_max = rng.below(10_000);
    }
    faults
}
