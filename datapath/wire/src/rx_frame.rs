//! A received frame whose headers nobody changes while they are looked at.

/// Bytes of a frame that its headers have at most, Ethernet to the last of the transport.
pub const HEAD_LEN: usize = 128;

/// A received frame.
///
/// A frame may lie in memory that somebody else writes at the same time, as that of a memif does
/// whose peer is hostile. Then the first [`HEAD_LEN`] bytes were copied, and all that is decided is
/// decided by the copy: a length that was checked stays as it was. The bytes behind them are
/// payload, which is copied and summed up, and on which nothing depends.
#[derive(Clone, Copy, Debug)]
pub struct RxFrame<'a> {
    head: &'a [u8],
    bytes: &'a [u8],
}

impl<'a> RxFrame<'a> {
    /// A frame that nobody else writes.
    #[inline(always)]
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { head: bytes, bytes }
    }

    /// A frame that somebody else may write, and a copy of its first bytes: [`HEAD_LEN`] of them,
    /// or all if it has fewer. Of a longer copy the rest is not used.
    #[inline(always)]
    #[must_use]
    pub fn shared(copy: &'a [u8; HEAD_LEN], bytes: &'a [u8]) -> Self {
        match copy.get(..bytes.len()) {
            Some(whole) => Self::new(whole),
            None => Self { head: copy, bytes },
        }
    }

    /// The first bytes, which nobody changes: at least [`HEAD_LEN`], or all.
    #[inline(always)]
    #[must_use]
    pub const fn head(&self) -> &'a [u8] {
        self.head
    }

    /// All bytes: of those behind the head, each look may see others.
    #[inline(always)]
    #[must_use]
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// All bytes, if nobody changes any.
    #[inline(always)]
    #[must_use]
    pub const fn whole(&self) -> Option<&'a [u8]> {
        if self.head.len() == self.bytes.len() { Some(self.head) } else { None }
    }

    /// Length in bytes.
    #[inline(always)]
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "nobody asks")]
    pub const fn len(&self) -> usize {
        self.bytes.len()
    }

    /// All bytes where nobody changes them: in the head, or copied to `scratch`; `None` if that is
    /// too short.
    #[must_use]
    pub fn settled<'s>(&self, scratch: &'s mut [u8]) -> Option<&'s [u8]>
    where
        'a: 's,
    {
        if let Some(whole) = self.whole() {
            return Some(whole);
        }
        let copy = scratch.get_mut(..self.bytes.len())?;
        copy.copy_from_slice(self.bytes);
        Some(copy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::emit::SACKB_LEN;
    use crate::{Layout, Opcode, WireMode};

    /// Ethernet, a VLAN tag, IPv6, UDP.
    const ENCAPSULATION: usize = 14 + 4 + 40 + 8;

    #[test]
    fn the_head_has_all_headers_of_every_packet() {
        for mode in WireMode::ALL {
            let layouts = Opcode::ALL.iter().filter_map(|opcode| Layout::of(mode, *opcode));
            for Layout { opcode, len, .. } in layouts {
                let headers = ENCAPSULATION + usize::from(*len) + SACKB_LEN;
                assert!(headers <= HEAD_LEN, "{opcode:?} of {mode:?}: {headers} bytes");
            }
        }
    }

    #[test]
    fn a_short_frame_is_its_copy() {
        let (copy, bytes) = ([7; HEAD_LEN], [9; HEAD_LEN + 1]);
        for len in [0, 1, HEAD_LEN] {
            let frame = RxFrame::shared(&copy, &bytes[..len]);
            assert_eq!((frame.bytes(), frame.whole()), (&copy[..len], Some(&copy[..len])));
        }
        let frame = RxFrame::shared(&copy, &bytes);
        assert_eq!((frame.head(), frame.bytes(), frame.whole()), (&copy[..], &bytes[..], None));
        let mut scratch = [0; 200];
        assert_eq!(frame.settled(&mut scratch), Some(&bytes[..]));
        assert_eq!(frame.settled(&mut [0; HEAD_LEN]), None, "it does not fit");
    }
}
