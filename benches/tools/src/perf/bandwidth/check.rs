//! `--verify`: whether every message arrived whole, once, and nothing beside it was touched.

use super::Verb;
use super::layout::Layout;
use crate::error::Result;
use crate::perf::cli::BandwidthArgs;
use crate::perf::session::Session;
use crate::perf::{atomic, memory, pattern::Pattern};
use verbs_api::MemoryRegion;

/// What is checked of one size.
pub struct Check<'a> {
    pub verb: Verb,
    pub args: &'a BandwidthArgs,
    pub layout: Layout,
}

impl Check<'_> {
    /// Makes the memory ready for the first message.
    pub fn prepare(&self, session: &Session<'_>) -> Result<()> {
        let (Session { source, target, .. }, all) = (session, 0..self.layout.len());
        if matches!(self.verb, Verb::Atomic { .. }) {
            // Without a check, too: a CMP_AND_SWAP expects it.
            memory::set(source, all.clone(), atomic::UNFETCHED)?;
            return memory::clear(target, all);
        }
        if !self.args.common.verify {
            return Ok(());
        }
        let reads = matches!(self.verb, Verb::Read { .. });
        let (ours, theirs) = if reads { (target, source) } else { (source, target) };
        memory::fill(ours, all.clone(), self.pattern(self.args.common.basics.is_client()))?;
        memory::clear(theirs, all)
    }

    /// What our own `messages` messages brought.
    pub fn fetched(&self, source: &MemoryRegion, messages: u64) -> Result<()> {
        match self.verb {
            _ if !self.args.common.verify => Ok(()),
            Verb::Atomic { .. } => atomic::check_fetched(source, self.slots(), messages),
            Verb::Read { .. } => self.bytes(source, messages),
            Verb::Write | Verb::Send { .. } => Ok(()),
        }
    }

    /// What the peer's `messages` messages brought.
    pub fn arrived(&self, target: &MemoryRegion, messages: u64) -> Result<()> {
        match self.verb {
            _ if !self.args.common.verify => Ok(()),
            Verb::Atomic { .. } => {
                let mut checked = 0;
                for slots in self.slots() {
                    memory::check(target, checked..slots.start, None, "bytes around the words")?;
                    checked = slots.end;
                }
                memory::check(target, checked..self.layout.len(), None, "bytes around the words")?;
                atomic::check_counted(target, self.slots(), messages)
            }
            Verb::Write | Verb::Send { .. } => self.bytes(target, messages),
            Verb::Read { .. } => Ok(()),
        }
    }

    /// All slots of each queue pair.
    fn slots(&self) -> impl Iterator<Item = std::ops::Range<usize>> {
        let layout = self.layout;
        (0..layout.lanes()).map(move |lane| layout.written(lane, u64::MAX))
    }

    /// The messages are in the region, and nothing is around them.
    fn bytes(&self, region: &MemoryRegion, messages: u64) -> Result<()> {
        let (args, layout) = (self.args, &self.layout);
        let pattern = self.pattern(!args.common.basics.is_client());
        // Until a time limit each queue pair sends what it can, but each slot once at least.
        let messages = args.common.basics.duration.map_or(messages / u64::from(args.qps), |_| u64::MAX);
        let mut checked = 0;
        for lane in 0..layout.lanes() {
            let messages = layout.written(lane, messages);
            memory::check(region, checked..messages.start, None, "bytes around the messages")?;
            memory::check(region, messages.clone(), Some(pattern), "messages received")?;
            checked = messages.end;
        }
        memory::check(region, checked..layout.len(), None, "bytes around the messages")
    }

    /// Other bytes for each size and direction, so that none that were left behind pass.
    fn pattern(&self, from_client: bool) -> Pattern {
        Pattern::new((self.layout.slot(0, 0).len() as u64) << 1 | u64::from(from_client))
    }
}
