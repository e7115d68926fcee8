//! Why an attribute's value is refused.

use super::QpAttrMask;
use crate::memory::Access;
use core::net::IpAddr;

/// An attribute whose value cannot be.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AttrError {
    /// The mask has bits that name no attribute.
    #[error("attribute mask bits {bits:#x} name no attribute; clear them")]
    UnknownAttributes {
        /// Those bits.
        bits: u32,
    },
    /// A number is outside its range.
    #[error("{attribute} is {value}; allowed are {min} to {max}")]
    OutOfRange {
        /// The attribute, one bit.
        attribute: QpAttrMask,
        /// Its value.
        value: u32,
        /// Least allowed value.
        min: u32,
        /// Greatest allowed value.
        max: u32,
    },
    /// A number of the address vector is outside its range.
    #[error("{field} of the address vector is {value}; allowed are {min} to {max}")]
    AddressVectorRange {
        /// The field's name.
        field: &'static str,
        /// Its value.
        value: u32,
        /// Least allowed value.
        min: u32,
        /// Greatest allowed value.
        max: u32,
    },
    /// An address that is not one host's.
    #[error("{field} of the address vector is {ip}; it must be a unicast address")]
    NotUnicast {
        /// The field's name.
        field: &'static str,
        /// Its value.
        ip: IpAddr,
    },
    /// One IPv4 and one IPv6 address.
    #[error("the address vector goes from {src} to {dst}; both must be IPv4, or both IPv6")]
    MixedFamilies {
        /// Source address.
        src: IpAddr,
        /// Destination address.
        dst: IpAddr,
    },
    /// A multicast or zero Ethernet address.
    #[error("dst_mac of the address vector is {0:02x?}; give a unicast address, or None to resolve it")]
    DestinationMac([u8; 6]),
    /// Remote write or atomic without local write.
    #[error("ACCESS_FLAGS are {0:?}; REMOTE_WRITE and REMOTE_ATOMIC need LOCAL_WRITE")]
    InconsistentAccess(Access),
    /// The key of no partition.
    #[error(
        "PKEY_INDEX is {0:#06x}; the low 15 bits of a partition key are not 0 (the default key is 0xffff)"
    )]
    Pkey(u16),
    /// Plain RoCEv2 has no selective acknowledgement.
    #[error("RECOVERY SelectiveRepeat needs WIRE_MODE Srnic; on Plain use GoBackN")]
    SelectiveRepeatOnPlain,
    /// Without a failure detector nothing decides that the peer is gone.
    #[error("KEEPALIVE needs a TIMEOUT of 1 to 31, which says how long to wait for its answers; it is 0")]
    KeepaliveWithoutTimeout,
}
