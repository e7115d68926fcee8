//! Keeps every queue pair's send queue full, and its receive queue as well where there is one to
//! fill.

use super::Verb;
use super::layout::{LANE_SHIFT, Layout};
use super::receiver::{Queue, Receiver};
use crate::completions::Completions;
use crate::error::Result;
use crate::perf::cli::{BandwidthArgs, Goal};
use crate::perf::meter::Meter;
use crate::perf::session::Session;
use datapath::prefetch;
use std::time::Instant;
use verbs_api::{
    Completion, MemoryRegion, QueueCaps, QueuePair, RemoteRegion, SendData, SendRequest, SharedReceiveQueue,
    WcOpcode,
};

/// Completions taken at a time.
const BATCH: usize = 32;
/// Completions between the one that is handled and the one whose queue pair is fetched.
const PREFETCH_DISTANCE: usize = 3;

/// How many messages of a queue pair were posted, posted signaled, and completed.
#[derive(Clone, Default)]
struct Lane {
    posted: u64,
    signaled: u64,
    completed: u64,
    /// Stands in [`Sender::ready`].
    is_ready: bool,
}

/// What all queue pairs have in common.
struct Plan<'a> {
    verb: Verb,
    layout: Layout,
    source: &'a MemoryRegion,
    remote: RemoteRegion,
    depth: u64,
    /// Messages posted at a time.
    list: u64,
    /// Messages for which there is one completion.
    cq_mod: u64,
    /// Longest message that is copied into the queue.
    inline: usize,
    goal: Goal,
    /// The time limit has come.
    over: bool,
}

/// The sending side of a run.
pub struct Sender<'a> {
    queue_pairs: &'a mut [QueuePair],
    /// For each queue pair, by the same index.
    lanes: Vec<Lane>,
    /// Indices of those that may have room: with ten thousand of them, looking at each would take
    /// longer than the traffic.
    ready: Vec<usize>,
    plan: Plan<'a>,
    receiver: Option<&'a mut Receiver>,
    target: &'a MemoryRegion,
    srq: Option<&'a mut SharedReceiveQueue>,
    completions: Completions<'a>,
}

impl<'a> Sender<'a> {
    pub fn new(
        verb: Verb,
        args: &BandwidthArgs,
        session: &'a mut Session<'_>,
        layout: Layout,
        receiver: Option<&'a mut Receiver>,
    ) -> Self {
        let depth = args.common.tx_depth;
        let plan = Plan {
            verb,
            layout,
            source: &session.source,
            remote: session.remote,
            depth: depth.into(),
            list: args.post_list.into(),
            cq_mod: args.cq_mod.unwrap_or_else(|| (depth / 4).clamp(1, 100)).into(),
            inline: args.common.inline_size as usize,
            goal: Goal::Messages(0),
            over: false,
        };
        Self {
            ready: (0..session.queue_pairs.len()).collect(),
            lanes: vec![Lane { is_ready: true, ..Lane::default() }; session.queue_pairs.len()],
            queue_pairs: &mut session.queue_pairs,
            plan,
            receiver,
            target: &session.target,
            srq: session.srq.as_mut(),
            completions: Completions::new(&mut session.cq, session.channel),
        }
    }

    /// Sends until the goal is reached and everything is acknowledged; receives meanwhile what
    /// comes.
    pub fn run(&mut self, goal: Goal, meter: &mut Meter) -> Result<()> {
        self.plan.goal = goal;
        let mut outstanding = 0;
        loop {
            if let Goal::Until(end) = self.plan.goal {
                self.plan.over = Instant::now() >= end;
            }
            outstanding += self.post()?;
            if outstanding == 0 {
                return Ok(());
            }
            let messages = self.poll()?;
            outstanding -= messages;
            if messages > 0 {
                meter.completed(messages, outstanding, Instant::now());
            }
        }
    }

    /// Fills the send queues that may have room; with how many messages. Then they wait for a
    /// completion.
    fn post(&mut self) -> Result<u64> {
        let mut total = 0;
        for &index in &self.ready {
            let lane = &mut self.lanes[index];
            lane.is_ready = false;
            loop {
                let count = self.plan.post(index, &mut self.queue_pairs[index], lane)?;
                total += count;
                if count == 0 {
                    break;
                }
            }
        }
        self.ready.clear();
        Ok(total)
    }

    /// Only receives, until the peer says that it is done.
    pub fn receive(&mut self) -> Result<()> {
        while !self.completions.peer_spoke() {
            self.poll()?;
        }
        Ok(())
    }

    /// Takes what is still to be taken of the messages that the peer sent, all of which were
    /// acknowledged.
    pub fn finish(&mut self, messages: u64) -> Result<()> {
        while self.receiver.as_ref().is_some_and(|receiver| receiver.received() < messages) {
            self.poll()?;
        }
        Ok(())
    }

