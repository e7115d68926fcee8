//! A history in play: time, weather, connections, and the end.

use super::audit;
use super::connection::Connection;
use super::economy;
use super::plan::Plan;
use super::report::{self, Failure, Outcome};
use super::shared_receives::SharedReceives;
use super::weather::Change;
use core::cell::RefCell;
use datapath::time::Time;
use simnet::filter::drop_all;
use simnet::{FrameKind, HostModel, LinkConfig, LinkId, NodeId, Rig, Rng, TraceHash, Verdict};
use std::rc::Rc;

/// After the last fault everything must be done within this time.
const HEAL_LIMIT_NS: u64 = 4_000_000_000;

/// Steps in which connections may go on although no engine has anything to do: ERR, flushed, RESET,
/// the next posts.
const STILL_STEPS_MAX: usize = 5;

/// Frames kept by [`Change::Capture`].
type Captured = Rc<RefCell<Vec<(LinkId, Vec<u8>)>>>;

/// A rig and what lives on it.
pub(super) struct World<'a> {
    pub plan: &'a Plan,
    pub rig: Rig,
    pub connections: Vec<Connection>,
    /// Shared receive queues, one a node at most.
    shared_receives: Vec<Option<SharedReceives>>,
    /// Frames that entered the uplink of each node a second time.
    pub replayed: Vec<u64>,
    captured: Captured,
    rng: Rng,
    hash: TraceHash,
    start: Time,
    healed_ns: u64,
}

/// Plays the history of a seed.
///
/// # Errors
/// [`Failure`] says what went wrong and how to play it again.
pub fn run(seed: u64) -> Result<Outcome, Box<Failure>> {
    let plan = Plan::draw(seed);
    let mut world = World::new(&plan);
    let played = report::guarded(|| world.play());
    played.map_err(|what| Box::new(Failure::new(&plan, what, world.rig.report())))
}

impl<'a> World<'a> {
    fn new(plan: &'a Plan) -> Self {
        let mut rig = Rig::new(plan.rig);
        for _ in 0..plan.nodes {
            rig.add_node();
        }
        Self {
            plan,
            rig,
            connections: Vec::new(),
            shared_receives: Vec::new(),
            replayed: vec![0; plan.nodes],
            captured: Captured::default(),
            rng: Rng::new(!plan.seed),
            hash: TraceHash::default(),
            start: Time::ZERO,
            healed_ns: 0,
        }
    }

    fn play(&mut self) -> Outcome {
        for (node, plan) in self.plan.shared_receives.iter().enumerate() {
            let shared_receives = plan.map(|plan| SharedReceives::new(&mut self.rig, NodeId(node), plan));
            self.shared_receives.push(shared_receives);
        }
        let srqs: Vec<_> = self
            .shared_receives
            .iter()
            .map(|shared_receives| shared_receives.as_ref().map(SharedReceives::srq))
            .collect();
        for (number, connection) in self.plan.connections.iter().enumerate() {
            let connection = Connection::new(&mut self.rig, connection, &srqs, number, self.plan.seed);
            self.connections.push(connection);
        }
        self.start = self.rig.now();
        self.pass_storm();
        self.heal();
        self.finish();
        self.fall_silent();
        self.observe();
        self.rig.verify_guards();
        for connection in &self.connections {
            connection.check_memory(&self.rig);
        }
        for shared_receives in self.shared_receives.iter().flatten() {
            shared_receives.check(&self.rig);
        }
        audit::check(self);
        economy::check(self);
        self.outcome()
    }

    fn pass_storm(&mut self) {
        for &(at, change) in &self.plan.weather {
            if at >= self.plan.storm_ns {
                break;
            }
            self.run_to(self.start.after(at));
            self.apply(change);
        }
        self.run_to(self.start.after(self.plan.storm_ns));
    }

    /// All faults stop. What was kept comes back now, for the last time.
    fn heal(&mut self) {
        self.rig.net.heal();
        self.apply(Change::Replay);
        for node in (0..self.plan.nodes).map(NodeId) {
            self.rig.freeze(node, false);
            self.rig.set_host(node, HostModel::default());
            self.set_queue(LinkId::Up(node), LinkConfig::default().queue_frames_max, None);
            self.set_queue(LinkId::Down(node), LinkConfig::default().queue_frames_max, None);
        }
    }

    fn finish(&mut self) {
        let healed = self.rig.now();
        let limit = healed.after(HEAL_LIMIT_NS);
        while !self.connections.iter().all(Connection::is_finished) {
            let more = (0..STILL_STEPS_MAX).any(|_| self.advance(limit));
            let late = self.rig.now() >= limit;
            let why = if late { "the time ran out" } else { "nothing is left to happen" };
            let mut unfinished = self.connections.iter().filter(|connection| !connection.is_finished());
            assert!(
                (more && !late) || unfinished.next().is_none(),
                "{why}, and not all is done\n{}",
                self.connections.iter().map(Connection::progress).collect::<Vec<_>>().join("\n")
            );
        }
        self.healed_ns = self.rig.now().since(healed);
    }

