//! What packets of the reference models say, in the bytes that packets in flight keep.

use crate::packet::HEAD;

/// Packets behind the first missing one of which an acknowledgement tells.
pub const MAP_BITS: u32 = 256;
/// Words of the map.
pub const MAP_WORDS: usize = 4;
/// Bytes of a header.
const LEN: usize = 24 + 8 * MAP_WORDS;
const _: () = assert!(LEN <= HEAD);

/// What a packet is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A part of a flow: `number` of `count` packets.
    Data,
    /// Everything before `number` has come, and behind it what the map says; `count` marks so far.
    Acknowledgement,
    /// As an acknowledgement; what is behind `number` was thrown away.
    OutOfSequence,
    /// Packets of the flow were marked.
    Congestion,
}

/// A packet of a reference model.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// What it is.
    pub kind: Kind,
    /// The host that sent it.
    pub from: u32,
    /// The flow.
    pub flow: u32,
    /// See [`Kind`].
    pub number: u32,
    /// See [`Kind`].
    pub count: u32,
    /// Bit i: packet `number` + 1 + i has come.
    pub map: [u64; MAP_WORDS],
}

impl Header {
    /// As bytes.
    #[must_use]
    pub fn to_bytes(self) -> [u8; LEN] {
        let mut bytes = [0; LEN];
        let words = [self.kind as u32, self.from, self.flow, self.number, self.count, 0];
        for (place, word) in bytes.chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        for (place, word) in bytes[24..].chunks_exact_mut(8).zip(self.map) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// From bytes.
    #[must_use]
    pub fn of_bytes(bytes: &[u8; HEAD]) -> Self {
        let word = |index: usize| {
            let at = 4 * index;
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let kind = match word(0) {
            0 => Kind::Data,
            1 => Kind::Acknowledgement,
            2 => Kind::OutOfSequence,
            _ => Kind::Congestion,
        };
        let wide = |index: usize| u64::from(word(7 + 2 * index)) << 32 | u64::from(word(6 + 2 * index));
        let map = core::array::from_fn(wide);
        Self { kind, from: word(1), flow: word(2), number: word(3), count: word(4), map }
    }
}

/// Packets behind the first one that is missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Map(pub [u64; MAP_WORDS]);

impl Map {
    /// Whether the packet at `place` is there.
    #[must_use]
    pub const fn has(&self, place: u32) -> bool {
        place < MAP_BITS && self.0[(place / 64) as usize] >> (place % 64) & 1 == 1
    }

    /// The packet at `place` is there.
    pub const fn set(&mut self, place: u32) {
        if place < MAP_BITS {
            self.0[(place / 64) as usize] |= 1 << (place % 64);
        }
    }

    /// Everything moves `by` places to the front.
    pub fn advance(&mut self, by: u32) {
        let old = self.0;
        let (words, bits) = ((by / 64) as usize, by % 64);
        let word = |index: usize| old.get(index + words).copied().unwrap_or(0);
        for (index, place) in self.0.iter_mut().enumerate() {
            let low = word(index) >> bits;
            *place = if bits == 0 { low } else { low | word(index + 1) << (64 - bits) };
        }
    }

    /// How many are there.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    /// One more than the last place of one that is there; 0: none is.
    #[must_use]
    pub fn end(&self) -> u32 {
        (0..MAP_BITS).rev().step_by(64).find_map(|last| self.end_of_word(last / 64)).unwrap_or(0)
    }

    fn end_of_word(&self, index: u32) -> Option<u32> {
        let word = self.0[index as usize];
        (word != 0).then(|| index * 64 + 64 - word.leading_zeros())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_come_back() {
        let map = [1, u64::MAX, 0x0123_4567_89AB_CDEF, 1 << 63];
        for kind in [Kind::Data, Kind::Acknowledgement, Kind::OutOfSequence, Kind::Congestion] {
            let header = Header { kind, from: 4095, flow: 77, number: u32::MAX, count: 5, map };
            let mut head = [0; HEAD];
            head[..LEN].copy_from_slice(&header.to_bytes());
            assert_eq!(Header::of_bytes(&head), header);
        }
    }

    #[test]
    fn a_map_moves_by_any_number_of_places() {
        let places = [0, 3, 63, 64, 130, 255];
        for by in 0..300 {
            let mut map = Map::default();
            places.iter().for_each(|place| map.set(*place));
            assert_eq!((map.count(), map.end()), (6, 256));
            map.advance(by);
            let left: Vec<_> = (0..MAP_BITS).filter(|place| map.has(*place)).collect();
            let expected: Vec<_> =
                places.iter().filter(|place| **place >= by).map(|place| place - by).collect();
            assert_eq!(left, expected, "by {by}");
            assert_eq!(map.end(), left.last().map_or(0, |last| last + 1));
        }
    }
}
