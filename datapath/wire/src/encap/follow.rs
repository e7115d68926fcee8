//! Frames that follow one another: header prediction, as of a flow nearly all that comes next looks like what came before.

use zerocopy::{FromBytes, IntoBytes};

use super::common::{CommonFrame, Head};
use super::raw;
use crate::bth::ACK_PSN;

/// Ethernet to destination QPN: what kind of frame it is, how long it is, from whom and to whom.
const ALIKE: usize = raw::ETHERNET + raw::IPV4 + raw::UDP + ACK_PSN;

impl<'a> CommonFrame<'a> {
    /// `frame` taken apart, if it is the same as this one in all bytes before the acknowledge request and PSN. All that was found
    /// out about this one by these bytes holds of it, too; its ICRC is not checked.
    #[inline(always)]
    #[must_use]
    pub fn followed_by(&self, frame: &'a [u8]) -> Option<Self> {
        let (head, _) = Head::ref_from_prefix(frame).ok()?;
        if self.head.as_bytes()[..ALIKE] != head.as_bytes()[..ALIKE] {
            return None;
        }
        let from_l3 = frame.get(raw::ETHERNET..raw::ETHERNET + self.from_l3.len())?;
        Some(Self { head, from_l3, opcode: self.opcode })
    }
}
