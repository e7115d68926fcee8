//! Hooks that decide the fate of single frames before a link's random faults do.

use crate::frame::FrameKind;
use core::cell::RefCell;
use datapath::time::Time;
use std::rc::Rc;
use wire::{AckFlags, Packet, Psn};

/// A frame that is about to enter a link.
#[derive(Clone, Copy)]
pub struct Passing<'a> {
    /// When.
    pub now: Time,
    /// How many frames entered this link before.
    pub number: u64,
    /// The whole frame.
    pub frame: &'a [u8],
    /// The transport packet in it, if there is one.
    pub packet: Option<Packet<'a>>,
}

/// What happens to a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It goes on, to the link's queue and faults.
    Pass,
    /// It is lost.
    Drop,
    /// It is kept by the network until it is released.
    Hold,
    /// It goes on, and is delivered this many nanoseconds later than it would be.
    Delay(u64),
    /// It goes on, twice.
    Duplicate,
}

/// A hook of a link.
pub type Filter = Box<dyn FnMut(&Passing<'_>) -> Verdict>;

/// A hook of a link that changes frames.
pub type Rewrite = Box<dyn FnMut(&mut Vec<u8>)>;

/// Frames kept by [`copy_to`].
pub type Kept = Rc<RefCell<Vec<Vec<u8>>>>;

impl Passing<'_> {
    /// The kind of the frame.
    #[must_use]
    pub fn kind(&self) -> FrameKind {
        self.packet.as_ref().map_or(FrameKind::Other, FrameKind::of_packet)
    }

    /// PSN of a request or response packet.
    #[must_use]
    pub fn data_psn(&self) -> Option<Psn> {
        self.packet.filter(|_| self.kind() == FrameKind::Data).map(|packet| packet.psn())
    }

    /// Returns `true` if it acknowledges responses, or says what is missing of them.
    #[must_use]
    pub fn is_read_ack(&self) -> bool {
        let ackx = self.packet.and_then(|packet| packet.ackx());
        ackx.is_some_and(|ackx| ackx.flags.contains(AckFlags::RESPONSE_STREAM))
    }
}

/// Drops the frames numbered `which` (from 0) among those that `matches` accepts.
pub fn drop_numbers(
    which: impl IntoIterator<Item = u64>,
    mut matches: impl FnMut(&Passing<'_>) -> bool + 'static,
) -> Filter {
    let which: Vec<u64> = which.into_iter().collect();
    let mut count = 0;
    Box::new(move |passing| {
        if !matches(passing) {
            return Verdict::Pass;
        }
        count += 1;
        if which.contains(&(count - 1)) { Verdict::Drop } else { Verdict::Pass }
    })
}

/// Drops the first `times` transmissions of the data packet with this PSN: itself, and its
/// retransmissions.
pub fn drop_psn(psn: Psn, times: u32) -> Filter {
    let mut left = times;
    Box::new(move |passing| {
        if left == 0 || passing.data_psn() != Some(psn) {
            return Verdict::Pass;
        }
        left -= 1;
        Verdict::Drop
    })
}

/// Drops everything that `matches` accepts.
pub fn drop_all(mut matches: impl FnMut(&Passing<'_>) -> bool + 'static) -> Filter {
    Box::new(move |passing| if matches(passing) { Verdict::Drop } else { Verdict::Pass })
}

/// Holds back everything that `matches` accepts.
pub fn hold(mut matches: impl FnMut(&Passing<'_>) -> bool + 'static) -> Filter {
    Box::new(move |passing| if matches(passing) { Verdict::Hold } else { Verdict::Pass })
}

/// Lets everything pass, and keeps a copy of each frame that `matches` accepts.
pub fn copy_to(kept: &Kept, mut matches: impl FnMut(&Passing<'_>) -> bool + 'static) -> Filter {
    let kept = Kept::clone(kept);
    Box::new(move |passing| {
        if matches(passing) {
            kept.borrow_mut().push(passing.frame.to_vec());
        }
        Verdict::Pass
    })
}
