//! Frames that wait for an engine, put there by others.

use crate::frame::Frame;
use crate::port::RX_BURST;
use arrayvec::ArrayVec;
use crossbeam_queue::ArrayQueue;

/// Frames that wait at most: a window of the default size.
const FRAMES: usize = 512;

/// A frame on loan from an inbox.
#[derive(Debug)]
pub struct Loan(Frame);

impl Loan {
    pub fn bytes(&self) -> &[u8] {
        self.0.bytes()
    }
}

/// Buffers go round: free, full, on loan, free. There are as many as a queue holds, so no put fails
/// for want of room in it.
#[derive(Debug)]
pub struct Inbox {
    full: ArrayQueue<Frame>,
    free: ArrayQueue<Frame>,
}

impl Inbox {
    /// An inbox for frames of at most `max_frame` bytes.
    pub fn new(max_frame: usize) -> Self {
        let inbox = Self { full: ArrayQueue::new(FRAMES), free: ArrayQueue::new(FRAMES) };
        for _ in 0..FRAMES {
            hold(&inbox.free, Frame::new(max_frame));
        }
        inbox
    }

    /// Leaves a copy of a frame; false if there is no room for it.
    pub fn put(&self, frame: &[u8]) -> bool {
        let Some(mut buffer) = self.free.pop() else { return false };
        let fits = frame.len() <= buffer.bytes.len();
        if fits {
            buffer.copy_from(frame);
        }
        hold(if fits { &self.full } else { &self.free }, buffer);
        fits
    }

    #[cfg(test)]
    pub fn has_room(&self, frames: usize) -> bool {
        self.free.len() >= frames
    }

    /// Takes up to a burst of frames, the oldest first; false if there is none.
    pub fn take(&self, burst: &mut ArrayVec<Loan, RX_BURST>) -> bool {
        // A queue that is found empty by `pop` costs a fence.
        while !burst.is_full() && !self.full.is_empty() {
            let Some(frame) = self.full.pop() else { break };
            burst.push(Loan(frame));
        }
        !burst.is_empty()
    }

    pub fn give_back(&self, loan: Loan) {
        hold(&self.free, loan.0);
    }
}

fn hold(queue: &ArrayQueue<Frame>, frame: Frame) {
    let held = queue.push(frame);
    debug_assert!(held.is_ok(), "more buffers than were made");
}
