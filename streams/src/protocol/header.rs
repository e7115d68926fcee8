//! The header that every message begins with (docs/streams.md, "Header").

use super::violation::Violation;

/// Version of the format, the first byte of each header.
pub const VERSION: u8 = 1;
/// Flag: `word` is the CRC32C of the payload.
const CHECKED: u16 = 1;
/// Flag: the sender has waited for the grant that it writes to.
const WAITED: u16 = 2;

mod field {
    use core::ops::Range;

    pub const VERSION: usize = 0;
    pub const KIND: usize = 1;
    pub const FLAGS: Range<usize> = 2..4;
    pub const LENGTH: Range<usize> = 4..8;
    pub const POSITION: Range<usize> = 8..16;
    pub const TAKEN: Range<usize> = 16..24;
    pub const CREDIT: Range<usize> = 24..28;
    pub const WORD: Range<usize> = 28..32;
}

/// What a message is for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// Bytes of the stream follow.
    Data = 1,
    /// Descriptors follow of memory that the receiver of the message may WRITE to.
    Grant = 2,
    /// A descriptor follows of memory with bytes of the stream, to be READ.
    Offer = 3,
    /// An update of credit, which is answered.
    Credit = 4,
    /// The answer to an update of credit.
    Answer = 5,
    /// The sender has no more bytes.
    Fin = 6,
    /// The sender has given up the stream, or does not read any more.
    Reset = 7,
    /// The first message on a later carrier.
    Resume = 8,
}

impl Kind {
    const ALL: [Self; 8] = [
        Self::Data,
        Self::Grant,
        Self::Offer,
        Self::Credit,
        Self::Answer,
        Self::Fin,
        Self::Reset,
        Self::Resume,
    ];

    fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == code)
    }
}

/// A header of 32 bytes, little endian.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// What the message is for.
    pub kind: Kind,
    /// True if `word` is the CRC32C of the payload.
    pub checked: bool,
    /// True if the sender has waited long for the grant that it writes to: more at once would have
    /// been faster.
    pub waited: bool,
    /// Bytes that follow the header.
    pub length: u32,
    /// Position in the stream of the first byte of the payload, or of the next byte to come.
    pub position: u64,
    /// Bytes of the other direction that the sender of this header holds, from position 0 on.
    pub taken: u64,
    /// Counted receives that the sender of this header has posted since the beginning, mod 2^32.
    pub credit: u32,
    /// CRC32C of the payload if `checked`; the reason of a Reset; else 0.
    pub word: u32,
}

impl Header {
    /// Length in bytes.
    pub const BYTES: usize = 32;

    /// The bytes as they go over the wire.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[field::VERSION] = VERSION;
        bytes[field::KIND] = self.kind as u8;
        let flags = if self.checked { CHECKED } else { 0 } | if self.waited { WAITED } else { 0 };
        bytes[field::FLAGS].copy_from_slice(&flags.to_le_bytes());
        bytes[field::LENGTH].copy_from_slice(&self.length.to_le_bytes());
        bytes[field::POSITION].copy_from_slice(&self.position.to_le_bytes());
        bytes[field::TAKEN].copy_from_slice(&self.taken.to_le_bytes());
        bytes[field::CREDIT].copy_from_slice(&self.credit.to_le_bytes());
        bytes[field::WORD].copy_from_slice(&self.word.to_le_bytes());
        bytes
    }

    /// Reads a header, whatever it says of the stream.
    ///
    /// # Errors
    /// [`Violation::Version`], [`Violation::Kind`], [`Violation::Flags`].
    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> Result<Self, Violation> {
        if bytes[field::VERSION] != VERSION {
            return Err(Violation::Version);
        }
        let flags = u16::from_le_bytes(array(&bytes[field::FLAGS]));
        if flags & !(CHECKED | WAITED) != 0 {
            return Err(Violation::Flags);
        }
        Ok(Self {
            kind: Kind::from_code(bytes[field::KIND]).ok_or(Violation::Kind)?,
            checked: flags & CHECKED != 0,
            waited: flags & WAITED != 0,
            length: u32::from_le_bytes(array(&bytes[field::LENGTH])),
            position: u64::from_le_bytes(array(&bytes[field::POSITION])),
            taken: u64::from_le_bytes(array(&bytes[field::TAKEN])),
            credit: u32::from_le_bytes(array(&bytes[field::CREDIT])),
            word: u32::from_le_bytes(array(&bytes[field::WORD])),
        })
    }
}

/// The bytes of a field of `N` bytes; zeros for one of another length, which no field has.
fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.try_into().unwrap_or([0; N])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Byte by byte what docs/streams.md says.
    #[test]
    fn a_header_is_laid_out_as_documented() {
        let header = Header {
            kind: Kind::Data,
            checked: true,
            waited: true,
            length: 0x0102,
            position: 0x1112_1314_1516_1718,
            taken: 0x2122_2324_2526_2728,
            credit: 0x3132_3334,
            word: 0x4142_4344,
        };
        let bytes = [
            1, 1, 3, 0, 0x02, 0x01, 0, 0, 0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11, 0x28, 0x27, 0x26,
            0x25, 0x24, 0x23, 0x22, 0x21, 0x34, 0x33, 0x32, 0x31, 0x44, 0x43, 0x42, 0x41,
        ];
        assert_eq!(header.to_bytes(), bytes);
        assert_eq!(Header::from_bytes(&bytes), Ok(header));
    }

    #[test]
    fn what_no_header_has_is_refused() {
        let good = Header {
            kind: Kind::Fin,
            checked: false,
            waited: false,
            length: 0,
            position: 0,
            taken: 0,
            credit: 0,
            word: 0,
        };
        for (at, byte, violation) in [
            (0, 0, Violation::Version),
            (0, 2, Violation::Version),
            (1, 0, Violation::Kind),
            (1, 9, Violation::Kind),
            (2, 4, Violation::Flags),
            (3, 1, Violation::Flags),
        ] {
            let mut bytes = good.to_bytes();
            bytes[at] = byte;
            assert_eq!(Header::from_bytes(&bytes), Err(violation), "byte {at} is {byte}");
        }
    }
}
