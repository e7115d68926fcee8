//! What a frame is, as far as counters, filters and reports care.

use core::fmt;
use wire::encap::ROCE_UDP_PORT;
use wire::{AckFlags, Datagram, Kind, NakCode, Packet, Syndrome};

/// Kinds of frames that are counted apart.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FrameKind {
    /// A request or response with or without payload.
    Data,
    /// A positive acknowledgement.
    Ack,
    /// NAK 0x60: something is missing.
    Nack,
    /// RNR NAK.
    Rnr,
    /// Any other NAK.
    ErrorNak,
    /// Not RoCEv2, or beyond recognition.
    Other,
}

impl FrameKind {
    /// The kind of a transport packet.
    #[must_use]
    pub fn of_packet(packet: &Packet<'_>) -> Self {
        if packet.opcode().kind() != Kind::Ack {
            return Self::Data;
        }
        match packet.aeth().map(|aeth| aeth.syndrome) {
            Some(Syndrome::Ack { .. }) => Self::Ack,
            Some(Syndrome::Nak(NakCode::PsnSequence)) => Self::Nack,
            Some(Syndrome::RnrNak { .. }) => Self::Rnr,
            Some(Syndrome::Nak(_)) => Self::ErrorNak,
            _ => Self::Other,
        }
    }

    /// The kind of a frame.
    #[must_use]
    pub fn of(frame: &[u8]) -> Self {
        packet(frame).map_or(Self::Other, |packet| Self::of_packet(&packet))
    }
}

/// The transport packet in a frame, if there is a whole one. The ICRC is not looked at.
#[must_use]
pub fn packet(frame: &[u8]) -> Option<Packet<'_>> {
    let datagram = Datagram::parse(frame, ROCE_UDP_PORT).ok()?;
    Packet::parse(frame.get(datagram.transport)?).ok()
}

/// One line about a frame, for reports.
pub struct Describe<'a>(pub &'a [u8]);

impl fmt::Display for Describe<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(packet) = packet(self.0) else {
            return write!(f, "{} bytes, not RoCEv2", self.0.len());
        };
        write!(f, "qp {:06x} psn {:06x} {:?}", packet.dest_qp(), packet.psn().get(), packet.opcode())?;
        if let Some(aeth) = packet.aeth() {
            write!(f, " {:?} msn {}", aeth.syndrome, aeth.msn)?;
        }
        if let Some(ackx) = packet.ackx() {
            if ackx.flags.contains(AckFlags::SACK_VALID) {
                write!(f, " sack {:06x}", ackx.sack_psn.get())?;
            }
            if ackx.flags.contains(AckFlags::DUPLICATE) {
                f.write_str(" dup")?;
            }
        } else if let Some(meta) = packet.meta() {
            write!(f, " msn {} offset {} payload {}", meta.msn.get(), meta.offset, packet.payload().len())?;
        }
        if packet.ack_req() {
            f.write_str(" ackreq")?;
        }
        Ok(())
    }
}
