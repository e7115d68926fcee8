//! The dialect of a connection and its options (protocol.md 2.3), which the vendor's options of REQ
//! and REP (ECE) carry.

use wire::Pmtu;

/// Whose options ours are: "SRN". As an OUI it is local, so that it is no vendor's.
pub const VENDOR_ID: u32 = 0x53_524E;
/// The wire format that this is about (protocol.md 2.2).
const VERSION: u32 = 1;
/// ACKs carry a SACK bitmap where it helps.
const SACK_BITMAP: u32 = 1 << 27;
const STRICT: u32 = 1 << 24;
/// In-order packets that are acknowledged together at most.
const ACK_FREQUENCY: u32 = 16;

/// Whether a connection is to speak the SRNIC dialect.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Dialect {
    /// It must; else it is rejected.
    Require,
    /// If the peer can; else it speaks plain RoCEv2.
    #[default]
    Prefer,
    /// It must not: plain RoCEv2.
    Off,
}

/// The options of the SRNIC dialect that an end offers, or that both ends take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Largest window, in packets: 1 to 2^15. A power of two is told, the largest that is not above
    /// it.
    pub window: u16,
    /// Requests are placed strictly in order.
    pub strict_placement: bool,
    /// Largest path MTU.
    pub path_mtu: Pmtu,
}

impl Options {
    /// As the vendor's number and the modifier that a message has.
    #[must_use]
    pub fn to_ece(self) -> (u32, u32) {
        let window = self.window.max(1).ilog2() << 16;
        let strict = if self.strict_placement { STRICT } else { 0 };
        let mtu = u32::from(self.path_mtu.code());
        (VENDOR_ID, VERSION << 28 | SACK_BITMAP | strict | window | ACK_FREQUENCY << 8 | mtu)
    }

    /// What [`to_ece`](Self::to_ece) made. `None` for other vendors, versions, and numbers that
    /// cannot be.
    #[must_use]
    pub fn from_ece(vendor_id: u32, attr_mod: u32) -> Option<Self> {
        if vendor_id != VENDOR_ID || attr_mod >> 28 != VERSION {
            return None;
        }
        let [_, window, _, mtu] = attr_mod.to_be_bytes();
        Some(Self {
            window: 1_u16.checked_shl(window.into())?,
            strict_placement: attr_mod & STRICT != 0,
            path_mtu: Pmtu::from_code(mtu & 15)?,
        })
    }

    /// What two ends have in common.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self {
            window: self.window.min(other.window),
            strict_placement: self.strict_placement || other.strict_placement,
            path_mtu: self.path_mtu.min(other.path_mtu),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPTIONS: Options = Options { window: 512, strict_placement: false, path_mtu: Pmtu::B4096 };

    #[test]
    fn options_are_the_bits_that_the_protocol_names() {
        assert_eq!(OPTIONS.to_ece(), (0x0053_524E, 0x1809_1005));
        let strict = Options { strict_placement: true, window: 1000, path_mtu: Pmtu::B256 };
        assert_eq!(strict.to_ece(), (0x0053_524E, 0x1909_1001), "1000 packets are told as 512");
    }

    #[test]
    fn what_is_not_ours_is_no_offer() {
        let (vendor, modifier) = OPTIONS.to_ece();
        assert_eq!(Options::from_ece(vendor, modifier), Some(OPTIONS));
        for (vendor, modifier) in [
            (0, 0),
            (0, modifier),
            (0x2C9, modifier),
            (vendor, 0),
            (vendor, modifier & 0x0FFF_FFFF | 2 << 28),
            (vendor, modifier & !7),
            (vendor, modifier | 7),
            (vendor, modifier | 0x10 << 16),
            (vendor, modifier | 0xFF << 16),
        ] {
            assert_eq!(Options::from_ece(vendor, modifier), None, "{vendor:#x} {modifier:#x}");
        }
    }

    /// A peer that knows three bits of the code alone reads 1,024, which fits as well.
    #[test]
    fn the_path_mtu_of_an_mtu_of_1500_is_the_plain_one_to_who_does_not_know_it() {
        let options = Options { path_mtu: Pmtu::B1408, ..OPTIONS };
        let (vendor, modifier) = options.to_ece();
        assert_eq!(modifier, 0x1809_100B);
        assert_eq!(Options::from_ece(vendor, modifier), Some(options));
        let of_three_bits = Options::from_ece(vendor, modifier & !8).expect("an offer");
        assert_eq!(of_three_bits.path_mtu, Pmtu::B1024);
    }

    #[test]
    fn both_ends_have_the_smaller_and_the_stricter() {
        let other = Options { window: 64, strict_placement: true, path_mtu: Pmtu::B1024 };
        assert_eq!(OPTIONS.with(other), other);
        assert_eq!(other.with(OPTIONS), other);
    }
}
