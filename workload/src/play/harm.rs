//! What goes wrong with the packets of single entries.

use super::late_ns;
use crate::scenario::Faults;
use simnet::filter::Filter;
use simnet::{LinkId, NodeId, PPM, Passing, Qp, Rig, Rng, Verdict};
use std::collections::HashMap;

/// Packets to a queue pair: the Ethernet address of its host, and its number.
type To = ([u8; 6], u32);

/// The faults of packets from each host, by the queue pair that they are for.
#[derive(Default)]
pub struct Harms(HashMap<NodeId, HashMap<To, Faults>>);

impl Harms {
    /// Packets from each end of a connection to the other are harmed so.
    pub fn add(&mut self, rig: &Rig, ends: [Qp; 2], faults: Faults) {
        for [from, to] in [ends, [ends[1], ends[0]]] {
            let of_host = self.0.entry(from.node()).or_default();
            of_host.insert((rig.net.mac(to.node()), rig.qpn(to)), faults);
        }
    }

    /// From now on they are.
    pub fn begin(self, rig: &mut Rig, seed: u64) {
        for (node, harms) in self.0 {
            rig.net.set_filter(LinkId::Up(node), filter(harms, Rng::new(seed ^ (node.0 as u64 + 1) << 32)));
        }
    }
}

fn filter(harms: HashMap<To, Faults>, mut rng: Rng) -> Filter {
    Box::new(move |passing| {
        let faults = to(passing).and_then(|to| harms.get(&to));
        faults.map_or(Verdict::Pass, |faults| verdict(faults, &mut rng))
    })
}

fn to(passing: &Passing<'_>) -> Option<To> {
    Some((*passing.frame.first_chunk()?, passing.packet.as_ref()?.bth().dest_qp))
}

fn verdict(faults: &Faults, rng: &mut Rng) -> Verdict {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "below a million")]
    let mut hits = |part: f64| rng.hits((part * f64::from(PPM)) as u32);
    if hits(faults.loss) {
        Verdict::Drop
    } else if hits(faults.duplicate) {
        Verdict::Duplicate
    } else if hits(faults.reorder) {
        Verdict::Delay(1 + rng.below(late_ns(faults)))
    } else {
        Verdict::Pass
    }
}