    fn fall_silent(&mut self) {
        self.connections.iter().for_each(|connection| connection.ask_no_more(&mut self.rig));
        let mut silence = self.rig.run_until_quiet(HEAL_LIMIT_NS);
        if silence.is_err() {
            self.connections.iter().for_each(|connection| connection.follow_to_err(&mut self.rig));
            silence = self.rig.run_until_quiet(HEAL_LIMIT_NS);
        }
        silence.expect("when all is done, silence falls");
    }

    fn run_to(&mut self, end: Time) {
        while self.rig.now() < end {
            if !self.advance(end) {
                self.rig.run_for(end.since(self.rig.now()));
            }
        }
    }

    /// Goes on to the next event, `end` at the latest. False if there is none.
    fn advance(&mut self, end: Time) -> bool {
        for connection in &mut self.connections {
            connection.act(&mut self.rig, &mut self.shared_receives);
        }
        for shared_receives in self.shared_receives.iter_mut().flatten() {
            shared_receives.refill(&mut self.rig);
        }
        let now = self.rig.now();
        let wakes = self.connections.iter().filter_map(|connection| connection.next_wake(now));
        let wake = wakes.filter(|at| *at > now).min();
        let next = [self.rig.next_step(), wake].into_iter().flatten().min();
        let Some(next) = next else {
            // What was done to the queue pairs may have completed work at once.
            self.rig.poll();
            self.observe();
            return false;
        };
        let next = next.min(end);
        if self.rig.next_step().is_some_and(|at| at <= next) {
            self.rig.step_at(next);
            self.rig.poll();
        } else {
            self.rig.run_for(next.since(self.rig.now()));
        }
        self.observe();
        true
    }

    fn observe(&mut self) {
        for connection in &mut self.connections {
            connection.observe(&mut self.rig, &mut self.shared_receives, &mut self.hash);
        }
    }

    fn apply(&mut self, change: Change) {
        match change {
            Change::Faults(link, faults) => self.rig.net.set_faults(link, faults),
            Change::LoseData(link, ppm) => {
                let mut rng = Rng::new(self.rng.next_u64());
                let lost =
                    move |passing: &simnet::Passing<'_>| passing.kind() == FrameKind::Data && rng.hits(ppm);
                self.rig.net.set_filter(link, drop_all(lost));
            }
            Change::Queue(link, frames, mark) => self.set_queue(link, frames, mark),
            Change::Freeze(node, frozen) => self.rig.freeze(node, frozen),
            Change::Host(node, host) => self.rig.set_host(node, host),
            Change::Capture(link, ppm) => self.capture(link, ppm),
            Change::Replay => {
                for (link, frame) in self.captured.take() {
                    if let LinkId::Up(node) = link {
                        self.replayed[node.0] += 1;
                    }
                    self.rig.net.inject(self.rig.now(), link, frame);
                }
            }
        }
    }

    fn set_queue(&mut self, link: LinkId, frames: usize, mark: Option<usize>) {
        let config = self.rig.net.link_mut(link);
        config.queue_frames_max = frames;
        config.mark_frames = mark;
    }

    fn capture(&mut self, link: LinkId, ppm: u32) {
        let (captured, mut rng) = (Rc::clone(&self.captured), Rng::new(self.rng.next_u64()));
        let filter = move |passing: &simnet::Passing<'_>| {
            if !rng.hits(ppm) {
                return Verdict::Pass;
            }
            captured.borrow_mut().push((link, passing.frame.to_vec()));
            if rng.below(2) == 0 { Verdict::Drop } else { Verdict::Pass }
        };
        self.rig.net.set_filter(link, Box::new(filter));
    }

    fn outcome(&mut self) -> Outcome {
        let links = (0..self.plan.nodes).map(NodeId).flat_map(|node| [LinkId::Up(node), LinkId::Down(node)]);
        let faults = links.map(|link| report::faults_of(self.rig.net.stats(link))).sum();
        let engines = (0..self.plan.nodes).map(|node| self.rig.engine(NodeId(node)).core().counters());
        let packets = engines.map(|counters| {
            counters.tx_requests + counters.tx_responses + counters.tx_retransmits + counters.tx_acks
        });
        let packets = packets.sum();
        self.hash.word(self.rig.net.trace_hash());
        self.hash.word(packets);
        Outcome {
            operations: self.connections.iter().map(Connection::operations).sum(),
            packets,
            faults,
            healed_ns: self.healed_ns,
            hash: self.hash.value(),
        }
    }
}
