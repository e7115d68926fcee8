//! Frames that follow one another: header prediction, as of a flow nearly all that comes next looks
//! like what came before.

use zerocopy::{FromBytes, IntoBytes};

use super::common::{CommonFrame, Head};
use super::raw;
use crate::bth::ACK_PSN;
use crate::ext::RawReth;
use crate::srnic::{RawMeta, RawSsnw};
use crate::{Kind, Meta, Psn, Reth, RxFrame, Ssnw};

/// Ethernet to destination QPN: what kind of frame it is, how long it is, from whom and to whom.
const ALIKE: usize = raw::ETHERNET + raw::IPV4 + raw::UDP + ACK_PSN;

/// The headers that the next packet of a message has behind the destination QPN, but for the
/// acknowledge request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Continuation {
    /// Of a WRITE.
    Write {
        /// Packet.
        psn: Psn,
        /// Where its payload goes, and what is left of the message.
        reth: Reth,
        /// Message and packet.
        meta: Meta,
    },
    /// Of a SEND.
    Send {
        /// Packet.
        psn: Psn,
        /// Message and packet.
        meta: Meta,
        /// Receive, and the rest of the packet's index.
        ssnw: Ssnw,
    },
}

impl<'a> CommonFrame<'a> {
    /// `frame` taken apart, if it is the same as this one in all bytes before the acknowledge
    /// request and PSN. All that was found out about this one by these bytes holds of it, too; its
    /// ICRC is not checked.
    #[inline(always)]
    #[must_use]
    pub fn followed_by(&self, frame: RxFrame<'a>) -> Option<Self> {
        let from_l3 = frame.bytes().get(raw::ETHERNET..raw::ETHERNET + self.from_l3.len())?;
        let (head, behind) = Head::ref_from_prefix(frame.head()).ok()?;
        is_alike(self.head, head).then_some(Self { head, behind, from_l3, opcode: self.opcode })
    }

    /// The payload, if this is that packet, of a WRITE or a SEND as it says, and has no pad.
    /// Neither the position (FIRST to ONLY) nor the acknowledge request is looked at, and the ICRC
    /// is not checked.
    #[inline(always)]
    #[must_use]
    pub fn continues(&self, expected: &Continuation) -> Option<&'a [u8]> {
        let (psn, is_expected, payload) = match (expected, self.opcode.kind()) {
            (Continuation::Write { psn, reth, meta }, Kind::Write) => {
                let (header, payload) = self.split::<{ Reth::LEN + Meta::LEN }>()?;
                let [va_high, va_low, rkey, len]: [[u8; 4]; 4] = zerocopy::transmute!(RawReth::from(*reth));
                let meta = zerocopy::transmute!(RawMeta::from(*meta));
                let header: [[u8; 4]; 5] = zerocopy::transmute!(*header);
                (psn, header == [va_high, va_low, rkey, len, meta], payload)
            }
            (Continuation::Send { psn, meta, ssnw }, Kind::Send) => {
                let (header, payload) = self.split::<{ Meta::LEN + Ssnw::LEN }>()?;
                let meta: [u8; 4] = zerocopy::transmute!(RawMeta::from(*meta));
                let ssnw = zerocopy::transmute!(RawSsnw::from(*ssnw));
                let header: [[u8; 4]; 2] = zerocopy::transmute!(*header);
                (psn, header == [meta, ssnw], payload)
            }
            _ => return None,
        };
        (is_expected && self.psn() == *psn && self.pad() == 0).then_some(payload)
    }
}

/// Returns `true` if two frames have the same bytes there. To compare so long a slice would be a
/// call.
#[inline(always)]
fn is_alike(a: &Head, b: &Head) -> bool {
    let ((a, a_rest), (b, b_rest)) = (lanes(a), lanes(b));
    let differs = a
        .iter()
        .zip(b)
        .fold(0, |differs, (a, b)| differs | (u128::from_ne_bytes(*a) ^ u128::from_ne_bytes(*b)));
    differs == 0 && a_rest == b_rest
}

/// What is to be compared, in lanes and what is left of them.
#[inline(always)]
fn lanes(head: &Head) -> (&[[u8; 16]], &[u8]) {
    head.as_bytes()[..ALIKE].as_chunks()
}
