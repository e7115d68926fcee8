//! What a client says first on its stream, and what the server says last.

/// What the client wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// Bytes of a message.
    pub size: u32,
    /// The server sends each message back, instead of counting them.
    pub echo: bool,
}

impl Request {
    pub const BYTES: usize = 5;

    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let [a, b, c, d] = self.size.to_le_bytes();
        [u8::from(self.echo), a, b, c, d]
    }

    pub const fn from_bytes([echo, a, b, c, d]: [u8; Self::BYTES]) -> Self {
        Self { size: u32::from_le_bytes([a, b, c, d]), echo: echo != 0 }
    }
}

/// What the server has seen of a transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seen {
    pub bytes: u64,
    /// From the first byte to the last.
    pub nanos: u64,
}

impl Seen {
    pub const BYTES: usize = 16;

    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.bytes.to_le_bytes());
        bytes[8..].copy_from_slice(&self.nanos.to_le_bytes());
        bytes
    }

    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> Self {
        let word = |at: usize| bytes[at..at + 8].try_into().map_or(0, u64::from_le_bytes);
        Self { bytes: word(0), nanos: word(8) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_heard() {
        let request = Request { size: 0x0102_0304, echo: true };
        assert_eq!(Request::from_bytes(request.to_bytes()), request);
        let seen = Seen { bytes: 7, nanos: u64::MAX };
        assert_eq!(Seen::from_bytes(&seen.to_bytes()), seen);
    }
}
