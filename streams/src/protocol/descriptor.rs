//! Memory that an end names to its peer (docs/streams.md, "Descriptors").

/// A range of memory, and the key that opens it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Descriptor {
    /// Address of its first byte.
    pub addr: u64,
    /// The key.
    pub rkey: u32,
    /// Bytes from there on.
    pub len: u32,
}

impl Descriptor {
    /// Length in bytes.
    pub const BYTES: usize = 16;

    /// The bytes as they go over the wire: address 8, key 4, length 4, little endian.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.addr.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.rkey.to_le_bytes());
        bytes[12..].copy_from_slice(&self.len.to_le_bytes());
        bytes
    }

    /// Reads a descriptor, whatever it names.
    #[must_use]
    pub const fn from_bytes(bytes: &[u8; Self::BYTES]) -> Self {
        let [a, b, c, d, e, f, g, h, k0, k1, k2, k3, l0, l1, l2, l3] = *bytes;
        Self {
            addr: u64::from_le_bytes([a, b, c, d, e, f, g, h]),
            rkey: u32::from_le_bytes([k0, k1, k2, k3]),
            len: u32::from_le_bytes([l0, l1, l2, l3]),
        }
    }

    /// What is left of it behind the first `len` bytes.
    #[must_use]
    pub const fn skip(&self, len: u32) -> Self {
        Self { addr: self.addr.wrapping_add(len as u64), rkey: self.rkey, len: self.len.saturating_sub(len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Byte by byte what docs/streams.md says.
    #[test]
    fn a_descriptor_is_laid_out_as_documented() {
        let descriptor = Descriptor { addr: 0x0102_0304_0506_0708, rkey: 0x1112_1314, len: 0x2122_2324 };
        let bytes = [8, 7, 6, 5, 4, 3, 2, 1, 0x14, 0x13, 0x12, 0x11, 0x24, 0x23, 0x22, 0x21];
        assert_eq!(descriptor.to_bytes(), bytes);
        assert_eq!(Descriptor::from_bytes(&bytes), descriptor);
        assert_eq!(descriptor.skip(4).addr, 0x0102_0304_0506_070C);
    }
}
