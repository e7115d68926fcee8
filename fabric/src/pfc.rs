//! Lossless Ethernet: a switch pauses a link before the memory for what the link brings is used up
//! (PFC, IEEE 802.1Qbb; one class).
//!
//! What a link has brought counts in a pool that all links of the switch share. A link that has its
//! share is told to pause. What still comes until it has paused is in the link's own headroom,
//! which [`headroom`] computes. It may go on once its headroom is empty and it is below its share.

use crate::link::{Link, PAUSE_WIRE_BYTES};
use std::collections::HashMap;

/// How the switches of a lossless network are set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PfcConfig {
    /// Bytes of the pool that all links into a switch share.
    pub pool: u64,
    /// A link may have `alpha` times what is free of the pool: numerator and denominator.
    pub alpha: (u64, u64),
    /// A link goes on when it is so many bytes below its share.
    pub resume: u64,
    /// Bytes that are missing from each link's headroom; 0, but where it is shown that headroom is
    /// needed.
    pub headroom_short: u64,
}

impl PfcConfig {
    /// The lossless pool of a SONiC switch: 18 MiB, alpha 1/8; two frames of hysteresis.
    pub const DEFAULT: Self = Self { pool: 18 << 20, alpha: (1, 8), resume: 2048, headroom_short: 0 };

    const fn share(&self, used: u64) -> u64 {
        self.pool.saturating_sub(used) * self.alpha.0 / self.alpha.1
    }
}

/// Bytes that a link can still bring once a PAUSE frame is due on `back`, the link the other way.
///
/// The PAUSE frame may have to wait for a whole frame (`frame`: bytes on the link) that `back` has
/// begun to send, and for one that let the link go on; it takes its own time and that of the link.
/// Bytes that have left by then arrive a link's delay later. The frame that has begun is sent to
/// its end, and the one for which the PAUSE frame is due counts, too.
#[must_use]
pub fn headroom(link: &Link, back: &Link, frame: u64) -> u64 {
    let pause = (frame + 2 * PAUSE_WIRE_BYTES) * u64::from(back.ps_per_byte) + back.delay.0;
    2 * frame + (pause + link.delay.0).div_ceil(link.ps_per_byte.into())
}

/// What a link has brought to the switch at its end.
#[derive(Clone, Copy, Debug, Default)]
struct Ingress {
    /// Bytes in the shared pool.
    shared: u64,
    /// Bytes in the link's own headroom.
    headroom: u64,
    /// Bytes of its headroom.
    headroom_max: u64,
    paused: bool,
}

/// What becomes of a packet that arrives at a switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Verdict {
    /// There is memory for it; else it is dropped.
    pub stored: bool,
    /// Its link must pause.
    pub pause: bool,
}

/// The memory of all switches of a lossless network.
#[derive(Debug)]
pub struct Pfc {
    config: PfcConfig,
    /// Bytes in the shared pool of each switch.
    used: Vec<u64>,
    /// Of each link.
    ingress: Vec<Ingress>,
    /// The link the other way, of each link.
    back: Vec<u32>,
}

impl Pfc {
    /// For switches joined by `links`, and frames of at most `frame` bytes on a link.
    #[must_use]
    pub fn new(config: PfcConfig, links: &[Link], switches: usize, frame: u64) -> Self {
        let numbers: HashMap<_, u32> =
            links.iter().zip(0..).map(|(link, number)| ((link.from, link.to), number)).collect();
        let of = |link: &Link| numbers.get(&(link.to, link.from)).copied().unwrap_or(u32::MAX);
        let back: Vec<u32> = links.iter().map(of).collect();
        let ingress = links.iter().zip(&back).map(|(link, back)| Ingress {
            headroom_max: headroom(link, &links[*back as usize], frame).saturating_sub(config.headroom_short),
            ..Ingress::default()
        });
        Self { config, used: vec![0; switches], ingress: ingress.collect(), back }
    }

    /// A packet of `bytes` has come to `switch` by `link`.
    pub fn arrive(&mut self, switch: u32, link: u32, bytes: u64) -> Verdict {
        let (used, ingress) = (&mut self.used[switch as usize], &mut self.ingress[link as usize]);
        if !ingress.paused && ingress.shared + bytes <= self.config.share(*used) {
            ingress.shared += bytes;
            *used += bytes;
            return Verdict { stored: true, pause: false };
        }
        let stored = ingress.headroom + bytes <= ingress.headroom_max;
        if stored {
            ingress.headroom += bytes;
        }
        Verdict { stored, pause: !core::mem::replace(&mut ingress.paused, true) }
    }

