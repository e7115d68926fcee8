//! The classes of frames that a [`DropRule`](super::DropRule) can choose.

use wire::encap::ROCE_UDP_PORT;
use wire::{AckFlags, Datagram, Kind, NakCode, Packet, Psn, Syndrome};

/// Classes of frames. A frame is of one class at most, besides `Any` and `Resend`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FrameClass {
    /// Every frame, ARP and ping too.
    Any,
    /// A packet of a SEND or WRITE.
    Data,
    /// A READ request.
    ReadRequest,
    /// An atomic's request.
    Atomic,
    /// A packet of a READ response, or an atomic's result.
    Response,
    /// A request or response with a PSN that its stream has sent before.
    Resend,
    /// A positive acknowledgement of requests.
    Ack,
    /// NAK 0x60 for requests: something is missing.
    Nack,
    /// An RNR NAK.
    Rnr,
    /// Any other NAK.
    ErrorNak,
    /// An acknowledgement of responses, positive or not.
    ReadAck,
}

impl FrameClass {
    /// The class of this name, as device strings have it.
    pub(super) fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "any" => Self::Any,
            "data" => Self::Data,
            "read_request" => Self::ReadRequest,
            "atomic" => Self::Atomic,
            "response" => Self::Response,
            "resend" => Self::Resend,
            "ack" => Self::Ack,
            "nack" => Self::Nack,
            "rnr" => Self::Rnr,
            "error_nak" => Self::ErrorNak,
            "read_ack" => Self::ReadAck,
            _ => return None,
        })
    }

    /// The class of a frame besides `Any` and `Resend`; `None` if it is no packet of RoCEv2.
    pub(super) fn of(frame: &[u8]) -> Option<Self> {
        let packet = packet(frame)?;
        Some(match packet.opcode().kind() {
            Kind::Send | Kind::Write => Self::Data,
            Kind::ReadRequest => Self::ReadRequest,
            Kind::Atomic => Self::Atomic,
            Kind::ReadResponse | Kind::AtomicAck => Self::Response,
            Kind::Ack if acks_responses(&packet) => Self::ReadAck,
            Kind::Ack => match packet.aeth()?.syndrome {
                Syndrome::Ack { .. } => Self::Ack,
                Syndrome::RnrNak { .. } => Self::Rnr,
                Syndrome::Nak(NakCode::PsnSequence) => Self::Nack,
                Syndrome::Nak(_) => Self::ErrorNak,
                Syndrome::Reserved(_) => return None,
            },
            Kind::Cnp => return None,
        })
    }
}

/// The transport packet in a frame. Its ICRC is not looked at.
fn packet(frame: &[u8]) -> Option<Packet<'_>> {
    let datagram = Datagram::parse(frame, ROCE_UDP_PORT).ok()?;
    Packet::parse(frame.get(datagram.transport)?).ok()
}

fn acks_responses(packet: &Packet<'_>) -> bool {
    packet.ackx().is_some_and(|ackx| ackx.flags.contains(AckFlags::RESPONSE_STREAM))
}

/// Streams that are told apart; one more takes the place of another.
const STREAMS: usize = 256;
/// A PSN further behind than this belongs to a new life of the queue pair.
const BEHIND_MAX: i32 = 1 << 16;

/// The highest PSN that each stream has sent, by the queue pair that it goes to.
#[derive(Debug)]
pub(super) struct Resends(Box<[Option<Stream>; STREAMS]>);

#[derive(Clone, Copy, Debug)]
struct Stream {
    dest_qp: u32,
    responses: bool,
    highest: Psn,
}

impl Default for Resends {
    fn default() -> Self {
        Self(Box::new([None; STREAMS]))
    }
}

impl Resends {
    /// Notes a frame. True if its stream has sent this PSN before.
    pub(super) fn note(&mut self, frame: &[u8]) -> bool {
        let Some(packet) = packet(frame) else { return false };
        let kind = packet.opcode().kind();
        if matches!(kind, Kind::Ack | Kind::Cnp) {
            return false;
        }
        let (dest_qp, psn) = (packet.dest_qp(), packet.psn());
        let responses = matches!(kind, Kind::ReadResponse | Kind::AtomicAck);
        let place = &mut self.0[(dest_qp as usize * 2 + usize::from(responses)) % STREAMS];
        if let Some(stream) = place
            && (stream.dest_qp, stream.responses) == (dest_qp, responses)
            && (0..BEHIND_MAX).contains(&stream.highest.distance_from(psn))
        {
            return true;
        }
        *place = Some(Stream { dest_qp, responses, highest: psn });
        false
    }
}
