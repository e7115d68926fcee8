//! A history in words.

use super::plan::{ConnectionPlan, Plan};
use core::fmt;

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tidy = if self.tidy { "tidy, " } else { "" };
        writeln!(f, "{tidy}{} nodes, faults until {} ns, {:?}", self.nodes, self.storm_ns, self.rig)?;
        for (at, change) in &self.weather {
            writeln!(f, "  at {at}: {change:?}")?;
        }
        for (index, connection) in self.connections.iter().enumerate() {
            let ConnectionPlan { nodes, options, lethal, lives } = connection;
            writeln!(f, "pair {index} on nodes {nodes:?}{}", if *lethal { ", lethal" } else { "" })?;
            for end in options {
                writeln!(f, "  {end:?}")?;
            }
            for (number, life) in lives.iter().enumerate() {
                let sizes = life.flows.each_ref().map(|flow| {
                    let bytes: usize = flow.script.messages.iter().map(|message| message.len).sum();
                    (flow.script.messages.len(), bytes)
                });
                let defects = life.defects();
                let answered = life.flows.each_ref().map(|flow| flow.script.answered());
                writeln!(
                    f,
                    "  life {number}: (messages, bytes) {sizes:?}, READs and atomics {answered:?}, {defects} defects, {:?}, {:?}, {:?}{}",
                    life.end,
                    life.pause,
                    life.withdrawal,
                    if life.replaced { ", replaced" } else { "" },
                )?;
            }
        }
        Ok(())
    }
}
