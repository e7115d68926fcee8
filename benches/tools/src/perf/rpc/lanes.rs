//! All queue pairs of a run, and which of them are to send.

use super::lane::{Ends, Lane, Slots};
use crate::error::{Error, Result};
use verbs_api::{Completion, QueuePair};

pub struct Lanes<'a> {
    lanes: Vec<Lane<'a>>,
    /// Indices of those that took a message and sent nothing since: what came together is answered
    /// together.
    due: Vec<usize>,
    ends: Ends<'a>,
}

impl<'a> Lanes<'a> {
    /// Posts the receives of each.
    pub fn new(queue_pairs: &'a mut [QueuePair], slots: Slots, ends: Ends<'a>) -> Result<Self> {
        let mut lanes = Vec::with_capacity(queue_pairs.len());
        for (index, queue_pair) in queue_pairs.iter_mut().enumerate() {
            let mut lane = Lane::new(index, slots, queue_pair);
            lane.post_receives(ends)?;
            lanes.push(lane);
        }
        Ok(Self { due: Vec::with_capacity(lanes.len()), lanes, ends })
    }

    /// Returns `true` if every request was answered.
    pub fn are_idle(&self) -> bool {
        self.lanes.iter().all(Lane::is_idle)
    }

    /// A message is here, which its lane takes by `take`.
    pub fn take(
        &mut self,
        done: &Completion,
        take: impl FnOnce(&mut Lane<'a>, u32, Ends<'a>) -> Result<()>,
    ) -> Result<()> {
        let index = usize::try_from(done.wr_id).unwrap_or(usize::MAX);
        let lane = self.lanes.get_mut(index).ok_or_else(|| Error::Unexpected {
            said: format!("a completion with wr_id {}", done.wr_id),
            expected: "one of ours",
        })?;
        if lane.becomes_due() {
            self.due.push(index);
        }
        take(lane, done.byte_len, self.ends)
    }

    /// Has lanes send: those that took something, or `all`, as some may have had no room.
    pub fn send(
        &mut self,
        all: bool,
        mut send: impl FnMut(&mut Lane<'a>, Ends<'a>) -> Result<()>,
    ) -> Result<()> {
        if all {
            self.due.clear();
            return self.lanes.iter_mut().try_for_each(|lane| send(lane, self.ends));
        }
        self.due.drain(..).try_for_each(|index| send(&mut self.lanes[index], self.ends))
    }
}
