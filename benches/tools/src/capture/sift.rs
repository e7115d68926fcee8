//! What a captured frame is: one way from the frame to the packet, for all who look at captures.

use super::Frame;
use wire::{Datagram, EncapError, Packet, icrc};

/// What a frame turned out to be.
pub enum Sifted<'a> {
    /// Not RoCEv2.
    Other,
    /// Not captured whole.
    Cut,
    /// It ought to be RoCEv2, and cannot be parsed.
    Unparsed {
        /// Why.
        error: String,
        /// Whether its ICRC is right, as far as it was found.
        intact: bool,
    },
    /// A packet.
    Packet {
        /// Where it is, and its addresses.
        datagram: Datagram,
        /// BTH to ICRC.
        transport: &'a [u8],
        /// The packet.
        packet: Packet<'a>,
        /// Whether its ICRC is right.
        intact: bool,
    },
}

/// Looks at one frame. RoCEv2 is what goes to `udp_port`.
pub fn sift(frame: Frame<'_>, udp_port: u16) -> Sifted<'_> {
    if frame.bytes.len() < usize::try_from(frame.len).unwrap_or(usize::MAX) {
        return Sifted::Cut;
    }
    let datagram = match Datagram::parse(frame.bytes, udp_port) {
        Ok(datagram) => datagram,
        Err(EncapError::NotRoce) => return Sifted::Other,
        Err(error) => return Sifted::Unparsed { error: error.to_string(), intact: true },
    };
    let intact = icrc::verify(&frame.bytes[datagram.l3_offset..datagram.transport.end]);
    let transport = &frame.bytes[datagram.transport.clone()];
    match Packet::parse(transport) {
        Ok(packet) => Sifted::Packet { datagram, transport, packet, intact },
        Err(error) => Sifted::Unparsed { error: error.to_string(), intact },
    }
}