    /// Handles completions; how many of our messages were acknowledged.
    fn poll(&mut self) -> Result<u64> {
        let mut done = [None; BATCH];
        let count = self.completions.poll_into(self.plan.verb.what(), &mut done)?;
        let done = &done[..count];
        let mut sum = 0;
        for first in done.iter().take(PREFETCH_DISTANCE) {
            self.prefetch(*first);
        }
        for (number, completion) in done.iter().flatten().enumerate() {
            self.prefetch(done.get(number + PREFETCH_DISTANCE).copied().flatten());
            sum += self.complete(completion)?;
        }
        Ok(sum)
    }

    /// Something will be posted in the place of what is complete.
    fn prefetch(&self, coming: Option<Completion>) {
        if let Some(done) = coming.filter(|done| done.opcode != WcOpcode::Recv || self.srq.is_none())
            && let Some(queue_pair) = self.queue_pairs.get(lane_of(&done))
            && let Some(lane) = self.lanes.get(lane_of(&done))
        {
            if done.opcode == WcOpcode::Recv {
                queue_pair.prefetch_recv();
            } else {
                queue_pair.prefetch();
            }
            prefetch::read_all(lane);
        }
    }

    /// Messages of ours that a completion stands for: its own and those before it that are not
    /// signaled.
    fn complete(&mut self, done: &Completion) -> Result<u64> {
        let index = lane_of(done);
        let Some(lane) = self.lanes.get_mut(index) else { return Ok(0) };
        if done.opcode == WcOpcode::Recv {
            if let Some(receiver) = &mut self.receiver {
                let queue = match self.srq.as_deref_mut() {
                    Some(srq) => Queue::Shared(srq),
                    None => Queue::Own(index, &mut self.queue_pairs[index]),
                };
                receiver.take(queue, self.target)?;
            }
            return Ok(0);
        }
        if !std::mem::replace(&mut lane.is_ready, true) {
            self.ready.push(index);
        }
        let completed = done.wr_id & ((1 << LANE_SHIFT) - 1);
        Ok(completed - std::mem::replace(&mut lane.completed, completed))
    }
}

/// The lane whose request is complete.
fn lane_of(done: &Completion) -> usize {
    usize::try_from(done.wr_id >> LANE_SHIFT).unwrap_or(usize::MAX)
}

impl Plan<'_> {
    /// Posts the next list of messages if there is room for all of it; how many.
    fn post(&self, index: usize, queue_pair: &mut QueuePair, lane: &mut Lane) -> Result<u64> {
        let count = self.due(lane);
        if count == 0 || lane.posted - lane.completed + count > self.depth {
            return Ok(0);
        }
        let tag = (index as u64) << LANE_SHIFT;
        let mut inline = [0; QueueCaps::INLINE_LIMIT as usize];
        let Lane { posted, signaled, completed, .. } = lane;
        let mut batch = queue_pair.batch();
        for _ in 0..count {
            let slot = self.layout.slot(index, *posted);
            let gather = [self.source.slice(slot.clone())?];
            let data = if slot.len() <= self.inline {
                self.source.read(slot.start, &mut inline[..slot.len()])?;
                SendData::Inline(&inline[..slot.len()])
            } else {
                SendData::Gather(&gather)
            };
            let request = match self.verb {
                Verb::Atomic { op, .. } => {
                    let at = self.remote.at(slot.start as u64);
                    op.request(gather[0], at, *posted / self.layout.slots())
                }
                Verb::Read { .. } => SendRequest::read(&gather, self.remote.at(slot.start as u64)),
                Verb::Write => SendRequest::write(data, self.remote.at(slot.start as u64)),
                Verb::Send { .. } => SendRequest::send(data),
            };
            let request = request.id(tag | (*posted + 1));
            let is_signaled = self.is_signaled(*posted, *completed);
            batch.post_send(&if is_signaled { request.signaled() } else { request })?;
            *posted += 1;
            if is_signaled {
                *signaled = *posted;
            }
        }
        Ok(count)
    }

    /// Messages to post next, as soon as there is room for them.
    fn due(&self, lane: &Lane) -> u64 {
        match self.goal {
            Goal::Messages(messages) => self.list.min(messages - lane.posted),
            Goal::Until(_) if self.over && lane.posted >= self.layout.slots() => {
                // The end of what is not signaled must be seen, too.
                u64::from(lane.posted > lane.signaled)
            }
            Goal::Until(_) => self.list,
        }
    }

    /// Returns `true` if the message behind the first `posted` is signaled: each `cq_mod`th, the
    /// last, and one behind which there is no room for a list.
    fn is_signaled(&self, posted: u64, completed: u64) -> bool {
        let posted = posted + 1;
        let full = posted - completed + self.list > self.depth;
        let last = matches!(self.goal, Goal::Messages(messages) if posted == messages);
        posted.is_multiple_of(self.cq_mod) || full || last || self.over
    }
}
