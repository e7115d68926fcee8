//! The dialect of a connection and its options (protocol.md 2.3), which the vendor's options of REQ
//! and REP (ECE) carry.

use wire::{Pmtu, WireMode};

/// Whose options ours are: "SRN". As an OUI it is local, so that it is no vendor's.
pub const VENDOR_ID: u32 = 0x53_524E;
/// The wire format that this is about (protocol.md 2.2).
const VERSION: u32 = 1;
/// ACKs carry a SACK bitmap where it helps.
const SACK_BITMAP: u32 = 1 << 27;
const STRICT: u32 = 1 << 24;
/// A path MTU of 1408 is among those that the end takes.
const TAKES_1408: u32 = 1 << 3;
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
    /// Largest path MTU. 1408 has [`takes_1408`](Self::takes_1408).
    pub path_mtu: Pmtu,
    /// Takes a path MTU of 1408 where it is the smaller of both ends', which programs of verbs and
    /// ends that do not know it cannot.
    pub takes_1408: bool,
}

impl Options {
    /// As the vendor's number and the modifier that a message has.
    #[must_use]
    pub fn to_ece(self) -> (u32, u32) {
        let window = self.window.max(1).ilog2() << 16;
        let strict = if self.strict_placement { STRICT } else { 0 };
        let mtu = u32::from(self.path_mtu.in_dialect(WireMode::Plain).code());
        let takes_1408 = if self.takes_1408 && self.path_mtu >= Pmtu::B1408 { TAKES_1408 } else { 0 };
        (VENDOR_ID, VERSION << 28 | SACK_BITMAP | strict | window | ACK_FREQUENCY << 8 | takes_1408 | mtu)
    }

    /// What [`to_ece`](Self::to_ece) made, except that `takes_1408` is sent only with a path MTU of
    /// 1408 or more. `None` for other vendors, versions, and numbers that cannot be.
    #[must_use]
    pub fn from_ece(vendor_id: u32, attr_mod: u32) -> Option<Self> {
        if vendor_id != VENDOR_ID || attr_mod >> 28 != VERSION {
            return None;
        }
        let [_, window, _, mtu] = attr_mod.to_be_bytes();
        let takes_1408 = attr_mod & TAKES_1408 != 0;
        let path_mtu = match Pmtu::from_code(mtu & 7)? {
            Pmtu::B1024 if takes_1408 => Pmtu::B1408,
            of_verbs => of_verbs,
        };
        Some(Self {
            window: 1_u16.checked_shl(window.into())?,
            strict_placement: attr_mod & STRICT != 0,
            path_mtu,
            takes_1408,
        })
    }

    /// What two ends have in common.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        let takes_1408 = self.takes_1408 && other.takes_1408;
        let smaller = self.path_mtu.min(other.path_mtu);
        Self {
            window: self.window.min(other.window),
            strict_placement: self.strict_placement || other.strict_placement,
            path_mtu: if takes_1408 { smaller } else { smaller.in_dialect(WireMode::Plain) },
            takes_1408,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPTIONS: Options =
        Options { window: 512, strict_placement: false, path_mtu: Pmtu::B4096, takes_1408: true };

    #[test]
    fn options_are_the_bits_that_the_protocol_names() {
        assert_eq!(OPTIONS.to_ece(), (0x0053_524E, 0x1809_100D));
        let strict = Options { strict_placement: true, window: 1000, path_mtu: Pmtu::B256, ..OPTIONS };
        assert_eq!(strict.to_ece(), (0x0053_524E, 0x1909_1001), "1000 packets are told as 512");
        let of_verbs = Options { takes_1408: false, ..OPTIONS };
        assert_eq!(of_verbs.to_ece(), (0x0053_524E, 0x1809_1005));
        let of_1500 = Options { path_mtu: Pmtu::B1408, ..OPTIONS };
        assert_eq!(of_1500.to_ece(), (0x0053_524E, 0x1809_100B));
    }

    #[test]
    fn what_is_not_ours_is_no_offer() {
        let (vendor, modifier) = OPTIONS.to_ece();
        use Pmtu::{B1024, B1408, B4096};
        for (told, read) in [
            ((B4096, true), (B4096, true)),
            ((B4096, false), (B4096, false)),
            ((B1408, true), (B1408, true)),
            ((B1408, false), (B1024, false)),
            ((B1024, true), (B1024, false)),
        ] {
            let [told, read] =
                [told, read].map(|(path_mtu, takes_1408)| Options { path_mtu, takes_1408, ..OPTIONS });
            let (vendor, modifier) = told.to_ece();
            assert_eq!(Options::from_ece(vendor, modifier), Some(read));
        }
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

    /// What both ends take of each path MTU, whichever of them knows the bit of 1408: an end that
    /// does not, reads three bits and sends three.
    #[test]
    fn both_ends_have_one_path_mtu_whatever_they_know() {
        let told = |options: Options, known: bool| {
            let (vendor, modifier) = options.to_ece();
            let bit = if known { 0 } else { TAKES_1408 };
            Options::from_ece(vendor, modifier & !bit).expect("an offer")
        };
        for (active, passive) in Pmtu::ALL.into_iter().flat_map(|a| Pmtu::ALL.map(|p| (a, p))) {
            for (active_knows, passive_knows) in [(true, true), (true, false), (false, true), (false, false)]
            {
                let known = active_knows && passive_knows;
                let offer = |path_mtu: Pmtu, knows| match knows {
                    true => Options { path_mtu, ..OPTIONS },
                    false => Options {
                        path_mtu: path_mtu.in_dialect(WireMode::Plain),
                        takes_1408: false,
                        ..OPTIONS
                    },
                };
                let [ours, theirs] = [offer(active, active_knows), offer(passive, passive_knows)];
                let reply = theirs.with(told(ours, known));
                let taken = ours.with(told(reply, known));
                assert_eq!(taken.path_mtu, reply.path_mtu, "{ours:?} {theirs:?}");
                let smaller = active.min(passive);
                let expected = if known { smaller } else { smaller.in_dialect(WireMode::Plain) };
                assert_eq!(taken.path_mtu, expected, "{ours:?} {theirs:?}");
            }
        }
    }

    #[test]
    fn both_ends_have_the_smaller_and_the_stricter() {
        let other = Options { window: 64, strict_placement: true, path_mtu: Pmtu::B1024, takes_1408: true };
        assert_eq!(OPTIONS.with(other), other);
        assert_eq!(other.with(OPTIONS), other);
    }
}
