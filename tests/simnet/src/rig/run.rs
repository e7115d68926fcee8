//! The virtual time.

use super::{HostModel, Rig};
use crate::network::NodeId;
use crate::port::SimPort;
use core::fmt;
use datapath::engine::Engine;
use datapath::port::{Port as _, PortStats};
use datapath::time::Time;

/// A condition was not met.
#[derive(Clone, PartialEq, Eq)]
pub struct Stuck {
    /// When the rig gave up.
    pub at: Time,
    /// True if nothing was left to happen; false if the time ran out.
    pub quiet: bool,
    report: String,
}

impl fmt::Debug for Stuck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = if self.quiet { "nothing is left to happen" } else { "the time ran out" };
        writeln!(f, "the condition was not met by {} ns: {why}", self.at.0)?;
        f.write_str(&self.report)
    }
}

impl Rig {
    /// Runs until `condition` holds, which is asked before the first step and after each; returns
    /// the nanoseconds that it took.
    ///
    /// # Errors
    /// [`Stuck`] if nothing is left to happen, or `limit_ns` have passed.
    pub fn run_until(
        &mut self,
        mut condition: impl FnMut(&mut Self) -> bool,
        limit_ns: u64,
    ) -> Result<u64, Stuck> {
        let start = self.now;
        let end = start.after(limit_ns);
        loop {
            if self.auto_poll {
                self.poll();
            }
            if condition(self) {
                return Ok(self.now.since(start));
            }
            match self.next_step() {
                Some(at) if at <= end => self.step_at(at),
                next => {
                    let quiet = next.is_none();
                    return Err(Stuck { at: self.now, quiet, report: self.report() });
                }
            }
        }
    }

    /// Runs for `ns` nanoseconds, whatever happens or does not.
    pub fn run_for(&mut self, ns: u64) {
        let end = self.now.after(ns);
        while let Some(at) = self.next_step().filter(|at| *at <= end) {
            self.step_at(at);
        }
        self.now = end;
        if self.auto_poll {
            self.poll();
        }
    }

    /// Runs until nothing is left to happen; returns the nanoseconds that it took.
    ///
    /// # Errors
    /// [`Stuck`] if something still happens after `limit_ns`.
    pub fn run_until_quiet(&mut self, limit_ns: u64) -> Result<u64, Stuck> {
        self.run_until(|rig| rig.next_step().is_none(), limit_ns)
    }

    /// When something happens next.
    #[must_use]
    pub fn next_step(&self) -> Option<Time> {
        let engines = (0..self.nodes.len()).filter_map(|index| self.wakes_at(NodeId(index)));
        engines.chain(self.net.next_event()).min().map(|at| at.max(self.now))
    }

    /// Lets everything happen that is due at `at`, which must not lie in the past.
    pub fn step_at(&mut self, at: Time) {
        self.now = self.now.max(at);
        self.net.run(self.now);
        for index in 0..self.nodes.len() {
            let node = NodeId(index);
            if self.wakes_at(node).is_some_and(|wake| wake <= self.now) {
                self.turn(node);
            }
        }
    }

    /// One turn of one engine, now.
    pub fn turn(&mut self, node: NodeId) {
        self.net.exchange(self.now, node);
        self.run_slow_path(node);
        self.tell_of_looks(node);
        let engine = &mut *self.nodes[node.0].engine;
        let done = |engine: &Engine<SimPort>| {
            let PortStats { rx_bytes, tx_bytes, .. } = engine.port().stats();
            (engine.core().counters().rx_atomics, rx_bytes + tx_bytes)
        };
        let before = done(engine);
        let turn = engine.turn(self.now);
        let (atomics, bytes) = done(engine);
        self.net.exchange(self.now, node);
        let host = self.nodes[node.0].host;
        let work = (turn.received + turn.sent) as u64 * host.frame_ns
            + (atomics - before.0) * host.atomic_ns
            + (bytes - before.1) * host.byte_ps / 1000;
        let took = self.options.turn_cost_ns.max(1) + work;
        self.nodes[node.0].busy_until = self.now.after(took);
        self.nodes[node.0].busy_ns += took;
        self.nodes[node.0].has_turned = true;
        self.turns += 1;
    }

    /// What the host of a node takes for its work from its next turn on.
    pub fn set_host(&mut self, node: NodeId, host: HostModel) {
        self.nodes[node.0].host = host;
    }

    /// Something takes the time of a node's host for so many nanoseconds, behind what takes it now:
    /// its engine has no turn meanwhile. Returns when that is over.
    pub fn occupy(&mut self, node: NodeId, ns: u64) -> Time {
        let node = &mut self.nodes[node.0];
        node.busy_until = node.busy_until.max(self.now).after(ns);
        node.busy_ns += ns;
        node.has_turned = false;
        node.busy_until
    }

    /// Whether a call may take the time of a node's host now: nothing does, or its engine has had a
    /// turn since the last call, as who drives an engine gets its lock between two calls.
    #[must_use]
    pub fn may_occupy(&self, node: NodeId) -> bool {
        let node = &self.nodes[node.0];
        node.has_turned || node.busy_until <= self.now
    }

    /// Nanoseconds for which a node's host had something to do.
    #[must_use]
    pub fn busy_ns(&self, node: NodeId) -> u64 {
        self.nodes[node.0].busy_ns
    }

    fn wakes_at(&self, id: NodeId) -> Option<Time> {
        let node = &self.nodes[id.0];
        if node.frozen {
            return None;
        }
        let looks_at = || self.options.rest.looks(id.0, self.now).0;
        // Written out for speed: each engine is asked after each event.
        let due = match (self.net.waiting(id) > 0, node.engine.next_deadline()) {
            (true, Some(due)) => due.min(looks_at()),
            (true, None) => looks_at(),
            (false, due) => due?,
        };
        Some(due.max(node.busy_until))
    }

    /// Tells an engine when it last found nothing: an engine without work looks all the time that
    /// its thread runs.
    fn tell_of_looks(&mut self, id: NodeId) {
        let node = &mut self.nodes[id.0];
        if core::mem::take(&mut node.was_frozen) {
            return;
        }
        if node.busy_until < self.now {
            let (_, before) = self.options.rest.looks(id.0, self.now);
            node.engine.note_drained(before.max(node.busy_until));
        }
    }

    /// Where everything stands, for people.
    #[must_use]
    pub fn report(&self) -> String {
        use core::fmt::Write;
        let mut text = String::new();
        for endpoint in &self.endpoints {
            let qp = endpoint.id;
            let _ = writeln!(
                text,
                "qp {} ({:06x}) on {:?}: {:?}, {} sends and {} receives completed",
                qp.index,
                endpoint.handles.qpn,
                qp.node,
                endpoint.handles.shared.state(),
                endpoint.sends.len(),
                endpoint.recvs.len(),
            );
        }
        for (index, node) in self.nodes.iter().enumerate() {
            let counted: Vec<String> = node
                .engine
                .core()
                .counters()
                .iter()
                .filter(|(_, value)| *value > 0)
                .map(|(name, value)| format!("{name} {value}"))
                .collect();
            let next = node.engine.next_deadline().map(|at| at.0);
            let _ = writeln!(text, "node {index}, whose engine is due at {next:?}: {}", counted.join(", "));
        }
        let _ = write!(text, "the last frames:\n{}", self.net.recent());
        text
    }
}
