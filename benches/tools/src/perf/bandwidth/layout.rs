//! Where the messages of each queue pair are, in the source and in the target alike.

use crate::perf::cli::BandwidthArgs;
use std::ops::Range;

/// Bytes before, between and behind the queue pairs' messages, which nobody may write.
const GUARD: usize = 64;
/// What `--verify` keeps of the messages of a queue pair: the last this many, or this many bytes of
/// them.
const SLOTS: usize = 128;
const SLOT_BYTES: usize = 8 << 20;
/// Where a `wr_id` has the queue pair's index; below is the number of messages up to this one.
pub const LANE_SHIFT: u32 = 48;

/// A row of equal slots for each queue pair; its messages take one after the other, and begin
/// again.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    size: usize,
    slots: usize,
    /// From one queue pair's first slot to the next one's.
    stride: usize,
    lanes: usize,
}

impl Layout {
    /// For messages of `size` bytes: one slot unless the bytes are checked, as perftest has it.
    pub fn new(size: usize, args: &BandwidthArgs) -> Self {
        let slots = if args.common.verify { (SLOT_BYTES / size).clamp(1, SLOTS) } else { 1 };
        let stride = (size * slots).next_multiple_of(GUARD) + GUARD;
        Self { size, slots, stride, lanes: args.qps as usize }
    }

    /// Bytes of it all.
    pub const fn len(&self) -> usize {
        GUARD + self.stride * self.lanes
    }

    /// Queue pairs.
    pub const fn lanes(&self) -> usize {
        self.lanes
    }

    /// Slots of each queue pair.
    pub const fn slots(&self) -> u64 {
        self.slots as u64
    }

    /// The slot of a queue pair's message, which is counted from 0.
    pub fn slot(&self, lane: usize, message: u64) -> Range<usize> {
        let slot = usize::try_from(message % self.slots()).unwrap_or_default();
        let start = GUARD + lane * self.stride + slot * self.size;
        start..start + self.size
    }

    /// What a queue pair's first `messages` messages have written.
    pub fn written(&self, lane: usize, messages: u64) -> Range<usize> {
        let start = self.slot(lane, 0).start;
        let slots = usize::try_from(messages).unwrap_or(usize::MAX).min(self.slots);
        start..start + slots * self.size
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf::cli::bandwidth;

    fn layout(size: usize, options: &str) -> Layout {
        let line = format!("srnic_write_bw -d memif:/tmp/a {options}");
        Layout::new(size, &bandwidth(&line).expect("options"))
    }

    #[test]
    fn slots_do_not_overlap_and_guards_are_between_queue_pairs() {
        let layout = layout(100, "-q 3 --verify");
        let mut end = 0;
        for lane in 0..3 {
            assert!(layout.slot(lane, 0).start >= end + GUARD);
            for message in 0..layout.slots() {
                let slot = layout.slot(lane, message);
                assert_eq!(slot.len(), 100);
                assert!(slot.start >= end);
                end = slot.end;
            }
            assert_eq!(layout.slot(lane, layout.slots()), layout.slot(lane, 0));
            assert_eq!(layout.written(lane, u64::MAX), layout.slot(lane, 0).start..end);
        }
        assert!(layout.len() >= end + GUARD);
    }

    #[test]
    fn without_a_check_there_is_one_slot() {
        let layout = layout(100, "-q 2");
        assert_eq!(layout.slots(), 1);
        assert_eq!(layout.written(1, 0), layout.slot(1, 0).start..layout.slot(1, 0).start);
    }

    #[test]
    fn large_messages_have_few_slots() {
        assert_eq!(layout(3 << 20, "--verify").slots(), 2);
        assert_eq!(layout(1 << 30, "--verify").slots(), 1);
        assert_eq!(layout(1, "--verify").slots(), 128);
    }
}
