//! A history in words.

use super::plan::{ConnectionPlan, LifePlan, Plan};
use core::fmt;

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tidy = if self.tidy { "tidy, " } else { "" };
        writeln!(f, "{tidy}{} nodes, faults until {} ns, {:?}", self.nodes, self.storm_ns, self.rig)?;
        for shared_receives in self.shared_receives.iter().flatten() {
            writeln!(f, "  {shared_receives:?}")?;
        }
        for (at, change) in &self.weather {
            writeln!(f, "  at {at}: {change:?}")?;
        }
        for (index, connection) in self.connections.iter().enumerate() {
            let ConnectionPlan { nodes, options, lethal, shared, cramped, lives } = connection;
            let lethal = if *lethal { ", lethal" } else { "" };
            let cramped = if *cramped { ", cramped" } else { "" };
            writeln!(f, "pair {index} on nodes {nodes:?}{lethal}{cramped}, shared receives {shared:?}")?;
            for end in options {
                writeln!(f, "  {end:?}")?;
            }
            for (number, life) in lives.iter().enumerate() {
                let sizes = life.flows.each_ref().map(|flow| {
                    let bytes: usize = flow.script.messages.iter().map(|message| message.len).sum();
                    (flow.script.messages.len(), bytes)
                });
                let defects = life.defects();
                let windows = describe_windows(life);
                let answered = life.flows.each_ref().map(|flow| flow.script.answered());
                writeln!(
                    f,
                    "  life {number}: (messages, bytes) {sizes:?}, READs and atomics {answered:?}, {windows}{defects} defects, {:?}, {:?}, {:?}{}",
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

fn describe_windows(life: &LifePlan) -> String {
    let windows = life.flows.each_ref().map(|flow| flow.window);
    if windows == [None; 2] {
        return String::new();
    }
    let mut messages = life.flows.iter().flat_map(|flow| &flow.script.messages);
    let ended = if messages.any(|message| message.invalidates) { ", invalidated" } else { "" };
    let unbound = if life.unbinds() { ", ended in use" } else { "" };
    format!("windows {windows:?}{ended}{unbound}, ")
}