    /// A packet of `bytes` that had come by `link` has left `switch`; says whether that link may go
    /// on.
    pub fn leave(&mut self, switch: u32, link: u32, bytes: u64) -> bool {
        let (used, ingress) = (&mut self.used[switch as usize], &mut self.ingress[link as usize]);
        let own = bytes.min(ingress.headroom);
        ingress.headroom -= own;
        ingress.shared -= bytes - own;
        *used -= bytes - own;
        let below = ingress.shared + self.config.resume <= self.config.share(*used);
        let goes_on = ingress.paused && ingress.headroom == 0 && (below || ingress.shared == 0);
        ingress.paused &= !goes_on;
        goes_on
    }

    /// The link the other way.
    #[must_use]
    pub fn back(&self, link: u32) -> u32 {
        self.back[link as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calendar::{Calendar, Event, Kind};
    use crate::clock::Ps;
    use crate::link::Node;
    use crate::packet::{Meta, Packets};

    const FRAME: u64 = 1126;

    /// Links that always bring more are paused at alpha B / (1 + n alpha), each within a packet:
    /// 2.00, 1.80, 1.50, 1.125 and 0.75 MB of 18 for n = 1, 2, 4, 8, 16.
    #[test]
    fn links_are_paused_at_their_share_of_the_pool() {
        for (count, megabytes) in [(1, 2.0), (2, 1.8), (4, 1.5), (8, 1.125), (16, 0.75)] {
            let host = |number| Node::Host(number);
            let both = (0..count).flat_map(|number| {
                [(host(number), Node::Switch(0)), (Node::Switch(0), host(number))]
                    .map(|(from, to)| Link::new(from, to, 80, Ps::from_ns(1000)))
            });
            let config = PfcConfig { pool: 18_000_000, ..PfcConfig::DEFAULT };
            let mut pfc = Pfc::new(config, &both.collect::<Vec<_>>(), 1, FRAME);
            let mut going: Vec<u32> = (0..count).map(|number| 2 * number).collect();
            while !going.is_empty() {
                going.retain(|link| !pfc.arrive(0, *link, FRAME).pause);
            }
            for number in 0..count {
                let shared = pfc.ingress[2 * number as usize].shared as f64;
                assert!((shared - megabytes * 1e6).abs() <= FRAME as f64, "{count} links: {shared}");
            }
        }
    }

    /// A link that brings one full frame after the other to a switch that sends none of them on.
    /// The link back is as busy, its frames begin `phase` later. How many frames were dropped, and
    /// most bytes in headroom.
    fn overrun(config: PfcConfig, phase: Ps) -> (u32, u64) {
        let host = Node::Host(0);
        let mut links = [(host, Node::Switch(0)), (Node::Switch(0), host)]
            .map(|(from, to)| Link::new(from, to, 80, Ps::from_ns(1000)));
        let mut pfc = Pfc::new(config, &links, 1, FRAME);
        let (mut packets, mut calendar, mut dropped) = (Packets::default(), Calendar::default(), 0);
        let mut most = 0;
        for (number, from) in [(0, Ps(0)), (1, phase)] {
            for _ in 0..60 {
                let packet = packets.put(Meta { len: 1102, ..Meta::default() }, &[]);
                links[number as usize].enqueue(&mut packets, packet);
            }
            calendar.push(Event::new(from, Kind::Departure, number, 0, 0));
        }
        while let Some(event) = calendar.pop() {
            let link = event.entity();
            match event.kind() {
                Kind::Departure => {
                    links[link as usize].departed();
                }
                Kind::Pause => links[link as usize].pause(event.packet != 0),
                _ if link == 0 => {
                    let verdict = pfc.arrive(0, 0, FRAME);
                    dropped += u32::from(!verdict.stored);
                    if verdict.pause {
                        let at = links[1].send_pause(event.at);
                        calendar.push(Event::new(at, Kind::Pause, 0, 0, 1));
                    }
                }
                _ => {}
            }
            most = most.max(pfc.ingress[0].headroom);
            for event in links[link as usize].start(event.at, link, &packets).into_iter().flatten() {
                calendar.push(event);
            }
        }
        (dropped, most)
    }

    /// Whatever the link back is about when a link must pause, the computed headroom takes what
    /// still comes; and not a frame of it is too much.
    #[test]
    fn computed_headroom_drops_nothing_and_a_frame_less_does() {
        let config = PfcConfig { pool: 100_000, ..PfcConfig::DEFAULT };
        let phases = || (0..FRAME).step_by(7).map(|byte| Ps(byte * 80));
        let sum = |config: PfcConfig| phases().map(|phase| overrun(config, phase).0).sum::<u32>();
        assert_eq!(sum(config), 0);
        assert!(sum(PfcConfig { headroom_short: FRAME, ..config }) > 0);
        let host = Link::new(Node::Host(0), Node::Switch(0), 80, Ps::from_ns(1000));
        let most = phases().map(|phase| overrun(config, phase).1).max().expect("phases");
        let spare = headroom(&host, &host, FRAME) - most;
        assert!(spare < FRAME, "the worst case leaves {spare} bytes");
    }
}
