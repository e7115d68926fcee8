//! Requests and answers. All numbers are little endian.

use verbs_api::RemoteAddr;

/// What a request asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// Bytes of the disk come to the client.
    Read,
    /// Bytes of the client go to the disk.
    Write,
}

/// How a request ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// Its bytes are where they are to be.
    Done,
    /// It asks for bytes that the disk does not have, or for more than a request may.
    OutOfRange,
}

/// A request of 32 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    pub op: Op,
    /// The client's number for it.
    pub id: u32,
    /// The first byte of the disk.
    pub offset: u64,
    pub len: u32,
    /// The client's buffer, for this request alone.
    pub buffer: RemoteAddr,
}

impl Request {
    pub const BYTES: usize = 32;

    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[0] = match self.op {
            Op::Read => 1,
            Op::Write => 2,
        };
        bytes[4..8].copy_from_slice(&self.id.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.offset.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.len.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.buffer.rkey.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.buffer.addr.to_le_bytes());
        bytes
    }

    /// The request; `None` if it asks for nothing that there is.
    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> Option<Self> {
        let op = match bytes[0] {
            1 => Op::Read,
            2 => Op::Write,
            _ => return None,
        };
        let word = |at: usize| bytes[at..at + 4].try_into().map_or(0, u32::from_le_bytes);
        let long = |at: usize| bytes[at..at + 8].try_into().map_or(0, u64::from_le_bytes);
        let buffer = RemoteAddr { rkey: word(20), addr: long(24) };
        Some(Self { op, id: word(4), offset: long(8), len: word(16), buffer })
    }
}

/// An answer of 8 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answer {
    pub id: u32,
    pub outcome: Outcome,
}

impl Answer {
    pub const BYTES: usize = 8;

    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..4].copy_from_slice(&self.id.to_le_bytes());
        bytes[4] = u8::from(self.outcome == Outcome::OutOfRange);
        bytes
    }

    pub fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        let [a, b, c, d, outcome, ..] = bytes;
        let outcome = if outcome == 0 { Outcome::Done } else { Outcome::OutOfRange };
        Self { id: u32::from_le_bytes([a, b, c, d]), outcome }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_heard() {
        let buffer = RemoteAddr { addr: 0x1122_3344_5566_7788, rkey: 0x99AA_BBCC };
        for op in [Op::Read, Op::Write] {
            let request = Request { op, id: 7, offset: 1 << 40, len: 4096, buffer };
            assert_eq!(Request::from_bytes(&request.to_bytes()), Some(request));
        }
        assert_eq!(Request::from_bytes(&[0; 32]), None);
        for outcome in [Outcome::Done, Outcome::OutOfRange] {
            let answer = Answer { id: 9, outcome };
            assert_eq!(Answer::from_bytes(answer.to_bytes()), answer);
        }
    }
}
